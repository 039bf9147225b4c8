//! Convolutions, and transposed ones as convolutions of what lies apart.

use std::panic::Location;

use breakeven_ir::{CallError, Convolution, Op, Shape, Sliding};

use super::windows::Given;
use super::{Padding, composed, each, need, right};
use crate::{Pad, Tensor};

/// How a convolution moves. Lists have an entry for each spatial axis, or none for 1 along each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conv {
    /// Distance between neighbouring windows.
    pub stride: Vec<usize>,
    /// Distance between neighbouring elements of a window.
    pub dilation: Vec<usize>,
    /// Zeros around the input.
    pub padding: Padding,
    /// Groups of channels that do not see each other; 0 stands for 1.
    pub groups: usize,
}

/// How a transposed convolution moves. Lists have an entry for each spatial axis, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConvTranspose {
    /// Distance between the places of neighbouring inputs in the result.
    pub stride: Vec<usize>,
    /// Distance between neighbouring elements of a window.
    pub dilation: Vec<usize>,
    /// Elements taken away before and after each axis of the result.
    pub padding: Vec<(usize, usize)>,
    /// Elements added after each axis of the result.
    pub extra: Vec<usize>,
    /// Groups of channels that do not see each other; 0 stands for 1.
    pub groups: usize,
}

impl Tensor {
    /// Convolution (correlation, as networks mean it) of `[n, channels, ..]` with `weight` of
    /// `[out, channels / groups, ..]` and `bias` of `[out]`, over one to three spatial axes.
    #[must_use]
    #[track_caller]
    pub fn conv(&self, weight: &Tensor, bias: Option<&Tensor>, how: &Conv) -> Tensor {
        let (at, inputs) = (Location::caller(), [Some(self), Some(weight), bias]);
        composed(&inputs.into_iter().flatten().collect::<Vec<_>>(), at, || {
            let groups = how.groups.max(1);
            let out = out_channels("conv", self, weight, groups)?;
            let size = weight.shape().get(2..).unwrap_or_default();
            let (stride, dilation, padding) = (&how.stride[..], &how.dilation[..], &how.padding);
            let along = Given { operation: "conv", size, stride, dilation, padding, ceil: false }.along(self)?;
            need(!along.is_empty(), "conv", || "takes at least one spatial axis".to_owned())?;
            let along =
                along.iter().map(|a| Sliding { stride: a.stride, dilation: a.dilation, before: a.low, count: a.count });
            let convolution = Convolution { groups, along: along.collect() };
            let sums = Tensor::apply(Op::Conv(convolution), &[self, weight], at);
            add_bias("conv", right(&sums)?, bias, out)
        })
    }

    /// Transposed convolution of `[n, channels, ..]` with `weight` of `[channels, out / groups, ..]`: the gradient of a
    /// convolution with respect to its input.
    #[must_use]
    #[track_caller]
    pub fn conv_transpose(&self, weight: &Tensor, bias: Option<&Tensor>, how: &ConvTranspose) -> Tensor {
        let inputs: Vec<&Tensor> = [Some(self), Some(weight), bias].into_iter().flatten().collect();
        composed(&inputs, Location::caller(), || {
            const NAME: &str = "conv_transpose";
            let groups = how.groups.max(1);
            let (w, rank) = (weight.shape(), self.shape().rank());
            need(rank >= 3 && w.rank() == rank, NAME, || "takes an input and a weight of one rank".to_owned())?;
            let fits = w[0] == self.shape()[1] && w[0].is_multiple_of(groups);
            need(fits, NAME, || format!("{} channels in {groups} groups meet a weight of {w}", self.shape()[1]))?;
            let stride = each(&how.stride, 1, rank - 2, NAME)?;
            let dilation = each(&how.dilation, 1, rank - 2, NAME)?;
            let padding = each(&how.padding, (0, 0), rank - 2, NAME)?;
            let extra = each(&how.extra, 0, rank - 2, NAME)?;
            let mut widths = vec![(0isize, 0isize); 2];
            for (axis, &(low, high)) in padding.iter().enumerate() {
                let signed = |n: usize| isize::try_from(n).unwrap_or(isize::MAX / 4).min(isize::MAX / 4);
                let reach = signed(w[axis + 2].saturating_sub(1).saturating_mul(dilation[axis]));
                widths.push((reach - signed(low), reach - signed(high) + signed(extra[axis])));
            }
            let apart = stride.iter().enumerate().try_fold(self.clone(), |x, (i, &step)| spread(&x, i + 2, step))?;
            let how = Conv { dilation, groups, ..Conv::default() };
            Ok(apart.pad(&widths, Pad::Constant(0.0)).conv(&turned(weight, groups)?, bias, &how))
        })
    }
}

fn out_channels(operation: &'static str, x: &Tensor, weight: &Tensor, groups: usize) -> Result<usize, CallError> {
    let (x, w) = (x.shape(), weight.shape());
    need(x.rank() >= 3 && x.rank() == w.rank(), operation, || "takes an input and a weight of one rank".to_owned())?;
    let fits = x[1] == w[1].saturating_mul(groups) && w[0].is_multiple_of(groups);
    need(fits, operation, || format!("{} channels in {groups} groups do not meet a weight of {w}", x[1]))?;
    Ok(w[0])
}

fn add_bias(operation: &'static str, y: &Tensor, bias: Option<&Tensor>, out: usize) -> Result<Tensor, CallError> {
    let Some(bias) = bias else { return Ok(y.clone()) };
    need(bias.shape()[..] == [out], operation, || format!("takes a bias of [{out}], not of {}", bias.shape()))?;
    let dims: Shape = (1..right(y)?.shape().rank()).map(|axis| if axis == 1 { out } else { 1 }).collect();
    Ok(y + bias.reshape(dims))
}

/// Zeros between the elements of an axis, so that neighbours are `step` apart.
fn spread(x: &Tensor, axis: usize, step: usize) -> Result<Tensor, CallError> {
    need(step > 0, "conv_transpose", || "strides are at least 1".to_owned())?;
    let n = right(x)?.shape()[axis];
    if step == 1 || n == 0 {
        return Ok(x.clone());
    }
    // The axis becomes rows of one element and its zeros; rank is kept by folding all before it into one axis.
    let (before, after) = (&x.shape()[..axis], &x.shape()[axis + 1..]);
    let (outer, inner) = (before.iter().product::<usize>(), after.iter().product::<usize>());
    let flat =
        x.reshape([outer, n, 1, inner]).pad(&[(0, 0), (0, 0), (0, (step - 1) as isize), (0, 0)], Pad::Constant(0.0));
    let dims = Shape::new(&[before, &[n.saturating_mul(step)], after].concat())?;
    Ok(flat.reshape(dims).slice(axis as isize, ..=((n - 1) * step)))
}

/// Weights of the convolution that a transposed one is: windows reversed, in and out exchanged within each group.
fn turned(weight: &Tensor, groups: usize) -> Result<Tensor, CallError> {
    let w = weight.shape();
    let (channels, out) = (w[0] / groups, w[1]);
    let flipped = (2..w.rank()).fold(weight.clone(), |x, axis| x.flip(axis as isize));
    let each: usize = w[2..].iter().product();
    let dims = Shape::new(&[&[groups * out, channels], &w[2..]].concat())?;
    Ok(flipped.reshape([groups, channels, out, each]).transpose(1, 2).reshape(dims))
}
