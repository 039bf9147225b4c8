//! The 16-bit floats: conversions from and to f32 without branches, so that loops over them become SIMD on every
//! instruction set.

use breakeven_ir::DType;
use breakeven_ir::narrow::{integer_to_odd, to_odd};
use fearless_simd::Simd;

use crate::lanes::token;
use crate::natives::{Args, RowFn};

/// IEEE binary16.
#[derive(Clone, Copy, PartialEq)]
#[repr(transparent)]
pub(crate) struct F16(pub u16);

/// The upper half of a binary32.
#[derive(Clone, Copy, PartialEq)]
#[repr(transparent)]
pub(crate) struct Bf16(pub u16);

/// A float of 16 bits.
pub(crate) trait Half: Copy + 'static {
    /// Exactly.
    fn widen(self) -> f32;
    /// The nearest one, ties to even; NaN stays NaN.
    fn narrow(x: f32) -> Self;
}

impl Half for F16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        let magnitude = u32::from(self.0 & 0x7FFF) << 13;
        // The exponents of f32 start 112 lower; the product makes normal numbers of denormal ones.
        let finite = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
        let is_finite = self.0 & 0x7C00 != 0x7C00;
        let bits = if is_finite { finite } else { magnitude | 0x7F80_0000 };
        f32::from_bits(bits | u32::from(self.0 & 0x8000) << 16)
    }
    #[inline(always)]
    fn narrow(x: f32) -> F16 {
        const SMALLEST_NORMAL: u32 = 113 << 23;
        const TOO_LARGE: u32 = 143 << 23;
        let (sign, magnitude) = (x.to_bits() & 0x8000_0000, x.to_bits() & 0x7FFF_FFFF);
        let odd = magnitude >> 13 & 1;
        let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xFFF + odd) >> 13;
        // At 0.5 the last bit of f32 is the last bit of a denormal f16, so the sum rounds to it.
        let denormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
        let nan = 0x7E00 | magnitude >> 13 & 0x3FF;
        let large = if magnitude > 0x7F80_0000 { nan } else { 0x7C00 };
        let small = if magnitude < SMALLEST_NORMAL { denormal } else { normal };
        F16((if magnitude >= TOO_LARGE { large } else { small } | sign >> 16) as u16)
    }
}

impl Half for Bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
    #[inline(always)]
    fn narrow(x: f32) -> Bf16 {
        let bits = x.to_bits();
        let nearest = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
        let nan = bits >> 16 | 0x40;
        Bf16((if bits & 0x7FFF_FFFF > 0x7F80_0000 { nan } else { nearest }) as u16)
    }
}

/// An f32 that rounds to 16 bits as `self` does.
pub(crate) trait Narrowed {
    fn narrowed(self) -> f32;
}

macro_rules! narrowed {
    ($(|$x:ident: $t:ty| $body:expr;)+) => {$(
        impl Narrowed for $t {
            #[inline(always)]
            fn narrowed(self) -> f32 {
                let $x = self;
                $body
            }
        }
    )+};
}
narrowed! {
    |x: f64| to_odd(x);
    |x: f32| x;
    |x: i64| to_odd(integer_to_odd(i128::from(x)));
    |x: u64| to_odd(integer_to_odd(i128::from(x)));
    |x: i32| to_odd(f64::from(x));
    |x: u32| to_odd(f64::from(x));
    |x: i16| f32::from(x);
    |x: u16| f32::from(x);
    |x: i8| f32::from(x);
    |x: u8| f32::from(x);
}

/// The conversions that kernels of 16-bit floats are made of, for one instruction set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Halves {
    f16: [RowFn; 2],
    bf16: [RowFn; 2],
}

impl Halves {
    /// Compiled for `S`.
    pub fn with<S: Simd>(_: S) -> Halves {
        Halves { f16: [widen::<F16, S>, narrow::<F16, S>], bf16: [widen::<Bf16, S>, narrow::<Bf16, S>] }
    }

    /// The loop between f32 and a 16-bit float.
    pub fn cast(&self, from: DType, to: DType) -> Option<RowFn> {
        match (from, to) {
            (DType::F16, DType::F32) => Some(self.f16[0]),
            (DType::F32, DType::F16) => Some(self.f16[1]),
            (DType::BF16, DType::F32) => Some(self.bf16[0]),
            (DType::F32, DType::BF16) => Some(self.bf16[1]),
            _ => None,
        }
    }
}

unsafe fn widen<H: Half, S: Simd>(args: &Args, out: *mut u8, n: usize) {
    // SAFETY: tables of `S` are only built with a value of `S` at hand.
    let simd = unsafe { token::<S>() };
    // SAFETY: the caller vouches for `n` aligned elements of both types, which have different widths and so do not
    // share memory.
    let (from, to) =
        unsafe { (std::slice::from_raw_parts(args[0].cast::<H>(), n), std::slice::from_raw_parts_mut(out.cast(), n)) };
    simd.vectorize(
        #[inline(always)]
        || from.iter().zip(to).for_each(|(x, to): (&H, &mut f32)| *to = x.widen()),
    );
}

unsafe fn narrow<H: Half, S: Simd>(args: &Args, out: *mut u8, n: usize) {
    // SAFETY: tables of `S` are only built with a value of `S` at hand.
    let simd = unsafe { token::<S>() };
    // SAFETY: as in `widen`.
    let (from, to) = unsafe {
        (std::slice::from_raw_parts(args[0].cast::<f32>(), n), std::slice::from_raw_parts_mut(out.cast(), n))
    };
    simd.vectorize(
        #[inline(always)]
        || from.iter().zip(to).for_each(|(x, to): (&f32, &mut H)| *to = H::narrow(*x)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    /// Same bits, but any NaN for a NaN.
    fn same(a: f32, b: f32) -> bool {
        a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
    }

    #[test]
    fn every_half_widens_exactly_and_comes_back() {
        for bits in 0..=u16::MAX {
            let (x, y) = (F16(bits), Bf16(bits));
            assert!(same(x.widen(), f16::from_bits(bits).to_f32()), "f16 {bits:#06x}");
            assert!(same(y.widen(), bf16::from_bits(bits).to_f32()), "bf16 {bits:#06x}");
            assert!(
                x.widen().is_nan() && f16::from_bits(F16::narrow(x.widen()).0).is_nan() || F16::narrow(x.widen()) == x
            );
            assert!(
                y.widen().is_nan() && bf16::from_bits(Bf16::narrow(y.widen()).0).is_nan()
                    || Bf16::narrow(y.widen()) == y
            );
        }
    }

    #[test]
    fn every_tie_and_its_neighbours_round_to_the_nearest() {
        for high in 0..=u32::from(u16::MAX) {
            for low in [0, 1, 0x0FFF, 0x1000, 0x1001, 0x1FFF, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xFFFF] {
                let x = f32::from_bits(high << 16 | low);
                let (a, b) = (F16::narrow(x).0, f16::from_f32(x));
                assert!(a == b.to_bits() || b.is_nan() && f16::from_bits(a).is_nan(), "{x:e} to f16");
                let (a, b) = (Bf16::narrow(x).0, bf16::from_f32(x));
                assert!(a == b.to_bits() || b.is_nan() && bf16::from_bits(a).is_nan(), "{x:e} to bf16");
            }
        }
    }
}
