//! Random numbers: another stream in every run, unless the node names a seed.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use breakeven::{DType, Shape, Tensor};

use super::{Operator, Run, extents, shape};
use crate::call::{Call, Result};
use crate::error::wrong;

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    random("Bernoulli", &["dtype", "seed"], bernoulli),
    random("RandomNormal", &["dtype", "mean", "scale", "seed", "shape"], |c| normal(c, shaped(c)?, DType::F32)),
    random("RandomNormalLike", &["dtype", "mean", "scale", "seed"], |c| like(c, normal)),
    random("RandomUniform", &["dtype", "high", "low", "seed", "shape"], |c| uniform(c, shaped(c)?, DType::F32)),
    random("RandomUniformLike", &["dtype", "high", "low", "seed"], |c| like(c, uniform)),
];

const fn random(
    name: &'static str,
    attributes: &'static [&'static str],
    run: fn(&Call<'_>) -> Result<Tensor>,
) -> Operator {
    Operator { name, run: Run::One(run), attributes, is_random: true }
}

/// The seed of the node; else one that nobody can foresee.
fn seed(call: &Call<'_>) -> Result<u64> {
    Ok(match call.attribute("seed") {
        Some(_) => call.float("seed", 0.0)?.to_bits(),
        None => RandomState::new().hash_one(call.node.id),
    })
}

fn shaped(call: &Call<'_>) -> Result<Shape> {
    call.list("shape")?.map_or_else(|| wrong("has no shape"), |dims| shape(&extents(dims)?))
}

fn like(call: &Call<'_>, make: fn(&Call<'_>, Shape, DType) -> Result<Tensor>) -> Result<Tensor> {
    let spec = call.spec(0)?;
    let dtype = if spec.dtype.is_float() { spec.dtype } else { DType::F32 };
    make(call, spec.shape, dtype)
}

fn normal(call: &Call<'_>, shape: Shape, default: DType) -> Result<Tensor> {
    let (mean, scale) = (call.float("mean", 0.0)?, call.float("scale", 1.0)?);
    let dtype = call.dtype("dtype")?.unwrap_or(default);
    Ok((call.target().normal(seed(call)?, shape) * scale + mean).cast(dtype))
}

fn uniform(call: &Call<'_>, shape: Shape, default: DType) -> Result<Tensor> {
    let (low, high) = (call.float("low", 0.0)?, call.float("high", 1.0)?);
    let dtype = call.dtype("dtype")?.unwrap_or(default);
    Ok((call.target().uniform(seed(call)?, shape) * (high - low) + low).cast(dtype))
}

/// 1 with the probability that each element gives.
fn bernoulli(call: &Call<'_>) -> Result<Tensor> {
    let chance = call.tensor(0)?;
    let spec = chance.check()?.clone();
    let dtype = call.dtype("dtype")?.unwrap_or(spec.dtype);
    let drawn = call.target().uniform(seed(call)?, spec.shape);
    Ok(drawn.less(&chance.cast(DType::F32)).cast(dtype))
}
