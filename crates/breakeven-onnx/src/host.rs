//! Elements of tensors on the host.

use breakeven::{DType, Element, Result, Tensor, bf16, f16};

/// Runs `$body` with `$T` as the Rust type of `$dtype`.
macro_rules! with_element {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::F64 => {
                type $T = f64;
                $body
            }
            DType::F32 => {
                type $T = f32;
                $body
            }
            DType::F16 => {
                type $T = f16;
                $body
            }
            DType::BF16 => {
                type $T = bf16;
                $body
            }
            DType::I64 => {
                type $T = i64;
                $body
            }
            DType::I32 => {
                type $T = i32;
                $body
            }
            DType::I16 => {
                type $T = i16;
                $body
            }
            DType::I8 => {
                type $T = i8;
                $body
            }
            DType::U64 => {
                type $T = u64;
                $body
            }
            DType::U32 => {
                type $T = u32;
                $body
            }
            DType::U16 => {
                type $T = u16;
                $body
            }
            DType::U8 => {
                type $T = u8;
                $body
            }
            DType::Bool => {
                type $T = bool;
                $body
            }
        }
    };
}

/// A number that any element type can be read as.
trait Number: Element {
    fn float(self) -> f64;
    fn int(self) -> i64;
}

macro_rules! numbers {
    ($($t:ty: $self:ident => $float:expr, $int:expr;)+) => {$(
        impl Number for $t {
            fn float($self) -> f64 { $float }
            fn int($self) -> i64 { $int }
        }
    )+};
}
numbers! {
    f64: self => self, self as i64;
    f32: self => self as f64, self as i64;
    f16: self => self.to_f64(), self.to_f64() as i64;
    bf16: self => self.to_f64(), self.to_f64() as i64;
    i64: self => self as f64, self;
    i32: self => self as f64, self as i64;
    i16: self => self as f64, self as i64;
    i8: self => self as f64, self as i64;
    u64: self => self as f64, self as i64;
    u32: self => self as f64, self as i64;
    u16: self => self as f64, self as i64;
    u8: self => self as f64, self as i64;
    bool: self => f64::from(u8::from(self)), i64::from(self);
}

/// Elements as f64.
pub(crate) fn floats(tensor: &Tensor) -> Result<Vec<f64>> {
    with_element!(tensor.check()?.dtype, T => Ok(tensor.to_vec::<T>()?.into_iter().map(Number::float).collect()))
}

/// Elements as i64; fractions are cut off.
pub(crate) fn ints(tensor: &Tensor) -> Result<Vec<i64>> {
    with_element!(tensor.check()?.dtype, T => Ok(tensor.to_vec::<T>()?.into_iter().map(Number::int).collect()))
}
