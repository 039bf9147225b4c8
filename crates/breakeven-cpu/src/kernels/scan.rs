//! Running folds, row by row; long rows in parts, so that threads can share them.

use std::sync::{Mutex, PoisonError};

use breakeven_ir::{DType, Scalar, ScanRows, Unsupported};

use super::{Bound, Machine, views};
use crate::domain::{Axes, BLOCK, Domain, Order};
use crate::folds::{Partial, Run, ScanFns, scan_of};
use crate::program::Scratch;

/// Elements of a row that are folded from nothing before they join what came before: a part of the tree, alike on every
/// machine.
const PART: usize = 32 * BLOCK;

/// A running fold over every row of a domain.
#[derive(Debug)]
pub(crate) struct CpuScan {
    fold: ScanFns,
    exclusive: bool,
    /// What the first result of an exclusive fold is.
    nothing: Scalar,
    dtype: DType,
    rows: Domain,
    row: Domain,
    length: usize,
    /// How output and input step from row to row.
    across: [Axes; 2],
    /// How they step along a row.
    along: [Axes; 2],
    nanoseconds: f64,
}

impl CpuScan {
    pub fn new(kernel: &ScanRows, nanoseconds: f64) -> Result<CpuScan, Unsupported> {
        let dtype = kernel.input.dtype;
        let fold = scan_of(kernel.fold, dtype);
        let missing = || Unsupported(format!("the CPU has no running {} of {dtype}", kernel.fold.name()));
        let rank = kernel.outer.rank();
        let operands = views([&kernel.out, &kernel.input]);
        let (rows, across) = Domain::new(&operands, 0..rank, Order::Free);
        let (row, along) = Domain::new(&operands, rank..rank + 1, Order::Kept);
        let pair = |axes: Vec<Axes>| axes.try_into().expect("two operands have two sets of axes");
        Ok(CpuScan {
            fold: fold.ok_or_else(missing)?,
            exclusive: kernel.exclusive,
            nothing: kernel.of_nothing(),
            dtype,
            rows,
            row,
            length: kernel.length,
            across: pair(across),
            along: pair(along),
            nanoseconds,
        })
    }

    /// # Safety
    /// As [`super::Compiled::run`].
    pub unsafe fn run(&self, machine: &Machine, bound: Bound<'_>) {
        let (rows, threads) = (self.rows.elements(), machine.team.threads());
        if threads > 1 && rows < 4 * threads && self.parts() > 1 {
            // SAFETY: the same contract.
            return unsafe { self.few_rows(machine, bound) };
        }
        machine.split(rows, self.nanoseconds, |rows| {
            let mut room = ScanRoom::new();
            for row in rows {
                let mut before = Partial::default();
                for part in 0..self.parts() {
                    // SAFETY: rows do not overlap.
                    let more = unsafe { self.part(row, part, before, bound, &mut room) };
                    before = (self.fold.join)(before, more);
                }
            }
        });
    }

    fn parts(&self) -> usize {
        self.length.div_ceil(PART)
    }

    /// Rows that are long, and too few to occupy the team: first what each part folds to, then the parts.
    unsafe fn few_rows(&self, machine: &Machine, bound: Bound<'_>) {
        let (parts, rows) = (self.parts(), self.rows.elements());
        let totals = Mutex::new(vec![Partial::default(); rows * parts]);
        machine.split(rows * parts, self.nanoseconds, |all| {
            let mut room = ScanRoom::new();
            for at in all {
                // SAFETY: the caller's contract.
                let total = unsafe { self.total(at / parts, at % parts, bound, &mut room) };
                totals.lock().unwrap_or_else(PoisonError::into_inner)[at] = total;
            }
        });
        let mut before = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
        for row in before.chunks_mut(parts) {
            let mut so_far = Partial::default();
            for part in row {
                let total = std::mem::replace(part, so_far);
                so_far = (self.fold.join)(so_far, total);
            }
        }
        machine.split(rows * parts, self.nanoseconds, |all| {
            let mut room = ScanRoom::new();
            for at in all {
                // SAFETY: parts of rows do not overlap.
                unsafe { self.part(at / parts, at % parts, before[at], bound, &mut room) };
            }
        });
    }

    /// Starts, in blocks, of a part of a row.
    fn blocks(&self, part: usize) -> impl Iterator<Item = (usize, usize)> {
        let (start, end) = (part * PART, self.length.min((part + 1) * PART));
        (start..end).step_by(BLOCK).map(move |at| (at, BLOCK.min(end - at)))
    }

    /// Where a row of the output and of the input lies.
    fn places(&self, row: usize, bound: Bound<'_>) -> (*mut u8, *const u8) {
        let at = self.rows.run(row, 1);
        let place = |axes: &Axes| self.rows.place(axes, &at) * axes.width as isize;
        let [out, input] = &self.across;
        (bound.output(0).wrapping_offset(place(out)), bound.input(0).wrapping_offset(place(input)))
    }

    /// Writes a part of a row, before which all folds to `before`; gives what the part folds to.
    unsafe fn part(&self, row: usize, part: usize, before: Partial, bound: Bound<'_>, room: &mut ScanRoom) -> Partial {
        let (out, input) = self.places(row, bound);
        let [out_axes, input_axes] = &self.along;
        let mut folded = Partial::default();
        for (start, n) in self.blocks(part) {
            let block = self.row.run(start, n);
            let target = self.row.direct(out_axes, &block);
            let to = target.map_or(room.results.start(), |at| out.wrapping_offset(at * out_axes.width as isize));
            // SAFETY: operands hold the row; every temporary holds a block.
            unsafe {
                let from = self.row.fetch(input_axes, input, &block, room.elements.start());
                folded = (self.fold.scan)(before, folded, Run { from, to, n, exclusive: self.exclusive });
                if self.exclusive && start == 0 {
                    let first = std::slice::from_raw_parts_mut(to, self.dtype.bytes());
                    self.nothing.store(self.dtype, first, 0);
                }
                if target.is_none() {
                    self.row.scatter(out_axes, out, &block, to);
                }
            }
        }
        folded
    }

    /// What a part of a row folds to, in the order in which [`CpuScan::part`] folds it.
    unsafe fn total(&self, row: usize, part: usize, bound: Bound<'_>, room: &mut ScanRoom) -> Partial {
        let (_, input) = self.places(row, bound);
        let mut folded = Partial::default();
        for (start, n) in self.blocks(part) {
            let block = self.row.run(start, n);
            // SAFETY: the operand holds the row; the temporary holds a block.
            unsafe {
                let from = self.row.fetch(&self.along[1], input, &block, room.elements.start());
                folded = (self.fold.total)(folded, from, n);
            }
        }
        folded
    }
}

/// What one thread needs: a block of the input and one of the output.
struct ScanRoom {
    elements: Scratch,
    results: Scratch,
}

impl ScanRoom {
    fn new() -> ScanRoom {
        ScanRoom { elements: Scratch::new(1), results: Scratch::new(1) }
    }
}
