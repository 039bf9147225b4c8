//! Rounding to the width of a type, and stepping from one of its numbers to the next.

use breakeven_ir::DType;
use half::{bf16, f16};

/// The number of `dtype` nearest to `x`.
pub fn round(dtype: DType, x: f64) -> f64 {
    breakeven_ir::narrow::nearest(dtype, x)
}

/// The number of `dtype` that lies `steps` after `x`, which is one of them; infinity comes after the largest.
pub fn step(dtype: DType, x: f64, steps: i64) -> f64 {
    match dtype {
        _ if steps == 0 => x,
        DType::F32 => {
            let bits = moved(i64::from((x as f32).to_bits()), 31, 0x7F80_0000, steps);
            f64::from(f32::from_bits(bits as u32))
        }
        DType::F16 => f16::from_bits(moved(i64::from(f16::from_f64(x).to_bits()), 15, 0x7C00, steps) as u16).to_f64(),
        DType::BF16 => {
            bf16::from_bits(moved(i64::from(bf16::from_f64(x).to_bits()), 15, 0x7F80, steps) as u16).to_f64()
        }
        DType::F64 => {
            let magnitude = x.abs().to_bits() as i64;
            let place = (if x.is_sign_negative() { -magnitude } else { magnitude }).saturating_add(steps);
            let place = place.clamp(-(f64::INFINITY.to_bits() as i64), f64::INFINITY.to_bits() as i64);
            f64::from_bits(place.unsigned_abs()).copysign(place as f64)
        }
        _ => x,
    }
}

/// Sign-and-magnitude bits moved along the number line.
fn moved(bits: i64, sign_bit: u32, infinity: i64, steps: i64) -> i64 {
    let sign = 1 << sign_bit;
    let place = if bits & sign != 0 { -(bits & (sign - 1)) } else { bits };
    let place = (place + steps).clamp(-infinity, infinity);
    if place < 0 { sign | -place } else { place }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_go_through_zero_and_stop_at_infinity() {
        assert_eq!(step(DType::F32, 1.0, 1), f64::from(1.0f32.next_up()));
        assert_eq!(step(DType::F32, 0.0, -1), f64::from(-f32::from_bits(1)));
        assert_eq!(step(DType::F32, f64::from(f32::MAX), 1), f64::INFINITY);
        assert_eq!(step(DType::F32, f64::INFINITY, 4), f64::INFINITY);
        assert_eq!(step(DType::F64, -1.0, 1), (-1f64).next_up());
        assert_eq!(step(DType::F16, 65504.0, 1), f64::INFINITY);
    }
}
