//! Exponentials and what is made of them.

use crate::Float;

const LOG2_E: f64 = std::f64::consts::LOG2_E;
/// ln 2 in two parts; the first has so few bits that a whole number up to 150 times it is exact.
const LN2_HIGH: f64 = 0.693_359_375;
const LN2_LOW: f64 = -2.121_944_4e-4;

/// `e^r - 1` for `|r| <= ln2 / 2`: r + r^2/2 + r^3 * p(r).
fn expm1_small<V: Float>(r: V) -> V {
    let coefficients = [1.393_388_1e-3, 8.333_656e-3, 4.166_578_3e-2, 1.666_666_4e-1, 0.5];
    let p = coefficients.iter().fold(r.lit(1.984_127e-4), |p, &c| p.mul_add(r, r.lit(c)));
    (r * r).mul_add(p, r)
}

/// `x = n * ln2 + r` with `|r| <= ln2 / 2`; gives (n, r).
fn split_ln2<V: Float>(x: V) -> (V, V) {
    let n = (x * LOG2_E).round();
    let r = n.mul_add(x.lit(-LN2_LOW), n.mul_add(x.lit(-LN2_HIGH), x));
    (n, r)
}

/// `x` kept where results are neither 0 nor infinite for sure; NaN stays NaN.
fn clamp<V: Float>(x: V, low: f64, high: f64) -> V {
    x.larger(x.lit(low)).smaller(x.lit(high))
}

/// `e^x`
pub fn exp<V: Float>(x: V) -> V {
    let (n, r) = split_ln2(clamp(x, -105.0, 89.0));
    (expm1_small(r) + 1.0).ldexp(n)
}

/// `2^x`
pub fn exp2<V: Float>(x: V) -> V {
    let x = clamp(x, -151.0, 129.0);
    let n = x.round();
    (expm1_small((x - n) * std::f64::consts::LN_2) + 1.0).ldexp(n)
}

/// `e^x - 1`
pub fn expm1<V: Float>(x: V) -> V {
    let (n, r) = split_ln2(clamp(x, -20.0, 89.0));
    let one = x.lit(1.0);
    // 2^n * (e^r - 1) + (2^n - 1), halved so that 2^n does not overflow before the result does.
    let half = one.ldexp(n - 1.0);
    let sum = expm1_small(r).mul_add(half, half - 0.5);
    V::pick(x.eq(x.lit(0.0)), x, sum + sum)
}

/// Hyperbolic sine.
pub fn sinh<V: Float>(x: V) -> V {
    let a = x.abs();
    let e = a.expm1();
    let near = (e + e / (e + 1.0)) * 0.5;
    let root = (a * 0.5).exp();
    let far = (root * 0.5) * root;
    with_sign_of(V::pick(a.lt(a.lit(80.0)), near, far), x)
}

/// Hyperbolic cosine.
pub fn cosh<V: Float>(x: V) -> V {
    let a = x.abs();
    let e = a.exp();
    let root = (a * 0.5).exp();
    V::pick(a.lt(a.lit(80.0)), e * 0.5 + e.lit(0.5) / e, (root * 0.5) * root)
}

/// Hyperbolic tangent.
pub fn tanh<V: Float>(x: V) -> V {
    let a = x.abs();
    let e = (a + a).smaller(a.lit(40.0)).expm1();
    with_sign_of(V::pick(a.lt(a.lit(1e-4)), a, e / (e + 2.0)), x)
}

/// The non-negative `magnitude`, negated where `x` has its sign bit set.
pub(super) fn with_sign_of<V: Float>(magnitude: V, x: V) -> V {
    V::pick(x.is_negative(), -magnitude, magnitude)
}
