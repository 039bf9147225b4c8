//! Picking by place.

use std::panic::Location;

use breakeven_ir::DType;

use super::{composed, need};
use crate::Tensor;

impl Tensor {
    /// The lower triangle of the last two axes: elements more than `above` columns right of the diagonal become 0.
    #[must_use]
    #[track_caller]
    pub fn tril(&self, above: isize) -> Tensor {
        self.triangle("tril", |row, column| column.less_equal(&(row + offset(above))))
    }

    /// The upper triangle of the last two axes: elements less than `above` columns right of the diagonal become 0.
    #[must_use]
    #[track_caller]
    pub fn triu(&self, above: isize) -> Tensor {
        self.triangle("triu", |row, column| column.greater_equal(&(row + offset(above))))
    }

    #[track_caller]
    fn triangle(&self, operation: &'static str, keeps: impl FnOnce(&Tensor, &Tensor) -> Tensor) -> Tensor {
        composed(&[self], Location::caller(), || {
            let shape = self.shape();
            need(shape.rank() >= 2, operation, || "takes a tensor of rank 2 or more".to_owned())?;
            let (rows, columns) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
            let row = self.engine().ramp(rows).unsqueeze(-1);
            Ok(keeps(&row, &self.engine().ramp(columns)).where_(self, &self.zero()))
        })
    }

    /// Truth values with a new last axis of `depth`: true at the index that the integer tensor holds. A negative index
    /// counts from the end; an index outside gives false everywhere.
    #[must_use]
    #[track_caller]
    pub fn one_hot(&self, depth: usize) -> Tensor {
        composed(&[self], Location::caller(), || {
            need(self.dtype().is_integer(), "one_hot", || "takes integers".to_owned())?;
            // So wide that the depth fits too.
            let wide = if self.dtype().bytes() < 4 { self.cast(DType::I32) } else { self.clone() };
            let index = wide.unsqueeze(-1);
            let zero = index.zero();
            let index = index.less(&zero).where_(&(&index + depth as i32), &index);
            Ok(index.equal(&self.engine().ramp(depth)))
        })
    }

    /// 0, or false, in the type of this tensor.
    pub(crate) fn zero(&self) -> Tensor {
        let Ok(spec) = &self.0.spec else { return self.clone() };
        Tensor::fill(self.engine(), spec.dtype, 0.0)
    }
}

/// Rows and columns apart: more than there are of either is as good as this many.
pub(super) fn offset(above: isize) -> i32 {
    above.clamp(-(1 << 30), 1 << 30) as i32
}
