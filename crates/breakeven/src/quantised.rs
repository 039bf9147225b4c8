//! Numbers kept in 8 or 16 bits with a scale and a zero point, and products of them; as ONNX defines them.

use std::panic::Location;

use breakeven_ir::{CallError, DType, Op, Spec};

use crate::Tensor;
use crate::views::axis;

impl Tensor {
    /// `sum((a - zero_a) * (b - zero_b))` over the last axis of this tensor and the second last of `other`, in i32 that
    /// wraps; leading axes broadcast, and vectors are taken as [`Tensor::matmul`] takes them. Both are i8 or u8 and may
    /// differ.
    ///
    /// A zero point has the type of its operand. It is one number, or one for each row of this tensor (`[m]` or
    /// `[.., m, 1]`) or each column of `other` (`[n]` or `[.., 1, n]`). Operands are never made wider: zero points enter
    /// through sums of rows and columns.
    #[must_use]
    #[track_caller]
    pub fn matmul_int(&self, other: &Tensor, zero_a: Option<&Tensor>, zero_b: Option<&Tensor>) -> Tensor {
        let at = Location::caller();
        let product = self.product(&Op::MatMulInt, other);
        let (Ok(a), Ok(b), Ok(_)) = (&self.0.spec, &other.0.spec, &product.0.spec) else { return product };
        for (zero, of) in [(zero_a, a), (zero_b, b)] {
            if let Some(error) = zero.and_then(|zero| wrong_type("matmul_int", zero, of)) {
                return Tensor::wrong(&self.0.engine, error.at(at));
            }
        }
        match (a.shape.rank(), b.shape.rank()) {
            (1, 1) => return self.unsqueeze(0).matmul_int(&other.unsqueeze(-1), zero_a, zero_b).reshape(()),
            (1, _) => return self.unsqueeze(0).matmul_int(other, zero_a, zero_b).squeeze(-2),
            (_, 1) => return self.matmul_int(&other.unsqueeze(-1), zero_a, zero_b).squeeze(-1),
            _ => {}
        }
        let terms = *a.shape.last().expect("it has a rank of 2 or more");
        let wide = |zero: &Tensor| zero.cast(DType::I32);
        let zero_a = zero_a.map(|zero| wide(&if is_list(zero) { zero.unsqueeze(-1) } else { zero.clone() }));
        let zero_b = zero_b.map(wide);
        let mut sums = product;
        if let Some(zero_a) = &zero_a {
            sums = sums - zero_a * wide(other).sum(-2).unsqueeze(-2);
        }
        if let Some(zero_b) = &zero_b {
            sums = sums - wide(self).sum(-1).unsqueeze(-1) * zero_b;
        }
        match (zero_a, zero_b) {
            (Some(zero_a), Some(zero_b)) => sums + zero_a * zero_b * terms as i32,
            _ => sums,
        }
    }

    /// `round(x / scale) + zero_point`, halves to even, saturated to `dtype`: i8, u8, i16 or u16. Floats and i32.
    ///
    /// `scale` is one number, or one for each index along `axis`; `zero_point` is 0 where none is given, else of `dtype` and
    /// of the shape of `scale`. Without a meaning for NaN in ONNX, NaN becomes 0.
    #[must_use]
    #[track_caller]
    pub fn quantize_linear(&self, scale: &Tensor, zero_point: Option<&Tensor>, axis: isize, dtype: DType) -> Tensor {
        let at = Location::caller();
        if !matches!(dtype, DType::I8 | DType::U8 | DType::I16 | DType::U16) {
            let error = CallError::new("quantize_linear", format!("gives i8, u8, i16 or u16, not {dtype}"));
            return Tensor::wrong(&self.0.engine, error.at(at));
        }
        let aligned = match self.aligned("quantize_linear", axis, [Some(scale), zero_point]) {
            Ok(aligned) => aligned,
            Err(error) => return Tensor::wrong(&self.0.engine, error.at(at)),
        };
        let [Some(scale), zero_point] = aligned else { return scale.clone() };
        let scaled = (&as_floats(self) / scale).round();
        let Some(zero_point) = zero_point else { return scaled.cast(dtype) };
        if let Some(error) = wrong_type("quantize_linear", &zero_point, &Spec::new(dtype, ())) {
            return Tensor::wrong(&self.0.engine, error.at(at));
        }
        // Whole numbers of f32 are exact where the sum lies within 16 bits, and saturate beyond.
        (scaled + as_floats(&zero_point)).cast(dtype)
    }

    /// `(x - zero_point) * scale`, of the type of `scale`. Integers of up to 32 bits.
    ///
    /// `scale` is one number, or one for each index along `axis`; `zero_point` is 0 where none is given, else of the type of
    /// this tensor and of the shape of `scale`.
    #[must_use]
    #[track_caller]
    pub fn dequantize_linear(&self, scale: &Tensor, zero_point: Option<&Tensor>, axis: isize) -> Tensor {
        let at = Location::caller();
        let aligned = match self.aligned("dequantize_linear", axis, [Some(scale), zero_point]) {
            Ok(aligned) => aligned,
            Err(error) => return Tensor::wrong(&self.0.engine, error.at(at)),
        };
        let ([Some(scale), zero_point], Ok(of)) = (aligned, &self.0.spec) else { return self.clone() };
        if let Some(error) = zero_point.as_ref().and_then(|zero| wrong_type("dequantize_linear", zero, of)) {
            return Tensor::wrong(&self.0.engine, error.at(at));
        }
        let wide = self.cast(DType::I32);
        let moved = zero_point.map_or_else(|| wide.clone(), |zero| &wide - zero.cast(DType::I32));
        let dtype = scale.0.spec.as_ref().map_or(DType::F32, |s| s.dtype);
        moved.cast(dtype) * scale
    }

    /// This tensor of f32 as u8, with the scale (f32) and the zero point (u8) that make its range, widened to hold 0, all of
    /// 0 to 255: `(quantised, scale, zero_point)`. A tensor of nothing but 0 has a scale of 0.
    #[track_caller]
    pub fn dynamic_quantize_linear(&self) -> (Tensor, Tensor, Tensor) {
        let zero = self.scalar(0.0);
        let (low, high) = (self.min(..).minimum(&zero), self.max(..).maximum(&zero));
        let scale = (&high - &low) / 255.0;
        let zero_point = (-(&low / &scale)).clip(0.0, 255.0).round().cast(DType::U8);
        (self.quantize_linear(&scale, Some(&zero_point), 0, DType::U8), scale, zero_point)
    }

    /// Scale and zero point in a shape that broadcasts against this tensor.
    fn aligned(
        &self,
        operation: &'static str,
        along: isize,
        given: [Option<&Tensor>; 2],
    ) -> Result<[Option<Tensor>; 2], CallError> {
        let Ok(spec) = &self.0.spec else { return Ok(given.map(Option::<&Tensor>::cloned)) };
        let align = |tensor: &Tensor| -> Result<Tensor, CallError> {
            let Ok(own) = &tensor.0.spec else { return Ok(tensor.clone()) };
            match *own.shape {
                [] => Ok(tensor.clone()),
                [1] => Ok(tensor.reshape(())),
                [n] if spec.shape[axis(operation, along, spec.shape.rank())?] == n => {
                    let mut dims = vec![1; spec.shape.rank()];
                    dims[axis(operation, along, spec.shape.rank())?] = n;
                    Ok(tensor.reshape(dims.as_slice()))
                }
                _ => {
                    let message = "scale and zero point are one number, or one for each index along the axis; blocks of an \
                                   axis are not supported";
                    Err(CallError::new(operation, message).of(&[spec, own]))
                }
            }
        };
        let [scale, zero_point] = given.map(|tensor| tensor.map(align).transpose());
        Ok([scale?, zero_point?])
    }
}

fn is_list(tensor: &Tensor) -> bool {
    tensor.0.spec.as_ref().is_ok_and(|s| s.shape.rank() == 1)
}

/// Integers as f32; floats as they are.
fn as_floats(tensor: &Tensor) -> Tensor {
    let is_float = tensor.0.spec.as_ref().is_ok_and(|s| s.dtype.is_float());
    if is_float { tensor.clone() } else { tensor.cast(DType::F32) }
}

/// What is wrong with a zero point that is not of the type of what it belongs to.
fn wrong_type(operation: &'static str, zero: &Tensor, of: &Spec) -> Option<CallError> {
    let own = zero.0.spec.as_ref().ok()?;
    let message = || format!("takes a zero point of {}, not of {}", of.dtype, own.dtype);
    (own.dtype != of.dtype).then(|| CallError::new(operation, message()))
}
