//! One element, as the reference computes it: floats in double precision, integers in 128 bits wrapped to their type.

use std::cmp::Ordering;

use half::{bf16, f16};

use crate::narrow::{bf16_bits, f16_bits, integer_to_odd, nearest};
use crate::{Body, DType, Inst, Prim};

/// One element of any type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A float of any width.
    F(f64),
    /// An integer of any width.
    I(i128),
    /// A truth value.
    B(bool),
}

impl Scalar {
    /// The number `c` in type `dtype`: saturating from float to integer, NaN to 0, anything but 0 to true.
    pub fn of(dtype: DType, c: f64) -> Scalar {
        Scalar::F(c).cast(dtype)
    }

    /// Element `index` of a storage of `dtype`.
    pub fn load(dtype: DType, bytes: &[u8], index: usize) -> Scalar {
        macro_rules! at {
            ($t:ty) => {
                <$t>::from_le_bytes(bytes[index * size_of::<$t>()..][..size_of::<$t>()].try_into().expect("sized"))
            };
        }
        match dtype {
            DType::F64 => Scalar::F(at!(f64)),
            DType::F32 => Scalar::F(f64::from(at!(f32))),
            DType::F16 => Scalar::F(f16::from_bits(at!(u16)).to_f64()),
            DType::BF16 => Scalar::F(bf16::from_bits(at!(u16)).to_f64()),
            DType::I64 => Scalar::I(i128::from(at!(i64))),
            DType::I32 => Scalar::I(i128::from(at!(i32))),
            DType::I16 => Scalar::I(i128::from(at!(i16))),
            DType::I8 => Scalar::I(i128::from(at!(i8))),
            DType::U64 => Scalar::I(i128::from(at!(u64))),
            DType::U32 => Scalar::I(i128::from(at!(u32))),
            DType::U16 => Scalar::I(i128::from(at!(u16))),
            DType::U8 => Scalar::I(i128::from(at!(u8))),
            DType::Bool => Scalar::B(bytes[index] != 0),
        }
    }

    /// Write as element `index` of a storage of `dtype`, rounding to its width.
    pub fn store(self, dtype: DType, bytes: &mut [u8], index: usize) {
        let width = dtype.bytes();
        let place = &mut bytes[index * width..][..width];
        match (self.cast(dtype), dtype) {
            (Scalar::F(x), DType::F64) => place.copy_from_slice(&x.to_le_bytes()),
            (Scalar::F(x), DType::F32) => place.copy_from_slice(&(x as f32).to_le_bytes()),
            (Scalar::F(x), DType::F16) => place.copy_from_slice(&f16_bits(x).to_le_bytes()),
            (Scalar::F(x), _) => place.copy_from_slice(&bf16_bits(x).to_le_bytes()),
            (Scalar::I(x), _) => place.copy_from_slice(&x.to_le_bytes()[..width]),
            (Scalar::B(x), _) => place[0] = u8::from(x),
        }
    }

    /// As a float; 0 or 1 for a truth value.
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::F(x) => x,
            Scalar::I(x) => x as f64,
            Scalar::B(x) => f64::from(u8::from(x)),
        }
    }

    /// The same number in another type.
    pub fn cast(self, dtype: DType) -> Scalar {
        match (dtype, self) {
            (DType::Bool, _) => Scalar::B(self.to_f64() != 0.0),
            (DType::F16 | DType::BF16 | DType::F32, Scalar::I(x)) => Scalar::F(integer_to_odd(x)),
            (d, _) if d.is_float() => Scalar::F(self.to_f64()),
            (d, Scalar::F(x)) => {
                let (low, high) = range(d);
                Scalar::I((x as i128).clamp(low, high))
            }
            (d, Scalar::I(x)) => Scalar::I(wrap(d, x)),
            (_, Scalar::B(x)) => Scalar::I(i128::from(x)),
        }
    }

    /// The nearest number that `dtype` has: what a device holds that was given this one.
    pub(crate) fn rounded(self, dtype: DType) -> Scalar {
        if let Scalar::F(x) = self { Scalar::F(nearest(dtype, x)) } else { self }
    }

    fn int(self) -> i128 {
        match self {
            Scalar::I(x) => x,
            Scalar::B(x) => i128::from(x),
            Scalar::F(x) => x as i128,
        }
    }

    /// Which of two elements of one type comes first in order: by size, NaN behind all numbers; -0 equals 0.
    pub fn order(self, other: Scalar) -> Ordering {
        if let (Scalar::I(a), Scalar::I(b)) = (self, other) {
            return a.cmp(&b);
        }
        let (a, b) = (self.to_f64(), other.to_f64());
        a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
    }

    /// True unless it is 0.
    pub fn truth(self) -> bool {
        self.to_f64() != 0.0
    }
}

/// Lowest and highest value of an integer type.
fn range(dtype: DType) -> (i128, i128) {
    let bits = 8 * dtype.bytes() as u32;
    match dtype {
        DType::U64 | DType::U32 | DType::U16 | DType::U8 => (0, (1 << bits) - 1),
        _ => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    }
}

fn wrap(dtype: DType, x: i128) -> i128 {
    let (low, high) = range(dtype);
    (x - low).rem_euclid(high - low + 1) + low
}

impl Body {
    /// What the body means: every step in double precision (or 128-bit integers wrapped to their type).
    pub fn eval(&self, args: &[Scalar], params: &[f64]) -> Scalar {
        let mut values: Vec<Scalar> = Vec::with_capacity(self.insts.len());
        for &(inst, dtype) in &self.insts {
            let value = match inst {
                Inst::Arg(i) => args[i as usize],
                Inst::Param(i) => Scalar::of(dtype, params[i as usize]).rounded(dtype),
                Inst::Const(c) => Scalar::of(dtype, c),
                Inst::Cast(id) => values[id as usize].cast(dtype).rounded(dtype),
                Inst::Prim(prim, ids) => eval(prim, ids.map(|id| values[id as usize]), dtype),
            };
            values.push(value);
        }
        *values.last().expect("a body has a result")
    }
}

fn eval(prim: Prim, [a, b, c]: [Scalar; 3], dtype: DType) -> Scalar {
    match (prim, a) {
        (Prim::Pick, _) => {
            if a.truth() {
                b
            } else {
                c
            }
        }
        (_, Scalar::F(x)) => eval_float(prim, x, b.to_f64(), c.to_f64()),
        (_, Scalar::B(x)) => Scalar::B(eval_logic(prim, x, b.truth())),
        (_, Scalar::I(x)) => eval_int(prim, x, b.int(), dtype),
    }
}

fn eval_logic(prim: Prim, a: bool, b: bool) -> bool {
    match prim {
        Prim::And => a & b,
        Prim::Or => a | b,
        Prim::Xor => a ^ b,
        Prim::Not => !a,
        Prim::Eq => a == b,
        other => unreachable!("{other:?} is not defined for truth values"),
    }
}

fn eval_int(prim: Prim, a: i128, b: i128, dtype: DType) -> Scalar {
    let bits = 8 * dtype.bytes() as i128;
    Scalar::I(match prim {
        Prim::Lt => return Scalar::B(a < b),
        Prim::Le => return Scalar::B(a <= b),
        Prim::Eq => return Scalar::B(a == b),
        Prim::Add => a + b,
        Prim::Sub => a - b,
        Prim::Mul => a.wrapping_mul(b),
        Prim::Div => a.checked_div(b).unwrap_or(0),
        Prim::Rem => a.checked_rem(b).unwrap_or(0),
        Prim::Neg => -a,
        Prim::Abs => a.abs(),
        Prim::Larger => a.max(b),
        Prim::Smaller => a.min(b),
        Prim::And => a & b,
        Prim::Or => a | b,
        Prim::Xor => a ^ b,
        Prim::Not => !a,
        Prim::Shl => a << b.rem_euclid(bits),
        Prim::Shr => a >> b.rem_euclid(bits),
        other => unreachable!("{other:?} is not defined for integers"),
    })
    .cast(dtype)
}

fn eval_float(prim: Prim, a: f64, b: f64, c: f64) -> Scalar {
    let nan_or = |x: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { x };
    Scalar::F(match prim {
        Prim::Lt => return Scalar::B(a < b),
        Prim::Le => return Scalar::B(a <= b),
        Prim::Eq => return Scalar::B(a == b),
        Prim::IsNan => return Scalar::B(a.is_nan()),
        Prim::IsInf => return Scalar::B(a.is_infinite()),
        Prim::IsNegative => return Scalar::B(a.is_sign_negative()),
        Prim::Add => a + b,
        Prim::Sub => a - b,
        Prim::Mul => a * b,
        Prim::Div | Prim::Quotient => a / b,
        Prim::Nearest => (a * b).round_ties_even(),
        Prim::Rem => a % b,
        Prim::Neg => -a,
        Prim::Abs => a.abs(),
        Prim::Larger => nan_or(a.max(b)),
        Prim::Smaller => nan_or(a.min(b)),
        Prim::Floor => a.floor(),
        Prim::Ceil => a.ceil(),
        Prim::Trunc => a.trunc(),
        Prim::Round => a.round_ties_even(),
        Prim::Sqrt => a.sqrt(),
        Prim::MulAdd => a.mul_add(b, c),
        Prim::Ldexp => libm::ldexp(a, b as i32),
        Prim::Exponent => f64::from(libm::ilogb(a)),
        Prim::TurnRest => turn(a).0,
        Prim::TurnQuadrant => turn(a).1,
        other => eval_function(other, a, b),
    })
}

/// `x = k * pi/2 + rest` for the whole number `k` that leaves the least rest: (rest, k modulo 4). The sine and cosine
/// tell both, and they are right for every `x`; their quotient loses nothing where the rest is small.
fn turn(x: f64) -> (f64, f64) {
    let (sin, cos) = x.sin_cos();
    if sin.abs() <= cos.abs() {
        ((sin / cos).atan(), if cos < 0.0 { 2.0 } else { 0.0 })
    } else {
        ((-cos / sin).atan(), if sin < 0.0 { 3.0 } else { 1.0 })
    }
}

fn eval_function(prim: Prim, a: f64, b: f64) -> f64 {
    match prim {
        Prim::Exp => a.exp(),
        Prim::Exp2 => a.exp2(),
        Prim::Expm1 => a.exp_m1(),
        Prim::Ln => a.ln(),
        Prim::Log1p => a.ln_1p(),
        Prim::Log2 => a.log2(),
        Prim::Log10 => a.log10(),
        Prim::Sin => a.sin(),
        Prim::Cos => a.cos(),
        Prim::Tan => a.tan(),
        Prim::Asin => a.asin(),
        Prim::Acos => a.acos(),
        Prim::Atan => a.atan(),
        Prim::Atan2 => a.atan2(b),
        Prim::Sinh => a.sinh(),
        Prim::Cosh => a.cosh(),
        Prim::Tanh => a.tanh(),
        Prim::Erf => libm::erf(a),
        Prim::Erfc => libm::erfc(a),
        Prim::Pow => a.powf(b),
        other => unreachable!("{other:?} is not defined for floats"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_saturate_wrap_and_send_nan_to_zero() {
        assert_eq!(Scalar::F(300.0).cast(DType::U8), Scalar::I(255));
        assert_eq!(Scalar::F(f64::NAN).cast(DType::I32), Scalar::I(0));
        assert_eq!(Scalar::F(-1e30).cast(DType::I64), Scalar::I(i128::from(i64::MIN)));
        assert_eq!(Scalar::I(300).cast(DType::U8), Scalar::I(44));
        assert_eq!(Scalar::F(f64::NAN).cast(DType::Bool), Scalar::B(true));
    }

    #[test]
    fn parameters_are_held_in_the_type_of_the_row() {
        let expr = crate::Expr::row(crate::Row::named("leaky_relu").expect("a row"), DType::F32);
        let got = expr.lower().eval(&[Scalar::F(-1.0)], &[0.1]);
        assert_eq!(got, Scalar::F(-f64::from(0.1f32)));
    }

    #[test]
    fn integer_division_is_defined_everywhere() {
        assert_eq!(eval_int(Prim::Div, 7, 0, DType::I32), Scalar::I(0));
        assert_eq!(eval_int(Prim::Div, i128::from(i32::MIN), -1, DType::I32), Scalar::I(i128::from(i32::MIN)));
        assert_eq!(eval_int(Prim::Shl, 1, 33, DType::I32), Scalar::I(2));
    }
}
