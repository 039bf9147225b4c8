//! Loads and stores of fewer elements than a register of AVX2 or AVX-512 holds.

macro_rules! masked {
    ($t:ident, $word:ident, ($long:ident, $mask:ident: $load:ident $store:ident),
     ($short:ident, $lanes:literal: $load_short:ident $store_short:ident)) => {
        pub(super) mod $t {
            use std::arch::x86_64::{__m256i, $load, $load_short, $long, $mask, $short, $store, $store_short};

            /// Zeros behind as many ones as the shorter register has elements.
            const ONES: &[$word; 2 * $lanes] = &{
                let mut ones = [0; 2 * $lanes];
                let mut i = 0;
                while i < $lanes {
                    ones[i] = -1;
                    i += 1;
                }
                ones
            };

            /// # Safety
            /// `n` elements must be readable, fewer than a register.
            #[inline]
            #[target_feature(enable = "avx512f")]
            pub(in super::super) unsafe fn load_of_64(from: *const $t, n: usize) -> $long {
                // SAFETY: only these are read.
                unsafe { $load(((1u32 << n) - 1) as $mask, from) }
            }

            /// # Safety
            /// `n` elements must be writable, fewer than a register.
            #[inline]
            #[target_feature(enable = "avx512f")]
            pub(in super::super) unsafe fn store_of_64(to: *mut $t, n: usize, x: $long) {
                // SAFETY: only these are written.
                unsafe { $store(to, ((1u32 << n) - 1) as $mask, x) };
            }

            #[inline]
            #[target_feature(enable = "avx")]
            fn mask(n: usize) -> __m256i {
                let ones = &ONES[$lanes - n..][..$lanes];
                // SAFETY: a register's words lie there.
                unsafe { ones.as_ptr().cast::<__m256i>().read_unaligned() }
            }

            /// # Safety
            /// `n` elements must be readable, fewer than a register.
            #[inline]
            #[target_feature(enable = "avx")]
            pub(in super::super) unsafe fn load_of_32(from: *const $t, n: usize) -> $short {
                // SAFETY: only these are read.
                unsafe { $load_short(from, mask(n)) }
            }

            /// # Safety
            /// `n` elements must be writable, fewer than a register.
            #[inline]
            #[target_feature(enable = "avx")]
            pub(in super::super) unsafe fn store_of_32(to: *mut $t, n: usize, x: $short) {
                // SAFETY: only these are written.
                unsafe { $store_short(to, mask(n), x) };
            }
        }
    };
}
masked!(f32, i32, (__m512, __mmask16: _mm512_maskz_loadu_ps _mm512_mask_storeu_ps), (__m256, 8: _mm256_maskload_ps _mm256_maskstore_ps));
masked!(f64, i64, (__m512d, __mmask8: _mm512_maskz_loadu_pd _mm512_mask_storeu_pd), (__m256d, 4: _mm256_maskload_pd _mm256_maskstore_pd));
