//! `vdpbf16ps`: the loops of f32 with two products for one.

use std::arch::asm;
use std::arch::x86_64::__m512;

use fearless_simd::Simd;

use super::pack::{Rounded, pack_left, pack_right};
use crate::gemm::element::Element;
use crate::gemm::kernel;
use crate::gemm::{DEPTH_BYTES, Gemm, Packing, Pairs, Strips};

/// Two bf16, the earlier term in the lower half; as a sum, the bits of an f32.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
struct Pair(f32);

/// The way for operands of `F`, where registers have 512 bits.
pub(super) fn gemm<F: Rounded, S: Simd>(_: S) -> Gemm {
    let [wide, narrow, thin] = kernel::widths::<Pair, S>();
    Gemm {
        strips: Strips::Each(kernel::strips::<Pair, S>()),
        pack_left: pack_left::<F, S, 1>,
        pack_right: pack_right::<F, S, 1>,
        rows: wide.0,
        columns: wide.1,
        narrow,
        thin,
        width: size_of::<F>(),
        packed_width: size_of::<Pair>(),
        pairs: Pairs { terms: 2, whole: 1 },
        depth_bytes: DEPTH_BYTES,
        is_plain: false,
        packing: Packing::ALWAYS,
    }
}

/// `c + a.0 * b.0 + a.1 * b.1` of 16 pairs. Written out: it would not dissolve into loops that are compiled for AVX-512
/// without it.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn dot(a: __m512, b: __m512, c: __m512) -> __m512 {
    let mut sum = c;
    // SAFETY: the caller vouches for the instruction, which reads and writes these registers alone.
    unsafe {
        asm!(
            "vdpbf16ps {sum}, {a}, {b}",
            sum = inout(zmm_reg) sum,
            a = in(zmm_reg) a,
            b = in(zmm_reg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

/// Registers of pairs are those of f32; so are sums, and all that is done to them.
impl Element for Pair {
    type Register<S: Simd> = S::f32s;
    const ZERO: Pair = Pair(0.0);

    #[inline(always)]
    fn len<S: Simd>() -> usize {
        f32::len::<S>()
    }
    #[inline(always)]
    fn splat<S: Simd>(simd: S, x: Pair) -> S::f32s {
        f32::splat(simd, x.0)
    }
    #[inline(always)]
    fn mul_add<S: Simd>(a: S::f32s, b: S::f32s, c: S::f32s) -> S::f32s {
        assert!(size_of::<S::f32s>() == size_of::<__m512>(), "pairs are multiplied in registers of 512 bits");
        // SAFETY: a way is only made where the processor has the instruction, and registers are those that it takes.
        unsafe {
            let [a, b, c] = [a, b, c].map(|x| std::mem::transmute_copy(&x));
            std::mem::transmute_copy(&dot(a, b, c))
        }
    }
    #[inline(always)]
    fn add<S: Simd>(a: S::f32s, b: S::f32s) -> S::f32s {
        f32::add::<S>(a, b)
    }
    #[inline(always)]
    fn sum(self, other: Pair) -> Pair {
        Pair(self.0 + other.0)
    }
    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const Pair) -> S::f32s {
        // SAFETY: the same contract.
        unsafe { f32::load(simd, from.cast()) }
    }
    #[inline(always)]
    unsafe fn store<S: Simd>(x: S::f32s, to: *mut Pair) {
        // SAFETY: the same contract.
        unsafe { f32::store::<S>(x, to.cast()) };
    }
    #[inline(always)]
    unsafe fn load_some<S: Simd>(simd: S, from: *const Pair, n: usize) -> S::f32s {
        // SAFETY: the same contract.
        unsafe { f32::load_some(simd, from.cast(), n) }
    }
    #[inline(always)]
    unsafe fn store_some<S: Simd>(x: S::f32s, to: *mut Pair, n: usize) {
        // SAFETY: the same contract.
        unsafe { f32::store_some::<S>(x, to.cast(), n) };
    }
    #[inline(always)]
    fn sum_lanes<S: Simd>(x: S::f32s) -> Pair {
        Pair(f32::sum_lanes::<S>(x))
    }
    #[inline(always)]
    fn mul_add_one<S: Simd>(self, b: Pair, c: Pair) -> Pair {
        let of = |pair: Pair| {
            let bits = pair.0.to_bits();
            [f32::from_bits(bits << 16), f32::from_bits(bits & 0xFFFF_0000)]
        };
        let ([a0, a1], [b0, b1]) = (of(self), of(b));
        Pair(a1.mul_add(b1, a0.mul_add(b0, c.0)))
    }
}
