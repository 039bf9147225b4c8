//! The sweeps as passes over runs of a row.

use breakeven_ir::Float;
use fearless_simd::Simd;

use super::Known;
use super::swept::{Swept, exponentials, largest, map, zero};
use crate::lanes::Chunk;

/// A sweep as passes over runs.
pub(super) trait Kind {
    /// The middle is the largest element, not the mean.
    const MAXIMUM: bool;

    /// The maximum or sum of a run.
    ///
    /// # Safety
    /// `n > 0` elements must be readable at `from`; so for all passes, and writable at `to` for the others.
    #[inline(always)]
    unsafe fn first<T: Swept, S: Simd>(simd: S, from: *const T, n: usize) -> f64 {
        // SAFETY: the caller's contract.
        unsafe { if Self::MAXIMUM { largest(simd, from, n) } else { T::total(simd, from, n) } }
    }
    /// What a run adds to the total; the next row lies `next` bytes on.
    unsafe fn second<T: Swept, V: Float + Chunk, S: Simd>(
        simd: S,
        row: (*const T, *mut T, usize),
        known: &Known,
        next: isize,
    ) -> f64;
    /// Writes the results of a run.
    unsafe fn finish<T: Swept, V: Float + Chunk, S: Simd>(simd: S, row: (*const T, *mut T, usize), known: &Known);
}

/// `e^(x - max)` over their sum.
pub(super) struct Softmax;
/// The logarithm of that.
pub(super) struct LogSoftmax;
/// `(x - mean) / sqrt(variance + epsilon)`
pub(super) struct LayerNorm;
/// `x / sqrt(mean square + epsilon)`
pub(super) struct RmsNorm;

macro_rules! kinds {
    ($($Kind:ident: $maximum:literal, $(first: $first:expr,)?
        second($simd:ident, $from:ident, $to:ident, $n:ident, $known:ident, $next:ident) = $second:expr;
        finish = $finish:expr;)+) => {$(
        impl Kind for $Kind {
            const MAXIMUM: bool = $maximum;
            $(
                #[inline(always)]
                unsafe fn first<T: Swept, S: Simd>(_: S, _: *const T, _: usize) -> f64 {
                    $first
                }
            )?
            #[inline(always)]
            unsafe fn second<T: Swept, V: Float + Chunk, S: Simd>(
                $simd: S,
                ($from, $to, $n): (*const T, *mut T, usize),
                $known: &Known,
                $next: isize,
            ) -> f64 {
                let _ = ($to, $known, $next);
                // SAFETY: the caller's contract.
                unsafe { $second }
            }
            #[inline(always)]
            unsafe fn finish<T: Swept, V: Float + Chunk, S: Simd>(
                $simd: S,
                ($from, $to, $n): (*const T, *mut T, usize),
                $known: &Known,
            ) {
                let _ = ($simd, $from);
                // SAFETY: the caller's contract.
                unsafe { $finish }
            }
        }
    )+};
}
kinds! {
    Softmax: true,
    second(simd, from, to, n, known, next) = exponentials::<T, V, S>(simd, from, Some(to), n, known.middle, next);
    finish = {
        let scale = zero::<T, V>().lit(1.0 / known.total);
        map::<T, V>(to, to, n, #[inline(always)] |x| x * scale);
    };
    LogSoftmax: true,
    second(simd, from, to, n, known, next) = exponentials::<T, V, S>(simd, from, None, n, known.middle, next);
    finish = {
        // The two are not added up first: beside a large maximum the logarithm would lose its digits.
        let (middle, log) = (zero::<T, V>().lit(known.middle), zero::<T, V>().lit(known.total.ln()));
        map::<T, V>(from, to, n, #[inline(always)] |x| (x - middle) - log);
    };
    LayerNorm: false,
    second(simd, from, to, n, known, next) = T::squares(simd, from, n, known.middle);
    finish = {
        let variance = known.total / known.length as f64;
        T::shift(simd, from, to, n, known.middle, 1.0 / (variance + known.epsilon).sqrt());
    };
    RmsNorm: false,
    first: 0.0,
    second(simd, from, to, n, known, next) = T::squares(simd, from, n, 0.0);
    finish = {
        let square = known.total / known.length as f64;
        T::shift(simd, from, to, n, 0.0, 1.0 / (square + known.epsilon).sqrt());
    };
}
