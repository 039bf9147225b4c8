//! Logarithms.

use crate::Float;

/// `x = m * 2^e` with `m` in [sqrt(1/2), sqrt(2)); gives (m - 1, e) for a positive finite `x`.
fn split<V: Float>(x: V) -> (V, V) {
    let e = x.exponent();
    // Two steps, since 2^-e of the smallest denormal is out of range.
    let m = x.ldexp(-e);
    let big = x.lit(std::f64::consts::SQRT_2).lt(m);
    (V::pick(big, m * 0.5, m) - 1.0, V::pick(big, e + 1.0, e))
}

/// `ln(1 + f) - f` for `f` in [sqrt(1/2) - 1, sqrt(2) - 1).
fn tail<V: Float>(f: V) -> V {
    let coefficients = [
        -1.151_461_03e-1,
        1.167_699_87e-1,
        -1.242_014_08e-1,
        1.424_932_28e-1,
        -1.666_805_77e-1,
        2.000_071_48e-1,
        -2.499_999_4e-1,
        3.333_333_1e-1,
    ];
    let p = coefficients.iter().fold(f.lit(7.037_683_63e-2), |p, &c| p.mul_add(f, f.lit(c)));
    let square = f * f;
    square.mul_add(p * f, square * -0.5)
}

/// Infinity, NaN, zero and negative numbers, for a logarithm that is `usual` elsewhere.
fn edges<V: Float>(x: V, usual: V) -> V {
    let zero = x.lit(0.0);
    let finite = V::pick(x.is_inf() | x.is_nan(), x, usual);
    let positive = V::pick(x.lt(zero), x.lit(f64::NAN), finite);
    V::pick(x.eq(zero), x.lit(f64::NEG_INFINITY), positive)
}

/// Natural logarithm.
pub fn ln<V: Float>(x: V) -> V {
    let (f, e) = split(x);
    let low = e.mul_add(x.lit(-2.121_944_4e-4), tail(f));
    edges(x, e.mul_add(x.lit(0.693_359_375), f + low))
}

/// Logarithm to base 2.
pub fn log2<V: Float>(x: V) -> V {
    let (f, e) = split(x);
    let t = tail(f);
    // log2(e) is 1 + 0.4427: products with the small part keep the low bits.
    let part = x.lit(std::f64::consts::LOG2_E - 1.0);
    let low = t.mul_add(part, f * part) + t;
    edges(x, (low + f) + e)
}

/// Logarithm to base 10.
pub fn log10<V: Float>(x: V) -> V {
    let (f, e) = split(x);
    let t = tail(f);
    let low = e.mul_add(x.lit(2.487_454_7e-4), t * std::f64::consts::LOG10_E);
    let high = f.mul_add(x.lit(std::f64::consts::LOG10_E), e * 3.007_812_5e-1);
    edges(x, high + low)
}

/// `ln(1 + x)`
pub fn log1p<V: Float>(x: V) -> V {
    let u = x + 1.0;
    let lost = (x - (u - 1.0)) / u;
    let usual = u.ln() + V::pick(u.is_inf(), x.lit(0.0), lost);
    V::pick(x.abs().lt(x.lit(1e-7)), x, edges(u, usual))
}
