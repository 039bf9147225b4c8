//! The way of plain code: any integers, as the compiler turns loops over arrays into what the instruction set has.

use fearless_simd::Simd;

use super::pack::{Lines, pack};
use super::{IntegerPanels, Kept, Pair};
use crate::lanes::token;

/// Lines of a left panel.
const ROWS: usize = 4;

/// Integers that wrap.
pub(super) trait Wrapping: Copy + Default {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

macro_rules! wrapping {
    ($($t:ty),+) => {$(
        impl Wrapping for $t {
            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn times(self, other: $t) -> $t {
                self.wrapping_mul(other)
            }
        }
    )+};
}
wrapping!(i64, i32, i16, i8, u64, u32, u16, u8);

/// Operands and sums of one type.
pub(super) fn alike<S: Simd, T: Wrapping, const C: usize>() -> IntegerPanels {
    panels::<S, T, C>([pack_as::<S, T, T, ROWS>, pack_as::<S, T, T, C>])
}

/// 8-bit integers, made wider when they are packed.
pub(super) fn widened<S: Simd>(left: bool, right: bool) -> IntegerPanels {
    let rows = if left { pack_as::<S, i8, i32, ROWS> } else { pack_as::<S, u8, i32, ROWS> };
    let columns = if right { pack_as::<S, i8, i32, 16> } else { pack_as::<S, u8, i32, 16> };
    panels::<S, i32, 16>([rows, columns])
}

fn panels<S: Simd, T: Wrapping, const C: usize>(pack: [unsafe fn(&Lines, *mut u8); 2]) -> IntegerPanels {
    IntegerPanels {
        lines: [ROWS, C],
        group: 1,
        width: size_of::<T>(),
        tail: 0,
        pack,
        multiply: multiply::<S, T, C>,
        keep: keep::<T, C>,
    }
}

unsafe fn pack_as<S: Simd, E: Copy + Into<P>, P: Copy + Default, const W: usize>(lines: &Lines, to: *mut u8) {
    // SAFETY: ways of `S` are only built with a value of `S` at hand.
    let simd = unsafe { token::<S>() };
    // SAFETY: the caller's contract.
    simd.vectorize(
        #[inline(always)]
        || unsafe { pack::<E, P, W, 1>(lines, to.cast(), Into::into) },
    );
}

unsafe fn multiply<S: Simd, T: Wrapping, const C: usize>(pair: &Pair) {
    // SAFETY: ways of `S` are only built with a value of `S` at hand.
    let simd = unsafe { token::<S>() };
    // SAFETY: the caller's contract.
    simd.vectorize(
        #[inline(always)]
        || unsafe { if pair.rows == 1 { sums::<T, 1, C>(pair) } else { sums::<T, ROWS, C>(pair) } },
    );
}

#[inline(always)]
unsafe fn sums<T: Wrapping, const R: usize, const C: usize>(pair: &Pair) {
    let (left, right) = (pair.left.cast::<[T; ROWS]>(), pair.right.cast::<[T; C]>());
    let mut sums = [[T::default(); C]; R];
    for p in 0..pair.groups {
        // SAFETY: both panels have so many terms.
        let (left, right) = unsafe { (&*left.add(p), &*right.add(p)) };
        for i in 0..R {
            for j in 0..C {
                sums[i][j] = sums[i][j].plus(left[i].times(right[j]));
            }
        }
    }
    // SAFETY: there is room for the sums of all rows.
    unsafe { pair.sums.cast::<[[T; C]; R]>().write(sums) };
}

/// Writes or adds sums of rows of `C` columns to the result.
///
/// # Safety
/// The result must hold the rows and columns.
pub(super) unsafe fn keep<T: Wrapping, const C: usize>(pair: &Pair, kept: &Kept) {
    let [start, row, column] = kept.steps;
    for i in 0..pair.rows {
        // SAFETY: the caller's contract; a row of sums is `C` long, and at least the columns that count.
        unsafe {
            let from = std::slice::from_raw_parts(pair.sums.cast::<T>().add(i * C), kept.columns);
            let to = kept.to.cast::<T>().wrapping_offset(start + i as isize * row);
            match (column, kept.add) {
                (1, false) => std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()),
                (1, true) => {
                    let to = std::slice::from_raw_parts_mut(to, from.len());
                    to.iter_mut().zip(from).for_each(|(to, sum)| *to = to.plus(*sum));
                }
                (_, add) => {
                    for (j, &sum) in from.iter().enumerate() {
                        let to = to.wrapping_offset(j as isize * column);
                        to.write(if add { to.read().plus(sum) } else { sum });
                    }
                }
            }
        }
    }
}
