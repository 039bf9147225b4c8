//! Blocks of f32 folded in registers.

use breakeven_ir::Float;
use fearless_simd::{Simd, SimdBase, SimdMask, SimdWiden};

use super::Rows;
use crate::domain::BLOCK;
use crate::lanes::{Chunk, Lanes, array};

/// Partial sums side by side: enough to keep every adder busy, and the same on every instruction set.
const WIDE: usize = 64;
/// Lanes of the narrowest register.
const NARROWEST: usize = 4;
/// Elements of a block in each partial sum.
const DEEP: usize = BLOCK / WIDE;

/// What is summed.
pub(super) trait Terms<S: Simd>: Copy {
    /// The same from element `start` on.
    fn after(self, start: usize) -> Self;
    /// # Safety
    /// As many elements as a register has must be readable from `at` on.
    unsafe fn register(self, at: usize) -> Lanes<S>;
    /// As `register`, of the `n` elements from `at` on, fewer than a register has; then zeros.
    ///
    /// # Safety
    /// They must be readable.
    unsafe fn first(self, simd: S, at: usize, n: usize) -> Lanes<S>;
}

impl<S: Simd> Terms<S> for *const f32 {
    #[inline(always)]
    fn after(self, start: usize) -> Self {
        self.wrapping_add(start)
    }
    #[inline(always)]
    unsafe fn register(self, at: usize) -> Lanes<S> {
        // SAFETY: the caller's contract.
        unsafe { Lanes::load(self.add(at).cast()) }
    }
    #[inline(always)]
    unsafe fn first(self, simd: S, at: usize, n: usize) -> Lanes<S> {
        // SAFETY: the caller's contract.
        unsafe { Lanes::load_first(self.add(at).cast(), n, Lanes(S::f32s::splat(simd, 0.0))) }
    }
}

/// Products, each of which is rounded.
impl<S: Simd> Terms<S> for (*const f32, *const f32) {
    #[inline(always)]
    fn after(self, start: usize) -> Self {
        (self.0.wrapping_add(start), self.1.wrapping_add(start))
    }
    #[inline(always)]
    unsafe fn register(self, at: usize) -> Lanes<S> {
        // SAFETY: the caller's contract.
        unsafe { Lanes::load(self.0.add(at).cast()) * Lanes::load(self.1.add(at).cast()) }
    }
    #[inline(always)]
    unsafe fn first(self, simd: S, at: usize, n: usize) -> Lanes<S> {
        // SAFETY: the caller's contract.
        unsafe { Terms::<S>::first(self.0, simd, at, n) * Terms::<S>::first(self.1, simd, at, n) }
    }
}

/// Sum in single precision by blocks, of blocks in double precision.
///
/// # Safety
/// `n` elements must be readable.
#[inline(always)]
pub(super) unsafe fn sum_by_blocks<S: Simd, T: Terms<S>>(simd: S, terms: T, n: usize) -> f64 {
    // The sum of nothing but -0 is -0.
    let mut sum = -0.0;
    for start in (0..n).step_by(BLOCK) {
        // SAFETY: the caller's contract.
        sum += f64::from(unsafe { tree_sum(simd, terms.after(start), BLOCK.min(n - start)) });
    }
    sum
}

/// Sum of at most a block, as a tree: an element passes through at most `log2` of the block additions.
#[inline(always)]
unsafe fn tree_sum<S: Simd, T: Terms<S>>(simd: S, terms: T, n: usize) -> f32 {
    // SAFETY: the caller's contract.
    unsafe {
        match S::f32s::LEN {
            16 => tree_of::<S, T, { WIDE / 16 }, 4>(simd, terms, n),
            8 => tree_of::<S, T, { WIDE / 8 }, 2>(simd, terms, n),
            _ => tree_of::<S, T, { WIDE / NARROWEST }, 2>(simd, terms, n),
        }
    }
}

/// As [`tree_sum`], where the partial sums take `N` registers, of which all levels of a whole block's tree have room for `G` at a time.
/// So many that the compiler knows how many: else they are kept in memory, and each addition waits for a store.
#[inline(always)]
unsafe fn tree_of<S: Simd, T: Terms<S>, const N: usize, const G: usize>(simd: S, terms: T, n: usize) -> f32 {
    // SAFETY: the caller's contract.
    let mut sums = unsafe {
        if n == BLOCK { whole_block::<S, T, N, G>(simd, terms) } else { part_of_block::<S, T, N>(simd, terms, n) }
    };
    let mut left = N;
    while left > 1 {
        left /= 2;
        for i in 0..left {
            sums[i] = sums[i] + sums[i + left];
        }
    }
    sum_of_lanes(sums[0])
}

/// The partial sums of a whole block, `G` registers at a time.
#[inline(always)]
unsafe fn whole_block<S: Simd, T: Terms<S>, const N: usize, const G: usize>(simd: S, terms: T) -> [Lanes<S>; N] {
    let mut sums = [Lanes::<S>(S::f32s::splat(simd, 0.0)); N];
    for first in (0..N).step_by(G) {
        let from = terms.after(first * S::f32s::LEN);
        // SAFETY: a block is readable.
        let pairs: [[Lanes<S>; G]; 4] = unsafe { [four(from, 0), four(from, 4), four(from, 8), four(from, 12)] };
        const { assert!(DEEP == 16, "four times four rows") };
        let [a, b, c, d] = pairs;
        sums[first..first + G].copy_from_slice(&both(both(a, b), both(c, d)));
    }
    sums
}

/// The partial sums of fewer elements than a block has, row by row.
#[inline(always)]
unsafe fn part_of_block<S: Simd, T: Terms<S>, const N: usize>(simd: S, terms: T, n: usize) -> [Lanes<S>; N] {
    let (len, whole) = (S::f32s::LEN, n - n % WIDE);
    let mut sums = [Lanes::<S>(S::f32s::splat(simd, 0.0)); N];
    // SAFETY: `n` elements are readable.
    unsafe {
        for row in 0..whole / WIDE {
            sums = both(sums, registers(terms, row));
        }
        for (at, sum) in (whole..n).step_by(len).zip(&mut sums) {
            let left = n - at;
            *sum = *sum + if left < len { terms.first(simd, at, left) } else { terms.register(at) };
        }
    }
    sums
}

/// Sums of four rows of a block.
#[inline(always)]
unsafe fn four<S: Simd, T: Terms<S>, const G: usize>(terms: T, row: usize) -> [Lanes<S>; G] {
    // SAFETY: the caller vouches for the rows.
    unsafe {
        both(
            both(registers(terms, row), registers(terms, row + 1)),
            both(registers(terms, row + 2), registers(terms, row + 3)),
        )
    }
}

#[inline(always)]
unsafe fn registers<S: Simd, T: Terms<S>, const G: usize>(terms: T, row: usize) -> [Lanes<S>; G] {
    array(
        #[inline(always)]
        // SAFETY: the caller vouches for the row.
        |k| unsafe { terms.register(row * WIDE + k * S::f32s::LEN) },
    )
}

/// Sums register by register.
#[inline(always)]
fn both<S: Simd, const G: usize>(a: [Lanes<S>; G], b: [Lanes<S>; G]) -> [Lanes<S>; G] {
    array(
        #[inline(always)]
        |k| a[k] + b[k],
    )
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
    let mut level: [Lanes<S>; DEEP / 2] = array(|i| row(2 * i) + row(2 * i + 1));
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
pub(crate) unsafe fn extreme<S: Simd>(simd: S, from: *const f32, n: usize, smallest: bool) -> f32 {
    let len = S::f32s::LEN;
    if n < len {
        // SAFETY: `i < n`.
        let element = |i: usize| unsafe { from.add(i).read() };
        return (1..n).fold(element(0), |a, i| {
            let (b, first) = (element(i), if smallest { a < element(i) } else { a > element(i) });
            if first || a.is_nan() { a } else { b }
        });
    }
    // SAFETY: `i + LEN <= n` wherever it is called.
    let at = |i: usize| unsafe { Lanes::<S>::load(from.add(i).cast()) };
    let mut best = [at(0); 4];
    // A sum is NaN where an element is, which costs one instruction where a test and keeping its result cost two.
    let mut sums = [Lanes::<S>(S::f32s::splat(simd, 0.0)); 4];
    let whole = n - n % (4 * len);
    for i in (0..whole).step_by(4 * len) {
        for k in 0..4 {
            let x = at(i + k * len);
            best[k] = better(best[k], x, smallest);
            sums[k] = sums[k] + x;
        }
    }
    // Registers that are left, the last of which reaches back: an element may be met twice.
    for i in (whole..n).step_by(len) {
        let x = at(i.min(n - len));
        best[0] = better(best[0], x, smallest);
        sums[0] = sums[0] + x;
    }
    let sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    // So is the sum of opposite infinities.
    if sum.is_nan().0.any_true() && any_nan(at, n) {
        return f32::NAN;
    }
    let four = better(better(best[0], best[1], smallest), better(best[2], best[3], smallest), smallest);
    if smallest { four.0.reduce_min() } else { four.0.reduce_max() }
}

/// Any of `n` elements is NaN, of which `at` gives registers.
#[inline(always)]
fn any_nan<S: Simd>(at: impl Fn(usize) -> Lanes<S>, n: usize) -> bool {
    let len = S::f32s::LEN;
    (0..n).step_by(len).any(|i| at(i.min(n - len)).is_nan().0.any_true())
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
