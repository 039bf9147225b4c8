//! `+ - * / %` and unary minus, for tensors and scalars.

use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

use crate::{DType, Tensor};

/// What may stand on the right of an operator: a tensor, or a number, which is weak as in Python. A whole number takes the
/// tensor's type (i64 beside bools); a float takes a float tensor's type, and makes f32 of integers and bools.
pub trait Operand {
    /// As a tensor beside `other`.
    fn beside(self, other: &Tensor) -> Tensor;
}

impl Operand for Tensor {
    fn beside(self, _: &Tensor) -> Tensor {
        self
    }
}

impl Operand for &Tensor {
    fn beside(self, _: &Tensor) -> Tensor {
        self.clone()
    }
}

macro_rules! scalars {
    ($($t:ty => $weak:ident),+) => {$(
        impl Operand for $t {
            fn beside(self, other: &Tensor) -> Tensor {
                other.$weak(f64::from(self))
            }
        }
    )+};
}
scalars!(f64 => float, f32 => float, i32 => whole, i16 => whole, i8 => whole, u32 => whole, u16 => whole, u8 => whole);

macro_rules! operators {
    ($($Trait:ident $method:ident),+ $(,)?) => {$(
        impl<T: Operand> $Trait<T> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: T) -> Tensor {
                let rhs = rhs.beside(self);
                Tensor::$method(self, &rhs)
            }
        }
        impl<T: Operand> $Trait<T> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: T) -> Tensor {
                let rhs = rhs.beside(&self);
                Tensor::$method(&self, &rhs)
            }
        }
        impl $Trait<&Tensor> for f64 {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: &Tensor) -> Tensor {
                Tensor::$method(&rhs.float(self), rhs)
            }
        }
        impl $Trait<Tensor> for f64 {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: Tensor) -> Tensor {
                Tensor::$method(&rhs.float(self), &rhs)
            }
        }
    )+};
}
operators!(Add add, Sub sub, Mul mul, Div div, Rem rem);

impl Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::neg(self)
    }
}

impl Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::neg(&self)
    }
}

impl Tensor {
    /// The number `value` in the type of this tensor; an integer or bool tensor beside a fraction meets it as f32.
    #[must_use]
    pub fn scalar(&self, value: f64) -> Tensor {
        let whole = value.fract() == 0.0 && self.known_dtype().is_integer();
        if whole { Tensor::fill(&self.0.engine, self.known_dtype(), value) } else { self.float(value) }
    }

    /// A float beside this tensor.
    fn float(&self, value: f64) -> Tensor {
        let dtype = self.known_dtype();
        Tensor::fill(&self.0.engine, if dtype.is_float() { dtype } else { DType::F32 }, value)
    }

    /// A whole number beside this tensor.
    fn whole(&self, value: f64) -> Tensor {
        let dtype = self.known_dtype();
        Tensor::fill(&self.0.engine, if dtype == DType::Bool { DType::I64 } else { dtype }, value)
    }

    /// Its type; f32 where a wrong call left none.
    fn known_dtype(&self) -> DType {
        self.0.spec.as_ref().map_or(DType::F32, |s| s.dtype)
    }
}
