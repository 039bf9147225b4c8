//! Products whose right operand is kept packed from launch to launch.

use breakeven_ir::MatMul;

use super::shared::{Columns, LEAST_SHARED};
use super::{CpuMatMul, Packed, Sums};
use crate::gemm::{Gemm, Lines, Right, ThinRows, ThinTile};
use crate::kept::Order;
use crate::kernels::cut::Cut;
use crate::kernels::products::{Product, Shapes, right};
use crate::kernels::{Bound, Machine};

/// Panels of a thin tile: its sums, of few rows, stay in the first-level cache.
const MOST_PANELS: usize = 16;

/// How a right operand is packed that all products of a batch share.
#[derive(Debug)]
pub(crate) struct Keeps {
    gemm: Gemm,
    /// Its panels are thin, and rows few.
    is_thin: bool,
    /// Rows and columns of a tile.
    tile: (usize, usize),
    pub order: Order,
}

impl Keeps {
    /// None where products have different right operands, or these are so small that they stay in the first-level cache as they
    /// lie.
    pub(super) fn new(cut: &Cut<'_>, kernel: &MatMul, s: &Shapes) -> Option<Keeps> {
        if !matches!(cut.product, Product::Floats(_) | Product::FewRows(_)) || s.m * s.n * s.k * cut.batch == 0 {
            return None;
        }
        if s.n * s.k * s.widths.1 <= cut.machine.caches.first / 2 {
            return None;
        }
        let steps = kernel.b.layout.strides.iter().zip(&kernel.batch[..]);
        if steps.into_iter().any(|(&step, &extent)| step != 0 && extent > 1) {
            return None;
        }
        let lower = cut.machine.lower(kernel).map(|(gemm, _)| gemm);
        let gemm = lower.or_else(|| cut.machine.gemm(kernel.b.dtype))?;
        let thin = gemm.for_few_rows(s.m);
        let gemm = thin.unwrap_or_else(|| gemm.for_columns(s.n));
        let order = Order {
            dtype: kernel.b.dtype,
            start: 0,
            across: s.b.1,
            along: s.b.0,
            columns: s.n,
            terms: s.k,
            panel: gemm.panel(),
            pairs: gemm.pairs(),
        };
        let tile = if thin.is_some() { thin_tile(cut, s, gemm) } else { wide_tile(cut, s, gemm) };
        Some(Keeps { gemm, is_thin: thin.is_some(), tile, order })
    }

    /// Bytes of all panels.
    pub fn bytes(&self) -> usize {
        self.gemm.packed_bytes(self.order.columns, self.order.terms)
    }
}

/// All rows, and as many panels as leave enough tiles to share.
fn thin_tile(cut: &Cut<'_>, s: &Shapes, gemm: Gemm) -> (usize, usize) {
    let panels = cut.batch * s.n.div_ceil(gemm.panel()) / cut.enough();
    (s.m, panels.clamp(1, MOST_PANELS) * gemm.panel())
}

/// As without packed columns, but rows are fewer where all threads would not end together.
fn wide_tile(cut: &Cut<'_>, s: &Shapes, gemm: Gemm) -> (usize, usize) {
    let (mut rows, columns) = Cut { product: Product::Floats(gemm), ..*cut }.tile(s);
    while cut.batch * s.m.div_ceil(rows) * s.n.div_ceil(columns) < cut.enough() && rows >= 2 * LEAST_SHARED {
        rows = rows.div_ceil(2).next_multiple_of(gemm.whole().0);
    }
    (rows, columns)
}

impl CpuMatMul {
    /// How the right operand is packed where it is used again.
    pub fn keeps(&self) -> Option<&Keeps> {
        self.keeps.as_ref()
    }

    /// Packs the right operand at `from`.
    ///
    /// # Safety
    /// The operand must be readable, and `to` have room for [`Keeps::bytes`].
    pub unsafe fn pack(&self, machine: &Machine, keeps: &Keeps, from: *const u8, to: *mut u8) {
        let packed = Columns { lines: right(&self.shapes, from), room: to };
        let (panels, bytes) = (self.shapes.n.div_ceil(keeps.gemm.panel()), keeps.bytes() as f64);
        machine.split(panels, 2.0 * bytes * machine.tuning.ns_per_byte, |panels| {
            // SAFETY: the room holds all panels.
            panels.for_each(|panel| unsafe { packed.pack(keeps.gemm, panel) });
        });
    }

    /// Makes all tiles from the packed right operand.
    ///
    /// # Safety
    /// As [`CpuMatMul::run`]; `packed` must be what [`CpuMatMul::pack`] made of the right operand.
    pub(super) unsafe fn run_kept(&self, machine: &Machine, bound: Bound<'_>, keeps: &Keeps, packed: *const u8) {
        let (s, gemm, from) = (&self.shapes, &keeps.gemm, Sums(packed.cast_mut()));
        if keeps.is_thin {
            // SAFETY: the same contract.
            return unsafe { self.run_thin(machine, bound, keeps, from) };
        }
        // SAFETY: the columns were packed; the rest is the same contract.
        unsafe {
            self.run_tiles(machine, bound, keeps.tile, |_, column| {
                let right = Right::Packed { from: from.at(0), columns: s.n, panel: column / gemm.panel() };
                Some(Packed::Columns(gemm, right))
            });
        }
    }

    /// Makes the tiles, of rows where they lie or of rows that are packed before, for all products.
    unsafe fn run_thin(&self, machine: &Machine, bound: Bound<'_>, keeps: &Keeps, from: Sums) {
        let (s, gemm, batches) = (&self.shapes, &keeps.gemm, self.batch.elements());
        let lines = |batch: usize| {
            let from = self.corner(0, batch, (0, 0), bound);
            Lines { from, lines: s.m, terms: s.k, across: s.a.0, along: s.a.1 }
        };
        let packs = gemm.packs_thin_rows(&lines(0));
        let bytes = if packs { gemm.thin_rows_bytes(s.m, s.k) } else { 0 };
        let mut lent = machine.spare.lend(batches * bytes);
        let rows = Sums(lent.start());
        let packed = if packs { batches } else { 0 };
        machine.split(packed, (packed * bytes) as f64 * machine.tuning.ns_per_byte, |batches| {
            for batch in batches {
                // SAFETY: the room holds the rows of all products, and each of them is packed by one thread.
                unsafe { gemm.pack_thin_rows(&lines(batch), rows.at(batch * bytes)) };
            }
        });
        // SAFETY: columns were packed, and rows that had to be; the rest is the same contract.
        unsafe {
            self.run_tiles(machine, bound, keeps.tile, |batch, column| {
                let tile = ThinTile {
                    left: ThinRows { lines: lines(batch), packed: packs.then(|| rows.at(batch * bytes).cast_const()) },
                    right: from.at(0),
                    right_columns: s.n,
                    panel: column / gemm.panel(),
                    columns: 0,
                    to: std::ptr::null_mut(),
                    steps: (0, 0),
                };
                Some(Packed::Both(gemm, tile))
            });
        }
    }
}
