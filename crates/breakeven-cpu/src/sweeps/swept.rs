//! Loops over parts of a row that sweeps are made of.

use breakeven_ir::Float;
use fearless_simd::{Simd, SimdBase, SimdNarrow, SimdWiden};

use crate::domain::BLOCK;
use crate::folds::{Element, sum_of, sum_of_squares_about};
use crate::lanes::{Chunk, Lanes};
use crate::prefetch::prefetch;

/// Floats whose rows are swept.
pub(super) trait Swept: Element {
    /// Sum, in double precision.
    unsafe fn total<S: Simd>(simd: S, from: *const Self, n: usize) -> f64;
    /// Sum of squares about `middle`, in double precision.
    unsafe fn squares<S: Simd>(simd: S, from: *const Self, n: usize, middle: f64) -> f64;
    /// `(x - middle) * scale`, in double precision.
    unsafe fn shift<S: Simd>(simd: S, from: *const Self, to: *mut Self, n: usize, middle: f64, scale: f64);
}

impl Swept for f32 {
    #[inline(always)]
    unsafe fn total<S: Simd>(simd: S, from: *const f32, n: usize) -> f64 {
        // SAFETY: the caller's contract.
        unsafe { sum_of(simd, from, n) }
    }
    #[inline(always)]
    unsafe fn squares<S: Simd>(simd: S, from: *const f32, n: usize, middle: f64) -> f64 {
        // SAFETY: the caller's contract.
        unsafe { sum_of_squares_about(simd, from, n, middle) }
    }
    #[inline(always)]
    unsafe fn shift<S: Simd>(_: S, from: *const f32, to: *mut f32, n: usize, middle: f64, scale: f64) {
        let whole = n - n % S::f32s::LEN;
        for i in (0..whole).step_by(S::f32s::LEN) {
            // SAFETY: `i + LEN <= n`.
            unsafe {
                let (low, high) = Lanes::<S>::load(from.add(i).cast()).0.widen();
                Lanes::<S>(((low - middle) * scale).narrow((high - middle) * scale)).store(to.add(i).cast());
            }
        }
        for i in whole..n {
            // SAFETY: `i < n`.
            unsafe { to.add(i).write(((f64::from(from.add(i).read()) - middle) * scale) as f32) };
        }
    }
}

impl Swept for f64 {
    #[inline(always)]
    unsafe fn total<S: Simd>(simd: S, from: *const f64, n: usize) -> f64 {
        // SAFETY: the caller's contract.
        unsafe { <f64 as Element>::sum(simd, from, n) }
    }
    #[inline(always)]
    unsafe fn squares<S: Simd>(_: S, from: *const f64, n: usize, middle: f64) -> f64 {
        // SAFETY: the caller's contract.
        (0..n).map(|i| unsafe { from.add(i).read() } - middle).map(|d| d * d).sum()
    }
    #[inline(always)]
    unsafe fn shift<S: Simd>(_: S, from: *const f64, to: *mut f64, n: usize, middle: f64, scale: f64) {
        for i in 0..n {
            // SAFETY: `i < n`.
            unsafe { to.add(i).write((from.add(i).read() - middle) * scale) };
        }
    }
}

/// `f` over `n` elements, in chunks.
///
/// # Safety
/// `n` elements of `T`, the element of `V`, must be readable at `from` and writable at `to`.
#[inline(always)]
pub(super) unsafe fn map<T: Element, V: Chunk>(from: *const T, to: *mut T, n: usize, f: impl Fn(V) -> V) {
    let whole = n - n % V::LEN;
    // SAFETY: the caller's contract.
    unsafe {
        for i in (0..whole).step_by(V::LEN) {
            f(V::load(from.add(i).cast())).store(to.add(i).cast());
        }
        if whole < n {
            let rest = V::load_first(from.add(whole).cast(), n - whole, zero::<T, V>());
            f(rest).store_first(to.add(whole).cast(), n - whole);
        }
    }
}

/// A value of `V` to make constants from.
#[inline(always)]
pub(super) fn zero<T: Element, V: Chunk>() -> V {
    let zeros = [T::from_f(0.0); 16];
    // SAFETY: the array holds the longest chunk.
    unsafe { V::load(zeros.as_ptr().cast()) }
}

/// The largest element; NaN where any is.
#[inline(always)]
pub(super) unsafe fn largest<T: Swept, S: Simd>(simd: S, from: *const T, n: usize) -> f64 {
    // SAFETY: the caller's contract.
    unsafe {
        if let Some(max) = T::extreme(simd, from, n, false) {
            return max;
        }
        let larger = |a: f64, b: f64| if a > b || a.is_nan() { a } else { b };
        (1..n).fold(from.read().f(), |max, i| larger(max, from.add(i).read().f()))
    }
}

/// Partial sums side by side, as many on every instruction set.
const WIDE: usize = 64;

/// Gives the sum of `e^(x - max)`; leaves the terms at `to` if there is such a place. The next row lies `next` bytes on.
///
/// # Safety
/// `n` elements must be readable at `from`, and writable at `to`.
#[inline(always)]
pub(super) unsafe fn exponentials<T: Swept, V: Float + Chunk, S: Simd>(
    simd: S,
    from: *const T,
    to: Option<*mut T>,
    n: usize,
    max: f64,
    next: isize,
) -> f64 {
    let middle = zero::<T, V>().lit(max);
    let mut total = 0.0;
    for start in (0..n).step_by(BLOCK) {
        let (count, to) = (BLOCK.min(n - start), to.map(|to| to.wrapping_add(start)));
        let whole = count - count % WIDE;
        let mut sums = [zero::<T, V>(); WIDE];
        // SAFETY: `start + count <= n`, and there is room for all partial sums.
        unsafe {
            let from = from.add(start);
            for at in (0..whole).step_by(WIDE) {
                // Arithmetic leaves memory idle, which the next row uses; a line is fetched for every register.
                for line in (0..WIDE * size_of::<T>()).step_by(64) {
                    prefetch(from.add(at).cast::<u8>().wrapping_offset(next + line as isize));
                }
                add_exponentials(from.add(at), to.map(|to| to.add(at)), middle, &mut sums);
            }
            for k in 0..WIDE / V::LEN {
                let at = whole + k * V::LEN;
                if at < count {
                    let left = count - at;
                    let x = if left < V::LEN {
                        // The powers of what is beyond the row are 0.
                        V::load_first(from.add(at).cast(), left, middle.lit(f64::NEG_INFINITY))
                    } else {
                        V::load(from.add(at).cast())
                    };
                    let power = (x - middle).exp();
                    sums[k] = sums[k] + power;
                    match to.map(|to| to.add(at).cast()) {
                        Some(to) if left < V::LEN => power.store_first(to, left),
                        Some(to) => power.store(to),
                        None => {}
                    }
                }
            }
            let mut partial = [T::from_f(0.0); WIDE];
            for k in 0..WIDE / V::LEN {
                sums[k].store(partial.as_mut_ptr().add(k * V::LEN).cast());
            }
            total += T::sum(simd, partial.as_ptr(), WIDE);
        }
    }
    total
}

/// Adds `e^(x - middle)` of as many registers as there are sums.
#[inline(always)]
unsafe fn add_exponentials<T: Swept, V: Float + Chunk>(
    from: *const T,
    to: Option<*mut T>,
    middle: V,
    sums: &mut [V; WIDE],
) {
    for k in 0..WIDE / V::LEN {
        // SAFETY: the caller vouches for so many registers at both places.
        unsafe {
            let power = (V::load(from.add(k * V::LEN).cast()) - middle).exp();
            if let Some(to) = to {
                power.store(to.add(k * V::LEN).cast());
            }
            sums[k] = sums[k] + power;
        }
    }
}
