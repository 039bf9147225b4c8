//! f32 lanes: the floating-point primitives.

use breakeven_ir::{Float, Number};
use fearless_simd::{Bytes, Simd, SimdBase, SimdFloat, SimdInt, SimdMask};

use super::turn::{rest_and_quadrant, turns};
#[cfg(target_arch = "x86_64")]
use super::wide;
use super::{LaneMask, Lanes, fuses, is_avx512, picks_nan};

/// Lowest and highest `n` for which `2^n` is a normal f32.
const LOWEST: f64 = -126.0;
const HIGHEST: f64 = 127.0;

impl<S: Simd> Lanes<S> {
    /// `2^n` for whole `n` whose power is a normal number.
    #[inline(always)]
    fn power_of_two(n: Self) -> Self {
        let biased: S::i32s = (n + 127.0).0.to_int();
        Lanes((biased << 23).bitcast())
    }

    #[inline(always)]
    fn all(mask: LaneMask<S>) -> bool {
        mask.0.all_true()
    }
}

impl<S: Simd> Float for Lanes<S> {
    #[inline(always)]
    fn floor(self) -> Self {
        Lanes(self.0.floor())
    }
    #[inline(always)]
    fn ceil(self) -> Self {
        Lanes(self.0.ceil())
    }
    #[inline(always)]
    fn trunc(self) -> Self {
        Lanes(self.0.trunc())
    }
    #[inline(always)]
    fn round(self) -> Self {
        Lanes(self.0.round_ties_even())
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Lanes(self.0.sqrt())
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        Lanes(self.0.mul_add(b.0, c.0))
    }
    #[inline(always)]
    fn is_nan(self) -> LaneMask<S> {
        LaneMask(self.0.is_nan())
    }
    #[inline(always)]
    fn is_inf(self) -> LaneMask<S> {
        LaneMask(self.0.is_infinite())
    }
    #[inline(always)]
    fn is_negative(self) -> LaneMask<S> {
        LaneMask(self.0.is_sign_negative())
    }
    #[inline(always)]
    fn held(self, low: f64, high: f64) -> Self {
        if picks_nan::<S>() {
            let held = if low > f64::NEG_INFINITY { Lanes(self.lit(low).0.max(self.0)) } else { self };
            return if high < f64::INFINITY { Lanes(held.lit(high).0.min(held.0)) } else { held };
        }
        self.larger(self.lit(low)).smaller(self.lit(high))
    }
    #[inline(always)]
    fn nearest(self, scale: f64) -> Self {
        // Beside this number a f32 has no room for a fraction, so that the addition rounds it away.
        const NO_FRACTION: f64 = 12_582_912.0;
        self.mul_add(self.lit(scale), self.lit(NO_FRACTION)) - NO_FRACTION
    }
    #[inline(always)]
    fn quotient(self, divisor: Self) -> Self {
        if !fuses::<S>() {
            return self / divisor;
        }
        let mut inverse = Lanes(divisor.0.approximate_recip());
        if !is_avx512::<S>() {
            let error = Lanes(-divisor.0).mul_add(inverse, self.lit(1.0));
            inverse = error.mul_add(inverse, inverse);
        }
        let first = self * inverse;
        let rest = Lanes(-divisor.0).mul_add(first, self);
        rest.mul_add(inverse, first)
    }
    #[inline(always)]
    fn signed_like(self, x: Self) -> Self {
        Lanes(self.0.copysign(x.0))
    }
    #[inline(always)]
    fn ldexp(self, n: Self) -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_avx512::<S>() {
            return wide::ldexp(self, n);
        }
        let usual = n.abs().le(n.lit(-LOWEST));
        if Self::all(usual) {
            return self * Self::power_of_two(n);
        }
        // The factor that may round into a denormal comes last, so that only one product rounds.
        let clamp = |n: Self| n.larger(n.lit(LOWEST)).smaller(n.lit(HIGHEST));
        let last = clamp(n);
        let middle = clamp(n - last);
        let first = n - last - middle;
        self * Self::power_of_two(first) * Self::power_of_two(middle) * Self::power_of_two(last)
    }
    #[inline(always)]
    fn exponent(self) -> Self {
        let denormal = self.lt(self.lit(f64::from(f32::MIN_POSITIVE)));
        let scaled = Self::pick(denormal, self * 4_294_967_296.0, self);
        let bits: S::i32s = scaled.0.bitcast();
        let biased: S::f32s = (bits >> 23).to_float();
        Lanes(biased) - Self::pick(denormal, self.lit(127.0 + 32.0), self.lit(127.0))
    }
    #[inline(always)]
    fn turn_rest(self) -> Self {
        let small = self.abs().le(self.lit(f64::from(turns::FAST)));
        if Self::all(small) { turns::rest(self) } else { self.each(|x| rest_and_quadrant(x).0) }
    }
    #[inline(always)]
    fn turn_quadrant(self) -> Self {
        let small = self.abs().le(self.lit(f64::from(turns::FAST)));
        if Self::all(small) { turns::quadrant(self) } else { self.each(|x| rest_and_quadrant(x).1) }
    }
}
