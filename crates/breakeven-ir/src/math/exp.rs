//! Exponentials and what is made of them.

use super::polynomial;
use crate::Float;

const LOG2_E: f64 = std::f64::consts::LOG2_E;
/// ln 2 in two parts; the first has so few bits that a whole number up to 150 times it is exact.
const LN2_HIGH: f64 = 0.693_359_375;
const LN2_LOW: f64 = -2.121_944_400_546_905_8e-4;

/// `e^r - 1` for `|r| <= ln2 / 2`.
#[inline(always)]
fn expm1_small<V: Float>(r: V) -> V {
    let p = polynomial(r, [1.393_535_4e-3, 8.363_297e-3, 4.166_646_3e-2, 1.666_657_6e-1, 0.5]);
    (r * r).mul_add(p, r)
}

/// `e^r` for `|r| <= ln2 / 2`.
#[inline(always)]
fn exp_small<V: Float>(r: V) -> V {
    polynomial(r, [1.393_535_4e-3, 8.363_297e-3, 4.166_646_3e-2, 1.666_657_6e-1, 0.5, 1.0, 1.0])
}

/// `x = n * ln2 + r` with `|r| <= ln2 / 2`; gives (n, r).
#[inline(always)]
fn split_ln2<V: Float>(x: V) -> (V, V) {
    let n = x.nearest(LOG2_E);
    (n, n.mul_add(x.lit(-LN2_LOW), n.mul_add(x.lit(-LN2_HIGH), x)))
}

/// `e^x`
#[inline(always)]
pub fn exp<V: Float>(x: V) -> V {
    let (n, r) = split_ln2(x.held(-105.0, 89.0));
    exp_small(r).ldexp(n)
}

/// The `n` of `e^x = 2^n * e^r`, as a number.
#[inline(always)]
pub fn exp_power<V: Float>(x: V) -> V {
    split_ln2(x).0
}

/// The `e^r` of `e^x = 2^n * e^r`, between 0.7 and 1.5.
#[inline(always)]
pub fn exp_rest<V: Float>(x: V) -> V {
    exp_small(split_ln2(x).1)
}

/// `2^f` for `|f| <= 1/2`.
#[inline(always)]
pub(super) fn exp2_small<V: Float>(f: V) -> V {
    let c = [1.545_687_4e-4, 1.338_829_9e-3, 9.618_076e-3, 5.550_365_5e-2, 2.402_265_1e-1, std::f64::consts::LN_2];
    polynomial(f, c).mul_add(f, f.lit(1.0))
}

/// `2^x`
#[inline(always)]
pub fn exp2<V: Float>(x: V) -> V {
    let x = x.held(-151.0, 129.0);
    let n = x.nearest(1.0);
    exp2_small(x - n).ldexp(n)
}

/// `e^x - 1`
#[inline(always)]
pub fn expm1<V: Float>(x: V) -> V {
    let held = x.held(-20.0, 89.0);
    let (n, r) = split_ln2(held);
    // 2^n * (e^r - 1) + (2^n - 1), halved so that 2^n does not overflow before the result does.
    let half = x.lit(1.0).ldexp(n - 1.0);
    let sum = expm1_small(r).mul_add(half, half - 0.5);
    V::pick(x.abs().lt(x.lit(1e-8)), x, sum + sum)
}

/// `e^a / 2` for `a >= 0`; overflows only where sinh and cosh do.
#[inline(always)]
fn half_exp<V: Float>(a: V) -> V {
    let (n, r) = split_ln2(a.smaller(a.lit(90.0)));
    exp_small(r).ldexp(n - 1.0)
}

/// Hyperbolic sine.
#[inline(always)]
pub fn sinh<V: Float>(x: V) -> V {
    let a = x.abs();
    let z = a * a;
    let p = polynomial(z, [2.759_107e-6, 1.984_635_9e-4, 8.333_298e-3, 1.666_666_7e-1]);
    let near = (p * z).mul_add(a, a);
    let half = half_exp(a);
    let far = half - half.lit(0.25) / half;
    V::pick(a.lt(a.lit(1.0)), near, far).signed_like(x)
}

/// Hyperbolic cosine.
#[inline(always)]
pub fn cosh<V: Float>(x: V) -> V {
    let half = half_exp(x.abs());
    half + half.lit(0.25) / half
}

/// Hyperbolic tangent. With `|x| = n * ln2 / 2 + r` and `t` that of `r`, it is `(2^n - 1 + t * (2^n + 1)) / (2^n + 1 + t * (2^n - 1))`.
#[inline(always)]
pub fn tanh<V: Float>(x: V) -> V {
    // Beyond 9.02 it is 1, and up to there what ln2 / 2 loses in f32, 1e-9, does not matter in `r`.
    let a = x.abs().held(f64::NEG_INFINITY, 9.1);
    let n = a.nearest(2.0 * LOG2_E);
    let r = n.mul_add(x.lit(-0.5 * std::f64::consts::LN_2), a);
    let z = r * r;
    let t = (r * z).mul_add(polynomial(z, [1.310_979_3e-1, -3.333_125_7e-1]), r);
    let power = x.lit(1.0).ldexp(n);
    let (less, more) = (power - 1.0, power + 1.0);
    t.mul_add(more, less).quotient(t.mul_add(less, more)).signed_like(x)
}
