//! `+ - * / %` and unary minus, for tensors and scalars.

use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

use crate::Tensor;

/// What may stand on the right of an operator: a tensor, or a number that takes the tensor's type.
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
    ($($t:ty),+) => {$(
        impl Operand for $t {
            fn beside(self, other: &Tensor) -> Tensor {
                other.scalar(f64::from(self))
            }
        }
    )+};
}
scalars!(f64, f32, i32, u8);

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
                Tensor::$method(&rhs.scalar(self), rhs)
            }
        }
        impl $Trait<Tensor> for f64 {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: Tensor) -> Tensor {
                Tensor::$method(&rhs.scalar(self), &rhs)
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
        let dtype = self.0.spec.as_ref().map_or(crate::DType::F32, |s| s.dtype);
        let fits = dtype.is_float() || (value.fract() == 0.0 && dtype.is_integer());
        Tensor::fill(&self.0.engine, if fits { dtype } else { crate::DType::F32 }, value)
    }
}
