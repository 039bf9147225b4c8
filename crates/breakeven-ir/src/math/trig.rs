//! Sine and its relatives.

use super::polynomial;
use crate::Float;

const HALF_PI: f64 = 1.570_796_370_506_286_6;
/// What [`HALF_PI`], a f32, lacks.
const HALF_PI_LOW: f64 = -4.371_139_000_186_241e-8;

/// sin(r) for `|r| <= pi/4`; a product, so that the sign of zero is kept.
#[inline(always)]
fn sin_small<V: Float>(r: V) -> V {
    let z = r * r;
    let p = polynomial(z, [2.916_588_3e-6, -1.986_084e-4, 8.333_396e-3, -1.666_666_7e-1]);
    r * p.mul_add(z, z.lit(1.0))
}

/// cos(r) for `|r| <= pi/4`.
#[inline(always)]
fn cos_small<V: Float>(r: V) -> V {
    let z = r * r;
    let p = polynomial(z, [2.454_362_8e-5, -1.388_827_1e-3, 4.166_666_4e-2]);
    z.mul_add(p.mul_add(z, z.lit(-0.5)), z.lit(1.0))
}

/// True where a quadrant in -1..=4 is odd.
#[inline(always)]
fn is_odd<V: Float>(quadrant: V) -> V::Mask {
    let half = quadrant * 0.5;
    !half.floor().eq(half)
}

/// `turn_rest`, which may lose the sign of zero.
#[inline(always)]
fn rest<V: Float>(x: V) -> V {
    V::pick(x.eq(x.lit(0.0)), x, x.turn_rest())
}

/// Sine.
#[inline(always)]
pub fn sin<V: Float>(x: V) -> V {
    let (r, q) = (rest(x), x.turn_quadrant());
    let value = V::pick(is_odd(q), cos_small(r), sin_small(r));
    V::pick(q.lit(1.0).lt(q), -value, value)
}

/// Cosine.
#[inline(always)]
pub fn cos<V: Float>(x: V) -> V {
    let (r, q) = (rest(x), x.turn_quadrant());
    let value = V::pick(is_odd(q), sin_small(r), cos_small(r));
    // Negative in quadrants 1 and 2.
    V::pick((q - 1.5).abs().lt(q.lit(1.0)), -value, value)
}

/// Tangent.
#[inline(always)]
pub fn tan<V: Float>(x: V) -> V {
    let r = rest(x);
    let z = r * r;
    let c =
        [3.906_454_4e-3, 1.067_382_4e-3, 1.004_515e-2, 2.159_383_9e-2, 5.399_863_4e-2, 1.333_320_6e-1, 3.333_333_4e-1];
    let t = (polynomial(z, c) * z).mul_add(r, r);
    V::pick(is_odd(x.turn_quadrant()), t.lit(-1.0) / t, t)
}

/// Arc tangent of `t` in 0..=1.
#[inline(always)]
fn atan_unit<V: Float>(t: V) -> V {
    let z = t * t;
    let c = [
        -2.476_516_9e-3,
        1.386_054_1e-2,
        -3.643_303e-2,
        6.296_260_7e-2,
        -8.677_477_4e-2,
        1.103_858_3e-1,
        -1.427_907e-1,
        1.999_975_1e-1,
        -3.333_333_1e-1,
    ];
    (polynomial(z, c) * z).mul_add(t, t)
}

/// Arc tangent.
#[inline(always)]
pub fn atan<V: Float>(x: V) -> V {
    let a = x.abs();
    let one = a.lit(1.0);
    let steep = one.lt(a);
    let angle = atan_unit(V::pick(steep, one, a) / V::pick(steep, a, one));
    V::pick(steep, -((angle - HALF_PI_LOW) - HALF_PI), angle).signed_like(x)
}

/// Angle of the point (x, y).
#[inline(always)]
pub fn atan2<V: Float>(y: V, x: V) -> V {
    let (zero, a, b) = (x.lit(0.0), y.abs(), x.abs());
    let steep = b.lt(a);
    let (long, short) = (V::pick(steep, a, b), V::pick(steep, b, a));
    // Some GPUs divide badly by the largest numbers.
    let scale = V::pick(x.lit(1e30).lt(long), x.lit(2f64.powi(-40)), x.lit(1.0));
    let ratio = (short * scale) / (long * scale);
    let ratio = V::pick(short.eq(zero) & !long.is_nan(), zero, V::pick(short.eq(long), x.lit(1.0), ratio));
    let angle = atan_unit(ratio);
    let base = V::pick(steep, x.lit(HALF_PI), V::pick(x.is_negative(), x.lit(2.0 * HALF_PI), zero));
    let turned = V::pick(steep ^ x.is_negative(), -angle, angle);
    (base + base.mul_add(x.lit(HALF_PI_LOW / HALF_PI), turned)).signed_like(y)
}

/// `(arc sine of s, s)` for `s` the nearer of `a` and, where `a` is past a half, the sine of half the complement.
#[inline(always)]
fn asin_half<V: Float>(a: V) -> (V::Mask, V) {
    let far = a.lit(0.5).lt(a);
    let complement = (a - 1.0) * -0.5;
    let z = V::pick(far, complement, a * a);
    let s = V::pick(far, complement.sqrt(), a);
    let c = [3.832_804_4e-2, 2.643_353_7e-2, 4.502_017_4e-2, 7.498_762e-2, 1.666_667_3e-1];
    (far, (polynomial(z, c) * z).mul_add(s, s))
}

/// Arc sine.
#[inline(always)]
pub fn asin<V: Float>(x: V) -> V {
    let (far, half) = asin_half(x.abs());
    V::pick(far, -((half + half - HALF_PI_LOW) - HALF_PI), half).signed_like(x)
}

/// Arc cosine.
#[inline(always)]
pub fn acos<V: Float>(x: V) -> V {
    let (far, half) = asin_half(x.abs());
    let near = -((half.signed_like(x) - HALF_PI_LOW) - HALF_PI);
    let twice = half + half;
    let left = -((twice - 2.0 * HALF_PI_LOW) - 2.0 * HALF_PI);
    V::pick(far, V::pick(x.is_negative(), left, twice), near)
}
