//! Combining elements with updates, by index.

use std::panic::Location;

use breakeven_ir::{Combine, DType, Op};

use crate::views::axis;
use crate::{Tensor, concat};

impl Tensor {
    /// This tensor with `updates` in the places along `axis` that `index` (i64 or i32) names: `out[index[i, j], j] =
    /// updates[i, j]` for axis 0 of two. Index and updates have one shape, at most as large as this tensor in the other axes.
    /// Of several updates to one place the last one, in row-major order, wins. A negative index counts from the end; an index
    /// that leaves the axis is ignored, or an error where the indices are known on the host.
    #[must_use]
    #[track_caller]
    pub fn scatter(&self, axis: isize, index: &Tensor, updates: &Tensor) -> Tensor {
        self.scatter_with(axis, index, updates, Combine::Set)
    }

    /// As [`Tensor::scatter`], but updates are added, one after the other, so that results are the same on every run.
    #[must_use]
    #[track_caller]
    pub fn scatter_add(&self, axis: isize, index: &Tensor, updates: &Tensor) -> Tensor {
        self.scatter_with(axis, index, updates, Combine::Add)
    }

    /// As [`Tensor::scatter`], with any way of combining an element with an update. 16-bit floats are combined as f32 and
    /// rounded once.
    #[must_use]
    #[track_caller]
    pub fn scatter_with(&self, along: isize, index: &Tensor, updates: &Tensor, combine: Combine) -> Tensor {
        let at = Location::caller();
        let (Ok(spec), Ok(of)) = (&self.0.spec, &index.0.spec) else {
            return if self.0.spec.is_err() { self.clone() } else { index.clone() };
        };
        let dtype = spec.dtype;
        if matches!(dtype, DType::F16 | DType::BF16)
            && combine != Combine::Set
            && updates.0.spec.as_ref().is_ok_and(|u| u.dtype == dtype)
        {
            let wide = self.cast(DType::F32).scatter_with(along, index, &updates.cast(DType::F32), combine);
            return wide.cast(dtype);
        }
        let found = axis(combine.name(), along, spec.shape.rank());
        match found.and_then(|a| index.within(combine.name(), spec.shape[a]).map(|()| a)) {
            Ok(axis) => match (0..spec.shape.rank()).find(|&a| a != axis && reaches_less(self, index, a)) {
                Some(shorter) => {
                    self.beside(shorter, of.shape[shorter], |part| part.scatter_with(along, index, updates, combine))
                }
                None => Tensor::apply(Op::Scatter(axis, combine), &[self, index, updates], at),
            },
            Err(error) => Tensor::wrong(&self.0.engine, error.of(&[spec]).at(at)),
        }
    }

    /// The first `count` elements of an axis after `change`, and the others as they are.
    #[track_caller]
    fn beside(&self, axis: usize, count: usize, change: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
        let parts = self.split(axis as isize, &[count, self.shape()[axis] - count]);
        concat(&[&change(&parts[0]), &parts[1]], axis as isize)
    }
}

fn reaches_less(tensor: &Tensor, index: &Tensor, axis: usize) -> bool {
    tensor.shape().rank() == index.shape().rank() && index.shape()[axis] < tensor.shape()[axis]
}
