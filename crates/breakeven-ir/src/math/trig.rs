//! Sine and its relatives.

use super::exp::with_sign_of;
use crate::Float;

/// sin(r) for `|r| <= pi/4`.
fn sin_small<V: Float>(r: V) -> V {
    let z = r * r;
    let p = z.lit(-1.951_529_6e-4).mul_add(z, z.lit(8.332_161e-3)).mul_add(z, z.lit(-1.666_665_5e-1));
    (p * z).mul_add(r, r)
}

/// cos(r) for `|r| <= pi/4`.
fn cos_small<V: Float>(r: V) -> V {
    let z = r * r;
    let p = z.lit(2.443_315_7e-5).mul_add(z, z.lit(-1.388_731_6e-3)).mul_add(z, z.lit(4.166_664_6e-2));
    (p * z).mul_add(z, z * -0.5) + 1.0
}

/// sin(r + quadrant * pi/2)
fn quarter<V: Float>(r: V, quadrant: V) -> V {
    let one = r.lit(1.0);
    let odd = quadrant.eq(one) | quadrant.eq(r.lit(3.0));
    let value = V::pick(odd, cos_small(r), sin_small(r));
    V::pick(one.lt(quadrant), -value, value)
}

/// Sine.
pub fn sin<V: Float>(x: V) -> V {
    quarter(x.turn_rest(), x.turn_quadrant())
}

/// Cosine.
pub fn cos<V: Float>(x: V) -> V {
    let q = x.turn_quadrant() + 1.0;
    quarter(x.turn_rest(), V::pick(q.eq(q.lit(4.0)), q.lit(0.0), q))
}

/// Tangent.
pub fn tan<V: Float>(x: V) -> V {
    x.sin() / x.cos()
}

/// Arc tangent of `a >= 0`, infinity included.
fn atan_positive<V: Float>(a: V) -> V {
    let big = a.lit(2.414_213_562_373_095).lt(a);
    let mid = a.lit(0.414_213_562_373_095).lt(a);
    let moved = V::pick(big, -a.recip(), V::pick(mid, (a - 1.0) / (a + 1.0), a));
    let base =
        V::pick(big, a.lit(std::f64::consts::FRAC_PI_2), V::pick(mid, a.lit(std::f64::consts::FRAC_PI_4), a.lit(0.0)));
    let z = moved * moved;
    let p = z.lit(8.053_744_5e-2).mul_add(z, z.lit(-1.387_768_6e-1)).mul_add(z, z.lit(1.997_771_1e-1));
    base + (p.mul_add(z, z.lit(-3.333_294_9e-1)) * z).mul_add(moved, moved)
}

/// Arc tangent.
pub fn atan<V: Float>(x: V) -> V {
    with_sign_of(atan_positive(x.abs()), x)
}

/// Angle of the point (x, y).
pub fn atan2<V: Float>(y: V, x: V) -> V {
    (y / x).atan()
}

/// Arc sine.
pub fn asin<V: Float>(x: V) -> V {
    -(acos(x) - std::f64::consts::FRAC_PI_2)
}

/// Arc cosine.
pub fn acos<V: Float>(x: V) -> V {
    atan2((-(x * x - 1.0)).sqrt(), x)
}
