//! Stores of some lanes of a register of f32.

use std::ops::Range;

use fearless_simd::{Simd, SimdBase};

use crate::lanes::{Chunk, Lanes};

/// Writes `x`, or adds it to what is there.
///
/// # Safety
/// A register's elements must be writable, and readable where they are added to.
#[inline(always)]
pub(super) unsafe fn store_all<S: Simd>(x: Lanes<S>, to: *mut f32, add: bool) {
    // SAFETY: the same contract.
    unsafe {
        let sum = if add { Lanes::<S>::load(to.cast_const().cast()) + x } else { x };
        sum.store(to.cast());
    }
}

/// Writes, or adds to what is there, lane `i` of `x` to `to[i]` for each `i` of `lanes`.
///
/// # Safety
/// These elements must be writable, and readable where they are added to; `to` itself may lie anywhere.
#[inline(always)]
pub(super) unsafe fn store<S: Simd>(x: S::f32s, to: *mut f32, lanes: Range<usize>, add: bool) {
    // SAFETY: the caller vouches for the elements; registers so long come with their instructions.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        match size_of::<S::f32s>() {
            64 => return x86::store_of_64(std::mem::transmute_copy(&x), to, lanes, add),
            32 => return x86::store_of_32(std::mem::transmute_copy(&x), to, lanes, add),
            _ => {}
        }
        for (i, &value) in x.as_slice().iter().enumerate() {
            if lanes.contains(&i) {
                let to = to.wrapping_add(i);
                to.write(if add { to.read() + value } else { value });
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256, __m512, _mm256_add_ps, _mm256_and_si256, _mm256_cmpgt_epi32, _mm256_maskload_ps, _mm256_maskstore_ps,
        _mm256_set1_epi32, _mm256_setr_epi32, _mm512_add_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps,
    };
    use std::ops::Range;

    /// # Safety
    /// As [`super::store`].
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn store_of_64(x: __m512, to: *mut f32, lanes: Range<usize>, add: bool) {
        let mask = ((1u32 << lanes.end) - (1u32 << lanes.start)) as u16;
        // SAFETY: only these are read and written.
        unsafe {
            let sum = if add { _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), x) } else { x };
            _mm512_mask_storeu_ps(to, mask, sum);
        }
    }

    /// # Safety
    /// As [`super::store`].
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn store_of_32(x: __m256, to: *mut f32, lanes: Range<usize>, add: bool) {
        let all = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let from = _mm256_cmpgt_epi32(all, _mm256_set1_epi32(lanes.start as i32 - 1));
        let mask = _mm256_and_si256(from, _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes.end as i32), all));
        // SAFETY: only these are read and written.
        unsafe {
            let sum = if add { _mm256_add_ps(_mm256_maskload_ps(to, mask), x) } else { x };
            _mm256_maskstore_ps(to, mask, sum);
        }
    }
}
