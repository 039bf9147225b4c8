//! f32 as devices compute it.

use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

use breakeven_ir::{Float, Number};

use super::Truth;

/// `mul_add` rounds once.
pub const FUSED: u8 = 0;
/// `mul_add` rounds twice.
pub const UNFUSED: u8 = 1;
/// `mul_add` rounds once, and denormals are read and written as 0.
pub const FLUSHED: u8 = 2;

/// A f32 on a device of kind `K`.
#[derive(Clone, Copy, Debug)]
pub struct Single<const K: u8>(pub f32);

impl<const K: u8> Single<K> {
    /// What an instruction reads or writes.
    #[inline]
    fn port(x: f32) -> f32 {
        if K == FLUSHED && x.abs() < f32::MIN_POSITIVE { 0f32.copysign(x) } else { x }
    }
    #[inline]
    fn two(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(Self::port(f(Self::port(self.0), Self::port(other.0))))
    }
    #[inline]
    fn one(self, f: impl Fn(f32) -> f32) -> Self {
        Self(Self::port(f(Self::port(self.0))))
    }
}

macro_rules! operators {
    ($($Trait:ident $method:ident),+) => {$(
        impl<const K: u8> $Trait for Single<K> {
            type Output = Self;
            #[inline]
            fn $method(self, other: Self) -> Self {
                self.two(other, |a, b| a.$method(b))
            }
        }
    )+};
}
operators!(Add add, Sub sub, Mul mul, Div div, Rem rem);

macro_rules! with_literals {
    ($($Trait:ident $method:ident),+) => {$(
        impl<const K: u8> $Trait<f64> for Single<K> {
            type Output = Self;
            #[inline]
            fn $method(self, other: f64) -> Self {
                self.$method(Self(other as f32))
            }
        }
    )+};
}
with_literals!(Add add, Sub sub, Mul mul, Div div);

impl<const K: u8> Neg for Single<K> {
    type Output = Self;
    #[inline]
    fn neg(self) -> Self {
        Self(-self.0)
    }
}

impl<const K: u8> Number for Single<K> {
    type Mask = Truth;

    #[inline]
    fn lit(self, c: f64) -> Self {
        Self(c as f32)
    }
    #[inline]
    fn abs(self) -> Self {
        Self(self.0.abs())
    }
    #[inline]
    fn larger(self, other: Self) -> Self {
        // `self` where it is NaN or larger.
        let larger = if self.0 > other.0 { self.0 } else { other.0 };
        Self(if self.0.is_nan() { self.0 } else { larger })
    }
    #[inline]
    fn smaller(self, other: Self) -> Self {
        let smaller = if self.0 < other.0 { self.0 } else { other.0 };
        Self(if self.0.is_nan() { self.0 } else { smaller })
    }
    #[inline]
    fn lt(self, other: Self) -> Truth {
        Truth(Self::port(self.0) < Self::port(other.0))
    }
    #[inline]
    fn le(self, other: Self) -> Truth {
        Truth(Self::port(self.0) <= Self::port(other.0))
    }
    #[inline]
    fn eq(self, other: Self) -> Truth {
        Truth(Self::port(self.0) == Self::port(other.0))
    }
    #[inline]
    fn pick(mask: Truth, a: Self, b: Self) -> Self {
        if mask.0 { a } else { b }
    }
}

/// `2^n` for `n` in -126..=127.
#[inline]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

/// 2/pi after the point, behind 64 zeros.
const TWO_OVER_PI: [u64; 5] =
    [0, 0xa2f9_836e_4e44_1529, 0xfc27_57d1_f534_ddc0, 0xdb62_9599_3c43_9041, 0xfe51_63ab_debb_c561];

/// `x - k * pi/2` and `k` modulo 4, after Payne and Hanek: of `x * 2/pi` only the bits that matter are multiplied, two
/// before the point and 126 after it.
#[inline]
fn turn(x: f32) -> (f32, f32) {
    if x.abs() < std::f32::consts::FRAC_PI_4 || !x.is_finite() {
        return (if x.is_finite() { x } else { f32::NAN }, 0.0);
    }
    let mantissa = u128::from(x.to_bits() & 0x7f_ffff | 0x80_0000);
    let exponent = ((x.to_bits() >> 23) & 0xff) as usize;
    let (word, shift) = ((exponent - 88) / 64, (exponent - 88) % 64);
    let joined = |i: usize| u128::from(TWO_OVER_PI[i]) << 64 | u128::from(TWO_OVER_PI[i + 1]);
    let window = joined(word) << shift | (joined(word + 1) << shift) >> 64;
    let turns = window.wrapping_mul(mantissa);
    let quadrant = (turns >> 126) + ((turns >> 125) & 1);
    let rest = turns.wrapping_sub(quadrant << 126) as i128 as f64 * 2f64.powi(-126) * std::f64::consts::FRAC_PI_2;
    let quadrant = if x < 0.0 { 4 - quadrant } else { quadrant } % 4;
    ((if x < 0.0 { -rest } else { rest }) as f32, quadrant as f32)
}

impl<const K: u8> Float for Single<K> {
    #[inline]
    fn floor(self) -> Self {
        self.one(f32::floor)
    }
    #[inline]
    fn ceil(self) -> Self {
        self.one(f32::ceil)
    }
    #[inline]
    fn trunc(self) -> Self {
        self.one(f32::trunc)
    }
    #[inline]
    fn round(self) -> Self {
        self.one(f32::round_ties_even)
    }
    #[inline]
    fn sqrt(self) -> Self {
        self.one(f32::sqrt)
    }
    #[inline]
    fn mul_add(self, b: Self, c: Self) -> Self {
        if K == UNFUSED {
            return self * b + c;
        }
        Self(Self::port(Self::port(self.0).mul_add(Self::port(b.0), Self::port(c.0))))
    }
    #[inline]
    fn is_nan(self) -> Truth {
        Truth(self.0.is_nan())
    }
    #[inline]
    fn is_inf(self) -> Truth {
        Truth(self.0.is_infinite())
    }
    #[inline]
    fn is_negative(self) -> Truth {
        Truth(self.0.is_sign_negative())
    }
    #[inline]
    fn ldexp(self, n: Self) -> Self {
        debug_assert!(n.0.is_nan() || (n.0.abs() <= 300.0 && n.0.fract() == 0.0), "ldexp by {}", n.0);
        // Three factors, of which the first two never leave the normal numbers when the result is one. The whole number
        // stands in the low bits of a f32 of 2^23 and more.
        let n = (n.0.clamp(-300.0, 300.0) + 12_582_912.0).to_bits() as i32 - 0x4b40_0000;
        let a = n >> 2;
        let b = (n - a) >> 1;
        self.one(|x| x * power_of_two(a) * power_of_two(b) * power_of_two(n - a - b))
    }
    #[inline]
    fn exponent(self) -> Self {
        let x = Self::port(self.0);
        let bits = |x: f32| (x.abs().to_bits() >> 23) as i32 - 127;
        let small = x.abs() < f32::MIN_POSITIVE;
        Self(if small { bits(x * power_of_two(32)) - 32 } else { bits(x) } as f32)
    }
    #[inline]
    fn turn_rest(self) -> Self {
        self.one(|x| turn(x).0)
    }
    #[inline]
    fn turn_quadrant(self) -> Self {
        self.one(|x| turn(x).1)
    }
}
