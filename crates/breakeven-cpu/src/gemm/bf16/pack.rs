//! Packing pairs: two neighbouring terms of a line become one element of 32 bits, the earlier term in its lower half.

use fearless_simd::Simd;

use crate::gemm::element::{SIDE, Source};
use crate::gemm::pack::{GAP, Steps};
use crate::gemm::{Lines, Pairs};
use crate::halves::{Bf16, Half};
use crate::lanes::token;

/// An element that becomes a bf16 where it is packed.
pub(super) trait Rounded: Copy + 'static {
    /// The bits of the nearest bf16, ties to even.
    fn bits(self) -> u16;
}

impl Rounded for f32 {
    #[inline(always)]
    fn bits(self) -> u16 {
        Bf16::narrow(self).0
    }
}

impl Rounded for Bf16 {
    #[inline(always)]
    fn bits(self) -> u16 {
        self.0
    }
}

/// Elements of a packed line, zeros at its end included.
const fn pairs<const WHOLE: usize>() -> Pairs {
    Pairs { terms: 2, whole: WHOLE }
}

/// Packs a strip of rows, each of which lies in one run.
///
/// # Safety
/// `p.from` must hold the lines, `to` have room for [`strip_elements`](crate::gemm::pack::strip_elements).
pub(super) unsafe fn pack_left<F: Rounded, S: Simd, const WHOLE: usize>(p: &Lines, to: *mut u8) -> Steps {
    // SAFETY: tables of `S` are only built with a value of `S` at hand.
    let simd = unsafe { token::<S>() };
    let (from, to) = (p.from.cast::<F>(), to.cast::<u32>());
    let elements = pairs::<WHOLE>().elements(p.terms);
    let pitch = elements + GAP;
    simd.vectorize(
        #[inline(always)]
        || {
            for line in 0..p.lines {
                let from = from.wrapping_offset(line as isize * p.across);
                // SAFETY: there is room for all lines.
                unsafe {
                    let to = to.add(line * pitch).cast::<u16>();
                    if p.along == 1 {
                        copy_run(std::slice::from_raw_parts(from, p.terms), to);
                    }
                    std::slice::from_raw_parts_mut(to.add(p.terms), 2 * elements - p.terms).fill(0);
                }
            }
            if p.along != 1 {
                // Term by term, since those of all lines may be neighbours.
                for term in 0..p.terms {
                    let from = from.wrapping_offset(term as isize * p.along);
                    for line in 0..p.lines {
                        // SAFETY: the operand holds the term of each line, and there is room for it.
                        unsafe {
                            let bits = from.offset(line as isize * p.across).read().bits();
                            to.add(line * pitch).cast::<u16>().add(term).write(bits);
                        }
                    }
                }
            }
        },
    );
    (pitch as isize, 1)
}

/// Packs a panel of columns, zeros after the last one: for each pair of terms, a row of so many.
///
/// # Safety
/// `p.from` must hold the lines, `to` have room for a panel of so many pairs, each `width` columns.
pub(super) unsafe fn pack_right<F: Rounded, S: Simd, const WHOLE: usize>(p: &Lines, to: *mut u8, width: usize) {
    // SAFETY: tables of `S` are only built with a value of `S` at hand.
    let simd = unsafe { token::<S>() };
    let to = to.cast::<u32>();
    let (whole, elements) = (p.terms / 2, pairs::<WHOLE>().elements(p.terms));
    simd.vectorize(
        #[inline(always)]
        || {
            // SAFETY: the caller's contract.
            unsafe {
                match (p.across, p.along, p.lines == width, width) {
                    (1, _, true, 48) => pair_rows::<F, 48>(p, to, whole),
                    (1, _, true, 32) => pair_rows::<F, 32>(p, to, whole),
                    (1, _, true, 16) => pair_rows::<F, 16>(p, to, whole),
                    (_, 1, ..) => turn_lines::<F, S>(p, to, width, whole),
                    _ => pair_any::<F>(p, to, (width, 0..p.lines), 0..whole),
                }
                pair_any::<F>(p, to, (width, 0..p.lines), whole..p.terms.div_ceil(2));
                for row in 0..elements {
                    let first = if 2 * row < p.terms { p.lines } else { 0 };
                    std::slice::from_raw_parts_mut(to.add(row * width + first), width - first).fill(0);
                }
            }
        },
    );
}

#[inline(always)]
unsafe fn copy_run<F: Rounded>(from: &[F], to: *mut u16) {
    // SAFETY: the caller has room for as many; a strip never overlaps an operand.
    let to = unsafe { std::slice::from_raw_parts_mut(to, from.len()) };
    for (to, from) in to.iter_mut().zip(from) {
        *to = from.bits();
    }
}

#[inline(always)]
fn pair(first: u16, second: u16) -> u32 {
    u32::from(first) | u32::from(second) << 16
}

/// Neighbouring columns, as many as the compiler knows of.
#[inline(always)]
unsafe fn pair_rows<F: Rounded, const N: usize>(p: &Lines, to: *mut u32, whole: usize) {
    for row in 0..whole {
        // SAFETY: the caller's contract.
        unsafe {
            let from = p.from.cast::<F>().wrapping_offset(2 * row as isize * p.along);
            let (first, second) = (&*from.cast::<[F; N]>(), &*from.wrapping_offset(p.along).cast::<[F; N]>());
            let to = &mut *to.add(row * N).cast::<[u32; N]>();
            for j in 0..N {
                to[j] = pair(first[j].bits(), second[j].bits());
            }
        }
    }
}

/// Some pairs of terms of some columns, wherever they lie.
#[inline(always)]
unsafe fn pair_any<F: Rounded>(
    p: &Lines,
    to: *mut u32,
    (width, columns): (usize, std::ops::Range<usize>),
    rows: std::ops::Range<usize>,
) {
    for row in rows {
        for column in columns.clone() {
            let from = p.from.cast::<F>().wrapping_offset(column as isize * p.across);
            let term = |term: usize| {
                // SAFETY: the caller's contract.
                if term < p.terms { unsafe { from.offset(term as isize * p.along).read().bits() } } else { 0 }
            };
            // SAFETY: the caller's contract.
            unsafe { to.add(row * width + column).write(pair(term(2 * row), term(2 * row + 1))) };
        }
    }
}

/// Columns whose terms are neighbours: squares of pairs are turned.
#[inline(always)]
unsafe fn turn_lines<F: Rounded, S: Simd>(p: &Lines, to: *mut u32, width: usize, whole: usize) {
    let (rows, columns) = (whole - whole % SIDE, p.lines - p.lines % SIDE);
    for column in (0..columns).step_by(SIDE) {
        for row in (0..rows).step_by(SIDE) {
            let mut square = Square([[0u16; 2 * SIDE]; SIDE]);
            for (i, line) in square.0.iter_mut().enumerate() {
                let from = p.from.cast::<F>().wrapping_offset((column + i) as isize * p.across + 2 * row as isize);
                // SAFETY: the square lies in the operand.
                let from = unsafe { &*from.cast::<[F; 2 * SIDE]>() };
                for (to, from) in line.iter_mut().zip(from) {
                    *to = from.bits();
                }
            }
            // SAFETY: there is room for the square.
            unsafe {
                let to = to.add(row * width + column).cast::<f32>();
                f32::turn::<S>(square.0.as_ptr().cast(), SIDE as isize, to, width);
            }
        }
    }
    // SAFETY: the caller's contract.
    unsafe {
        pair_any::<F>(p, to, (width, columns..p.lines), 0..rows);
        pair_any::<F>(p, to, (width, 0..p.lines), rows..whole);
    }
}

/// Pairs of some columns, aligned as elements of 32 bits.
#[repr(align(64))]
struct Square([[u16; 2 * SIDE]; SIDE]);
