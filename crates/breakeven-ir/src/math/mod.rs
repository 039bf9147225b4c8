//! f32 functions made of the primitives that every device has, so that all devices compute the same thing.
//!
//! Each is within the tolerance that its row in `maps` states, for every f32, whether or not the device fuses
//! multiply and add; `ACCURACY.md` has what was measured. Polynomials are minimax, their coefficients f32.
#![allow(clippy::inline_always, reason = "a function must dissolve into the loop over lanes that calls it")]

mod exp;
mod log;
mod power;
mod random;
mod special;
mod trig;

use crate::Float;

pub use exp::{cosh, exp, exp_power, exp_rest, exp2, expm1, sinh, tanh};
pub use log::{ln, log1p, log2, log10};
pub use power::pow;
pub use random::threefry;
pub use special::{erf, erfc};
pub use trig::{acos, asin, atan, atan2, cos, sin, tan};

/// The polynomial in `x` with these coefficients, the highest power first.
#[inline(always)]
fn polynomial<V: Float, const N: usize>(x: V, coefficients: [f64; N]) -> V {
    let mut sum = x.lit(coefficients[0]);
    for &c in &coefficients[1..] {
        sum = sum.mul_add(x, x.lit(c));
    }
    sum
}

/// `x` rounded to a multiple of `1 / steps`, a power of two: a short number whose products with short numbers are exact.
#[inline(always)]
fn rounded_to<V: Float>(x: V, steps: f64) -> V {
    (x * steps).round() * steps.recip()
}
