//! Pooling over windows of spatial axes.

use std::panic::Location;

use breakeven_ir::{CallError, DType, Shape};

use super::windows::{Along, Given, windows};
use super::{Padding, composed};
use crate::Tensor;

/// How a pool moves. Lists have an entry for each spatial axis, or none for 1 along each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Extents of a window.
    pub size: Vec<usize>,
    /// Distance between neighbouring windows.
    pub stride: Vec<usize>,
    /// Distance between neighbouring elements of a window.
    pub dilation: Vec<usize>,
    /// Elements around the input that count as nothing.
    pub padding: Padding,
    /// Whether a window that is not whole counts, as long as it begins inside the input or its padding before it.
    pub ceil: bool,
}

impl Pool {
    fn along(&self, operation: &'static str, x: &Tensor) -> Result<Vec<Along>, CallError> {
        let Pool { size, stride, dilation, padding, ceil } = self;
        Given { operation, size, stride, dilation, padding, ceil: *ceil }.along(x)
    }
}

impl Tensor {
    /// The largest element of each window of `[n, channels, ..]`; NaN when any is NaN.
    #[must_use]
    #[track_caller]
    pub fn max_pool(&self, how: &Pool) -> Tensor {
        composed(&[self], Location::caller(), || {
            let along = how.along("max_pool", self)?;
            Ok(windows(self, &along, f64::NEG_INFINITY)?.max(&axes(&along)[..]))
        })
    }

    /// Where the largest element of each window lies among the spatial elements of its channel, row-major, i64; the first
    /// NaN, then the lowest place, wins.
    #[must_use]
    #[track_caller]
    pub fn max_pool_indices(&self, how: &Pool) -> Tensor {
        composed(&[self], Location::caller(), || {
            let along = how.along("max_pool_indices", self)?;
            let mut rest = windows(self, &along, f64::NEG_INFINITY)?.argmax(&axes(&along)[..]).cast(DType::I32);
            let (mut place, mut step) = (rest.zero(), 1);
            for (i, a) in along.iter().enumerate().rev() {
                let size = rest.scalar(a.size as f64);
                let within = rest.rem(&size) * a.dilation as i32;
                let begin = self.engine().arange(DType::I32, -(a.low as f64), a.stride as f64, a.count);
                let dims: Shape = (i..along.len()).map(|axis| if axis == i { a.count } else { 1 }).collect();
                place = place + (within + begin.reshape(dims)) * step as i32;
                rest = rest.div(&size);
                step *= a.extent;
            }
            Ok(place.cast(DType::I64))
        })
    }

    /// The mean of each window of `[n, channels, ..]`; of all its places with `with_padding`, else of those inside the
    /// input.
    #[must_use]
    #[track_caller]
    pub fn avg_pool(&self, how: &Pool, with_padding: bool) -> Tensor {
        composed(&[self], Location::caller(), || {
            let along = how.along("avg_pool", self)?;
            let sums = windows(self, &along, 0.0)?.sum(&axes(&along)[..]);
            Ok(along.iter().enumerate().fold(sums, |sums, (i, a)| {
                if let Err(error) = self.engine().room_for("avg_pool", a.count, size_of::<f64>()) {
                    return Tensor::wrong(self.engine(), error);
                }
                let counts: Vec<f64> = (0..a.count).map(|window| a.places(window, with_padding) as f64).collect();
                if counts.windows(2).all(|w| w[0] == w[1]) {
                    return sums / counts.first().copied().unwrap_or(1.0);
                }
                let dims: Shape = (i..along.len()).map(|axis| if axis == i { a.count } else { 1 }).collect();
                &sums / self.engine().rounded(sums.dtype(), &counts, dims)
            }))
        })
    }

    /// The `p`-norm of each window of `[n, channels, ..]`: `(sum |x|^p)^(1/p)`.
    #[must_use]
    #[track_caller]
    pub fn lp_pool(&self, how: &Pool, p: f64) -> Tensor {
        composed(&[self], Location::caller(), || {
            let along = how.along("lp_pool", self)?;
            let powers = self.abs().pow(&self.scalar(p));
            let sums = windows(&powers, &along, 0.0)?.sum(&axes(&along)[..]);
            Ok(sums.pow(&sums.scalar(1.0 / p)))
        })
    }
}

/// The last axes, those inside windows.
fn axes(along: &[Along]) -> Vec<isize> {
    (1..=along.len() as isize).map(|axis| -axis).collect()
}

impl Along {
    /// Elements of a window that lie inside the input, or inside it and its padding.
    fn places(&self, window: usize, with_padding: bool) -> usize {
        let (from, to) =
            if with_padding { (0, self.low + self.extent + self.high) } else { (self.low, self.low + self.extent) };
        // How many elements of the window lie before a place.
        let before = |end: usize| end.saturating_sub(window * self.stride).div_ceil(self.dilation).min(self.size);
        before(to) - before(from)
    }
}
