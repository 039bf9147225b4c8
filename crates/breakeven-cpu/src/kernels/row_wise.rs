//! Softmax and norms, row by row.

use breakeven_ir::{RowWiseKernel, Unsupported};

use super::epilogue::Epilogue;
use super::map::Room;
use super::{Bound, Machine, views};
use crate::domain::{Axes, BLOCK, Domain, Order};
use crate::program::{Program, Scratch};
use crate::sweeps::{Known, Piece, RUN, SweepFns, Task};

/// A sweep over every row of a domain.
#[derive(Debug)]
pub(crate) struct CpuRowWise {
    sweep: SweepFns,
    epsilon: f64,
    pre: Program,
    post: Epilogue,
    rows: Domain,
    row: Domain,
    length: usize,
    width: usize,
    /// How each operand of `pre`, then each further one, steps from row to row.
    across: Vec<Axes>,
    out_across: Axes,
    /// How each operand of `pre` steps along a row.
    along: Vec<Axes>,
    nanoseconds: f64,
}

impl CpuRowWise {
    pub fn new(machine: &Machine, kernel: &RowWiseKernel, nanoseconds: f64) -> Result<CpuRowWise, Unsupported> {
        let dtype = kernel.pre.dtype();
        let sweep = machine.natives.sweeps.get(kernel.kind, dtype);
        let (sweep, epsilon) =
            sweep.ok_or_else(|| Unsupported(format!("the CPU has no {} of {dtype}", kernel.kind.name())))?;
        let (pre_params, post_params) = kernel.params.split_at(kernel.pre.params());
        let pre_args = kernel.pre.args().len();
        let rank = kernel.outer.rank();
        let operands = views([&kernel.out].into_iter().chain(&kernel.inputs));
        let (rows, mut across) = Domain::new(&operands, 0..rank, Order::Free);
        let (row, mut along) = Domain::new(&operands, rank..rank + 1, Order::Kept);
        let out_across = across.remove(0);
        let extras = along.split_off(1 + pre_args);
        let post = Epilogue::new(machine, &kernel.post, post_params, (along.remove(0), extras, pre_args))?;
        Ok(CpuRowWise {
            sweep,
            epsilon,
            pre: Program::new(machine, &kernel.pre, pre_params)?,
            post,
            rows,
            row,
            length: kernel.length,
            width: dtype.bytes(),
            across,
            out_across,
            along,
            nanoseconds,
        })
    }

    /// # Safety
    /// As [`super::Compiled::run`].
    pub unsafe fn run(&self, machine: &Machine, bound: Bound<'_>) {
        self.pre.expect(machine, self.rows.elements() * self.length, false);
        self.post.expect(machine, self.rows.elements() * self.length);
        if self.length > RUN
            && self.rows.elements() < machine.team.threads()
            && let Some(task) = self.plain(0..self.rows.elements(), bound)
        {
            // SAFETY: operands hold the rows, which do not overlap.
            return unsafe { self.long_rows(machine, &task) };
        }
        machine.split(self.rows.elements(), self.nanoseconds, |rows| {
            if let Some(task) = self.plain(rows.clone(), bound) {
                // SAFETY: operands hold the rows, which do not overlap.
                return unsafe { (self.sweep.rows)(&task) };
            }
            let mut room = RowRoom {
                pre: Room::new(self.pre.way(false), self.along.len() + 1),
                post: self.post.room(),
                bases: vec![std::ptr::null(); self.across.len()],
                row: Scratch::default(),
            };
            for row in rows {
                // SAFETY: rows do not overlap.
                unsafe { self.one_row(row, bound, &mut room) };
            }
        });
    }

    /// Rows that are long, and too few to occupy the team: the runs of each are shared out.
    unsafe fn long_rows(&self, machine: &Machine, task: &Task) {
        let stages = self.sweep.stages;
        // A third for each pass.
        let nanoseconds = self.nanoseconds / (3 * task.rows) as f64;
        for row in 0..task.rows as isize {
            let place =
                Place(task.from.wrapping_offset(row * task.steps.0), task.to.wrapping_offset(row * task.steps.1));
            let piece = |run: usize| place.piece(run * RUN, RUN.min(self.length - run * RUN), self.width);
            let runs = self.length.div_ceil(RUN);
            let mut known = Known { length: self.length, epsilon: task.epsilon, ..Known::default() };
            // SAFETY: the row lies at the place, and runs do not overlap.
            unsafe {
                let firsts = machine.each(runs, nanoseconds, || (), |(), run: usize| (stages.first)(&piece(run)));
                known.middle = (stages.middle)(&firsts, self.length);
                let second = |(): &mut (), run: usize| (stages.second)(&piece(run), &known);
                let totals = machine.each(runs, nanoseconds, || (), second);
                known.total = totals.iter().fold(0.0, |sum, x| sum + x);
                machine.each(runs, nanoseconds, || (), |(), run: usize| (stages.finish)(&piece(run), &known));
            }
        }
    }

    /// All of `rows` at once, where they lie at even distances and go without gaps to where their results belong.
    fn plain(&self, rows: std::ops::Range<usize>, bound: Bound<'_>) -> Option<Task> {
        let whole = self.row.run(0, self.length);
        let [along] = self.along.as_slice() else { return None };
        let is_plain = self.pre.identity && self.post.is_identity() && self.rows.rank() <= 1;
        let (from, to) = (self.row.direct(along, &whole)?, self.row.direct(self.post.out(), &whole)?);
        let width = self.width as isize;
        let at = self.rows.run(rows.start, 1);
        let place = |axes: &Axes, first: isize| (self.rows.place(axes, &at) + first) * width;
        let step = |axes: &Axes| self.rows.last_step(axes) * width;
        let [across] = self.across.as_slice() else { return None };
        is_plain.then(|| Task {
            from: bound.input(0).wrapping_offset(place(across, from)),
            to: bound.output(0).wrapping_offset(place(&self.out_across, to)),
            rows: rows.len(),
            steps: (step(across), step(&self.out_across)),
            length: self.length,
            epsilon: self.epsilon,
        })
    }

    unsafe fn one_row(&self, row: usize, bound: Bound<'_>, room: &mut RowRoom<'_>) {
        let at = self.rows.run(row, 1);
        for (k, axes) in self.across.iter().enumerate() {
            let place = self.rows.place(axes, &at) * axes.width as isize;
            room.bases[k] = bound.input(k).wrapping_offset(place);
        }
        let place = self.rows.place(&self.out_across, &at) * self.out_across.width as isize;
        let out = bound.output(0).wrapping_offset(place);
        let whole = self.row.run(0, self.length);
        let target = match self.row.direct(self.post.out(), &whole) {
            Some(place) if self.post.is_identity() => Some(out.wrapping_offset(place * self.width as isize)),
            _ => None,
        };
        // SAFETY: operands hold the rows; the row's own memory holds one.
        unsafe {
            let to = target.unwrap_or_else(|| room.row(self.length * self.width));
            let from = self.prepared(to, room);
            let (length, epsilon) = (self.length, self.epsilon);
            (self.sweep.rows)(&Task { from, to, rows: 1, steps: (0, 0), length, epsilon });
            if target.is_none() {
                self.finish(to, out, room);
            }
        }
    }

    /// `pre` of the row: where it lies already, or at `to`.
    unsafe fn prepared(&self, to: *mut u8, room: &mut RowRoom<'_>) -> *const u8 {
        if self.pre.identity {
            let whole = self.row.run(0, self.length);
            // SAFETY: the operand holds the row, and `to` has room for it.
            return unsafe { self.row.fetch(&self.along[0], room.bases[0], &whole, to) };
        }
        for start in (0..self.length).step_by(BLOCK) {
            let block = self.row.run(start, BLOCK.min(self.length - start));
            // SAFETY: operands hold the row; every temporary holds a block.
            unsafe {
                for (k, axes) in self.along.iter().enumerate() {
                    let temp = room.pre.temp(k + 1);
                    room.pre.args[k] = self.row.fetch(axes, room.bases[k], &block, temp);
                }
                let place = to.wrapping_add(start * self.width);
                room.pre.run(place, block.n);
            }
        }
        to
    }

    /// `post` of the row at `values`.
    unsafe fn finish(&self, values: *const u8, out: *mut u8, room: &mut RowRoom<'_>) {
        for start in (0..self.length).step_by(BLOCK) {
            let block = self.row.run(start, BLOCK.min(self.length - start));
            let values = values.wrapping_add(start * self.width);
            // SAFETY: operands hold the row.
            unsafe { self.post.write(&self.row, &block, values, &room.bases, out, &mut room.post) };
        }
    }
}

/// Both sides of one row.
#[derive(Clone, Copy)]
struct Place(*const u8, *mut u8);

// SAFETY: the memory is reserved for the launch, whose parts write disjoint elements.
unsafe impl Sync for Place {}

impl Place {
    /// `n` elements from `start` on.
    fn piece(&self, start: usize, n: usize, width: usize) -> Piece {
        Piece { from: self.0.wrapping_add(start * width), to: self.1.wrapping_add(start * width), n }
    }
}

/// What one thread needs.
struct RowRoom<'a> {
    pre: Room<'a>,
    post: Room<'a>,
    /// Where this row of each input starts.
    bases: Vec<*const u8>,
    row: Scratch,
}

impl RowRoom<'_> {
    fn row(&mut self, bytes: usize) -> *mut u8 {
        if self.row.bytes() < bytes {
            self.row = Scratch::of_bytes(bytes);
        }
        self.row.start()
    }
}
