//! Products of 16-bit floats: panels of both operands become f32 a few terms at a time, and a blocked product adds them up.

use super::Machine;
use super::products::{Shapes, add_floats};
use crate::blocks::load_run;
use crate::domain::BLOCK;
use crate::natives::RowFn;
use crate::program::Scratch;
use breakeven_ir::DType;

/// Terms of one panel: both panels of a tile stay in the second-level cache. The same everywhere, since it decides how
/// sums are split.
const DEEP: usize = 256;

/// A product whose operands are widened on the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panels {
    widen: RowFn,
}

impl Panels {
    /// For operands of `dtype`, a float of 16 bits.
    pub fn new(machine: &Machine, dtype: DType) -> Panels {
        Panels { widen: machine.natives.cast(dtype, DType::F32) }
    }

    /// Writes the sums of one tile, f32.
    ///
    /// # Safety
    /// As [`super::products::Product::run`].
    pub unsafe fn run(self, s: &Shapes, a: *const u8, b: *const u8, to: *mut u8) {
        let deep = DEEP.min(s.k.max(1));
        let (mut left, mut right) = (Scratch::of_bytes(4 * s.m * deep), Scratch::of_bytes(4 * s.n * deep));
        for term in (0..s.k.max(1)).step_by(deep) {
            let k = deep.min(s.k - term);
            let place = |base: *const u8, step: isize| base.wrapping_offset(2 * term as isize * step);
            // SAFETY: the operands hold the tile, and each scratch a panel of it.
            unsafe {
                let a_strides = self.panel(place(a, s.a.1), (s.m, s.a.0), (k, s.a.1), left.start());
                let (row, term_step) = self.panel(place(b, s.b.0), (s.n, s.b.1), (k, s.b.0), right.start());
                let shapes = Shapes { k, a: a_strides, b: (term_step, row), ..*s };
                add_floats(&shapes, left.start(), right.start(), to, term > 0);
            }
        }
    }

    /// Widens `rows` by `terms` elements to `to`, along the axis on which they are neighbours; gives the strides by row and
    /// by term.
    ///
    /// # Safety
    /// `from` must hold both extents at these steps, `to` room for all as f32.
    unsafe fn panel(
        self,
        from: *const u8,
        (rows, row_step): (usize, isize),
        (terms, term_step): (usize, isize),
        to: *mut u8,
    ) -> (isize, isize) {
        let by_row = row_step != 1 || term_step == 1;
        let ((lines, line_step), (length, step)) =
            if by_row { ((rows, row_step), (terms, term_step)) } else { ((terms, term_step), (rows, row_step)) };
        for line in 0..lines {
            let from = from.wrapping_offset(2 * line as isize * line_step);
            // SAFETY: the line lies in the operand, and there is room for it.
            unsafe { self.line(from, step, to.wrapping_add(4 * line * length), length) };
        }
        if by_row { (length as isize, 1) } else { (1, length as isize) }
    }

    unsafe fn line(self, from: *const u8, step: isize, to: *mut u8, n: usize) {
        let mut neighbours = [0u16; BLOCK];
        for start in (0..n).step_by(BLOCK) {
            let count = BLOCK.min(n - start);
            let mut source = from.wrapping_offset(2 * start as isize * step);
            // SAFETY: the caller's contract; the array holds a block.
            unsafe {
                if step != 1 {
                    load_run(source, step, neighbours.as_mut_ptr().cast(), count, 2);
                    source = neighbours.as_ptr().cast();
                }
                (self.widen)(&[source; 3], to.wrapping_add(4 * start), count);
            }
        }
    }
}
