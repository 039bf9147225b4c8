//! Tensors made from a few numbers.

use breakeven_ir::{CallError, DType, Scalar, Shape, Spec};

use super::select::offset;
use crate::{Engine, Tensor};

/// Elements of one ramp. A longer one is the sum of two that lie across each other, so that little is uploaded.
const RAMP: usize = 1024;

impl Engine {
    /// `start, start + step, ..`: `count` numbers of `dtype`.
    #[must_use]
    #[track_caller]
    pub fn arange(&self, dtype: DType, start: f64, step: f64, count: usize) -> Tensor {
        if dtype == DType::Bool {
            return Tensor::wrong(self, CallError::new("arange", "is not defined for bool"));
        }
        let places = self.ramp(count).cast(dtype);
        let scaled = if step == 1.0 { places } else { &places * &Tensor::fill(self, dtype, step) };
        if start == 0.0 { scaled } else { &scaled + &Tensor::fill(self, dtype, start) }
    }

    /// `count` numbers from `start` to `end`, both among them, evenly apart. Floats.
    #[must_use]
    #[track_caller]
    pub fn linspace(&self, dtype: DType, start: f64, end: f64, count: usize) -> Tensor {
        if !dtype.is_float() {
            return Tensor::wrong(self, CallError::new("linspace", format!("is not defined for {dtype}")));
        }
        let step = (end - start) / count.saturating_sub(1).max(1) as f64;
        let (near, half) = (self.ramp(count), count.div_ceil(2) as f64);
        // From both ends, so that both are exact.
        let rising = &near.cast(dtype) * step + start;
        let falling = end - &(&(near.flip(0).cast(dtype)) * step);
        near.less(&near.scalar(half)).where_(&rising, &falling)
    }

    /// `[rows, columns]`: 1 where the column is `above` columns right of the row, else 0.
    #[must_use]
    #[track_caller]
    pub fn eye(&self, dtype: DType, rows: usize, columns: usize, above: isize) -> Tensor {
        let row = self.ramp(rows).unsqueeze(-1) + offset(above);
        row.equal(&self.ramp(columns)).cast(dtype)
    }

    /// Numbers known on the host, rounded to `dtype` there: a device need not know f64.
    #[track_caller]
    pub(crate) fn rounded(&self, dtype: DType, values: &[f64], shape: Shape) -> Tensor {
        let mut bytes = vec![0; values.len() * dtype.bytes()];
        values.iter().enumerate().for_each(|(i, &x)| Scalar::of(dtype, x).store(dtype, &mut bytes, i));
        let spec = Spec::new(dtype, shape);
        self.tensor_from_bytes(spec, bytes).expect("as many numbers as the shape has")
    }

    /// `0, 1, ..`: `count` numbers, i32 where they fit, else i64.
    pub(crate) fn ramp(&self, count: usize) -> Tensor {
        let short = |n: usize| self.from_vec((0..n as i32).collect::<Vec<i32>>(), n);
        if count <= RAMP {
            return short(count);
        }
        let rows = count.div_ceil(RAMP);
        if isize::try_from(count).is_err() {
            return Tensor::wrong(
                self,
                CallError::new("arange", format!("{count} numbers are more than can be counted")),
            );
        }
        let (high, low) = if i32::try_from(rows * RAMP).is_ok() {
            (self.ramp(rows), short(RAMP))
        } else {
            (self.ramp(rows).cast(DType::I64), short(RAMP).cast(DType::I64))
        };
        (high.unsqueeze(-1) * RAMP as i32 + low).reshape(rows * RAMP).slice(0, ..count)
    }
}
