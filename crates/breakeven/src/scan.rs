//! Running folds.

use std::panic::Location;

use breakeven_ir::{Fold, Op};

use crate::Tensor;
use crate::views::axis;

/// A running fold: what is folded, and which elements each result sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// [`Fold::Sum`], [`Fold::Prod`], [`Fold::Max`] or [`Fold::Min`]; other folds have no running form.
    pub fold: Fold,
    /// Each result leaves out its own element. The first is 0 for sums, 1 for products, and for extremes the end of the
    /// type's range that any element replaces.
    pub exclusive: bool,
    /// From the end of the axis to its start.
    pub reverse: bool,
}

impl Scan {
    /// From the start, each result with its own element.
    pub fn of(fold: Fold) -> Scan {
        Scan { fold, exclusive: false, reverse: false }
    }
}

impl Tensor {
    /// Sums of all elements up to each one along `axis`: f32 and f64 accumulate at least as wide and in parts, so that long
    /// sums stay right; integers wrap; NaN stays in all that follows.
    #[must_use]
    #[track_caller]
    pub fn cumsum(&self, axis: isize) -> Tensor {
        self.scan(axis, Scan::of(Fold::Sum))
    }

    /// Products of all elements up to each one along `axis`.
    #[must_use]
    #[track_caller]
    pub fn cumprod(&self, axis: isize) -> Tensor {
        self.scan(axis, Scan::of(Fold::Prod))
    }

    /// The largest of all elements up to each one along `axis`; NaN from the first NaN on.
    #[must_use]
    #[track_caller]
    pub fn cummax(&self, axis: isize) -> Tensor {
        self.scan(axis, Scan::of(Fold::Max))
    }

    /// The smallest of all elements up to each one along `axis`; NaN from the first NaN on.
    #[must_use]
    #[track_caller]
    pub fn cummin(&self, axis: isize) -> Tensor {
        self.scan(axis, Scan::of(Fold::Min))
    }

    /// A running fold along `axis`, also from the end or without each result's own element.
    #[must_use]
    #[track_caller]
    pub fn scan(&self, along: isize, scan: Scan) -> Tensor {
        let at = Location::caller();
        let Ok(spec) = &self.0.spec else { return self.clone() };
        let Scan { fold, exclusive, reverse } = scan;
        match axis(breakeven_ir::Scan::name_of(fold).unwrap_or("scan"), along, spec.shape.rank()) {
            Ok(axis) => Tensor::apply(Op::Scan(breakeven_ir::Scan { fold, axis, exclusive, reverse }), &[self], at),
            Err(error) => Tensor::wrong(&self.0.engine, error.of(&[spec]).at(at)),
        }
    }
}
