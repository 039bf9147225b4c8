//! Arithmetic in a prime field of 31 bits, as rows: u32 in and out, and nothing wider in between.

use breakeven::{Tolerance, Word};

/// `15 * 2^27 + 1`, so that there are roots of unity for up to `2^27` points.
pub const PRIME: u32 = 2_013_265_921;
/// Its inverse modulo `2^32`.
pub const INVERSE: u32 = 2_281_701_377;
/// It generates all of the field but 0.
pub const GENERATOR: u32 = 31;

breakeven::row! {
    /// `a + b` in the field.
    pub static ADD = add: Word(a: V, b: V) -> V [Tolerance::EXACT] = {
        let (sum, prime) = (a + b, a.lit(f64::from(PRIME)));
        V::pick(sum.lt(prime), sum, sum - prime)
    };
}
breakeven::row! {
    /// `a - b` in the field.
    pub static SUB = sub: Word(a: V, b: V) -> V [Tolerance::EXACT] = {
        let difference = a - b;
        V::pick(a.lt(b), difference + a.lit(f64::from(PRIME)), difference)
    };
}
breakeven::row! {
    /// `a * b / 2^32` in the field, after Montgomery: with one factor in the form of [`shifted`] it is the product.
    pub static MUL = mul: Word(a: V, b: V) -> V [Tolerance::EXACT] = {
        let prime = a.lit(f64::from(PRIME));
        let quotient = a * b * a.lit(f64::from(INVERSE));
        sub(high(a, b), high(quotient, prime))
    };
}

/// The upper half of a product of 64 bits, from halves of 16 bits.
#[inline(always)]
#[allow(clippy::inline_always, reason = "a part of rows")]
fn high<V: Word>(a: V, b: V) -> V {
    let (mask, half) = (a.lit(65_535.0), a.lit(16.0));
    let (a0, a1, b0, b1) = (a & mask, a >> half, b & mask, b >> half);
    let first = a1 * b0 + ((a0 * b0) >> half);
    let second = a0 * b1 + (first & mask);
    a1 * b1 + (first >> half) + (second >> half)
}

/// The same on the host.
pub fn product(a: u32, b: u32) -> u32 {
    (u64::from(a) * u64::from(b) % u64::from(PRIME)) as u32
}

/// `base^exponent`.
pub fn power(base: u32, mut exponent: u32) -> u32 {
    let (mut result, mut square) = (1, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = product(result, square);
        }
        square = product(square, square);
        exponent >>= 1;
    }
    result
}

/// `2^32 * a`: the form of a factor that [`MUL`] takes.
pub fn shifted(a: u32) -> u32 {
    ((u64::from(a) << 32) % u64::from(PRIME)) as u32
}
