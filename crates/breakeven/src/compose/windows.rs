//! Windows over spatial axes: what convolutions and pools share.

use breakeven_ir::CallError;

use super::{each, need, right};
use crate::{Pad, Tensor};

/// How many elements are put around each spatial axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Padding {
    /// So many before and after each axis; empty for none.
    Explicit(Vec<(usize, usize)>),
    /// So many that the result has `ceil(extent / stride)` elements, an odd one after.
    SameUpper,
    /// So many that the result has `ceil(extent / stride)` elements, an odd one before.
    SameLower,
}

impl Default for Padding {
    fn default() -> Padding {
        Padding::Explicit(Vec::new())
    }
}

/// Windows along one axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Along {
    pub extent: usize,
    pub size: usize,
    pub stride: usize,
    pub dilation: usize,
    pub low: usize,
    pub high: usize,
    /// How many windows there are.
    pub count: usize,
}

/// What a caller says of windows; lists have an entry for each spatial axis, or none.
pub(super) struct Given<'a> {
    pub operation: &'static str,
    pub size: &'a [usize],
    pub stride: &'a [usize],
    pub dilation: &'a [usize],
    pub padding: &'a Padding,
    /// Whether a window that is not whole counts.
    pub ceil: bool,
}

impl Given<'_> {
    /// Windows along each spatial axis of `[n, channels, ..]`.
    pub fn along(&self, x: &Tensor) -> Result<Vec<Along>, CallError> {
        let spatial = x.shape().get(2..).unwrap_or_default();
        let rank = spatial.len();
        let text = || format!("a window of {} axes does not fit {rank} spatial axes", self.size.len());
        need(rank == self.size.len() && x.shape().rank() >= 2, self.operation, text)?;
        let stride = each(self.stride, 1, rank, self.operation)?;
        let dilation = each(self.dilation, 1, rank, self.operation)?;
        let positive = stride.iter().chain(&dilation).chain(self.size).all(|&n| n > 0);
        need(positive, self.operation, || "windows, strides and dilations are at least 1".to_owned())?;
        let one = |axis: usize| self.one(axis, spatial[axis], stride[axis], dilation[axis]);
        (0..rank).map(one).collect()
    }

    fn one(&self, axis: usize, extent: usize, stride: usize, dilation: usize) -> Result<Along, CallError> {
        let size = self.size[axis];
        let too_large = || CallError::new(self.operation, format!("a window of {size} by {dilation} is too large"));
        let reach = (size - 1).checked_mul(dilation).and_then(|n| n.checked_add(1)).ok_or_else(too_large)?;
        let last = (extent.div_ceil(stride).max(1) - 1).saturating_mul(stride);
        let same = || last.saturating_add(reach).saturating_sub(extent);
        let (low, high) = match self.padding {
            Padding::Explicit(all) => each(all, (0, 0), self.size.len(), self.operation)?[axis],
            Padding::SameUpper => (same() / 2, same().div_ceil(2)),
            Padding::SameLower => (same().div_ceil(2), same() / 2),
        };
        let padded = extent.checked_add(low).and_then(|n| n.checked_add(high)).ok_or_else(too_large)?;
        let count = padded.checked_sub(reach).map_or(0, |room| self.fitting(room, stride, extent + low));
        Ok(Along { extent, size, stride, dilation, low, high, count })
    }

    /// Windows that start in the first `room + 1` places; one that begins behind `end` does not count.
    fn fitting(&self, room: usize, stride: usize, end: usize) -> usize {
        let whole = room / stride + 1;
        let more = self.ceil && !room.is_multiple_of(stride) && whole.saturating_mul(stride) < end;
        whole + usize::from(more)
    }
}

impl Along {
    /// From the first to the last element of a window.
    pub fn reach(&self) -> usize {
        (self.size - 1) * self.dilation + 1
    }

    /// Elements that must lie behind the extent for all windows to be whole.
    fn behind(&self) -> isize {
        let needed = (self.count.max(1) - 1).saturating_mul(self.stride).saturating_add(self.reach());
        isize::try_from(needed.saturating_sub(self.low + self.extent)).unwrap_or(isize::MAX)
    }
}

/// `[n, channels, counts.., sizes..]`: every window of `x`, with `value` around it. A view of the padded tensor. Windows
/// that see more than could be held are an error: a view costs nothing, and what is computed of it has no end.
pub(super) fn windows(x: &Tensor, along: &[Along], value: f64) -> Result<Tensor, CallError> {
    let shape = &right(x)?.shape();
    let seen = along.iter().flat_map(|a| [a.count, a.size]).chain(shape[..2].iter().copied());
    x.engine().room_for("window", seen.fold(1, usize::saturating_mul), x.dtype().bytes())?;
    let mut widths = vec![(0, 0); 2];
    widths.extend(along.iter().map(|a| if a.count == 0 { (0, 0) } else { (a.low as isize, a.behind()) }));
    let padded = x.pad(&widths, Pad::Constant(value));
    right(&padded)?;
    Ok(along.iter().enumerate().fold(padded, |x, (i, a)| {
        let axis = i as isize + 2;
        if a.count == 0 {
            return x.slice(axis, 0..0).unsqueeze(-1).broadcast_last(a.size);
        }
        x.window(axis, a.size, a.stride, a.dilation)
    }))
}

impl Tensor {
    /// The last axis, of extent 1, as `count` equal elements.
    fn broadcast_last(&self, count: usize) -> Tensor {
        let rank = self.shape().rank();
        let dims: breakeven_ir::Shape =
            self.shape().iter().enumerate().map(|(a, &n)| if a + 1 == rank { count } else { n }).collect();
        self.broadcast_to(dims)
    }
}
