//! Products of few rows: these are packed once, and the columns of the right operand are read where they lie.

use super::{CpuMatMul, Packed, Sums};
use crate::gemm::{Gemm, Right};
use crate::kernels::products::{right, turned};
use crate::kernels::{Bound, Machine};

impl CpuMatMul {
    /// Packs the rows of all products, which fit a panel each, then makes all tiles.
    ///
    /// # Safety
    /// As [`CpuMatMul::run`].
    pub(super) unsafe fn run_few_rows(&self, machine: &Machine, bound: Bound<'_>, gemm: Gemm) {
        let (s, batches) = (turned(&self.shapes), self.batch.elements());
        let bytes = gemm.packed_bytes(s.n, s.k);
        let mut lent = machine.spare.lend(batches * bytes);
        let rows = Sums(lent.start());
        machine.split(batches, (batches * bytes) as f64 * machine.tuning.ns_per_byte, |batches| {
            for batch in batches {
                let lines = right(&s, self.corner(0, batch, (0, 0), bound));
                // SAFETY: the room holds the rows of all products, and each of them is packed by one thread.
                unsafe { gemm.pack_columns(&lines, 0, rows.at(batch * bytes)) };
            }
        });
        // SAFETY: the rows were packed; the rest is the same contract.
        unsafe {
            self.run_tiles(machine, bound, self.tile, |batch, _| {
                let right = Right::Packed { from: rows.at(batch * bytes), columns: s.n, panel: 0 };
                Some(Packed::Rows(&gemm, right))
            });
        }
    }
}
