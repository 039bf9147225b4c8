//! Quarter turns: taking whole multiples of pi/2 off an angle, for every finite f32.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// 2/pi after the binary point, most significant word first.
const TWO_OVER_PI: [u64; 4] =
    [0xA2F9_836E_4E44_1529, 0xFC27_57D1_F534_DDC0, 0xDB62_9599_3C43_9041, 0xFE51_63AB_DEBB_C561];

/// Vectors of angles that are not large.
pub(super) mod turns {
    use fearless_simd::{Simd, SimdFloat, SimdNarrow, SimdWiden};

    use super::FRAC_2_PI;
    use crate::lanes::Lanes;

    /// Up to here, the product of the quotient and [`PI_2_HIGH`] is exact.
    pub const FAST: f32 = 1e6;
    /// pi/2 to 33 bits.
    pub const PI_2_HIGH: f64 = 1.570_796_326_734_125_6;
    /// What is left of it.
    pub const PI_2_LOW: f64 = 6.077_100_506_506_192e-11;

    #[inline(always)]
    fn wide<S: Simd>(x: Lanes<S>, f: impl Fn(S::f64s) -> S::f64s) -> Lanes<S> {
        let (low, high) = x.0.widen();
        Lanes(f(low).narrow(f(high)))
    }

    #[inline(always)]
    fn quotient<S: Simd>(x: S::f64s) -> S::f64s {
        (x * FRAC_2_PI).round_ties_even()
    }

    #[inline(always)]
    pub fn rest<S: Simd>(x: Lanes<S>) -> Lanes<S> {
        wide(x, |x| {
            let k = quotient::<S>(x);
            (x - k * PI_2_HIGH) - k * PI_2_LOW
        })
    }

    #[inline(always)]
    pub fn quadrant<S: Simd>(x: Lanes<S>) -> Lanes<S> {
        wide(x, |x| {
            let k = quotient::<S>(x);
            k - (k * 0.25).floor() * 4.0
        })
    }
}

/// `x - k * pi/2` and `k` modulo 4, for any `x`; NaN for what is not finite.
#[inline(never)]
pub(super) fn rest_and_quadrant(x: f32) -> (f32, f32) {
    if !x.is_finite() {
        return (f32::NAN, 0.0);
    }
    if x.abs() < turns::FAST {
        let k = (f64::from(x) * FRAC_2_PI).round_ties_even();
        let rest = (f64::from(x) - k * turns::PI_2_HIGH) - k * turns::PI_2_LOW;
        return (rest as f32, k.rem_euclid(4.0) as f32);
    }
    let (rest, quadrant) = large(x.abs());
    if x < 0.0 { (-rest as f32, ((4 - quadrant) % 4) as f32) } else { (rest as f32, quadrant as f32) }
}

/// Payne and Hanek: only the bits of 2/pi matter whose product with `x` is neither a multiple of 4 nor below the result.
fn large(x: f32) -> (f64, u32) {
    let exponent = (x.to_bits() >> 23) as i32 - 127 - 23;
    let mantissa = u64::from(x.to_bits() & 0x7F_FFFF | 0x80_0000);
    // Bits `exponent - 2` and on of 2/pi, so that a whole turn is 2^128.
    let window = bits_from(exponent - 2);
    let product = window.wrapping_mul(u128::from(mantissa));
    let quadrant = (product >> 126) as u32;
    let fraction = (product << 2) as i128;
    // At half a quarter and above, the nearest whole number is the next one and the rest is negative.
    let quadrant = if fraction < 0 { (quadrant + 1) % 4 } else { quadrant };
    (fraction as f64 / 2f64.powi(128) * FRAC_PI_2, quadrant)
}

/// 128 bits of 2/pi starting after bit `from` of its fraction; zeros before the point.
fn bits_from(from: i32) -> u128 {
    let word = |i: i32| TWO_OVER_PI.get(i as usize).map_or(0, |&w| u128::from(w));
    if from < 0 {
        return (word(0) << 64 | word(1)) >> -from;
    }
    let (skip, shift) = (from / 64, from % 64);
    let high = word(skip) << 64 | word(skip + 1);
    if shift == 0 { high } else { high << shift | word(skip + 2) >> (64 - shift) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_angles_are_reduced_exactly() {
        // From a 200-digit computation of x mod pi/2.
        let check = |x: f32, sin: f64| {
            let (rest, quadrant) = rest_and_quadrant(x);
            let (s, c) = f64::from(rest).sin_cos();
            let got = [s, c, -s, -c][quadrant as usize];
            assert!((got - sin).abs() < 1e-7, "{x}: {got} {sin}");
        };
        check(1e22, f64::from(1e22f32).sin());
        for x in [1.5e4f32, 1e6, 123_456_790.0, 3.4e38, -1e30, 8_388_608.5] {
            check(x, libm::sin(f64::from(x)));
        }
    }
}
