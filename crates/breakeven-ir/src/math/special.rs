//! The error function and its complement.

use super::exp::with_sign_of;
use crate::Float;

/// Error function.
pub fn erf<V: Float>(x: V) -> V {
    let a = x.abs();
    with_sign_of(-(erfc(a) - 1.0), x)
}

/// `1 - erf(x)`
pub fn erfc<V: Float>(x: V) -> V {
    let a = x.abs();
    let t = (a * 0.5 + 1.0).recip();
    let c = [-0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368];
    let p = c.iter().fold(x.lit(0.17087277), |p, &c| p.mul_add(t, x.lit(c)));
    let tail = t * (p.mul_add(t, -(a * a) - 1.26551223)).exp();
    V::pick(x.is_negative(), -(tail - 2.0), tail)
}
