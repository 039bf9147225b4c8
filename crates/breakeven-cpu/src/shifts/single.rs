//! Sums of one output channel, line by line: with few terms, to find where a register that goes over the end of a line belongs
//! takes as long as its sum.

use breakeven_ir::Float;
use fearless_simd::{Simd, SimdBase};

use super::{Shifts, parts};
use crate::lanes::{Chunk, Lanes, token};

/// All sums of the first row.
///
/// # Safety
/// As the loop's.
#[inline(always)]
pub(super) unsafe fn sum<S: Simd>(s: &Shifts<'_>) {
    let mut line = 0;
    // SAFETY: the caller's contract.
    unsafe {
        while line + 4 <= s.lines.count {
            lines::<S, 4>(s, line);
            line += 4;
        }
        while line < s.lines.count {
            lines::<S, 1>(s, line);
            line += 1;
        }
    }
}

#[inline(always)]
unsafe fn lines<S: Simd, const L: usize>(s: &Shifts<'_>, line: usize) {
    let (len, mut column) = (S::f32s::LEN, 0);
    // SAFETY: the caller's contract.
    unsafe {
        while column + len < s.lines.length {
            block::<S, L, 2>(s, line, column);
            column += 2 * len;
        }
        if column < s.lines.length {
            block::<S, L, 1>(s, line, column);
        }
    }
}

/// The sums of `V` registers of `L` lines.
#[inline(always)]
unsafe fn block<S: Simd, const L: usize, const V: usize>(s: &Shifts<'_>, line: usize, column: usize) {
    let (len, lines) = (S::f32s::LEN, s.lines);
    // SAFETY: tables of `S` are only built with a value of `S` at hand; the caller vouches for lines, weights and sums.
    unsafe {
        let simd = token::<S>();
        let mut sums = [[Lanes::<S>(S::f32s::splat(simd, 0.0)); V]; L];
        let x = s.x.add(line * lines.every + column);
        for (term, &offset) in s.offsets.iter().enumerate() {
            let factor = Lanes::<S>(S::f32s::splat(simd, s.weight.add(term).read()));
            for l in 0..L {
                for v in 0..V {
                    let from = x.add(offset as usize + l * lines.every + v * len);
                    sums[l][v] = Lanes::<S>::load(from.cast()).mul_add(factor, sums[l][v]);
                }
            }
        }
        let to = s.to.wrapping_add(line * lines.step + column);
        let last = lines.length - column - (V - 1) * len;
        each_register!(l < L: {
            let to = to.wrapping_add(l * lines.step);
            each_register!(v < V: {
                let to = to.wrapping_add(v * len);
                if v + 1 < V || last >= len {
                    parts::store_all::<S>(sums[l][v], to, s.add);
                } else {
                    parts::store::<S>(sums[l][v].0, to, 0..last, s.add);
                }
            });
        });
    }
}
