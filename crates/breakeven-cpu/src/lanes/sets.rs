//! What an instruction set can do that the lane type does not tell; all of it is known while compiling.

use std::any::TypeId;

use fearless_simd::{Fallback, Simd};

/// True where the instructions for maximum and minimum give a NaN in their second operand: those of x86 give the second
/// operand whenever they cannot compare, those of NEON give any NaN.
#[inline(always)]
pub(super) fn picks_nan<S: Simd>() -> bool {
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) && TypeId::of::<S>() != TypeId::of::<Fallback>()
}

/// True for AVX-512.
#[inline(always)]
pub(crate) fn is_avx512<S: Simd>() -> bool {
    #[cfg(target_arch = "x86_64")]
    return TypeId::of::<S>() == TypeId::of::<fearless_simd::Avx512>();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// True for AVX2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn is_avx2<S: Simd>() -> bool {
    TypeId::of::<S>() == TypeId::of::<fearless_simd::Avx2>()
}

/// True where a product and a sum round once.
#[inline(always)]
pub(crate) fn fuses<S: Simd>() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_avx512::<S>() || is_avx2::<S>();
    #[cfg(not(target_arch = "x86_64"))]
    picks_nan::<S>()
}
