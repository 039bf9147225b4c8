//! 8-bit integers with AVX2: packed as 16 bits, of which pairs are multiplied and added without rounding or saturation.

use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_set1_epi32, _mm256_setzero_si256,
    _mm256_storeu_si256,
};

use super::pack::{Lines, pack};
use super::plain::keep;
use super::{IntegerPanels, Pair};

const ROWS: usize = 4;
const COLUMNS: usize = 16;

/// The way for operands that are signed or not. The machine must have AVX2.
pub(super) fn panels(left: bool, right: bool) -> IntegerPanels {
    IntegerPanels {
        lines: [ROWS, COLUMNS],
        group: 2,
        width: 2,
        tail: 0,
        pack: [
            if left { pack_as::<i8, ROWS> } else { pack_as::<u8, ROWS> },
            if right { pack_as::<i8, COLUMNS> } else { pack_as::<u8, COLUMNS> },
        ],
        multiply,
        keep: keep::<i32, COLUMNS>,
    }
}

#[target_feature(enable = "avx2")]
unsafe fn pack_as<E: Copy + Into<i16>, const W: usize>(lines: &Lines, to: *mut u8) {
    // SAFETY: the caller's contract.
    unsafe { pack::<E, i16, W, 2>(lines, to.cast(), Into::into) };
}

#[target_feature(enable = "avx2")]
unsafe fn multiply(pair: &Pair) {
    // SAFETY: the caller's contract.
    unsafe {
        match pair.rows {
            1 => sums::<1>(pair),
            2 => sums::<2>(pair),
            _ => sums::<ROWS>(pair),
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn sums<const R: usize>(pair: &Pair) {
    let mut sums = [[_mm256_setzero_si256(); 2]; R];
    let (left, right) = (pair.left.cast::<[i32; ROWS]>(), pair.right.cast::<[__m256i; 2]>());
    for group in 0..pair.groups {
        // SAFETY: both panels have so many groups.
        unsafe {
            let right = right.add(group).cast::<__m256i>();
            let columns = [_mm256_loadu_si256(right), _mm256_loadu_si256(right.add(1))];
            for i in 0..R {
                let row = _mm256_set1_epi32((*left.add(group))[i]);
                for j in 0..2 {
                    sums[i][j] = _mm256_add_epi32(sums[i][j], _mm256_madd_epi16(row, columns[j]));
                }
            }
        }
    }
    for i in 0..R {
        for j in 0..2 {
            // SAFETY: there is room for the sums of all rows.
            unsafe { _mm256_storeu_si256(pair.sums.cast::<__m256i>().add(2 * i + j), sums[i][j]) };
        }
    }
}
