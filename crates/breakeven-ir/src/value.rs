//! What a row of the table is written over: SIMD lanes being computed, or an expression being built for a device
//! language.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

use crate::math;

/// A truth value per lane.
pub trait Mask:
    Copy + Not<Output = Self> + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self>
{
}

/// Arithmetic that floats and integers share. Integers wrap; integer division by zero gives 0.
pub trait Number:
    Copy
    + Neg<Output = Self>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Rem<Output = Self>
{
    /// The truth values that comparisons give.
    type Mask: Mask;

    /// The constant `c`, in the type and place of `self`.
    fn lit(self, c: f64) -> Self;
    /// Absolute value; clears the sign bit of a float.
    fn abs(self) -> Self;
    /// The larger of both; NaN when either is NaN.
    fn larger(self, other: Self) -> Self;
    /// The smaller of both; NaN when either is NaN.
    fn smaller(self, other: Self) -> Self;
    /// `self < other`; false when either is NaN.
    fn lt(self, other: Self) -> Self::Mask;
    /// `self <= other`; false when either is NaN.
    fn le(self, other: Self) -> Self::Mask;
    /// `self == other`; false when either is NaN.
    fn eq(self, other: Self) -> Self::Mask;
    /// Lane by lane, `a` where `mask` holds, else `b`. Both are computed.
    fn pick(mask: Self::Mask, a: Self, b: Self) -> Self;
}

/// Binary floating point. The required methods are what every device spells; the provided ones are f32 algorithms
/// made of them (see `math`), the same on every device but for `held`, `nearest`, `quotient` and `signed_like`, which a device
/// may spell with instructions of its own.
#[allow(clippy::inline_always, reason = "a function must dissolve into the loop over lanes that calls it")]
pub trait Float:
    Number + Add<f64, Output = Self> + Sub<f64, Output = Self> + Mul<f64, Output = Self> + Div<f64, Output = Self>
{
    /// Nearest integer towards negative infinity.
    fn floor(self) -> Self;
    /// Nearest integer towards positive infinity.
    fn ceil(self) -> Self;
    /// Nearest integer towards zero.
    fn trunc(self) -> Self;
    /// Nearest integer, halves to even.
    fn round(self) -> Self;
    /// Square root; NaN below zero.
    fn sqrt(self) -> Self;
    /// `self * b + c`, fused where the device has it: callers may not rely on either rounding.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// Tested by bit pattern, so that no compiler assumes it away.
    fn is_nan(self) -> Self::Mask;
    /// Either infinity; tested by bit pattern.
    fn is_inf(self) -> Self::Mask;
    /// Sign bit set, NaN and -0 included.
    fn is_negative(self) -> Self::Mask;
    /// `self * 2^n` for a whole number `n` in -300..=300, right also where the result is denormal. NaN stays NaN; a NaN `n`
    /// gives any number.
    fn ldexp(self, n: Self) -> Self;
    /// For a positive finite `self`, the whole number `e` with `self = m * 2^e` and `m` in [1, 2). Right for denormals
    /// where the device keeps them; any whole number in -300..=300, or NaN, for other values.
    fn exponent(self) -> Self;
    /// `self - k * pi/2` for the whole number `k` nearest to `self / (pi/2)`, right for every finite `self`.
    fn turn_rest(self) -> Self;
    /// That `k`, modulo 4, as 0, 1, 2 or 3.
    fn turn_quadrant(self) -> Self;

    /// Held between two constants, neither of them 0 nor NaN, either perhaps infinite; NaN stays NaN.
    #[inline(always)]
    fn held(self, low: f64, high: f64) -> Self {
        let held = if low > f64::NEG_INFINITY { self.larger(self.lit(low)) } else { self };
        if high < f64::INFINITY { held.smaller(self.lit(high)) } else { held }
    }
    /// The whole number nearest to `self * scale`, for products within 2^22 of 0; where two are about as near, either.
    #[inline(always)]
    fn nearest(self, scale: f64) -> Self {
        (self * scale).round()
    }
    /// `self / divisor` within one unit in the last place, for a finite quotient below 2^60 by a divisor in [2^-60, 2^60].
    /// NaN stays NaN.
    #[inline(always)]
    fn quotient(self, divisor: Self) -> Self {
        self / divisor
    }
    /// A number that is not negative, negated where `x` has its sign bit set.
    #[inline(always)]
    fn signed_like(self, x: Self) -> Self {
        Self::pick(x.is_negative(), -self, self)
    }
    /// `1 / self`
    #[inline(always)]
    fn recip(self) -> Self {
        self.lit(1.0) / self
    }
    /// `e^self`
    #[inline(always)]
    fn exp(self) -> Self {
        math::exp(self)
    }
    /// `2^self`
    #[inline(always)]
    fn exp2(self) -> Self {
        math::exp2(self)
    }
    /// `e^self - 1`, without cancellation near 0.
    #[inline(always)]
    fn expm1(self) -> Self {
        math::expm1(self)
    }
    /// Natural logarithm.
    #[inline(always)]
    fn ln(self) -> Self {
        math::ln(self)
    }
    /// `ln(1 + self)`, without cancellation near 0.
    #[inline(always)]
    fn log1p(self) -> Self {
        math::log1p(self)
    }
    /// Logarithm to base 2.
    #[inline(always)]
    fn log2(self) -> Self {
        math::log2(self)
    }
    /// Logarithm to base 10.
    #[inline(always)]
    fn log10(self) -> Self {
        math::log10(self)
    }
    /// Sine of radians.
    #[inline(always)]
    fn sin(self) -> Self {
        math::sin(self)
    }
    /// Cosine of radians.
    #[inline(always)]
    fn cos(self) -> Self {
        math::cos(self)
    }
    /// Tangent of radians.
    #[inline(always)]
    fn tan(self) -> Self {
        math::tan(self)
    }
    /// Arc sine, in radians.
    #[inline(always)]
    fn asin(self) -> Self {
        math::asin(self)
    }
    /// Arc cosine, in radians.
    #[inline(always)]
    fn acos(self) -> Self {
        math::acos(self)
    }
    /// Arc tangent, in radians.
    #[inline(always)]
    fn atan(self) -> Self {
        math::atan(self)
    }
    /// Angle of the point (`x`, `self`), in radians, in (-pi, pi].
    #[inline(always)]
    fn atan2(self, x: Self) -> Self {
        math::atan2(self, x)
    }
    /// Hyperbolic sine.
    #[inline(always)]
    fn sinh(self) -> Self {
        math::sinh(self)
    }
    /// Hyperbolic cosine.
    #[inline(always)]
    fn cosh(self) -> Self {
        math::cosh(self)
    }
    /// Hyperbolic tangent.
    #[inline(always)]
    fn tanh(self) -> Self {
        math::tanh(self)
    }
    /// Error function.
    #[inline(always)]
    fn erf(self) -> Self {
        math::erf(self)
    }
    /// `1 - erf(self)`; above 0 within 1e-7, and within 1e-8 from 2 on, but not within a few ULP: it is 0 past 4.2.
    #[inline(always)]
    fn erfc(self) -> Self {
        math::erfc(self)
    }
    /// `self^y`, special values as IEEE 754 `pow`.
    #[inline(always)]
    fn pow(self, y: Self) -> Self {
        math::pow(self, y)
    }
}

/// Two's complement integers.
pub trait Integer:
    Number
    + Not<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Shl<Output = Self>
    + Shr<Output = Self>
{
}

/// Anything that can be compared for equality and picked.
pub trait Any: Number {}
impl<T: Number> Any for T {}

/// Integers as bits: rows of this family exist for u32 alone.
pub trait Word: Integer {}
impl<T: Integer> Word for T {}

/// Rows over truth values alone.
pub trait Logic: Number {}
impl<T: Number> Logic for T {}
