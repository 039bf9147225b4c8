//! Picking and placing by several indices at once: as picks and places of a tensor with fewer axes.

use std::panic::Location;

use breakeven_ir::{CallError, Combine, DType, Shape};

use super::{composed, need};
use crate::Tensor;

impl Tensor {
    /// `out[i, j] = self[index[i, j], j]` for axis 0 of two: one element for each index (i64 or i32). The index is at most as
    /// large as this tensor in the other axes. A negative index counts from the end; an index that leaves the axis gives NaN
    /// (0 for integers), or an error where the indices are known on the host.
    #[must_use]
    #[track_caller]
    pub fn take_along(&self, along: isize, index: &Tensor) -> Tensor {
        let at = Location::caller();
        composed(&[self, index], at, || {
            let (shape, of) = (self.shape(), index.shape());
            let axis = crate::views::axis("take_along", along, shape.rank())?;
            let fits = |a: usize| a == axis || of[a] <= shape[a];
            need(of.rank() == shape.rank() && (0..of.rank()).all(fits), "take_along", || {
                format!("takes an index that fits into {shape} in all axes but {axis}, not {of}")
            })?;
            index.within("take_along", shape[axis])?;
            let (strides, total) = (shape.strides(), shape.elements());
            let dtype = place_type(total);
            let mut place = Place::new(index, shape[axis], strides[axis] as usize, dtype)?;
            for other in (0..of.rank()).filter(|&a| a != axis) {
                let dims: Shape = (0..of.rank()).map(|a| if a == other { of[a] } else { 1 }).collect();
                let steps = self.engine().arange(dtype, 0.0, strides[other] as f64, of[other]);
                place.at = &place.at + &steps.reshape(dims);
            }
            Ok(self.reshape(total).gather(0, &place.or_outside(total)))
        })
    }

    /// Slices of this tensor: the last axis of `index` (i64 or i32) names a place along each of as many first axes. A negative
    /// index counts from the end; a place outside gives NaN (0 for integers).
    #[must_use]
    #[track_caller]
    pub fn gather_nd(&self, index: &Tensor) -> Tensor {
        composed(&[self, index], Location::caller(), || {
            let places = Places::new("gather_nd", self, index)?;
            let dims = [&[places.count], places.rest.as_slice()].concat();
            Ok(self.reshape(Shape::new(&dims)?).gather(0, &places.at))
        })
    }

    /// This tensor with slices combined with `updates`, of the shape of [`Tensor::gather_nd`]: updates of one place come in
    /// the order of their indices, and those of a place outside are ignored.
    #[must_use]
    #[track_caller]
    pub fn scatter_nd(&self, index: &Tensor, updates: &Tensor, combine: Combine) -> Tensor {
        composed(&[self, index, updates], Location::caller(), || {
            let places = Places::new("scatter_nd", self, index)?;
            let lead = &index.shape()[..index.shape().rank() - 1];
            let wanted = Shape::new(&[lead, places.rest.as_slice()].concat())?;
            need(updates.shape() == &wanted, "scatter_nd", || format!("takes updates of {wanted}"))?;
            let (picks, inner) = (lead.iter().product::<usize>(), places.rest.iter().product::<usize>());
            let at = places.at.reshape([picks, 1]).broadcast_to([picks, inner]);
            let flat = self.reshape([places.count, inner]);
            Ok(flat.scatter_with(0, &at, &updates.reshape([picks, inner]), combine).reshape(self.shape().clone()))
        })
    }
}

/// The type that counts so many elements: i32, which every device reckons with, where it can.
fn place_type(count: usize) -> DType {
    if i32::try_from(count).is_ok() { DType::I32 } else { DType::I64 }
}

/// Places in a row of elements, and whether the indices they come from are inside their axes.
struct Place {
    at: Tensor,
    inside: Tensor,
}

impl Place {
    /// `stride` times the index, counted from the start of an axis of `extent`.
    fn new(index: &Tensor, extent: usize, stride: usize, dtype: DType) -> Result<Place, CallError> {
        need(matches!(index.dtype(), DType::I64 | DType::I32), "index", || "must be of i64 or i32".to_owned())?;
        let index = index.cast(dtype);
        let zero = index.zero();
        let from_start = index.less(&zero).where_(&(&index + index.scalar(extent as f64)), &index);
        let end = Tensor::fill(index.engine(), dtype, extent as f64);
        let inside = from_start.greater_equal(&zero).logical_and(&from_start.less(&end));
        let stride = from_start.scalar(stride as f64);
        Ok(Place { at: from_start * stride, inside })
    }

    /// The places; `count`, which is none of them, for indices outside.
    fn or_outside(&self, count: usize) -> Tensor {
        self.inside.where_(&self.at, &Tensor::fill(self.at.engine(), self.at.dtype(), count as f64))
    }
}

/// Indices of whole slices.
struct Places {
    /// Numbers of slices, or `count` outside.
    at: Tensor,
    /// How many slices there are.
    count: usize,
    /// Extents of a slice.
    rest: Vec<usize>,
}

impl Places {
    fn new(operation: &'static str, of: &Tensor, index: &Tensor) -> Result<Places, CallError> {
        let (shape, depth) = (of.shape(), index.shape().last().copied().unwrap_or(0));
        need((1..=shape.rank()).contains(&depth), operation, || {
            format!("the last axis of the index counts 1 to {} axes, not {depth}", shape.rank())
        })?;
        let (lead, rest) = shape.split_at(depth);
        let (count, strides) = (lead.iter().product(), Shape::from(lead).strides());
        let dtype = place_type(count);
        let mut all: Option<Place> = None;
        for (axis, &extent) in lead.iter().enumerate() {
            let part = index.slice(-1, axis..=axis).squeeze(-1);
            let one = Place::new(&part, extent, strides[axis] as usize, dtype)?;
            all = Some(match all {
                None => one,
                Some(all) => Place { at: all.at + one.at, inside: all.inside.logical_and(&one.inside) },
            });
        }
        let at = all.expect("the depth is at least 1").or_outside(count);
        Ok(Places { at, count, rest: rest.to_vec() })
    }
}
