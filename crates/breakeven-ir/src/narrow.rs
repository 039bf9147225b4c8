//! Rounding to the 16-bit floats, once, from anything wider: nearest, ties to even, beyond the largest to infinity.

use half::{bf16, f16};

use crate::DType;

/// The bits of the f16 nearest to `x`. NaN stays NaN.
pub fn f16_bits(x: f64) -> u16 {
    f16::from_f32(to_odd(x)).to_bits()
}

/// The bits of the bf16 nearest to `x`. NaN stays NaN.
pub fn bf16_bits(x: f64) -> u16 {
    bf16::from_f32(to_odd(x)).to_bits()
}

/// The number of float type `dtype` nearest to `x`; `x` itself for other types.
pub fn nearest(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::F32 => f64::from(x as f32),
        DType::F16 => f16::from_bits(f16_bits(x)).to_f64(),
        DType::BF16 => bf16::from_bits(bf16_bits(x)).to_f64(),
        _ => x,
    }
}

/// `x` as a double from which every narrower float is rounded as if from `x` itself: what 53 bits cannot hold is kept as
/// one odd bit.
pub fn integer_to_odd(x: i128) -> f64 {
    const LOW: i128 = 0xFFFF;
    let kept =
        if x.unsigned_abs() >> f64::MANTISSA_DIGITS == 0 { x } else { (x & !LOW) | i128::from(x & LOW != 0) << 16 };
    kept as f64
}

/// `x` towards zero, with the last bit set where that lost something: rounding the result to fewer bits is then rounding
/// `x` once, since no tie is mistaken for one.
pub fn to_odd(x: f64) -> f32 {
    let near = x as f32;
    let back = f64::from(near);
    if back == x || x.is_nan() || near.is_infinite() {
        return near;
    }
    let towards_zero = near.to_bits() - u32::from(back.abs() > x.abs());
    f32::from_bits(towards_zero | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every finite f16 or bf16, its neighbour upwards, and what lies about their middle.
    fn check(bits: fn(f64) -> u16, value: fn(u16) -> f64, infinity: u16) {
        for low in 0..infinity {
            let (a, b) = (value(low), value(low + 1));
            let b = if b.is_infinite() { 2.0 * a - value(low - 1) } else { b };
            let middle = a + (b - a) / 2.0;
            let even = low + (low & 1);
            assert_eq!(bits(a), low);
            assert_eq!(bits(middle), even, "halfway above {a:e}");
            assert_eq!(bits(middle.next_down()), low, "just below halfway above {a:e}");
            assert_eq!(bits(middle.next_up()), low + 1, "just over halfway above {a:e}");
            assert_eq!(bits(-middle), even | 0x8000);
        }
        assert_eq!(bits(f64::INFINITY), infinity);
        assert_eq!(bits(1e300), infinity);
        assert_eq!(bits(5e-324), 0);
        assert!(value(bits(f64::NAN)).is_nan());
    }

    #[test]
    fn f16_is_rounded_once() {
        check(f16_bits, |b| f16::from_bits(b).to_f64(), 0x7C00);
    }

    #[test]
    fn bf16_is_rounded_once() {
        check(bf16_bits, |b| bf16::from_bits(b).to_f64(), 0x7F80);
    }

    #[test]
    fn long_integers_are_rounded_once() {
        let halfway = (1i128 << 62) + (1 << 54);
        let at = |x: i128| bf16::from_bits(bf16_bits(integer_to_odd(x))).to_f64();
        assert_eq!(at(halfway), 2f64.powi(62), "a tie goes to even");
        assert_eq!(at(halfway + 1), 2f64.powi(62) + 2f64.powi(55));
        assert_eq!(at(-halfway - 1), -2f64.powi(62) - 2f64.powi(55));
        assert_eq!(at(halfway - 1), 2f64.powi(62));
    }
}
