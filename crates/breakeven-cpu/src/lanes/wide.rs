//! Instructions of AVX-512 that the lane type does not have.

use std::arch::x86_64::{__m512, _mm512_scalef_ps};

use fearless_simd::Simd;

use super::Lanes;

/// The register of `x`, for lanes of AVX-512.
#[inline(always)]
fn register<S: Simd>(x: Lanes<S>) -> __m512 {
    assert!(size_of::<S::f32s>() == size_of::<__m512>(), "lanes of AVX-512");
    // SAFETY: both are sixteen f32 and nothing else.
    unsafe { std::mem::transmute_copy(&x.0) }
}

#[inline(always)]
fn lanes<S: Simd>(x: __m512) -> Lanes<S> {
    assert!(size_of::<S::f32s>() == size_of::<__m512>(), "lanes of AVX-512");
    // SAFETY: both are sixteen f32 and nothing else.
    Lanes(unsafe { std::mem::transmute_copy(&x) })
}

/// `x * 2^n` for whole `n`, rounded once.
#[inline(always)]
pub(super) fn ldexp<S: Simd>(x: Lanes<S>, n: Lanes<S>) -> Lanes<S> {
    // SAFETY: values of the lanes only exist where the instructions do.
    lanes(unsafe { _mm512_scalef_ps(register(x), register(n)) })
}
