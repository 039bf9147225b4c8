//! Convolutions and pools.

use breakeven::{Conv, ConvTranspose, Padding, Pool, Tensor};

use super::{Operator, extents, many, one, shape, times};
use crate::call::{Call, Result};
use crate::error::{unsupported, wrong};
use crate::value::Item;

pub(super) const CONV: &[&str] = &["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"];
const POOL: &[&str] = &[
    "auto_pad",
    "ceil_mode",
    "count_include_pad",
    "dilations",
    "kernel_shape",
    "p",
    "pads",
    "storage_order",
    "strides",
];

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    one("AveragePool", POOL, |c| Ok(c.tensor(0)?.avg_pool(&pool(c)?, c.flag("count_include_pad", false)?))),
    many("CausalConvWithState", &["activation"], causal_conv),
    one("Conv", CONV, |c| Ok(c.tensor(0)?.conv(&c.tensor(1)?, c.optional(2)?.as_ref(), &conv(c)?))),
    one(
        "ConvTranspose",
        &["auto_pad", "dilations", "group", "kernel_shape", "output_padding", "output_shape", "pads", "strides"],
        conv_transpose,
    ),
    one("GlobalAveragePool", &[], |c| whole(c, |x, axes| x.mean(axes))),
    one("GlobalLpPool", &["p"], global_lp_pool),
    one("GlobalMaxPool", &[], |c| whole(c, |x, axes| x.max(axes))),
    one("LpPool", POOL, |c| Ok(c.tensor(0)?.lp_pool(&pool(c)?, p(c)?))),
    many("MaxPool", POOL, max_pool),
];

/// Extents from an attribute, or none.
fn list(call: &Call<'_>, name: &str) -> Result<Vec<usize>> {
    call.list(name)?.map_or(Ok(Vec::new()), extents)
}

/// Elements before and after each axis: the file gives all befores, then all afters.
fn pairs(call: &Call<'_>, name: &str) -> Result<Vec<(usize, usize)>> {
    let all = list(call, name)?;
    let (low, high) = all.split_at(all.len() / 2);
    if low.len() != high.len() {
        return wrong(format!("its {name} must be two for each axis"));
    }
    Ok(low.iter().copied().zip(high.iter().copied()).collect())
}

fn padding(call: &Call<'_>) -> Result<Padding> {
    match call.text("auto_pad", "NOTSET")? {
        "NOTSET" | "" => Ok(Padding::Explicit(pairs(call, "pads")?)),
        "VALID" => Ok(Padding::default()),
        "SAME_UPPER" => Ok(Padding::SameUpper),
        "SAME_LOWER" => Ok(Padding::SameLower),
        other => wrong(format!("pads by '{other}', which is not known")),
    }
}

/// How the convolution of this node moves.
pub(super) fn conv(call: &Call<'_>) -> Result<Conv> {
    Ok(Conv {
        stride: list(call, "strides")?,
        dilation: list(call, "dilations")?,
        padding: padding(call)?,
        groups: extents(&[call.int("group", 1)?])?[0],
    })
}

fn pool(call: &Call<'_>) -> Result<Pool> {
    Ok(Pool {
        size: list(call, "kernel_shape")?,
        stride: list(call, "strides")?,
        dilation: list(call, "dilations")?,
        padding: padding(call)?,
        ceil: call.flag("ceil_mode", false)?,
    })
}

fn p(call: &Call<'_>) -> Result<f64> {
    // A number before opset 2, an integer since.
    match call.attribute("p") {
        Some(crate::attribute::Attribute::Float(p)) => Ok(f64::from(*p)),
        _ => Ok(call.int("p", 2)? as f64),
    }
}

fn max_pool(call: &Call<'_>) -> Result<Vec<Item>> {
    let (x, how) = (call.tensor(0)?, pool(call)?);
    let y = x.max_pool(&how);
    y.check()?;
    let mut outputs = vec![y.into()];
    if call.wants(1) {
        let places = x.max_pool_indices(&how);
        let channels = x.shape()[..2].iter().product::<usize>();
        call.room(channels, size_of::<i64>())?;
        outputs.push(over_all(&x, places, call.flag("storage_order", false)?)?.into());
    }
    Ok(outputs)
}

/// Places within a channel as places within the whole tensor, row-major or with the axes of each channel reversed.
fn over_all(x: &Tensor, places: Tensor, by_columns: bool) -> Result<Tensor> {
    let dims = &x.check()?.shape;
    let each: usize = dims[2..].iter().product();
    let places = if by_columns { reversed(&places, &dims[2..]) } else { places };
    let (n, c) = (dims[0], dims[1]);
    let starts: Vec<i64> = (0..n * c).map(|channel| (channel * each) as i64).collect();
    let ones = vec![1; dims.rank() - 2];
    Ok(places + x.engine().from_vec(starts, shape(&[&[n, c], &ones[..]].concat())?))
}

fn reversed(places: &Tensor, dims: &[usize]) -> Tensor {
    let (mut rest, mut step) = (places.clone(), dims.iter().product::<usize>());
    let mut place = places.scalar(0.0);
    for &extent in dims.iter().rev() {
        step /= extent.max(1);
        let size = rest.scalar(extent as f64);
        place = place + times(&rest.rem(&size), step as f64);
        rest = rest.div(&size);
    }
    place
}

fn conv_transpose(call: &Call<'_>) -> Result<Tensor> {
    let (x, weight) = (call.tensor(0)?, call.tensor(1)?);
    let (dims, w) = (&x.check()?.shape, &weight.check()?.shape);
    if dims.rank() < 3 || dims.rank() != w.rank() {
        return wrong(format!("takes an input and a weight of one rank of 3 or more, not {dims} and {w}"));
    }
    let rank = dims.rank() - 2;
    let fill = |list: Vec<usize>, default: usize| if list.is_empty() { vec![default; rank] } else { list };
    let (stride, dilation) = (fill(list(call, "strides")?, 1), fill(list(call, "dilations")?, 1));
    let extra = fill(list(call, "output_padding")?, 0);
    if [stride.len(), dilation.len(), extra.len()].iter().any(|&n| n != rank) {
        return wrong(format!("its strides, dilations and output_padding must have {rank} entries"));
    }
    let full = |axis: usize| {
        let spread = stride[axis].saturating_mul(dims[axis + 2].saturating_sub(1));
        let reach = w[axis + 2].saturating_sub(1).saturating_mul(dilation[axis]);
        spread.saturating_add(reach).saturating_add(extra[axis]).saturating_add(1)
    };
    let auto = call.text("auto_pad", "NOTSET")?;
    let wanted = match call.list("output_shape")? {
        Some(given) => Some(extents(&given[given.len().saturating_sub(rank)..])?),
        None if auto.starts_with("SAME") => Some((0..rank).map(|a| dims[a + 2].saturating_mul(stride[a])).collect()),
        None => None,
    };
    let mut extra = extra.clone();
    let padding = match wanted {
        None if auto == "VALID" => vec![(0, 0); rank],
        None => pairs(call, "pads")?,
        Some(wanted) if wanted.len() != rank => return wrong(format!("its output_shape must have {rank} entries")),
        Some(wanted) => (0..rank)
            .map(|axis| {
                let (full, wanted) = (full(axis), wanted[axis]);
                extra[axis] = extra[axis].saturating_add(wanted.saturating_sub(full));
                let total = full.saturating_sub(wanted);
                let (less, more) = (total / 2, total.div_ceil(2));
                if auto == "SAME_UPPER" { (less, more) } else { (more, less) }
            })
            .collect(),
    };
    let how = ConvTranspose { stride, dilation, padding, extra, groups: extents(&[call.int("group", 1)?])?[0] };
    Ok(x.conv_transpose(&weight, call.optional(2)?.as_ref(), &how))
}

/// A depthwise convolution over time whose window ends at each step; the state is what the next call sees before it.
fn causal_conv(call: &Call<'_>) -> Result<Vec<Item>> {
    let (x, weight) = (call.tensor(0)?, call.tensor(1)?);
    let (&[n, channels, _], &[_, _, width]) = (&x.check()?.shape[..], &weight.check()?.shape[..]) else {
        return wrong("takes tensors of rank 3");
    };
    let before = match call.optional(3)? {
        Some(state) => state,
        None => call.engine().full(x.dtype(), 0.0, [n, channels, width.saturating_sub(1)]),
    };
    let all = breakeven::concat(&[&before, &x], 2);
    let y = all.conv(&weight, call.optional(2)?.as_ref(), &Conv { groups: channels, ..Conv::default() });
    let y = match call.text("activation", "none")? {
        "none" => y,
        "silu" | "swish" => y.silu(),
        other => return unsupported(format!("the activation '{other}'")),
    };
    let length = all.check()?.shape[2];
    Ok(vec![y.into(), all.slice(2, length.saturating_sub(width.saturating_sub(1))..).into()])
}

fn whole(call: &Call<'_>, fold: fn(&Tensor, &[isize]) -> Tensor) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let axes: Vec<isize> = (2..x.check()?.shape.rank() as isize).collect();
    Ok(fold(&x, &axes).keep(&x, &axes[..]))
}

fn global_lp_pool(call: &Call<'_>) -> Result<Tensor> {
    let (x, p) = (call.tensor(0)?, p(call)?);
    let axes: Vec<isize> = (2..x.check()?.shape.rank() as isize).collect();
    let sums = x.abs().pow(&x.scalar(p)).sum(&axes[..]).keep(&x, &axes[..]);
    Ok(sums.pow(&sums.scalar(1.0 / p)))
}
