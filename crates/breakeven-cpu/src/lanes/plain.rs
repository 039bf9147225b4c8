//! Plain scalars: integers, f64 and truth values. Loops over them are left to the compiler's own vectoriser.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

use breakeven_ir::{Float, Integer, Mask, Number};

use super::Chunk;

/// One element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain<T>(pub T);

/// One truth value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Truth(pub bool);

macro_rules! truth {
    ($($Trait:ident $method:ident $op:tt),+) => {$(
        impl $Trait for Truth {
            type Output = Self;
            #[inline(always)]
            fn $method(self, rhs: Self) -> Self {
                Truth(self.0 $op rhs.0)
            }
        }
    )+};
}
truth!(BitAnd bitand &, BitOr bitor |, BitXor bitxor ^);

impl Not for Truth {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        Truth(!self.0)
    }
}
impl Mask for Truth {}

macro_rules! operator {
    ($t:ty, $Trait:ident $method:ident, |$a:ident, $b:ident| $body:expr) => {
        impl $Trait for Plain<$t> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, rhs: Self) -> Self {
                let ($a, $b) = (self.0, rhs.0);
                Plain($body)
            }
        }
    };
}

macro_rules! number {
    ($t:ty, abs: |$x:ident| $abs:expr, larger: |$a:ident, $b:ident| $larger:expr, smaller: $smaller:expr) => {
        impl Number for Plain<$t> {
            type Mask = Truth;
            #[inline(always)]
            fn lit(self, c: f64) -> Self {
                Plain(c as $t)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                let $x = self.0;
                Plain($abs)
            }
            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                let ($a, $b) = (self.0, other.0);
                Plain(if $larger { $a } else { $b })
            }
            #[inline(always)]
            fn smaller(self, other: Self) -> Self {
                let ($a, $b) = (self.0, other.0);
                Plain(if $smaller { $a } else { $b })
            }
            #[inline(always)]
            fn lt(self, other: Self) -> Truth {
                Truth(self.0 < other.0)
            }
            #[inline(always)]
            fn le(self, other: Self) -> Truth {
                Truth(self.0 <= other.0)
            }
            #[inline(always)]
            fn eq(self, other: Self) -> Truth {
                Truth(self.0 == other.0)
            }
            #[inline(always)]
            fn pick(mask: Truth, a: Self, b: Self) -> Self {
                if mask.0 { a } else { b }
            }
        }

        impl Chunk for Plain<$t> {
            const LEN: usize = 1;
            const WIDTH: usize = size_of::<$t>();
            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self {
                // SAFETY: the caller vouches for one readable element; operands are aligned when they are bound.
                Plain(unsafe { from.cast::<$t>().read() })
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: the caller vouches for one writable element.
                unsafe { to.cast::<$t>().write(self.0) }
            }
            #[inline(always)]
            unsafe fn load_mask(from: *const u8) -> Truth {
                // SAFETY: the caller vouches for one readable byte.
                Truth(unsafe { *from } != 0)
            }
            #[inline(always)]
            unsafe fn store_mask(mask: Truth, to: *mut u8) {
                // SAFETY: the caller vouches for one writable byte.
                unsafe { *to = u8::from(mask.0) }
            }
        }
    };
}

macro_rules! integers {
    ($($t:ty: |$x:ident| $abs:expr),+ $(,)?) => {$(
        operator!($t, Add add, |a, b| a.wrapping_add(b));
        operator!($t, Sub sub, |a, b| a.wrapping_sub(b));
        operator!($t, Mul mul, |a, b| a.wrapping_mul(b));
        operator!($t, Div div, |a, b| if b == 0 { 0 } else { a.wrapping_div(b) });
        operator!($t, Rem rem, |a, b| if b == 0 { 0 } else { a.wrapping_rem(b) });
        operator!($t, BitAnd bitand, |a, b| a & b);
        operator!($t, BitOr bitor, |a, b| a | b);
        operator!($t, BitXor bitxor, |a, b| a ^ b);
        operator!($t, Shl shl, |a, b| a.wrapping_shl(b as u32));
        operator!($t, Shr shr, |a, b| a.wrapping_shr(b as u32));
        number!($t, abs: |$x| $abs, larger: |a, b| a > b, smaller: a < b);
        impl Neg for Plain<$t> {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                Plain(self.0.wrapping_neg())
            }
        }
        impl Not for Plain<$t> {
            type Output = Self;
            #[inline(always)]
            fn not(self) -> Self {
                Plain(!self.0)
            }
        }
        impl Integer for Plain<$t> {}
    )+};
}
integers!(
    i64: |x| x.wrapping_abs(), i32: |x| x.wrapping_abs(), i16: |x| x.wrapping_abs(), i8: |x| x.wrapping_abs(),
    u64: |x| x, u32: |x| x, u16: |x| x, u8: |x| x,
);

operator!(f64, Add add, |a, b| a + b);
operator!(f64, Sub sub, |a, b| a - b);
operator!(f64, Mul mul, |a, b| a * b);
operator!(f64, Div div, |a, b| a / b);
operator!(f64, Rem rem, |a, b| a % b);
number!(f64, abs: |x| x.abs(), larger: |a, b| a > b || a.is_nan(), smaller: a < b || a.is_nan());

impl Neg for Plain<f64> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Plain(-self.0)
    }
}

macro_rules! with_literals {
    ($($Trait:ident $method:ident),+) => {$(
        impl $Trait<f64> for Plain<f64> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, rhs: f64) -> Self {
                self.$method(Plain(rhs))
            }
        }
    )+};
}
with_literals!(Add add, Sub sub, Mul mul, Div div);

macro_rules! functions {
    ($($name:ident = |$x:ident| $body:expr),+ $(,)?) => {$(
        #[inline(always)]
        fn $name(self) -> Self {
            let $x = self.0;
            Plain($body)
        }
    )+};
}

/// The algorithms of `math` are for f32; here the platform's own functions are as exact as the type.
impl Float for Plain<f64> {
    functions!(
        floor = |x| x.floor(),
        ceil = |x| x.ceil(),
        trunc = |x| x.trunc(),
        round = |x| x.round_ties_even(),
        sqrt = |x| x.sqrt(),
        exponent = |x| f64::from(libm::ilogb(x)),
        turn_rest = |x| x - (x * std::f64::consts::FRAC_2_PI).round() * std::f64::consts::FRAC_PI_2,
        turn_quadrant = |x| (x * std::f64::consts::FRAC_2_PI).round().rem_euclid(4.0),
        exp = |x| x.exp(),
        exp2 = |x| x.exp2(),
        expm1 = |x| x.exp_m1(),
        ln = |x| x.ln(),
        log1p = |x| x.ln_1p(),
        log2 = |x| x.log2(),
        log10 = |x| x.log10(),
        sin = |x| x.sin(),
        cos = |x| x.cos(),
        tan = |x| x.tan(),
        asin = |x| x.asin(),
        acos = |x| x.acos(),
        atan = |x| x.atan(),
        sinh = |x| x.sinh(),
        cosh = |x| x.cosh(),
        tanh = |x| x.tanh(),
        erf = |x| libm::erf(x),
        erfc = |x| libm::erfc(x),
    );
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        // Without the instruction, a fused product is a slow call.
        if cfg!(target_feature = "fma") { Plain(self.0.mul_add(b.0, c.0)) } else { self * b + c }
    }
    #[inline(always)]
    fn is_nan(self) -> Truth {
        Truth(self.0.is_nan())
    }
    #[inline(always)]
    fn is_inf(self) -> Truth {
        Truth(self.0.is_infinite())
    }
    #[inline(always)]
    fn is_negative(self) -> Truth {
        Truth(self.0.is_sign_negative())
    }
    #[inline(always)]
    fn ldexp(self, n: Self) -> Self {
        Plain(libm::ldexp(self.0, n.0 as i32))
    }
    #[inline(always)]
    fn atan2(self, x: Self) -> Self {
        Plain(self.0.atan2(x.0))
    }
    #[inline(always)]
    fn pow(self, y: Self) -> Self {
        Plain(self.0.powf(y.0))
    }
}
