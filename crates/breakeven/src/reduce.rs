//! Reductions over any axes.

use std::panic::Location;

use breakeven_ir::{CallError, Fold, Op, Reduce, Shape, View};
use smallvec::SmallVec;

use crate::Tensor;
use crate::maps::{position, row};
use crate::views::axis;

/// Which axes a reduction folds: `1`, `-1`, `[0, 2]`, or `..` for all of them.
#[derive(Clone, Debug)]
pub struct Axes(Option<Vec<isize>>);

impl From<isize> for Axes {
    fn from(axis: isize) -> Axes {
        Axes(Some(vec![axis]))
    }
}

impl<const N: usize> From<[isize; N]> for Axes {
    fn from(axes: [isize; N]) -> Axes {
        Axes(Some(axes.to_vec()))
    }
}

impl From<&[isize]> for Axes {
    fn from(axes: &[isize]) -> Axes {
        Axes(Some(axes.to_vec()))
    }
}

impl From<std::ops::RangeFull> for Axes {
    fn from(_: std::ops::RangeFull) -> Axes {
        Axes(None)
    }
}

impl Axes {
    pub(crate) fn of(&self, operation: &'static str, rank: usize) -> Result<SmallVec<[usize; 4]>, CallError> {
        let Some(axes) = &self.0 else {
            return Ok((0..rank).collect());
        };
        let mut axes = axes.iter().map(|&a| axis(operation, a, rank)).collect::<Result<SmallVec<[usize; 4]>, _>>()?;
        axes.sort_unstable();
        if axes.windows(2).any(|w| w[0] == w[1]) {
            return Err(CallError::new(operation, "an axis is named twice"));
        }
        Ok(axes)
    }
}

macro_rules! folds {
    ($($(#[doc = $doc:literal])+ $name:ident $fold:ident;)+) => {
        /// Reductions. The folded axes are taken out of the shape; [`Tensor::keep`] puts them back with extent 1.
        impl Tensor {
            $($(#[doc = $doc])+
            #[must_use]
            #[track_caller]
            pub fn $name(&self, axes: impl Into<Axes>) -> Tensor {
                self.fold(Fold::$fold, &axes.into(), Location::caller())
            })+
        }
    };
}
folds! {
    /// Sum; 0 of nothing.
    sum Sum;
    /// Arithmetic mean; NaN of nothing.
    mean Mean;
    /// Product; 1 of nothing.
    prod Prod;
    /// Largest; NaN when any is NaN.
    max Max;
    /// Smallest; NaN when any is NaN.
    min Min;
    /// i64 index of the largest; the first NaN wins, then the lowest index. Over several axes it counts row-major.
    argmax ArgMax;
    /// i64 index of the smallest, with the same ties.
    argmin ArgMin;
    /// Every truth value holds.
    all All;
    /// Some truth value holds.
    any Any;
}

impl Tensor {
    /// Mean square distance from the mean: the biased variance, without cancellation.
    #[must_use]
    #[track_caller]
    pub fn var(&self, axes: impl Into<Axes>) -> Tensor {
        self.var_mean(axes).0
    }

    /// Biased variance and mean, in one pass over the data.
    #[track_caller]
    pub fn var_mean(&self, axes: impl Into<Axes>) -> (Tensor, Tensor) {
        let at = Location::caller();
        let mean = self.fold(Fold::Moments, &axes.into(), at);
        (Tensor::apply(Op::Output(1), &[&mean], at), mean)
    }

    /// Square root of the biased variance.
    #[must_use]
    #[track_caller]
    pub fn std(&self, axes: impl Into<Axes>) -> Tensor {
        self.var(axes).sqrt()
    }

    /// Square root of the sum of squares.
    #[must_use]
    #[track_caller]
    pub fn norm(&self, axes: impl Into<Axes>) -> Tensor {
        const SQUARE: usize = position("square");
        self.folded(row(SQUARE), &[], (Fold::Sum, &axes.into()), Location::caller()).sqrt()
    }

    /// `ln(sum(e^x))` without overflow; -inf where every element is.
    #[must_use]
    #[track_caller]
    pub fn logsumexp(&self, axes: impl Into<Axes>) -> Tensor {
        const EXP: usize = position("exp");
        let (axes, at) = (axes.into(), Location::caller());
        let top = self.max(axes.clone());
        let finite = top.is_inf().where_(&top.scalar(0.0), &top);
        let shifted = self - finite.keep(self, axes.clone());
        shifted.folded(row(EXP), &[], (Fold::Sum, &axes), at).ln() + finite
    }

    /// A reduction of `source` over `axes`, with those axes put back at extent 1, so that it broadcasts against it.
    #[must_use]
    #[track_caller]
    pub fn keep(&self, source: &Tensor, axes: impl Into<Axes>) -> Tensor {
        let at = Location::caller();
        let (Ok(spec), Ok(_)) = (&source.0.spec, &self.0.spec) else {
            return if self.0.spec.is_err() { self.clone() } else { source.clone() };
        };
        match axes.into().of("keep", spec.shape.rank()) {
            Err(error) => Tensor::wrong(&self.0.engine, error.at(at)),
            Ok(axes) => {
                let dims = spec.shape.iter().enumerate().map(|(i, &n)| if axes.contains(&i) { 1 } else { n });
                Tensor::apply(Op::View(View::Reshape(dims.collect::<Shape>())), &[self], at)
            }
        }
    }

    fn fold(&self, fold: Fold, axes: &Axes, at: &'static Location<'static>) -> Tensor {
        let Ok(spec) = &self.0.spec else { return self.clone() };
        match axes.of(fold.name(), spec.shape.rank()) {
            Ok(axes) => Tensor::apply(Op::Reduce(Reduce { fold, axes }), &[self], at),
            Err(error) => Tensor::wrong(&self.0.engine, error.of(&[spec]).at(at)),
        }
    }
}
