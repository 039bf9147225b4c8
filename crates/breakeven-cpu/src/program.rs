//! Programs: expressions as a list of loops, run one after the other over a block that stays in the cache.

use breakeven_ir::{DType, Expr, Item, Kind, Row, Unsupported};

use crate::casts::{cast, copy};
use crate::domain::BLOCK;
use crate::natives::{Natives, RowFn};

/// Bytes of one temporary: a block of the widest type.
const SLOT: usize = BLOCK * 8;

/// Where a step finds an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Arg(u16),
    Param(u16),
    Temp(u16),
}

#[derive(Clone, Copy, Debug)]
struct Step {
    run: RowFn,
    from: [Source; 3],
    /// The temporary that takes the result; the last step writes the output.
    to: u16,
}

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Program {
    steps: Vec<Step>,
    temps: usize,
    /// A block of each parameter, in the type in which it is used.
    params: Scratch,
    /// It is its first argument, unchanged.
    pub identity: bool,
}

impl Program {
    /// Compiles `expr` with its parameters.
    pub fn new(natives: &Natives, expr: &Expr, params: &[f64]) -> Result<Program, Unsupported> {
        let (expr, params) = natives.written(expr, params)?;
        Program::of_table(natives, &expr, &params)
    }

    fn of_table(natives: &Natives, expr: &Expr, params: &[f64]) -> Result<Program, Unsupported> {
        let mut steps = Vec::new();
        let mut sources: Vec<Source> = Vec::with_capacity(expr.items().len());
        let (last_uses, last) = (last_uses(expr), expr.items().len() - 1);
        let mut free: Vec<u16> = Vec::new();
        let mut temps = 0;
        for (at, &(item, dtype)) in expr.items().iter().enumerate() {
            let (run, ids) = match item {
                Item::Arg(i) if at != last => {
                    sources.push(Source::Arg(i));
                    continue;
                }
                Item::Param(i) if at != last => {
                    sources.push(Source::Param(i));
                    continue;
                }
                Item::Arg(i) => (copy(dtype.bytes()), [Source::Arg(i); 3]),
                Item::Param(i) => (copy(dtype.bytes()), [Source::Param(i); 3]),
                Item::Cast(id) => {
                    let from = expr.items()[id as usize].1;
                    (natives.cast(from, dtype), [sources[id as usize]; 3])
                }
                Item::Row(row, ids) => (native(natives, expr, row, ids, dtype)?, ids.map(|id| sources[id as usize])),
            };
            // Operands are released first: a row reads a chunk of each before it writes that chunk.
            for (id, source) in sources.iter().enumerate() {
                match source {
                    Source::Temp(t) if last_uses[id] == at && same_width(expr, id, dtype) => free.push(*t),
                    _ => {}
                }
            }
            let to = free.pop().unwrap_or_else(|| {
                temps += 1;
                temps - 1
            });
            sources.push(Source::Temp(to));
            steps.push(Step { run, from: ids, to });
        }
        Ok(Program { steps, temps: temps as usize, params: splats(expr, params), identity: expr.is_identity() })
    }

    /// Memory that one caller of [`Program::run`] needs.
    pub fn scratch(&self) -> Scratch {
        Scratch::new(if self.steps.len() > 1 { self.temps } else { 0 })
    }

    /// Computes `n` elements, at most a block.
    ///
    /// # Safety
    /// Each argument and the output must hold `n` aligned elements of its type; the output may lie exactly where an
    /// argument of the same width lies. `scratch` must come from this program.
    pub unsafe fn run(&self, args: &[*const u8], out: *mut u8, n: usize, scratch: &mut Scratch) {
        let last = self.steps.len() - 1;
        let temps = scratch.start();
        let temp = |i: u16| temps.wrapping_add(i as usize * SLOT);
        for (at, step) in self.steps.iter().enumerate() {
            let from = step.from.map(|source| match source {
                Source::Arg(i) => args[i as usize],
                Source::Param(i) => self.params.slot(i as usize),
                Source::Temp(i) => temp(i).cast_const(),
            });
            let to = if at == last { out } else { temp(step.to) };
            // SAFETY: arguments hold `n` elements by the caller's contract, slots hold a block.
            unsafe { (step.run)(&from, to, n) };
        }
    }
}

fn native(natives: &Natives, expr: &Expr, row: Row, ids: [u16; 3], dtype: DType) -> Result<RowFn, Unsupported> {
    let value = row.args.iter().zip(ids).find(|(kind, _)| **kind != Kind::M);
    let at = value.map_or(DType::Bool, |(_, id)| expr.items()[id as usize].1);
    natives.row(row, at).ok_or_else(|| Unsupported(format!("the CPU has no `{}` for {at} giving {dtype}", row.name)))
}

/// A slot may be written while it is read only if both have elements of one width.
fn same_width(expr: &Expr, id: usize, dtype: DType) -> bool {
    expr.items()[id].1.bytes() == dtype.bytes()
}

/// For each step, the last one that reads it.
fn last_uses(expr: &Expr) -> Vec<usize> {
    let mut last = vec![0; expr.items().len()];
    for (at, (item, _)) in expr.items().iter().enumerate() {
        match item {
            Item::Row(row, ids) => ids[..row.args.len()].iter().for_each(|&id| last[id as usize] = at),
            Item::Cast(id) => last[*id as usize] = at,
            Item::Arg(_) | Item::Param(_) => {}
        }
    }
    last
}

fn splats(expr: &Expr, params: &[f64]) -> Scratch {
    let mut scratch = Scratch::new(expr.params());
    for &(item, dtype) in expr.items() {
        if let Item::Param(i) = item {
            let run = cast(DType::F64, dtype);
            let values = [params[i as usize]; BLOCK];
            // SAFETY: both sides hold a block.
            unsafe { run(&[values.as_ptr().cast(); 3], scratch.start().add(i as usize * SLOT), BLOCK) };
        }
    }
    scratch
}

/// Temporaries of one block each, aligned to cache lines, of unknown content.
#[derive(Debug, Default)]
pub(crate) struct Scratch(Vec<Line>);

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
#[allow(dead_code, reason = "accessed through pointers")]
struct Line([u8; 64]);

impl Scratch {
    /// `slots` temporaries.
    pub fn new(slots: usize) -> Scratch {
        Scratch::of_bytes(slots * SLOT)
    }

    /// One temporary of `bytes`.
    pub fn of_bytes(bytes: usize) -> Scratch {
        Scratch(Vec::with_capacity(bytes.div_ceil(64)))
    }

    /// Makes room for one temporary of `bytes`; what was there is lost.
    pub fn reserve(&mut self, bytes: usize) {
        if self.bytes() < bytes {
            *self = Scratch::of_bytes(bytes);
        }
    }

    /// The start of a slot, which holds a block of any type.
    pub fn slot(&self, index: usize) -> *const u8 {
        assert!(index * SLOT < self.bytes(), "slot {index} exists");
        self.0.as_ptr().cast::<u8>().wrapping_add(index * SLOT)
    }

    /// Bytes in all.
    pub fn bytes(&self) -> usize {
        self.0.capacity() * 64
    }

    /// Start of the first slot; dangling when there is none.
    pub fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}
