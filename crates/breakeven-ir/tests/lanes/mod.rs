//! Lanes of one element, so that rows run here: f32 as three kinds of device round it, and f64 as the truth.
#![allow(dead_code, unused_imports, reason = "each test file uses a part")]

mod double;
mod single;
mod table;

pub use double::Double;
pub use single::{FLUSHED, FUSED, Single, UNFUSED};
pub use table::{Block, call, unary_rows};

use std::ops::{BitAnd, BitOr, BitXor, Not};

/// A truth value of one lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Truth(pub bool);

impl breakeven_ir::Mask for Truth {}
impl Not for Truth {
    type Output = Self;
    fn not(self) -> Self {
        Truth(!self.0)
    }
}
impl BitAnd for Truth {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Truth(self.0 & other.0)
    }
}
impl BitOr for Truth {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Truth(self.0 | other.0)
    }
}
impl BitXor for Truth {
    type Output = Self;
    fn bitxor(self, other: Self) -> Self {
        Truth(self.0 ^ other.0)
    }
}

/// Distance of `got` from `want` in units in the last place of a f32; infinite when NaN, infinity or the sign of zero
/// are not as wanted. Infinity counts as 2^128, so that overflow at the right place is no error.
pub fn ulps(got: f32, want: f64) -> f64 {
    if got.is_nan() || want.is_nan() {
        return if got.is_nan() && want.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got == 0.0 && got.is_sign_negative() != want.is_sign_negative() {
        return f64::INFINITY;
    }
    let top = 2f64.powi(128);
    let held = |x: f64| x.clamp(-top, top);
    (held(f64::from(got)) - held(want)).abs() / ulp(want)
}

/// One unit in the last place of the f32 nearest to `x`.
fn ulp(x: f64) -> f64 {
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i64 - 1023;
    let place = exponent.clamp(-126, 127) - 23;
    f64::from_bits(((place + 1023) as u64) << 52)
}
