//! Products of few rows by panels that were packed before: each panel is read once, for all rows.

use super::kernel::{Next, Strip};
use super::{Gemm, Lines};

/// Strips of rows beyond which wide panels are better: each strip reads a panel again.
const FEW_STRIPS: usize = 2;

/// A tile of few rows. The right side was packed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThinTile {
    pub left: ThinRows,
    /// By [`Gemm::pack_columns`], so many columns in all.
    pub right: *const u8,
    pub right_columns: usize,
    /// The tile's first panel, and its columns.
    pub panel: usize,
    pub columns: usize,
    pub to: *mut u8,
    /// Elements of the result from row to row, and from column to column.
    pub steps: (isize, isize),
}

/// The rows of a thin tile: each of their terms is read once for each panel, from the first-level cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThinRows {
    /// Where they lie.
    pub lines: Lines,
    /// What [`Gemm::pack_thin_rows`] made of them, if it did.
    pub packed: Option<*const u8>,
}

impl Gemm {
    /// The same with panels of one register, where so many rows are few enough to read each once.
    pub fn for_few_rows(self, rows: usize) -> Option<Gemm> {
        let thin = Gemm { rows: self.thin.0, columns: self.thin.1, ..self };
        (rows <= FEW_STRIPS * thin.rows).then_some(thin)
    }

    /// Rows of each strip but the last.
    fn strip_rows(&self, rows: usize) -> usize {
        rows.div_ceil(rows.div_ceil(self.rows).max(1)).max(1)
    }

    /// True when few rows are better packed than read where they lie: where those of a strip evict each other from the first-level
    /// cache.
    pub fn packs_thin_rows(&self, lines: &Lines) -> bool {
        !self.is_plain || self.collides(lines)
    }

    /// Bytes of packed rows.
    pub fn thin_rows_bytes(&self, rows: usize, terms: usize) -> usize {
        rows.next_multiple_of(self.strip_rows(rows)) * self.pairs.elements(terms) * self.packed_width
    }

    /// Packs all rows in `lines`.
    ///
    /// # Safety
    /// `lines` must be readable, and `to` have room for [`Gemm::thin_rows_bytes`].
    pub unsafe fn pack_thin_rows(&self, lines: &Lines, to: *mut u8) {
        let width = self.strip_rows(lines.lines);
        for strip in 0..lines.lines.div_ceil(width) {
            // SAFETY: the same contract.
            unsafe { self.pack_panel(lines, (strip, width), to) };
        }
    }

    /// Writes the sums of a tile.
    ///
    /// # Safety
    /// Both sides must hold the tile; the output is not read before it is written.
    pub unsafe fn run_thin(&self, tile: &ThinTile) {
        let (ThinRows { lines, packed }, one) = (&tile.left, self.packed_width);
        let width = self.strip_rows(lines.lines);
        let (all_rows, all_columns) =
            (lines.lines.next_multiple_of(width), tile.right_columns.next_multiple_of(self.columns));
        for (from_term, terms) in self.blocks(lines.terms) {
            let (first, terms) = (self.pairs.elements(from_term), self.pairs.elements(terms));
            for (at, column) in (0..tile.columns).step_by(self.columns).enumerate() {
                let from = all_columns * first + self.columns * terms * (tile.panel + at);
                for start in (0..lines.lines).step_by(width) {
                    let rows = width.min(lines.lines - start);
                    let (left, left_steps) = match packed {
                        Some(from) => {
                            (from.wrapping_add((all_rows * first + start * terms) * one), (1, width as isize))
                        }
                        None => (self.place(lines, start, from_term), (lines.across, lines.along)),
                    };
                    let to = start as isize * tile.steps.0 + column as isize * tile.steps.1;
                    let strip = Strip {
                        terms,
                        left,
                        left_steps,
                        right: tile.right.wrapping_add(from * one),
                        right_steps: (self.columns as isize, (self.columns * terms) as isize),
                        panel: self.columns,
                        columns: self.columns.min(tile.columns - column),
                        to: tile.to.wrapping_offset(to * one as isize),
                        to_steps: tile.steps,
                        add: first > 0,
                        next: Next::NONE,
                    };
                    // SAFETY: both sides hold the strip; the caller vouches for the result.
                    unsafe { self.strips.run(&strip, rows) };
                }
            }
        }
    }
}
