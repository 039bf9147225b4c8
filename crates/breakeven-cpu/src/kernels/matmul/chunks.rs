//! Small results of long sums: chunks of their terms are summed by themselves, then added up.

use breakeven_ir::{DType, Row};

use super::{CpuMatMul, Sums, TileRoom};
use crate::kernels::cut::Chunks;
use crate::kernels::products::Shapes;
use crate::kernels::{Bound, Machine};
use crate::natives::RowFn;

impl CpuMatMul {
    /// Makes the sums of some terms after the other, then adds them up in this order.
    ///
    /// # Safety
    /// As [`CpuMatMul::run`].
    pub(super) unsafe fn run_chunks(&self, machine: &Machine, bound: Bound<'_>, chunks: Chunks, add: RowFn) {
        let s = &self.shapes;
        let (parts, bytes) = (chunks.count, s.m * s.n * self.sum_width);
        let mut lent = machine.spare.lend(self.batch.elements() * parts * bytes);
        let sums = Sums(lent.start());
        machine.split(self.batch.elements() * parts, self.nanoseconds, |units| {
            let mut room = machine.spare.lend(0);
            for unit in units {
                let (batch, first) = (unit / parts, unit % parts * chunks.terms);
                let shapes = Shapes { k: chunks.terms.min(s.k - first), to: (s.n as isize, 1), ..*s };
                let a = self.corner(0, batch, (s.a.1, first), bound);
                let b = self.corner(1, batch, (s.b.0, first), bound);
                // SAFETY: the operands hold these terms, and each unit has sums of its own.
                unsafe { self.product.run(&shapes, (a, b), sums.at(unit * bytes), &mut room) };
            }
        });
        let (blocks, moved) = (self.grid.blocks(), lent.bytes() as f64);
        machine.split(self.batch.elements() * blocks, moved * machine.tuning.ns_per_byte, |units| {
            let mut room = TileRoom::new(self, machine, self.tile);
            for unit in units {
                let (batch, block) = (unit / blocks, self.grid.block(unit % blocks));
                let out = self.bind(batch, bound, &mut room);
                let place = |chunk: usize| sums.at((batch * parts + chunk) * bytes + block.start * self.sum_width);
                let total = place(0);
                // SAFETY: blocks do not overlap, and every chunk has sums for all of them.
                unsafe {
                    (1..parts).for_each(|chunk| add(&[total, place(chunk), total], total, block.n));
                    self.post.write(&self.grid, &block, total, &room.bases, out, &mut room.post);
                }
            }
        });
    }
}

/// The loop that adds sums of `dtype`.
pub(super) fn adding(machine: &Machine, dtype: DType) -> Option<RowFn> {
    Row::named("add").and_then(|add| machine.natives.row(add, dtype))
}
