//! Normalisation over batches, groups and channels; channels are axis 1.

use std::panic::Location;

use breakeven_ir::{CallError, Shape};

use super::{composed, need, right};
use crate::{Pad, Tensor};

impl Tensor {
    /// `(x - mean) / sqrt(variance + epsilon) * scale + bias`, each of one number for every channel of `[n, channels, ..]`.
    #[must_use]
    #[track_caller]
    pub fn batch_norm(&self, mean: &Tensor, variance: &Tensor, scale: &Tensor, bias: &Tensor, epsilon: f64) -> Tensor {
        composed(&[self, mean, variance, scale, bias], Location::caller(), || {
            let by = |values: &Tensor| self.by_channel("batch_norm", values);
            let (mean, variance, scale, bias) = (by(mean)?, by(variance)?, by(scale)?, by(bias)?);
            Ok((self - mean) * (scale / (variance + epsilon).sqrt()) + bias)
        })
    }

    /// Each of `groups` equal groups of channels brought to mean 0 and variance 1 by itself, then scaled by channel.
    #[must_use]
    #[track_caller]
    pub fn group_norm(&self, groups: usize, scale: Option<&Tensor>, bias: Option<&Tensor>, epsilon: f64) -> Tensor {
        let inputs: Vec<&Tensor> = [Some(self), scale, bias].into_iter().flatten().collect();
        composed(&inputs, Location::caller(), || {
            let shape = self.shape();
            need(shape.rank() >= 2, "group_norm", || "takes [n, channels, ..]".to_owned())?;
            let divides = groups > 0 && shape[1].is_multiple_of(groups);
            need(divides, "group_norm", || format!("{groups} groups do not divide {} channels", shape[1]))?;
            let each: usize = shape[1..].iter().product::<usize>() / groups;
            let normal = self.reshape([shape[0], groups, each]).layer_norm(None, None, epsilon).reshape(shape.clone());
            let scaled = match scale {
                Some(scale) => &normal * self.by_channel("group_norm", scale)?,
                None => normal,
            };
            Ok(match bias {
                Some(bias) => scaled + self.by_channel("group_norm", bias)?,
                None => scaled,
            })
        })
    }

    /// Every channel of every sample brought to mean 0 and variance 1 by itself, then scaled by channel.
    #[must_use]
    #[track_caller]
    pub fn instance_norm(&self, scale: Option<&Tensor>, bias: Option<&Tensor>, epsilon: f64) -> Tensor {
        let channels = self.0.spec.as_ref().map_or(1, |s| s.shape.get(1).copied().unwrap_or(1));
        self.group_norm(channels, scale, bias, epsilon)
    }

    /// `x / (offset + alpha / size * s)^beta`, with `s` the sum of squares over `size` neighbouring channels.
    #[must_use]
    #[track_caller]
    pub fn local_response_norm(&self, size: usize, alpha: f64, beta: f64, offset: f64) -> Tensor {
        composed(&[self], Location::caller(), || {
            let rank = self.shape().rank();
            need(rank >= 2 && size > 0, "local_response_norm", || "takes [n, channels, ..] and a size".to_owned())?;
            let mut widths = vec![(0, 0); rank];
            widths[1] = (((size - 1) / 2) as isize, (size / 2) as isize);
            let near = self.square().pad(&widths, Pad::Constant(0.0)).window(1, size, 1, 1).sum(-1);
            Ok(self / (near * (alpha / size as f64) + offset).pow(&self.scalar(beta)))
        })
    }

    /// One number for each channel, ready to broadcast against this tensor.
    fn by_channel(&self, operation: &'static str, values: &Tensor) -> Result<Tensor, CallError> {
        let shape = self.shape();
        let channels = shape.get(1).copied().unwrap_or(1);
        let values = right(values)?;
        let text = || format!("takes one number for each of {channels} channels, not {}", values.shape());
        need(values.shape()[..] == [channels], operation, text)?;
        let dims: Shape = (1..shape.rank().max(2)).map(|axis| if axis == 1 { channels } else { 1 }).collect();
        Ok(values.reshape(dims))
    }
}
