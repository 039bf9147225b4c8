//! f64 with the functions of the system's mathematics library: what rows mean.

use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

use breakeven_ir::{Float, Number};

use super::Truth;

/// A f64; its functions are right far beyond f32.
#[derive(Clone, Copy, Debug)]
pub struct Double(pub f64);

macro_rules! operators {
    ($($Trait:ident $method:ident),+) => {$(
        impl $Trait for Double {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                Self(self.0.$method(other.0))
            }
        }
    )+};
}
operators!(Add add, Sub sub, Mul mul, Div div, Rem rem);

macro_rules! with_literals {
    ($($Trait:ident $method:ident),+) => {$(
        impl $Trait<f64> for Double {
            type Output = Self;
            fn $method(self, other: f64) -> Self {
                Self(self.0.$method(other))
            }
        }
    )+};
}
with_literals!(Add add, Sub sub, Mul mul, Div div);

impl Neg for Double {
    type Output = Self;
    fn neg(self) -> Self {
        Self(-self.0)
    }
}

impl Number for Double {
    type Mask = Truth;

    fn lit(self, c: f64) -> Self {
        Self(c)
    }
    fn abs(self) -> Self {
        Self(self.0.abs())
    }
    fn larger(self, other: Self) -> Self {
        if self.0.is_nan() || self.0 > other.0 { self } else { other }
    }
    fn smaller(self, other: Self) -> Self {
        if self.0.is_nan() || self.0 < other.0 { self } else { other }
    }
    fn lt(self, other: Self) -> Truth {
        Truth(self.0 < other.0)
    }
    fn le(self, other: Self) -> Truth {
        Truth(self.0 <= other.0)
    }
    fn eq(self, other: Self) -> Truth {
        Truth(self.0 == other.0)
    }
    fn pick(mask: Truth, a: Self, b: Self) -> Self {
        if mask.0 { a } else { b }
    }
}

/// `f(x)` of a function that starts as `x`; not computed where `x` is all there is in a f32, since most of the 2^32 are
/// such.
fn odd(x: f64, f: impl Fn(f64) -> f64) -> f64 {
    if x.abs() < 1e-7 { x } else { f(x) }
}

/// `e^x`, not computed where it is nearly 1, or 0 or infinite even in f64.
fn quick_exp(x: f64) -> f64 {
    if x.abs() < 1e-9 {
        1.0 + x
    } else if x > 710.0 {
        f64::INFINITY
    } else if x < -750.0 {
        0.0
    } else {
        x.exp()
    }
}

macro_rules! functions {
    ($($name:ident => $f:expr),+ $(,)?) => {$(
        fn $name(self) -> Self {
            let f = $f;
            Self(f(self.0))
        }
    )+};
}

impl Float for Double {
    functions! {
        floor => f64::floor,
        ceil => f64::ceil,
        trunc => f64::trunc,
        round => f64::round_ties_even,
        sqrt => f64::sqrt,
        exp => quick_exp,
        exp2 => f64::exp2,
        expm1 => f64::exp_m1,
        ln => f64::ln,
        log1p => f64::ln_1p,
        log2 => f64::log2,
        log10 => f64::log10,
        sin => |x| odd(x, f64::sin),
        cos => f64::cos,
        tan => |x| odd(x, f64::tan),
        asin => |x| odd(x, f64::asin),
        acos => f64::acos,
        atan => |x| odd(x, f64::atan),
        sinh => |x| odd(x, f64::sinh),
        cosh => f64::cosh,
        tanh => |x| odd(x, f64::tanh),
        erf => libm::erf,
        erfc => libm::erfc,
        turn_rest => |_: f64| unreachable!("the library reduces angles itself"),
        turn_quadrant => |_: f64| unreachable!("the library reduces angles itself"),
        exponent => |x| f64::from(libm::ilogb(x)),
    }
    fn mul_add(self, b: Self, c: Self) -> Self {
        Self(self.0.mul_add(b.0, c.0))
    }
    fn ldexp(self, n: Self) -> Self {
        Self(libm::ldexp(self.0, n.0 as i32))
    }
    fn is_nan(self) -> Truth {
        Truth(self.0.is_nan())
    }
    fn is_inf(self) -> Truth {
        Truth(self.0.is_infinite())
    }
    fn is_negative(self) -> Truth {
        Truth(self.0.is_sign_negative())
    }
    fn atan2(self, x: Self) -> Self {
        Self(self.0.atan2(x.0))
    }
    fn pow(self, y: Self) -> Self {
        Self(self.0.powf(y.0))
    }
}
