//! Large products: the right operand is packed once for the tiles of all rows.

use super::{Area, CpuMatMul, Packed, TileRoom};
use crate::gemm::{Gemm, Lines, Right};
use crate::kernels::cut::Cut;
use crate::kernels::products::{Product, Shapes, right};
use crate::kernels::{Bound, Machine};

/// Bytes of a right operand that are packed at once for all rows: a bound on memory, not on speed. Handing over one more round of
/// so many is a thousandth of packing them.
const PACKED_BYTES: usize = 32 << 20;
/// Rows of a tile that are never made fewer for the sake of sharing: each tile reads the packed columns again.
pub(super) const LEAST_SHARED: usize = 128;

impl CpuMatMul {
    /// Packs some columns of the right operand, then makes all tiles of these columns, and so on.
    ///
    /// # Safety
    /// As [`CpuMatMul::run`].
    pub(super) unsafe fn run_shared(&self, machine: &Machine, bound: Bound<'_>, gemm: Gemm) {
        let (s, (down, across)) = (&self.shapes, self.tiles(self.tile));
        let at_once = packed_at_once(s, self.tile.1, gemm);
        let rounds = self.batch.elements() * across.div_ceil(at_once);
        let mut lent = machine.spare.lend(gemm.packed_bytes(at_once * self.tile.1, s.k));
        for round in 0..rounds {
            let (batch, first) = (round / across.div_ceil(at_once), round % across.div_ceil(at_once) * at_once);
            let (start, tiles) = (first * self.tile.1, at_once.min(across - first));
            let columns = (tiles * self.tile.1).min(s.n - start);
            let lines = right(&Shapes { n: columns, ..*s }, self.corner(1, batch, (s.b.1, start), bound));
            let (packed, panels) = (Columns { lines, room: lent.start() }, columns.div_ceil(gemm.panel()));
            let bytes = gemm.packed_bytes(columns, s.k) as f64;
            machine.split(panels, 2.0 * bytes * machine.tuning.ns_per_byte, |panels| {
                // SAFETY: the room holds all panels.
                panels.for_each(|panel| unsafe { packed.pack(gemm, panel) });
            });
            machine.split(down * tiles, self.nanoseconds / rounds as f64, |units| {
                let mut room = TileRoom::new(self, machine, self.tile);
                for unit in units {
                    let place = (unit % down, first + unit / down);
                    let panel = unit / down * self.tile.1 / gemm.panel();
                    let right = packed.right(panel);
                    let area = Area::new(s, place, self.tile);
                    // SAFETY: tiles do not overlap, and their columns were packed.
                    unsafe { self.tile(batch, area, Some(Packed::Columns(&gemm, right)), bound, &mut room) };
                }
            });
        }
    }
}

/// The way of a product whose right operand is better packed once for all rows.
pub(super) fn shares(product: Product, shapes: &Shapes, rows: usize) -> Option<Gemm> {
    let Product::Floats(gemm) = product else { return None };
    let right = right(shapes, std::ptr::null());
    (rows < shapes.m && shapes.k > 0 && gemm.packs(shapes.m, &right)).then_some(gemm)
}

/// Tiles across of which the right operand is packed at once.
fn packed_at_once(s: &Shapes, columns: usize, gemm: Gemm) -> usize {
    (PACKED_BYTES / gemm.packed_bytes(columns, s.k)).clamp(1, s.n.div_ceil(columns).max(1))
}

/// Rows of a tile, fewer where the tiles of the columns that are packed at once are too few for all threads to end together.
pub(super) fn rows_at_once(cut: &Cut<'_>, s: &Shapes, tile: (usize, usize), gemm: Gemm) -> usize {
    let (across, mut rows) = (packed_at_once(s, tile.1, gemm), tile.0);
    while s.m.div_ceil(rows) * across < cut.enough() && rows >= 2 * LEAST_SHARED {
        rows = rows.div_ceil(2).next_multiple_of(gemm.whole().0);
    }
    rows
}

/// Columns of the right operand, and the room that they are packed in.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    pub lines: Lines,
    pub room: *mut u8,
}

// SAFETY: the operand is only read, and each panel of the room is written by one thread, before any reads it.
unsafe impl Sync for Columns {}
// SAFETY: as above.
unsafe impl Send for Columns {}

impl Columns {
    /// # Safety
    /// The room must hold all panels, of which nobody else writes or reads this one meanwhile.
    pub unsafe fn pack(&self, gemm: Gemm, panel: usize) {
        // SAFETY: the same contract.
        unsafe { gemm.pack_columns(&self.lines, panel, self.room) };
    }

    /// The columns from `panel` on.
    fn right(&self, panel: usize) -> Right {
        Right::Packed { from: self.room, columns: self.lines.lines, panel }
    }
}
