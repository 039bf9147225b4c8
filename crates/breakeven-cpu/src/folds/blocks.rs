//! Blocks of f32 folded in registers.

use breakeven_ir::Float;
use fearless_simd::{Simd, SimdBase, SimdMask, SimdWiden};

use super::Rows;
use crate::domain::BLOCK;
use crate::lanes::{Chunk, Lanes};

/// Partial sums side by side: enough to keep every adder busy, and the same on every instruction set.
const WIDE: usize = 64;
/// Lanes of the narrowest register.
const NARROWEST: usize = 4;
/// Elements of a block in each partial sum.
const DEEP: usize = BLOCK / WIDE;

/// Sum of at most a block, as a tree: an element passes through at most `log2` of the block additions.
///
/// # Safety
/// `n` elements must be readable at `from`.
#[inline(always)]
pub(crate) unsafe fn tree_sum<S: Simd>(simd: S, from: *const f32, n: usize) -> f32 {
    let registers = WIDE / S::f32s::LEN;
    let mut sums = [Lanes::<S>(S::f32s::splat(simd, 0.0)); WIDE / NARROWEST];
    let whole = n - n % WIDE;
    // SAFETY: `row` and `register` lie within the elements.
    let load = |row: usize, register: usize| unsafe {
        Lanes::<S>::load(from.add(row * WIDE + register * S::f32s::LEN).cast())
    };
    for register in 0..registers {
        if n == BLOCK {
            sums[register] = tree(|row| load(row, register));
        } else {
            for row in 0..whole / WIDE {
                sums[register] = sums[register] + load(row, register);
            }
        }
    }
    if whole < n {
        // SAFETY: fewer than `WIDE` elements are left, and the tail has room for them.
        unsafe {
            let mut tail = [0f32; WIDE];
            std::ptr::copy_nonoverlapping(from.add(whole), tail.as_mut_ptr(), n - whole);
            for register in 0..registers {
                let rest = Lanes::<S>::load(tail.as_ptr().add(register * S::f32s::LEN).cast());
                sums[register] = sums[register] + rest;
            }
        }
    }
    let mut left = registers;
    while left > 1 {
        left /= 2;
        for i in 0..left {
            sums[i] = sums[i] + sums[i + left];
        }
    }
    sum_of_lanes(sums[0])
}

/// Sum of one register, by halves.
#[inline(always)]
fn sum_of_lanes<S: Simd>(lanes: Lanes<S>) -> f32 {
    let mut sums = [0f32; 16];
    sums[..S::f32s::LEN].copy_from_slice(lanes.0.as_slice());
    let mut left = S::f32s::LEN;
    while left > 1 {
        left /= 2;
        for i in 0..left {
            sums[i] += sums[i + left];
        }
    }
    sums[0]
}

/// Adds rows to the sums of columns: trees of as many rows as a block has in each partial sum, then in double precision.
///
/// # Safety
/// All of `rows` must be readable.
#[inline(always)]
pub(crate) unsafe fn add_rows<S: Simd>(_: S, sums: &mut [f64], rows: Rows) {
    let row = |i: usize| rows.from.wrapping_offset(i as isize * rows.step).cast::<f32>();
    let (len, whole) = (S::f32s::LEN, rows.width - rows.width % S::f32s::LEN);
    for first in (0..rows.count).step_by(DEEP) {
        let count = DEEP.min(rows.count - first);
        for at in (0..whole).step_by(len) {
            // SAFETY: `at + LEN` is within every row.
            let load = |i: usize| unsafe { Lanes::<S>::load(row(first + i).add(at).cast()) };
            let sum = if count == DEEP { tree(load) } else { (1..count).fold(load(0), |sum, i| sum + load(i)) };
            for (to, x) in sums[at..at + len].iter_mut().zip(sum.0.as_slice()) {
                *to += f64::from(*x);
            }
        }
        for at in whole..rows.width {
            // SAFETY: `at` is within every row.
            let element = |i: usize| f64::from(unsafe { row(first + i).add(at).read() });
            sums[at] += (0..count).map(element).sum::<f64>();
        }
    }
}

/// Sum of as many registers as a block has in each partial sum, by pairs.
#[inline(always)]
fn tree<S: Simd>(row: impl Fn(usize) -> Lanes<S>) -> Lanes<S> {
    let mut level: [Lanes<S>; DEEP / 2] = std::array::from_fn(|i| row(2 * i) + row(2 * i + 1));
    let mut left = DEEP / 2;
    while left > 1 {
        left /= 2;
        for i in 0..left {
            level[i] = level[2 * i] + level[2 * i + 1];
        }
    }
    level[0]
}

/// The largest (or smallest) element; NaN where any is.
///
/// # Safety
/// `n > 0` elements must be readable at `from`.
#[inline(always)]
pub(crate) unsafe fn extreme<S: Simd>(_: S, from: *const f32, n: usize, smallest: bool) -> f32 {
    let scalar = |a: f32, b: f32| {
        let first = if smallest { a < b } else { a > b };
        if first || a.is_nan() { a } else { b }
    };
    let whole = n - n % (4 * S::f32s::LEN);
    // SAFETY: the caller's contract.
    let mut best = unsafe { from.read() };
    if whole > 0 {
        // SAFETY: `i + LEN <= n`.
        let at = |i: usize| unsafe { Lanes::<S>::load(from.add(i).cast()) };
        let mut lanes: [Lanes<S>; 4] = std::array::from_fn(|k| at(k * S::f32s::LEN));
        let mut nans: [_; 4] = std::array::from_fn(|k| lanes[k].is_nan());
        for i in (0..whole).step_by(4 * S::f32s::LEN) {
            for k in 0..4 {
                let x = at(i + k * S::f32s::LEN);
                nans[k] = nans[k] | x.is_nan();
                lanes[k] = better(lanes[k], x, smallest);
            }
        }
        if (nans[0] | nans[1] | nans[2] | nans[3]).0.any_true() {
            return f32::NAN;
        }
        let four = better(better(lanes[0], lanes[1], smallest), better(lanes[2], lanes[3], smallest), smallest);
        best = if smallest { four.0.reduce_min() } else { four.0.reduce_max() };
    }
    // SAFETY: `i < n`.
    (whole..n).fold(best, |a, i| scalar(a, unsafe { from.add(i).read() }))
}

/// Lane by lane the larger (or smaller) one; anything where either is NaN.
#[inline(always)]
fn better<S: Simd>(a: Lanes<S>, b: Lanes<S>, smallest: bool) -> Lanes<S> {
    Lanes(if smallest { a.0.min(b.0) } else { a.0.max(b.0) })
}

/// Sum in double precision.
///
/// # Safety
/// `n` elements must be readable at `from`.
#[inline(always)]
pub(crate) unsafe fn sum_of<S: Simd>(simd: S, from: *const f32, n: usize) -> f64 {
    // SAFETY: the caller's contract.
    unsafe { wide_sum(simd, from, n, |x| x, |x| x) }
}

/// Sum of the squared distances from `middle`, in double precision.
///
/// # Safety
/// `n` elements must be readable at `from`.
#[inline(always)]
pub(crate) unsafe fn sum_of_squares_about<S: Simd>(simd: S, from: *const f32, n: usize, middle: f64) -> f64 {
    // SAFETY: the caller's contract.
    unsafe {
        wide_sum(
            simd,
            from,
            n,
            #[inline(always)]
            |x| {
                let d = x - middle;
                d * d
            },
            |x| (x - middle) * (x - middle),
        )
    }
}

#[inline(always)]
unsafe fn wide_sum<S: Simd>(
    simd: S,
    from: *const f32,
    n: usize,
    wide: impl Fn(S::f64s) -> S::f64s,
    scalar: impl Fn(f64) -> f64,
) -> f64 {
    let step = 2 * S::f32s::LEN;
    let whole = n - n % step;
    let mut sums = [S::f64s::splat(simd, 0.0); 4];
    for i in (0..whole).step_by(step) {
        for half in 0..2 {
            // SAFETY: `i + step <= n`.
            let x = unsafe { Lanes::<S>::load(from.add(i + half * S::f32s::LEN).cast()) };
            let (low, high) = x.0.widen();
            sums[2 * half] += wide(low);
            sums[2 * half + 1] += wide(high);
        }
    }
    let total = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    let lanes: f64 = total.as_slice().iter().sum();
    // SAFETY: `i < n`.
    (whole..n).fold(lanes, |sum, i| sum + scalar(f64::from(unsafe { from.add(i).read() })))
}

/// Sum by halves.
pub(super) fn pairwise(x: &[f64]) -> f64 {
    if x.len() <= 16 {
        return x.iter().sum();
    }
    let (a, b) = x.split_at(x.len() / 2);
    pairwise(a) + pairwise(b)
}
