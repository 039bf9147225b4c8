//! Views: the same elements, looked at otherwise. None of them copies.

use std::ops::{Bound, RangeBounds};
use std::panic::Location;

use breakeven_ir::{CallError, Op, Shape, View};
use smallvec::SmallVec;

use crate::Tensor;

/// Axes count from the front, or from the back when negative.
pub(crate) fn axis(operation: &'static str, axis: isize, rank: usize) -> Result<usize, CallError> {
    let at = if axis < 0 { axis + rank as isize } else { axis };
    let missing = || CallError::new(operation, format!("axis {axis} does not exist in a tensor of rank {rank}"));
    usize::try_from(at).ok().filter(|&a| a < rank).ok_or_else(missing)
}

impl Tensor {
    /// The same elements in the same order under another shape.
    #[must_use]
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<Shape>) -> Tensor {
        self.view(Location::caller(), |_| Ok(View::Reshape(shape.into())))
    }

    /// Axes in another order; `axes` names each once, counting from the back when negative.
    #[must_use]
    #[track_caller]
    pub fn permute(&self, axes: &[isize]) -> Tensor {
        self.view(Location::caller(), |shape| {
            let axes = axes.iter().map(|&a| axis("permute", a, shape.rank())).collect::<Result<_, _>>()?;
            Ok(View::Permute(axes))
        })
    }

    /// Two axes exchanged.
    #[must_use]
    #[track_caller]
    pub fn transpose(&self, a: isize, b: isize) -> Tensor {
        self.view(Location::caller(), |shape| {
            let (a, b) = (axis("transpose", a, shape.rank())?, axis("transpose", b, shape.rank())?);
            let mut axes: SmallVec<[usize; 4]> = (0..shape.rank()).collect();
            axes.swap(a, b);
            Ok(View::Permute(axes))
        })
    }

    /// The last two axes exchanged.
    #[must_use]
    #[track_caller]
    pub fn t(&self) -> Tensor {
        self.transpose(-2, -1)
    }

    /// Broadcast to a larger shape, right-aligned.
    #[must_use]
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<Shape>) -> Tensor {
        self.view(Location::caller(), |_| Ok(View::Broadcast(shape.into())))
    }

    /// The elements of `range` along `axis`.
    #[must_use]
    #[track_caller]
    pub fn slice(&self, along: isize, range: impl RangeBounds<usize>) -> Tensor {
        self.view(Location::caller(), |shape| {
            let axis = axis("slice", along, shape.rank())?;
            let start = match range.start_bound() {
                Bound::Included(&s) => s,
                Bound::Excluded(&s) => s.saturating_add(1),
                Bound::Unbounded => 0,
            };
            let end = match range.end_bound() {
                Bound::Included(&e) => e.saturating_add(1),
                Bound::Excluded(&e) => e,
                Bound::Unbounded => shape[axis],
            };
            if end > shape[axis] || start > end {
                return Err(CallError::new("slice", format!("{start}..{end} leaves axis {axis} of {shape}")));
            }
            Ok(View::Slice { axis, start, count: end - start, step: 1 })
        })
    }

    /// Along `axis`, `count` elements from `start` on, `step` apart; `step` may be negative.
    #[must_use]
    #[track_caller]
    pub fn slice_by(&self, along: isize, start: usize, count: usize, step: isize) -> Tensor {
        self.view(Location::caller(), |shape| {
            Ok(View::Slice { axis: axis("slice", along, shape.rank())?, start, count, step })
        })
    }

    /// Elements along `axis` in the opposite order.
    #[must_use]
    #[track_caller]
    pub fn flip(&self, along: isize) -> Tensor {
        self.view(Location::caller(), |shape| {
            let axis = axis("flip", along, shape.rank())?;
            Ok(View::Slice { axis, start: shape[axis].saturating_sub(1), count: shape[axis], step: -1 })
        })
    }

    /// Windows of `size` elements that slide along `axis`: the axis counts windows, `step` apart, and a new last axis runs
    /// along a window, whose elements lie `dilation` apart. What does not fill a window is left out, and an axis shorter
    /// than one has none. Pooling and convolution are folds over windows: `x.window(2, 3, 2, 1).max(-1)`.
    ///
    /// `size`, `step` and `dilation` must be at least 1.
    #[must_use]
    #[track_caller]
    pub fn window(&self, along: isize, size: usize, step: usize, dilation: usize) -> Tensor {
        self.view(Location::caller(), |shape| {
            Ok(View::Window { axis: axis("window", along, shape.rank())?, size, step, dilation })
        })
    }

    /// A new axis of extent 1 before `axis`; -1 puts it last.
    #[must_use]
    #[track_caller]
    pub fn unsqueeze(&self, along: isize) -> Tensor {
        self.view(Location::caller(), |shape| {
            let axis = axis("unsqueeze", along, shape.rank() + 1)?;
            let dims = [&shape[..axis], &[1], &shape[axis..]].concat();
            Ok(View::Reshape(Shape::new(&dims)?))
        })
    }

    /// Without `axis`, which must have extent 1.
    #[must_use]
    #[track_caller]
    pub fn squeeze(&self, along: isize) -> Tensor {
        self.view(Location::caller(), |shape| {
            let axis = axis("squeeze", along, shape.rank())?;
            if shape[axis] != 1 {
                return Err(CallError::new("squeeze", format!("axis {axis} of {shape} is not of extent 1")));
            }
            Ok(View::Reshape(shape.without(axis)))
        })
    }

    /// Cut into pieces of `extents` along `axis`.
    #[track_caller]
    pub fn split(&self, along: isize, extents: &[usize]) -> Vec<Tensor> {
        let at = Location::caller();
        let mut end = 0;
        let piece = |&count: &usize| {
            end += count;
            let from = end - count;
            self.view(at, |shape| {
                let axis = axis("split", along, shape.rank())?;
                Ok(View::Slice { axis, start: from, count, step: 1 })
            })
        };
        extents.iter().map(piece).collect()
    }

    fn view(&self, at: &'static Location<'static>, view: impl FnOnce(&Shape) -> Result<View, CallError>) -> Tensor {
        let Ok(spec) = &self.0.spec else { return self.clone() };
        match view(&spec.shape) {
            Ok(view) => Tensor::apply(Op::View(view), &[self], at),
            Err(error) => Tensor::wrong(&self.0.engine, error.of(&[spec]).at(at)),
        }
    }
}
