//! Normalisations and softmax.

use breakeven::{Axes, DType, Tensor};

use super::{Operator, axis, extents, many, one, shape};
use crate::call::{Call, Result};
use crate::error::{unsupported, wrong};
use crate::value::Item;

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    many("BatchNormalization", &["epsilon", "is_test", "momentum", "spatial", "training_mode"], batch_norm),
    one("GroupNormalization", &["epsilon", "num_groups", "stash_type"], group_norm),
    one("Hardmax", &["axis"], hardmax),
    one("InstanceNormalization", &["epsilon"], |c| {
        let (scale, bias) = (c.tensor(1)?, c.tensor(2)?);
        Ok(c.tensor(0)?.instance_norm(Some(&scale), Some(&bias), c.float("epsilon", 1e-5)?))
    }),
    many("LayerNormalization", &["axis", "epsilon", "stash_type"], layer_norm),
    one("LogSoftmax", &["axis"], |c| along(c, Tensor::log_softmax)),
    one("LpNormalization", &["axis", "p"], lp_norm),
    one("LRN", &["alpha", "beta", "bias", "size"], |c| {
        let size = extents(&[c.int("size", 1)?])?[0];
        let (alpha, beta, bias) = (c.float("alpha", 1e-4)?, c.float("beta", 0.75)?, c.float("bias", 1.0)?);
        Ok(c.tensor(0)?.local_response_norm(size, alpha, beta, bias))
    }),
    one("MeanVarianceNormalization", &["axes"], mean_variance_norm),
    one("RMSNormalization", &["axis", "epsilon", "stash_type"], rms_norm),
    one("Softmax", &["axis"], |c| along(c, Tensor::softmax)),
];

/// Along one axis since opset 13; before, over everything from the axis on.
fn along(call: &Call<'_>, row_wise: fn(&Tensor, isize) -> Tensor) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let dims = &x.check()?.shape;
    if call.opset() >= 13 {
        return Ok(row_wise(&x, axis(call.int("axis", -1)?, dims.rank())? as isize));
    }
    let at = axis(call.int("axis", 1)?, dims.rank())?;
    let rows = [dims[..at].iter().product(), dims[at..].iter().product::<usize>()];
    Ok(row_wise(&x.reshape(rows), 1).reshape(dims.clone()))
}

/// 1 at the first of the largest, 0 elsewhere.
fn hardmax(call: &Call<'_>) -> Result<Tensor> {
    along(call, |x, axis| {
        let Ok(spec) = x.check() else { return x.clone() };
        let at = if axis < 0 { axis + spec.shape.rank() as isize } else { axis };
        x.argmax(at).one_hot(spec.shape[at as usize]).cast(spec.dtype).permute(&last_to(spec.shape.rank(), at))
    })
}

/// The order of axes that brings the last one to `at`.
fn last_to(rank: usize, at: isize) -> Vec<isize> {
    let last = rank as isize - 1;
    (0..rank as isize).map(|a| if a == at { last } else { a - isize::from(a > at) }).collect()
}

fn batch_norm(call: &Call<'_>) -> Result<Vec<Item>> {
    let (x, scale, bias) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let (mean, var, epsilon) = (call.tensor(3)?, call.tensor(4)?, call.float("epsilon", 1e-5)?);
    if !call.flag("spatial", true)? {
        return unsupported("statistics for each element rather than each channel");
    }
    if call.outputs() > 3 {
        return unsupported("training before opset 14");
    }
    let dtype = x.check()?.dtype;
    let norm = |mean: &Tensor, var: &Tensor| {
        let as_x = |t: &Tensor| t.cast(dtype);
        x.batch_norm(&as_x(mean), &as_x(var), &as_x(&scale), &as_x(&bias), epsilon)
    };
    if !call.flag("training_mode", false)? {
        return Ok(vec![norm(&mean, &var).into()]);
    }
    let axes: Vec<isize> = (0..x.shape().rank() as isize).filter(|&a| a != 1).collect();
    let (now_var, now_mean) = x.var_mean(&axes[..]);
    let momentum = call.float("momentum", 0.9)?;
    let running = |old: &Tensor, now: &Tensor| old * momentum + now * (1.0 - momentum);
    let y = norm(&now_mean, &now_var);
    Ok(vec![y.into(), running(&mean, &now_mean).into(), running(&var, &now_var).into()])
}

/// Scale and bias are by group before opset 21, by channel since.
fn group_norm(call: &Call<'_>) -> Result<Tensor> {
    let (x, scale, bias) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let groups = extents(&[call.int("num_groups", 0)?])?[0];
    let channels = x.check()?.shape.get(1).copied().unwrap_or(0);
    let spread = |values: Tensor| -> Result<Tensor> {
        let given = values.check()?.shape.elements();
        if given == channels || groups == 0 || given != groups || channels % groups != 0 {
            return Ok(values);
        }
        Ok(values.unsqueeze(-1).broadcast_to([groups, channels / groups]).reshape(channels))
    };
    let (scale, bias) = (spread(scale)?, spread(bias)?);
    Ok(x.group_norm(groups, Some(&scale), Some(&bias), call.float("epsilon", 1e-5)?))
}

/// The type in which statistics are taken, which the node names: f32 unless it says otherwise.
fn stash(call: &Call<'_>, dtype: DType) -> Result<DType> {
    Ok(match call.dtype("stash_type")? {
        _ if dtype == DType::F64 => dtype,
        Some(stash) => stash,
        None => DType::F32,
    })
}

/// Statistics over all axes from `axis` on, and what a scale and bias make of it.
fn layer_norm(call: &Call<'_>) -> Result<Vec<Item>> {
    let x = call.tensor(0)?;
    let (dims, dtype) = (x.check()?.shape.clone(), x.dtype());
    let at = axis(call.int("axis", -1)?, dims.rank())?;
    let (rows, width) = (dims[..at].iter().product::<usize>(), dims[at..].iter().product::<usize>());
    let (epsilon, stash) = (call.float("epsilon", 1e-5)?, stash(call, dtype)?);
    let flat = x.cast(stash).reshape([rows, width]);
    let normal = flat.layer_norm(None, None, epsilon).reshape(dims.clone()).cast(dtype);
    let scaled = normal * call.tensor(1)?;
    let y = match call.optional(2)? {
        Some(bias) => scaled + bias,
        None => scaled,
    };
    if !call.wants(1) && !call.wants(2) {
        return Ok(vec![y.into()]);
    }
    let (var, mean) = flat.var_mean(1);
    let kept: Vec<usize> = dims.iter().enumerate().map(|(a, &n)| if a < at { n } else { 1 }).collect();
    let kept = shape(&kept)?;
    Ok(vec![y.into(), mean.reshape(kept.clone()).into(), (var + epsilon).rsqrt().reshape(kept).into()])
}

fn rms_norm(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let (dims, dtype) = (x.check()?.shape.clone(), x.dtype());
    let at = axis(call.int("axis", -1)?, dims.rank())?;
    let (rows, width) = (dims[..at].iter().product::<usize>(), dims[at..].iter().product::<usize>());
    let flat = x.cast(stash(call, dtype)?).reshape([rows, width]);
    let normal = flat.rms_norm(None, call.float("epsilon", 1e-5)?).reshape(dims).cast(dtype);
    Ok(normal * call.tensor(1)?)
}

/// Divided by its norm along an axis; 0 where that is 0.
fn lp_norm(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let along = axis(call.int("axis", -1)?, x.check()?.shape.rank())? as isize;
    let norm = match call.int("p", 2)? {
        1 => x.abs().sum(along),
        2 => x.norm(along),
        other => return wrong(format!("takes p of 1 or 2, not {other}")),
    };
    let norm = norm.unsqueeze(along);
    let zero = norm.scalar(0.0);
    let some = norm.equal(&zero).where_(&norm.scalar(1.0), &norm);
    Ok(&x / some)
}

fn mean_variance_norm(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let given = super::axes(call.list("axes")?.unwrap_or(&[0, 2, 3]), x.check()?.shape.rank())?;
    let axes: Vec<isize> = given.into_iter().map(|a| a as isize).collect();
    let (var, mean) = x.var_mean(Axes::from(&axes[..]));
    let (var, mean) = (var.keep(&x, &axes[..]), mean.keep(&x, &axes[..]));
    Ok((x - mean) / (var.sqrt() + 1e-9))
}
