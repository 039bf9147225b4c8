//! Programs: expressions as a list of loops, run one after the other over a block that stays in the cache, until they
//! are worth a loop of their own.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use breakeven_ir::{DType, Expr, Item, Kind, Row, Unsupported};

use crate::casts::{cast, copy};
use crate::domain::BLOCK;
use crate::fused::{Fused, Wanted};
use crate::jit::Generated;
use crate::kernels::Machine;
use crate::natives::{Natives, RowFn};

/// Bytes of one temporary: a block of the widest type.
pub(crate) const SLOT: usize = BLOCK * 8;

/// Runs of each way, of which the fastest counts, before code is kept.
const TRIALS: u32 = 4;

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
    later: Later,
}

/// What code is generated from, once the time that it would have saved exceeds the time that it takes.
#[derive(Debug)]
struct Later {
    expr: Expr,
    params: Vec<f64>,
    uniform: Vec<bool>,
    /// Nanoseconds that row by row takes longer, by element.
    loss_ns: f64,
    /// And by launch.
    launch_loss_ns: f64,
    lost_ns: AtomicU64,
    /// With stores through the caches, and past them.
    made: [OnceLock<Option<Fused>>; 2],
}

/// How a program is run, chosen anew for each launch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way<'a> {
    /// One row after the other.
    Rows(&'a Program),
    /// By generated code.
    Code(&'a Program, &'a Fused),
}

impl Program {
    /// Compiles `expr` with its parameters.
    pub fn new(machine: &Machine, expr: &Expr, params: &[f64]) -> Result<Program, Unsupported> {
        Program::with_uniform(machine, expr, params, vec![false; expr.args().len()])
    }

    /// As [`Program::new`], where some arguments are the same for all elements of a call.
    pub fn with_uniform(
        machine: &Machine,
        expr: &Expr,
        params: &[f64],
        uniform: Vec<bool>,
    ) -> Result<Program, Unsupported> {
        let (expr, params) = machine.natives.written(expr, params)?;
        let (steps, temps) = Program::steps(&machine.natives, &expr)?;
        // Each step but the last writes a temporary that another one reads.
        let passed = |(item, dtype): &(Item, DType)| match item {
            Item::Row(..) | Item::Cast(_) => dtype.bytes() as f64,
            _ => 0.0,
        };
        let bytes: f64 = expr.items().iter().map(passed).sum::<f64>() - expr.dtype().bytes() as f64;
        let tuning = &machine.tuning;
        let truths = expr.items().iter().filter(|(_, dtype)| *dtype == DType::Bool).count() as f64;
        let flops_ns = machine.flops(&expr) * tuning.ns_per_flop * tuning.code_saves;
        let loss_ns = bytes.max(0.0) * tuning.ns_per_byte + flops_ns + truths * tuning.truth_ns;
        let launch_loss_ns = steps.len().saturating_sub(1) as f64 * tuning.row_ns;
        let (splats, identity) = (splats(&expr, &params), expr.is_identity());
        let later = Later {
            expr,
            params,
            uniform,
            loss_ns,
            launch_loss_ns,
            lost_ns: AtomicU64::new(0),
            made: Default::default(),
        };
        Ok(Program { steps, temps, params: splats, identity, later })
    }

    /// Says that a launch of so many elements comes, whose output bypasses the caches where `streams`: code is generated
    /// where it will have paid by then.
    pub fn expect(&self, machine: &Machine, elements: usize, streams: bool) {
        let later = &self.later;
        if machine.natives.target.is_none() || self.identity || later.made[usize::from(streams)].get().is_some() {
            return;
        }
        let loss = self.loss_ns(elements) as u64;
        let lost = loss + later.lost_ns.fetch_add(loss, Ordering::Relaxed);
        if streams || lost as f64 >= machine.tuned.code_ns() {
            self.generate(machine, streams);
        }
    }

    /// Nanoseconds that row by row is estimated to take longer for so many elements.
    pub fn loss_ns(&self, elements: usize) -> f64 {
        elements as f64 * self.later.loss_ns + self.later.launch_loss_ns
    }

    /// Generates code where there is some and none was generated, and keeps it where it is faster.
    pub fn generate(&self, machine: &Machine, streams: bool) {
        let Some(target) = machine.natives.target else { return };
        let later = &self.later;
        later.made[usize::from(streams)].get_or_init(|| {
            let (natives, ledger) = (&machine.natives, &machine.code);
            let (expr, params, uniform) = (&later.expr, &later.params, &later.uniform);
            let fused = Fused::new(&Wanted { natives, expr, params, uniform, target, ledger, streams: false })?;
            if !self.gains_by(&fused) {
                return None;
            }
            if streams {
                Fused::new(&Wanted { natives, expr, params, uniform, target, ledger, streams })
            } else {
                Some(fused)
            }
        });
    }

    /// A block takes no longer by generated code than row by row. Code keeps a chain's values in registers, and computes one chunk after
    /// the other: of long functions the processor then has too little to do at once, and rows are faster.
    fn gains_by(&self, fused: &Fused) -> bool {
        let mut blocks: Vec<Scratch> = self.later.expr.args().iter().map(|_| Scratch::new(1)).collect();
        for block in &mut blocks {
            // SAFETY: the scratch holds a block of any type, of which zeros are numbers.
            unsafe { block.start().write_bytes(0, SLOT) };
        }
        let args: Vec<*const u8> = blocks.iter().map(|block| block.slot(0)).collect();
        let mut out = Scratch::new(1);
        // SAFETY: arguments and output hold a block, and are nobody else's.
        let mut time = |way: Way<'_>| unsafe { way.fastest_ns(&args, &mut out, TRIALS) };
        time(Way::Code(self, fused)) <= time(Way::Rows(self))
    }

    /// The fastest way that there is by now.
    pub fn way(&self, streams: bool) -> Way<'_> {
        let made = |streams: bool| self.later.made[usize::from(streams)].get().and_then(Option::as_ref);
        let code = if streams { made(true).or_else(|| made(false)) } else { made(false) };
        code.map_or(Way::Rows(self), |fused| Way::Code(self, fused))
    }

    /// The code that is all of it, once it is generated.
    #[inline]
    pub fn code(&self) -> Option<&Generated> {
        self.later.made[0].get()?.as_ref()?.whole()
    }

    fn steps(natives: &Natives, expr: &Expr) -> Result<(Vec<Step>, usize), Unsupported> {
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
        Ok((steps, temps as usize))
    }

    /// A block of each parameter.
    #[cfg(test)]
    pub fn splats(&self) -> &Scratch {
        &self.params
    }

    /// Row by row.
    ///
    /// # Safety
    /// As [`Way::run`].
    unsafe fn run(&self, args: &[*const u8], out: *mut u8, n: usize, scratch: &mut Scratch) {
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

impl Way<'_> {
    /// Memory that one caller of [`Way::run`] needs.
    pub fn scratch(&self) -> Scratch {
        match self {
            Way::Rows(program) => Scratch::new(if program.steps.len() > 1 { program.temps } else { 0 }),
            Way::Code(_, fused) => fused.scratch(),
        }
    }

    /// Argument `k` is one element, not one for each.
    pub fn takes_one(&self, k: usize) -> bool {
        matches!(self, Way::Code(_, fused) if fused.takes_one(k))
    }

    /// True where a call may compute more than a block.
    pub fn takes_any_length(&self) -> bool {
        match self {
            Way::Rows(program) => {
                let is_arg = |source: &Source| matches!(source, Source::Arg(_));
                matches!(&program.steps[..], [step] if step.from.iter().all(is_arg))
            }
            Way::Code(_, fused) => fused.takes_any_length(),
        }
    }

    /// Nanoseconds of the fastest of some runs over a block.
    ///
    /// # Safety
    /// Each argument and the output must hold a block of any type, and be nobody else's.
    pub unsafe fn fastest_ns(&self, args: &[*const u8], out: &mut Scratch, runs: u32) -> f64 {
        let mut scratch = self.scratch();
        let run = |_| {
            let start = Instant::now();
            // SAFETY: the caller's contract.
            unsafe { self.run(args, out.start(), BLOCK, &mut scratch) };
            start.elapsed().as_nanos() as f64
        };
        (0..runs).map(run).fold(f64::INFINITY, f64::min)
    }

    /// Computes `n` elements, at most a block unless [`Way::takes_any_length`].
    ///
    /// # Safety
    /// Each argument and the output must hold `n` aligned elements of its type, or one where [`Way::takes_one`]; the output
    /// may lie exactly where an argument of the same width lies. `scratch` must come from this way.
    pub unsafe fn run(&self, args: &[*const u8], out: *mut u8, n: usize, scratch: &mut Scratch) {
        // SAFETY: the same contract.
        unsafe {
            match self {
                Way::Rows(program) => program.run(args, out, n, scratch),
                Way::Code(program, fused) => fused.run(&program.params, args, out, n, scratch),
            }
        }
    }
}

/// The loop of `row` where its result has type `dtype`.
pub(crate) fn native(
    natives: &Natives,
    expr: &Expr,
    row: Row,
    ids: [u16; 3],
    dtype: DType,
) -> Result<RowFn, Unsupported> {
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
