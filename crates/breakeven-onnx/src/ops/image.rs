//! Sampling of images.

use breakeven::{ConvTranspose, DType, Tensor, stack};

use super::{Operator, extents, numbers, one, shape, times};
use crate::call::{Call, Result};
use crate::error::{unsupported, wrong};

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    one("AffineGrid", &["align_corners"], affine_grid),
    one("Col2Im", &["dilations", "pads", "strides"], col_to_image),
    one("GridSample", &["align_corners", "mode", "padding_mode"], grid_sample),
];

/// Where each place of an image lies after an affine map.
fn affine_grid(call: &Call<'_>) -> Result<Tensor> {
    let theta = call.tensor(0)?;
    let size = extents(&call.ints(1)?)?;
    let spatial = size.get(2..).unwrap_or_default();
    let aligned = call.flag("align_corners", false)?;
    if !matches!(spatial.len(), 2 | 3) {
        return wrong(format!("makes grids of 2 or 3 axes, not of {}", spatial.len()));
    }
    let (dtype, rank) = (theta.check()?.dtype, theta.check()?.shape.rank());
    if rank != 3 {
        return wrong(format!("takes a matrix for each sample, not {}", theta.shape()));
    }
    let ramp = |n: usize| -> Vec<f64> {
        let (start, step) =
            if aligned { (-1.0, 2.0 / (n as f64 - 1.0)) } else { (-1.0 + 1.0 / n as f64, 2.0 / n as f64) };
        (0..n).map(|i| start + i as f64 * step).collect()
    };
    let whole = shape(spatial)?;
    call.room(whole.elements().max(spatial.iter().copied().fold(0, usize::max)), size_of::<f64>())?;
    let one = |(i, &n): (usize, &usize)| {
        let dims: Vec<usize> = (i..spatial.len()).map(|a| if a == i { n } else { 1 }).collect();
        Ok(numbers(theta.engine(), ramp(n), &dims, dtype)?.broadcast_to(whole.clone()))
    };
    let mut parts = spatial.iter().enumerate().map(one).collect::<Result<Vec<Tensor>>>()?;
    // The last axis comes first, as in x, y.
    parts.reverse();
    parts.push(theta.scalar(1.0).broadcast_to(whole));
    let places = spatial.iter().product::<usize>();
    let grid = stack(&parts.iter().collect::<Vec<_>>(), -1).reshape([places, parts.len()]);
    let moved = grid.matmul(&theta.t());
    Ok(moved.reshape(shape(&[&[theta.shape()[0]], spatial, &[spatial.len()]].concat())?))
}

/// Columns of blocks summed where they overlap: a transposed convolution whose weights are ones and zeros.
fn col_to_image(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let (image, block) = (extents(&call.ints(1)?)?, extents(&call.ints(2)?)?);
    let rank = block.len();
    let list = |name: &str, default: usize| -> Result<Vec<usize>> {
        call.list(name)?.map_or_else(|| Ok(vec![default; rank]), extents)
    };
    let (stride, dilation) = (list("strides", 1)?, list("dilations", 1)?);
    let pads = call.list("pads")?.map_or_else(|| Ok(vec![0; 2 * rank]), extents)?;
    let each = block.iter().copied().fold(1, usize::saturating_mul);
    let fits_lists = [stride.len(), dilation.len(), image.len(), pads.len() / 2] == [rank; 4];
    let (&[n, rows, count], true) = (&x.check()?.shape[..], each > 0 && fits_lists) else {
        return wrong(format!("{} columns do not fit blocks {block:?} of {image:?}", x.shape()));
    };
    let reach = |a: usize| dilation[a].saturating_mul(block[a] - 1).saturating_add(1);
    let padded = |a: usize| image[a].saturating_add(pads[a]).saturating_add(pads[a + rank]);
    let along = |a: usize| (padded(a).saturating_sub(reach(a)) / stride[a].max(1)).saturating_add(1);
    let places: Vec<usize> = (0..rank).map(along).collect();
    if places.iter().copied().fold(1, usize::saturating_mul) != count || rows % each != 0 {
        return wrong(format!("{} does not hold {places:?} blocks of {block:?}", x.shape()));
    }
    let channels = rows / each;
    let ones = call.engine().eye(x.dtype(), each, each, 0).tile(&[channels, 1]);
    let weight = ones.reshape(shape(&[&[rows, 1], &block[..]].concat())?);
    let padding = (0..rank).map(|a| (pads[a], pads[a + rank])).collect();
    let how = ConvTranspose { stride, dilation, padding, extra: Vec::new(), groups: channels };
    Ok(x.reshape(shape(&[&[n, rows], &places[..]].concat())?).conv_transpose(&weight, None, &how))
}

/// What lies outside an image.
#[derive(Clone, Copy, PartialEq)]
enum Outside {
    Zeros,
    Border,
    Reflection,
}

/// How one spatial axis is sampled.
struct Axis {
    extent: usize,
    outside: Outside,
    /// Places -1 and 1 are the middles of the outermost elements, not their outer edges.
    aligned: bool,
}

/// One element that a place is made of: its index along the axis, and its weight.
struct Tap {
    index: Tensor,
    weight: Option<Tensor>,
}

fn grid_sample(call: &Call<'_>) -> Result<Tensor> {
    let (x, grid) = (call.tensor(0)?, call.tensor(1)?);
    let (dims, places) = (x.check()?.shape.clone(), grid.check()?.shape.clone());
    let rank = dims.rank().saturating_sub(2);
    if rank == 0 || places.rank() != dims.rank() || places[places.rank() - 1] != rank {
        return wrong(format!("{dims} has no places {places}"));
    }
    let outside = match call.text("padding_mode", "zeros")? {
        "zeros" => Outside::Zeros,
        "border" => Outside::Border,
        "reflection" => Outside::Reflection,
        other => return wrong(format!("pads by '{other}', which is not known")),
    };
    let aligned = call.flag("align_corners", false)?;
    let mode = call.text("mode", "linear")?;
    let mut all: Vec<Vec<Tap>> = Vec::new();
    for axis in 0..rank {
        let last = rank - 1 - axis;
        let place = grid.slice(-1, last..=last).squeeze(-1);
        all.push(Axis { extent: dims[axis + 2], outside, aligned }.taps(&place, mode)?);
    }
    Ok(sampled(&x, &all))
}

impl Axis {
    fn taps(&self, place: &Tensor, mode: &str) -> Result<Vec<Tap>> {
        let n = self.extent as f64;
        let at = if self.aligned { (place + 1.0) * ((n - 1.0) / 2.0) } else { ((place + 1.0) * n - 1.0) * 0.5 };
        let at = if mode == "nearest" { at.round() } else { at };
        let at = self.inside(&at);
        Ok(match mode {
            "nearest" => vec![self.tap(&at, None)],
            "linear" | "bilinear" => {
                let low = at.floor();
                let rest = &at - &low;
                vec![self.tap(&low, Some(1.0 - &rest)), self.tap(&(&low + 1.0), Some(rest))]
            }
            "cubic" | "bicubic" => {
                let low = at.floor();
                let rest = &at - &low;
                let weights = [far(&(&rest + 1.0)), near(&rest), near(&(1.0 - &rest)), far(&(2.0 - &rest))];
                let taps = weights.into_iter().enumerate();
                taps.map(|(i, weight)| self.tap(&(&low + (i as f64 - 1.0)), Some(weight))).collect()
            }
            other => return unsupported(format!("the mode '{other}'")),
        })
    }

    /// A place brought inside, unless what lies outside is zeros.
    fn inside(&self, at: &Tensor) -> Tensor {
        let n = self.extent as f64;
        match self.outside {
            Outside::Zeros => at.clone(),
            Outside::Border => at.clip(0.0, n - 1.0),
            Outside::Reflection => {
                let (low, span) = if self.aligned { (0.0, n - 1.0) } else { (-0.5, n) };
                if span == 0.0 {
                    return at.clip(0.0, 0.0);
                }
                let round = (at - low).abs().rem(&at.scalar(2.0 * span));
                round.minimum(&(2.0 * span - &round)) + low
            }
        }
    }

    fn tap(&self, at: &Tensor, weight: Option<Tensor>) -> Tap {
        let last = self.extent as f64 - 1.0;
        let index = self.inside(at).clip(0.0, last).cast(DType::I32);
        if self.outside != Outside::Zeros {
            return Tap { index, weight };
        }
        let held = at.greater_equal(&at.scalar(0.0)).logical_and(&at.less_equal(&at.scalar(last)));
        let weight = weight.unwrap_or_else(|| at.scalar(1.0));
        Tap { index, weight: Some(held.where_(&weight, &at.scalar(0.0))) }
    }
}

/// The weight of an element at most one away, for cubic interpolation with -0.75.
fn near(x: &Tensor) -> Tensor {
    (x * 1.25 - 2.25) * x * x + 1.0
}

/// The weight of an element one to two away.
fn far(x: &Tensor) -> Tensor {
    ((x * -0.75 + 3.75) * x - 6.0) * x + 3.0
}

/// Sums over all combinations of taps: rows of channels are picked by index from all places of all samples.
fn sampled(x: &Tensor, axes: &[Vec<Tap>]) -> Tensor {
    let dims = x.shape().clone();
    let (n, channels, spatial) = (dims[0], dims[1], &dims[2..]);
    let each: usize = spatial.iter().product();
    let rows = x.reshape([n, channels, each]).permute(&[0, 2, 1]).reshape([n * each, channels]);
    let ones: Vec<usize> = vec![1; spatial.len()];
    let start = x.engine().arange(DType::I32, 0.0, each as f64, n).reshape([&[n], &ones[..]].concat().as_slice());
    let mut parts: Vec<(Tensor, Option<Tensor>)> = vec![(start, None)];
    for (axis, taps) in axes.iter().enumerate() {
        let step = spatial[axis + 1..].iter().product::<usize>() as f64;
        let with = |(index, weight): &(Tensor, Option<Tensor>), tap: &Tap| {
            let weight = match (weight, &tap.weight) {
                (Some(a), Some(b)) => Some(a * b),
                (a, b) => a.clone().or_else(|| b.clone()),
            };
            (index + times(&tap.index, step), weight)
        };
        parts = parts.iter().flat_map(|part| taps.iter().map(move |tap| with(part, tap))).collect();
    }
    let weighed = parts.iter().map(|(index, weight)| {
        let picked = rows.gather(0, index);
        weight.as_ref().map_or_else(|| picked.clone(), |w| &picked * w.unsqueeze(-1).cast(x.dtype()))
    });
    let sum = weighed.reduce(|a, b| a + b).expect("an axis has at least one tap");
    let last = spatial.len() as isize + 1;
    let order: Vec<isize> = [0, last].into_iter().chain(1..last).collect();
    sum.permute(&order)
}
