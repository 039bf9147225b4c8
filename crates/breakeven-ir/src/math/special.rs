//! The error function and its complement.

use super::{polynomial, with_sign_of};
use crate::Float;

/// Where `erfc` is taken to have reached 0; it is 3e-9 there.
const END: f64 = 4.2;

/// `erf(x)` for `|x| <= 1`.
#[inline(always)]
fn erf_near<V: Float>(x: V) -> V {
    let z = x * x;
    let c = [
        7.919_187_9e-5,
        -8.030_509_3e-4,
        5.190_716_6e-3,
        -2.685_512_2e-2,
        1.128_361_8e-1,
        -3.761_262_9e-1,
        1.283_791_7e-1,
    ];
    polynomial(z, c).mul_add(x, x)
}

/// `erfc(a)` for `a` in 1..=END, as the fourth power of a polynomial: it falls as fast as the function does.
#[inline(always)]
fn erfc_far<V: Float>(a: V) -> V {
    let c = [
        9.695_353_4e-6,
        -1.936_620_6e-4,
        1.492_683_4e-3,
        -4.969_011e-3,
        3.014_186e-3,
        1.562_818_8e-2,
        1.536_538_3e-2,
        -1.174_227_9e-1,
        -2.834_926_4e-1,
        1.000_337_5,
    ];
    let root = polynomial(a, c);
    let square = root * root;
    square * square
}

/// Error function.
#[inline(always)]
pub fn erf<V: Float>(x: V) -> V {
    let a = x.abs().smaller(x.lit(END));
    let one = x.lit(1.0);
    V::pick(a.lt(one), erf_near(x), with_sign_of(one - erfc_far(a), x))
}

/// `1 - erf(x)`; above 0 the error is bounded, and falls with the function, but is not one of few ULP.
#[inline(always)]
pub fn erfc<V: Float>(x: V) -> V {
    let a = x.abs().smaller(x.lit(END));
    let one = x.lit(1.0);
    let tail = V::pick(x.lit(END).le(a), x.lit(0.0), erfc_far(a));
    let far = V::pick(x.is_negative(), x.lit(2.0) - tail, tail);
    V::pick(a.lt(one), one - erf_near(x), far)
}
