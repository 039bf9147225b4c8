//! From where on operands are packed rather than read where they lie, and how that is measured.

use std::time::Instant;

use super::{Gemm, Lines, Right, Tile, strip_elements};
use crate::program::Scratch;

/// What is packed. Sums are the same bits in each way. Counts and bytes beyond 65,535 are taken for that many, since every product
/// carries them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packing {
    /// Most rows for which a right operand whose columns are neighbours is read where it lies.
    pub rows: u16,
    /// The same where its lines fall on few sets of the first-level cache.
    pub rows_of_few_sets: u16,
    /// Most panels for which a strip of the left operand is.
    pub panels: u16,
    /// Bytes of a right operand that stay in the first-level cache where they lie, unless they fall on few of its sets.
    pub near_bytes: u16,
}

impl Packing {
    /// Nothing that can be read where it lies.
    pub const NEVER: Packing =
        Packing { rows: u16::MAX, rows_of_few_sets: u16::MAX, panels: u16::MAX, near_bytes: u16::MAX };
    /// Every operand.
    pub const ALWAYS: Packing = Packing { rows: 0, rows_of_few_sets: 0, panels: 0, near_bytes: 0 };
}

/// Strips of the products that are timed.
const STRIPS: usize = 8;
/// Runs of each, of which the fastest counts: whatever else the machine does makes a run longer.
const ROUNDS: usize = 12;

/// One tile as large as any, and its operands.
struct Trial {
    gemm: Gemm,
    left: Vec<f32>,
    right: Vec<f32>,
    to: Vec<f32>,
    /// Panels of it, and elements from one line of the right operand to the next.
    panels: usize,
    pitch: usize,
    packed: Scratch,
    room: Scratch,
}

/// The least of each number for which packing pays, for products of f32 by `gemm` of so many columns.
pub(crate) fn measure(gemm: Gemm, columns: usize) -> Packing {
    let panels = columns.div_ceil(gemm.columns);
    let columns = panels * gemm.columns;
    let pitch = columns.next_multiple_of(super::FEW_SETS / size_of::<f32>());
    let few_sets = Trial::new(gemm, panels, pitch).rows();
    let mut usual = Trial::new(gemm, panels, pitch + super::pack::GAP);
    Packing {
        rows: usual.rows(),
        rows_of_few_sets: few_sets,
        panels: usual.panels(),
        near_bytes: gemm.packing.near_bytes,
    }
}

impl Trial {
    fn new(gemm: Gemm, panels: usize, pitch: usize) -> Trial {
        let (rows, terms) = (STRIPS * gemm.rows, gemm.most_terms());
        let columns = panels * gemm.columns;
        let strip = strip_elements(gemm.rows, terms) * gemm.packed_width;
        Trial {
            gemm,
            left: vec![0.5; rows * (terms + super::pack::GAP)],
            right: vec![0.5; terms * pitch],
            to: vec![0.0; rows * columns],
            panels,
            pitch,
            packed: Scratch::of_bytes(gemm.packed_bytes(columns, terms)),
            room: Scratch::of_bytes(strip),
        }
    }

    /// Rows for which packing the right operand takes as long as it saves.
    fn rows(&mut self) -> u16 {
        let (mut packing, mut direct, mut packed) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
        for _ in 0..ROUNDS {
            packing = packing.min(seconds(|| self.pack_right()));
            direct = direct.min(seconds(|| self.run(Packing { panels: 0, ..Packing::NEVER }, false)));
            packed = packed.min(seconds(|| self.run(Packing::ALWAYS, true)));
        }
        worth_from(packing, (direct - packed) / (STRIPS * self.gemm.rows) as f64)
    }

    /// Panels for which packing a strip takes as long as it saves.
    fn panels(&mut self) -> u16 {
        let (mut packing, mut direct, mut packed) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
        self.pack_right();
        for _ in 0..ROUNDS {
            packing = packing.min(seconds(|| self.pack_left()));
            direct = direct.min(seconds(|| self.run(Packing::NEVER, true)));
            packed = packed.min(seconds(|| self.run(Packing::ALWAYS, true)));
        }
        worth_from(packing, (direct + packing - packed) / self.panels as f64)
    }

    fn lines(&self) -> (Lines, Lines) {
        let (rows, terms) = (STRIPS * self.gemm.rows, self.gemm.most_terms());
        let across = (terms + super::pack::GAP) as isize;
        let left = Lines { from: self.left.as_ptr().cast(), lines: rows, terms, across, along: 1 };
        let columns = self.panels * self.gemm.columns;
        let along = self.pitch as isize;
        let right = Lines { from: self.right.as_ptr().cast(), lines: columns, terms, across: 1, along };
        (left, right)
    }

    fn pack_right(&mut self) {
        let (right, to) = (self.lines().1, self.packed.start());
        for panel in 0..self.panels {
            // SAFETY: the operand holds the lines, and there is room for all panels.
            unsafe { self.gemm.pack_columns(&right, panel, to) };
        }
    }

    fn pack_left(&mut self) {
        let (left, to) = (self.lines().0, self.room.start());
        for strip in 0..STRIPS {
            let from = self.gemm.place(&left, strip * self.gemm.rows, 0);
            let lines = Lines { from, lines: self.gemm.rows, ..left };
            // SAFETY: the operand holds the strip, and there is room for it.
            unsafe { (self.gemm.pack_left)(&lines, to) };
        }
    }

    /// The product, its right operand as it lies or as it was packed.
    fn run(&mut self, packing: Packing, is_packed: bool) {
        let (left, right) = self.lines();
        let columns = right.lines;
        let packed = Right::Packed { from: self.packed.start(), columns, panel: 0 };
        let right = if is_packed { packed } else { Right::Loose(right) };
        let tile = Tile { left, right, columns, to: self.to.as_mut_ptr().cast(), steps: (columns as isize, 1) };
        // SAFETY: operands and result hold the tile; an operand that was not packed is only read at any speed.
        unsafe { self.gemm.with_packing(packing).run(&tile, &mut self.room) };
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// For how many something that takes so long has saved as much, where it saves `each` for one.
fn worth_from(takes: f64, each: f64) -> u16 {
    if each <= 0.0 { u16::MAX } else { (takes / each).clamp(1.0, f64::from(u16::MAX)) as u16 }
}
