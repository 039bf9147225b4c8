//! Logarithms.

use super::polynomial;
use crate::Float;

const LN2_HIGH: f64 = 0.693_359_375;
const LN2_LOW: f64 = -2.121_944_400_546_905_8e-4;

/// Rounds a mantissa `m` in [1, 2) into [sqrt(1/2), sqrt(2)) by moving its exponent `e`; gives (where it is halved, e).
#[inline(always)]
pub(super) fn centre<V: Float>(m: V, e: V) -> (V::Mask, V) {
    let big = m.lit(std::f64::consts::SQRT_2).lt(m);
    (big, V::pick(big, e + 1.0, e))
}

/// `x = (1 + f) * 2^e` with `1 + f` in [sqrt(1/2), sqrt(2)); gives (f, e) for a positive finite `x`.
#[inline(always)]
pub(super) fn split<V: Float>(x: V) -> (V, V) {
    let e = x.exponent();
    let m = x.ldexp(-e);
    let (big, e) = centre(m, e);
    (V::pick(big, m * 0.5, m) - 1.0, e)
}

/// `ln(1 + f) - f` for `f` in [sqrt(1/2) - 1, sqrt(2) - 1).
#[inline(always)]
fn tail<V: Float>(f: V) -> V {
    let c = [
        7.341_390_1e-2,
        -1.166_256e-1,
        1.163_233_8e-1,
        -1.239_616_2e-1,
        1.425_137_5e-1,
        -1.666_918_4e-1,
        2.000_068e-1,
        -2.499_998_1e-1,
        3.333_333_1e-1,
    ];
    let square = f * f;
    square.mul_add(polynomial(f, c) * f, square * -0.5)
}

/// Infinity, NaN, zero and negative numbers, for a logarithm that is `usual` elsewhere.
#[inline(always)]
fn edges<V: Float>(x: V, usual: V) -> V {
    let zero = x.lit(0.0);
    let finite = V::pick(x.is_inf() | x.is_nan(), x, usual);
    let positive = V::pick(x.lt(zero), x.lit(f64::NAN), finite);
    V::pick(x.eq(zero), x.lit(f64::NEG_INFINITY), positive)
}

/// `ln((1 + f) * 2^e)`
#[inline(always)]
fn join<V: Float>(f: V, e: V) -> V {
    let low = e.mul_add(f.lit(LN2_LOW), tail(f));
    e.mul_add(f.lit(LN2_HIGH), f + low)
}

/// Natural logarithm.
#[inline(always)]
pub fn ln<V: Float>(x: V) -> V {
    let (f, e) = split(x);
    edges(x, join(f, e))
}

/// Logarithm to base 2.
#[inline(always)]
pub fn log2<V: Float>(x: V) -> V {
    let (f, e) = split(x);
    let t = tail(f);
    // log2(e) is 1 + 0.4427: products with the small part keep the low bits.
    let part = x.lit(std::f64::consts::LOG2_E - 1.0);
    let low = t.mul_add(part, f * part) + t;
    edges(x, (low + f) + e)
}

/// Logarithm to base 10.
#[inline(always)]
pub fn log10<V: Float>(x: V) -> V {
    let (f, e) = split(x);
    // log10(2) in two parts, as for ln 2; log10(e) in two parts, the first of 8 bits.
    let low = e.mul_add(x.lit(4.605_038_981_195_214e-6), tail(f) * std::f64::consts::LOG10_E);
    let low = f.mul_add(x.lit(std::f64::consts::LOG10_E - 0.433_593_75), low);
    edges(x, e.mul_add(x.lit(0.301_025_390_625), f.mul_add(x.lit(0.433_593_75), low)))
}

/// `ln(1 + x)`
#[inline(always)]
pub fn log1p<V: Float>(x: V) -> V {
    let u = x + 1.0;
    let e = u.exponent();
    let (_, e) = centre(u.ldexp(-e), e);
    // f = x * 2^-e + (2^-e - 1), so that no bit of x is lost; times 4 so that 2^-e is never denormal.
    let scale = x.lit(4.0).ldexp(-e);
    let f = x.mul_add(scale, scale - 4.0) * 0.25;
    V::pick(x.abs().lt(x.lit(1e-8)), x, edges(u, join(f, e)))
}
