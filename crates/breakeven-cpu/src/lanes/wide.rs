//! Instructions of AVX-512 and AVX2 that the lane type does not have.

use std::arch::x86_64::{
    __m256, __m512, _mm256_blendv_ps, _mm256_castsi256_ps, _mm256_loadu_si256, _mm256_maskload_ps,
    _mm512_mask_loadu_ps, _mm512_scalef_ps,
};

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

/// The `n` elements at `from`, fewer than 16, then those of `rest`.
///
/// # Safety
/// They must be readable.
#[inline(always)]
pub(super) unsafe fn load_first<S: Simd>(from: *const f32, n: usize, rest: Lanes<S>) -> Lanes<S> {
    // SAFETY: values of the lanes only exist where the instructions do, and what the mask leaves out is not read.
    lanes(unsafe { _mm512_mask_loadu_ps(register(rest), (1u16 << n).wrapping_sub(1), from) })
}

/// Eight elements to take from here on, or not to take.
const TAKEN: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

/// The `n` elements at `from`, fewer than 8, then those of `rest`, for lanes of AVX2.
///
/// # Safety
/// They must be readable.
#[inline(always)]
pub(super) unsafe fn load_first_of_eight<S: Simd>(from: *const f32, n: usize, rest: Lanes<S>) -> Lanes<S> {
    assert!(size_of::<S::f32s>() == size_of::<__m256>(), "lanes of AVX2");
    let taken = &TAKEN[8 - n..][..8];
    // SAFETY: values of the lanes only exist where the instructions do; what the mask leaves out is not read, and both types
    // are eight f32 and nothing else.
    unsafe {
        let rest: __m256 = std::mem::transmute_copy(&rest.0);
        let mask = _mm256_loadu_si256(taken.as_ptr().cast());
        let all = _mm256_blendv_ps(rest, _mm256_maskload_ps(from, mask), _mm256_castsi256_ps(mask));
        Lanes(std::mem::transmute_copy(&all))
    }
}
