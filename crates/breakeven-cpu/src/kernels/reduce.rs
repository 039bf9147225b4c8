//! Reductions: along rows, or side by side over columns.

use breakeven_ir::{Expr, Fold, Inst, Item, Prim, ReduceRows, Unsupported};

use super::epilogue::Epilogue;
use super::map::Room;
use super::{Bound, Machine, views};
use crate::domain::{Axes, BLOCK, Block, Domain, Order};
use crate::folds::{COLUMNS, Columns, FoldFns, Partial, Rows};
use crate::program::{Program, Scratch};

/// Blocks that one thread folds in a row, a part of the tree, alike on every machine: few, so that threads end together.
const RUN: usize = 8;
/// The same of rows so long that memory is the limit, which likes longer ones.
const LONG_RUN: usize = 32;
/// Blocks of such a row.
const LONG: usize = 4096;

/// Rows shorter than this are folded side by side.
const SHORT: usize = 16;

/// A fold over a domain for each element of another.
#[derive(Debug)]
pub(crate) struct CpuReduce {
    fold: FoldFns,
    pre: Program,
    post: Epilogue,
    second: Option<Axes>,
    outer: Domain,
    inner: Domain,
    /// How each operand of `pre` steps through the outer domain, and through the inner one.
    operands: Vec<(Axes, Axes)>,
    width: usize,
    by_columns: bool,
    /// Blocks of a run.
    run: usize,
    straight: Option<Straight>,
    /// There is one row, folded from where it lies and written as it is: nothing has to be made for it.
    is_plain: bool,
    nanoseconds: f64,
}

/// What is folded right from where it lies without gaps.
#[derive(Clone, Copy, Debug)]
enum Straight {
    /// An operand.
    Elements,
    /// The products of two operands.
    Products([u16; 2]),
    /// Something else, a block of which stays in the first-level cache.
    Blocks,
}

impl Straight {
    fn new(fold: &FoldFns, pre: &Expr, inner: &Domain, operands: &[(Axes, Axes)]) -> Option<Straight> {
        let is_dense = |(_, along): &(Axes, Axes)| inner.elements() == 1 || inner.last_step(along) == 1;
        let products = || fold.products.and_then(|_| factors(pre)).map(Straight::Products);
        let way = if pre.is_identity() { Straight::Elements } else { products().unwrap_or(Straight::Blocks) };
        (inner.rank() <= 1 && operands.iter().all(is_dense)).then_some(way)
    }
}

/// The arguments whose product `expr` is.
fn factors(expr: &Expr) -> Option<[u16; 2]> {
    let (Item::Row(row, ids), dtype) = *expr.items().last()? else { return None };
    let argument = |id: u16| match expr.items()[id as usize].0 {
        Item::Arg(k) => Some(k),
        _ => None,
    };
    let body = row.body(dtype);
    let &(Inst::Prim(Prim::Mul, [a, b, _]), _) = body.insts().last()? else { return None };
    let factor = |of: u32| match body.insts()[of as usize].0 {
        Inst::Arg(k) => argument(ids[k as usize]),
        _ => None,
    };
    Some([factor(a)?, factor(b)?])
}

impl CpuReduce {
    pub fn new(machine: &Machine, kernel: &ReduceRows, nanoseconds: f64) -> Result<CpuReduce, Unsupported> {
        let dtype = kernel.pre.dtype();
        let fold = machine.natives.folds.get(kernel.fold, dtype);
        let fold =
            fold.ok_or_else(|| Unsupported(format!("the CPU does not fold {dtype} by {}", kernel.fold.name())))?;
        let (pre_params, post_params) = kernel.params.split_at(kernel.pre.params());
        let pre = Program::new(machine, &kernel.pre, pre_params)?;
        let (pre_inputs, extras) = kernel.inputs.split_at(kernel.pre.args().len());
        let rank = kernel.outer.rank();
        let places = kernel.outs.iter().chain(extras).chain(pre_inputs);
        let (outer, mut axes) = Domain::new(&views(places), 0..rank, Order::Free);
        let along = pre_inputs.first().map_or(rank, |o| o.layout.shape.rank());
        let (inner, inner_axes) = match pre_inputs {
            [] => return Err(Unsupported("a reduction without inputs has no rows".to_owned())),
            _ => Domain::new(&views(pre_inputs), rank..along, Order::Kept),
        };
        let operands: Vec<(Axes, Axes)> =
            axes.split_off(kernel.outs.len() + extras.len()).into_iter().zip(inner_axes).collect();
        let extra_axes = axes.split_off(kernel.outs.len());
        let second = (kernel.fold == Fold::Moments).then(|| axes.remove(1));
        let post = Epilogue::new(machine, &kernel.post, post_params, (axes.remove(0), extra_axes, pre_inputs.len()))?;
        let straight = Straight::new(&fold, &kernel.pre, &inner, &operands);
        let by_columns = inner.elements() < SHORT || is_upright(&outer, &inner, &operands[0]);
        let is_in_memory = matches!(straight, Some(Straight::Elements | Straight::Products(_))) && !by_columns;
        let is_plain = outer.elements() == 1 && second.is_none() && is_in_memory && post.is_identity();
        Ok(CpuReduce {
            run: if inner.blocks() < LONG { RUN } else { LONG_RUN },
            fold,
            pre,
            post,
            second,
            outer: outer.with_chunk(COLUMNS),
            inner,
            operands,
            width: kernel.fold.dtype(dtype).unwrap_or(dtype).bytes(),
            by_columns,
            straight,
            is_plain,
            nanoseconds,
        })
    }

    /// # Safety
    /// As [`super::Compiled::run`].
    pub unsafe fn run(&self, machine: &Machine, bound: Bound<'_>) {
        if self.is_plain {
            // SAFETY: the same contract.
            return unsafe { self.plain_row(machine, bound) };
        }
        if !matches!(self.straight, Some(Straight::Elements | Straight::Products(_))) || self.by_columns {
            self.pre.expect(machine, self.outer.elements() * self.inner.elements(), false);
        }
        self.post.expect(machine, self.outer.elements());
        let runs = self.inner.blocks().div_ceil(self.run);
        if !self.by_columns && runs > 1 && self.outer.elements() < 4 * machine.team.threads() {
            // SAFETY: the same contract.
            return unsafe { self.few_rows(machine, bound, runs) };
        }
        machine.split(self.outer.blocks(), self.nanoseconds, |blocks| {
            let mut room = ReduceRoom::new(self);
            for which in blocks {
                let block = self.outer.block(which);
                // SAFETY: blocks of one domain do not overlap.
                unsafe {
                    if self.by_columns {
                        self.fold_columns(&block, bound, &mut room);
                    } else {
                        self.fold_rows(&block, bound, &mut room);
                    }
                    self.write(&block, bound, &mut room);
                }
            }
        });
    }

    /// The only row.
    unsafe fn plain_row(&self, machine: &Machine, bound: Bound<'_>) {
        // SAFETY: the caller's contract.
        let fold = |run: usize| unsafe { self.in_memory(0, run, bound) }.expect("a plain row lies in memory");
        let runs = self.inner.blocks().div_ceil(self.run);
        let join = |a: Partial, b: Partial| (self.fold.join)(a, b);
        let folded = if runs <= 1 {
            (0..runs).map(fold).fold(Partial::default(), join)
        } else {
            let partials = machine.each(runs, self.nanoseconds, || (), |(), run| fold(run));
            partials.into_iter().fold(Partial::default(), join)
        };
        let out = self.post.out();
        let to = bound.output(0).wrapping_offset(out.start * out.width as isize);
        // SAFETY: the output has one element, and so has the fold.
        unsafe { (self.fold.finish)(folded, [to; 2]) };
    }

    /// Rows that are long, and too few to occupy the team: their parts are shared out.
    unsafe fn few_rows(&self, machine: &Machine, bound: Bound<'_>, runs: usize) {
        let rows = self.outer.elements();
        let make = || ReduceRoom::new(self);
        // SAFETY: the caller's contract.
        let fold = |room: &mut _, part: usize| unsafe { self.fold_run(part / runs, part % runs, bound, room) };
        let partials = machine.each(rows * runs, self.nanoseconds, make, fold);
        let mut room = ReduceRoom::new(self);
        for which in 0..self.outer.blocks() {
            let block = self.outer.block(which);
            for i in 0..block.n {
                let row = block.start + i;
                let folded =
                    partials[row * runs..][..runs].iter().fold(Partial::default(), |a, b| (self.fold.join)(a, *b));
                // SAFETY: the results hold a block.
                unsafe { self.finish(folded, i, &mut room) };
            }
            // SAFETY: the caller's contract.
            unsafe { self.write(&block, bound, &mut room) };
        }
    }

    /// Folds the rows of a block of the outer domain, one after the other.
    unsafe fn fold_rows(&self, block: &Block, bound: Bound<'_>, room: &mut ReduceRoom<'_>) {
        let runs = self.inner.blocks().div_ceil(self.run);
        for i in 0..block.n {
            let mut folded = Partial::default();
            for run in 0..runs {
                // SAFETY: the caller's contract.
                folded = (self.fold.join)(folded, unsafe { self.fold_run(block.start + i, run, bound, room) });
            }
            // SAFETY: the results hold a block.
            unsafe { self.finish(folded, i, room) };
        }
    }

    /// Folds run number `run` of row number `row`.
    unsafe fn fold_run(&self, row: usize, run: usize, bound: Bound<'_>, room: &mut ReduceRoom<'_>) -> Partial {
        // SAFETY: the caller's contract.
        if let Some(folded) = unsafe { self.in_memory(row, run, bound) } {
            return folded;
        }
        let at = self.outer.run(row, 1);
        for (k, (outer, _)) in self.operands.iter().enumerate() {
            let place = self.outer.place(outer, &at) * outer.width as isize;
            room.bases[k] = bound.input(k).wrapping_offset(place);
        }
        if self.straight.is_some() {
            // SAFETY: the caller's contract.
            return unsafe { self.fold_straight(run, room) };
        }
        let mut folded = Partial::default();
        for which in run * self.run..self.inner.blocks().min((run + 1) * self.run) {
            let block = self.inner.block(which);
            // SAFETY: operands hold both domains; every temporary holds a block.
            unsafe {
                for (k, (_, inner)) in self.operands.iter().enumerate() {
                    let temp = room.pre.temp(k + 1);
                    room.pre.args[k] = self.inner.fetch(inner, room.bases[k], &block, temp);
                }
                let values = self.values(block.n, room);
                folded = (self.fold.join)(folded, (self.fold.block)(values, block.n, block.start as u64));
            }
        }
        folded
    }

    /// Folds run number `run` of row number `row` where it can be folded from where it lies.
    unsafe fn in_memory(&self, row: usize, run: usize, bound: Bound<'_>) -> Option<Partial> {
        let way = self.straight?;
        let (first, n) = self.run_of(run);
        let at = self.outer.run(row, 1);
        let place = |k: usize| {
            let (across, along) = &self.operands[k];
            let start = self.outer.place(across, &at) + along.start + first as isize;
            bound.input(k).wrapping_offset(start * along.width as isize)
        };
        // SAFETY: operands hold both domains, and lie without gaps.
        unsafe {
            match (way, self.fold.products) {
                (Straight::Elements, _) => Some((self.fold.run)(place(0), n, first as u64)),
                (Straight::Products([a, b]), Some(fold)) => Some(fold(place(a as usize), place(b as usize), n)),
                _ => None,
            }
        }
    }

    /// The first element of run number `run` of a row, and how many it has.
    fn run_of(&self, run: usize) -> (usize, usize) {
        let first = run * self.run * BLOCK;
        (first, (self.run * BLOCK).min(self.inner.elements() - first))
    }

    /// Folds run number `run` of the row whose operands start at the bases, without gaps.
    unsafe fn fold_straight(&self, run: usize, room: &mut ReduceRoom<'_>) -> Partial {
        let (first, n) = self.run_of(run);
        let place = |room: &ReduceRoom<'_>, k: usize, start: usize| {
            let along = &self.operands[k].1;
            room.bases[k].wrapping_offset((along.start + start as isize) * along.width as isize)
        };
        let mut folded = Partial::default();
        for start in (first..first + n).step_by(BLOCK) {
            for k in 0..self.operands.len() {
                room.pre.args[k] = place(room, k, start);
            }
            let count = BLOCK.min(first + n - start);
            // SAFETY: operands hold both domains; every temporary holds a block.
            unsafe {
                let values = self.values(count, room);
                folded = (self.fold.join)(folded, (self.fold.block)(values, count, start as u64));
            }
        }
        folded
    }

    /// Folds every row of a block of the outer domain at once, element by element.
    unsafe fn fold_columns(&self, block: &Block, bound: Bound<'_>, room: &mut ReduceRoom<'_>) {
        let mut columns = Columns::new();
        // SAFETY: operands hold both domains; every temporary holds a block.
        unsafe {
            if let Some(rows) = self.plain_rows(block, bound) {
                (self.fold.columns)(&mut columns, rows);
            } else {
                for element in 0..self.inner.elements() {
                    let from = self.row_of_columns(element, block, bound, room);
                    (self.fold.columns)(&mut columns, Rows { from, width: block.n, count: 1, step: 0 });
                }
            }
        }
        for i in 0..block.n {
            // SAFETY: the results hold a block.
            unsafe { self.finish(columns.partial(i), i, room) };
        }
    }

    /// All elements of a block of columns, where they lie in memory as they are.
    fn plain_rows(&self, block: &Block, bound: Bound<'_>) -> Option<Rows> {
        let [(outer, inner)] = self.operands.as_slice() else { return None };
        let place = self.outer.direct(outer, block).filter(|_| self.pre.identity && self.inner.rank() == 1)?;
        let width = outer.width as isize;
        let from = bound.input(0).wrapping_offset((place + inner.start) * width);
        Some(Rows { from, width: block.n, count: self.inner.elements(), step: self.inner.last_step(inner) * width })
    }

    /// `pre` of element `element` of each column.
    unsafe fn row_of_columns(
        &self,
        element: usize,
        block: &Block,
        bound: Bound<'_>,
        room: &mut ReduceRoom<'_>,
    ) -> *const u8 {
        let at = self.inner.run(element, 1);
        // SAFETY: operands hold both domains; every temporary holds a block.
        unsafe {
            for (k, (outer, inner)) in self.operands.iter().enumerate() {
                let place = self.inner.place(inner, &at) * inner.width as isize;
                let temp = room.pre.temp(k + 1);
                room.pre.args[k] = self.outer.fetch(outer, bound.input(k).wrapping_offset(place), block, temp);
            }
            self.values(block.n, room)
        }
    }

    /// `pre` of the arguments at hand.
    unsafe fn values(&self, n: usize, room: &mut ReduceRoom<'_>) -> *const u8 {
        if self.pre.identity {
            return room.pre.args[0];
        }
        let to = room.pre.temp(0);
        // SAFETY: arguments hold `n` elements, the temporary a block.
        unsafe { room.pre.run(to, n) };
        to
    }

    /// Puts the results of one row in place `i` of the block's results.
    unsafe fn finish(&self, folded: Partial, i: usize, room: &mut ReduceRoom<'_>) {
        let place = |results: &mut Scratch| results.start().wrapping_add(i * self.width);
        let to = [place(&mut room.results[0]), place(&mut room.results[1])];
        // SAFETY: the results hold a block.
        unsafe { (self.fold.finish)(folded, to) };
    }

    /// Writes the results of a block.
    unsafe fn write(&self, block: &Block, bound: Bound<'_>, room: &mut ReduceRoom<'_>) {
        // SAFETY: the caller's contract.
        unsafe {
            let [values, more] = room.results.each_mut().map(Scratch::start);
            self.post.write(&self.outer, block, values, bound.inputs(), bound.output(0), &mut room.post);
            if let Some(second) = &self.second {
                let out = (second, bound.output(1));
                self.post.write_as(&self.outer, block, more, bound.inputs(), out, &mut room.post);
            }
        }
    }
}

/// True when neighbours in memory belong to different rows.
fn is_upright(outer: &Domain, inner: &Domain, (across, along): &(Axes, Axes)) -> bool {
    outer.elements() > 1 && outer.last_step(across).abs() == 1 && inner.last_step(along).abs() != 1
}

/// What one thread needs.
struct ReduceRoom<'a> {
    pre: Room<'a>,
    post: Room<'a>,
    bases: Vec<*const u8>,
    results: [Scratch; 2],
}

impl<'a> ReduceRoom<'a> {
    fn new(of: &'a CpuReduce) -> ReduceRoom<'a> {
        ReduceRoom {
            pre: Room::new(of.pre.way(false), of.operands.len() + 1),
            post: of.post.room(),
            bases: vec![std::ptr::null(); of.operands.len()],
            results: [(); 2].map(|()| Scratch::of_bytes(8 * COLUMNS)),
        }
    }
}
