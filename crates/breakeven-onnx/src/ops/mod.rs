//! The operators: one small function each, in a table of its family.

mod activation;
mod attention;
mod control;
mod elementwise;
mod image;
mod linear;
mod loss;
mod norm;
mod order;
mod pick;
mod product;
mod quantised;
mod random;
mod recurrent;
mod reduce;
mod resize;
mod select;
mod sequence;
mod shape;
mod signal;
mod window;

use breakeven::{DType, Engine, Tensor};

use crate::call::{Call, Result};
use crate::value::Item;

/// An operator of the standard, as this crate computes it.
#[derive(Debug)]
pub(crate) struct Operator {
    pub name: &'static str,
    pub run: Run,
    /// The attributes that it reads; another one is missing, not ignored.
    pub attributes: &'static [&'static str],
    /// It gives something else in every run.
    pub is_random: bool,
}

/// How an operator is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    /// It has one output, a tensor.
    One(fn(&Call<'_>) -> Result<Tensor>),
    /// It has several outputs, or others than tensors.
    Many(fn(&Call<'_>) -> Result<Vec<Item>>),
}

/// An operator with one output.
const fn one(
    name: &'static str,
    attributes: &'static [&'static str],
    run: fn(&Call<'_>) -> Result<Tensor>,
) -> Operator {
    Operator { name, run: Run::One(run), attributes, is_random: false }
}

/// An operator with several outputs, or others than tensors.
const fn many(
    name: &'static str,
    attributes: &'static [&'static str],
    run: fn(&Call<'_>) -> Result<Vec<Item>>,
) -> Operator {
    Operator { name, run: Run::Many(run), attributes, is_random: false }
}

/// Families of the standard domain.
const STANDARD: &[&[Operator]] = &[
    activation::OPERATORS,
    attention::OPERATORS,
    control::OPERATORS,
    elementwise::OPERATORS,
    image::OPERATORS,
    linear::OPERATORS,
    loss::OPERATORS,
    norm::OPERATORS,
    order::OPERATORS,
    pick::OPERATORS,
    product::OPERATORS,
    quantised::OPERATORS,
    random::OPERATORS,
    recurrent::OPERATORS,
    reduce::OPERATORS,
    resize::OPERATORS,
    select::OPERATORS,
    sequence::OPERATORS,
    shape::OPERATORS,
    signal::OPERATORS,
    window::OPERATORS,
];

/// Families of the domain of operators that are not settled yet.
const PREVIEW: &[&[Operator]] = &[attention::PREVIEW];

/// The operator `name` of `domain`.
pub(crate) fn find(domain: &str, name: &str) -> Option<&'static Operator> {
    let families = match domain {
        "" => STANDARD,
        "ai.onnx.preview" => PREVIEW,
        _ => return None,
    };
    families.iter().flat_map(|family| family.iter()).find(|operator| operator.name == name)
}

/// Bytes that one step of a loop, or one of many parts, takes at least when it is written down.
pub(crate) const WRITTEN_DOWN: usize = 1 << 10;

/// The axis that `axis` means in a tensor of `rank`, counted from the back when negative.
fn axis(axis: i64, rank: usize) -> Result<usize> {
    let at = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(at)
        .ok()
        .filter(|&at| at < rank)
        .map_or_else(|| crate::error::wrong(format!("axis {axis} does not exist in a tensor of rank {rank}")), Ok)
}

/// Several axes, each at most once, ascending.
fn axes(given: &[i64], rank: usize) -> Result<Vec<usize>> {
    let mut axes = given.iter().map(|&a| axis(a, rank)).collect::<Result<Vec<usize>>>()?;
    axes.sort_unstable();
    if axes.windows(2).any(|pair| pair[0] == pair[1]) {
        return crate::error::wrong(format!("its axes {given:?} name one axis twice"));
    }
    Ok(axes)
}

/// Extents that must not be negative.
fn extents(given: &[i64]) -> Result<Vec<usize>> {
    let bad = || crate::error::wrong(format!("{given:?} has a negative extent"));
    given.iter().map(|&n| usize::try_from(n).ok()).collect::<Option<Vec<usize>>>().map_or_else(bad, Ok)
}

/// A product of numbers that a file may have made huge.
fn product_of(factors: &[usize]) -> Result<usize> {
    let too_large = || crate::error::wrong(format!("the product of {factors:?} is larger than any extent"));
    factors.iter().try_fold(1usize, |all, &one| all.checked_mul(one)).map_or_else(too_large, Ok)
}

/// `x * by` in the type of `x`, which a bare fraction would turn into floats.
fn times(x: &Tensor, by: f64) -> Tensor {
    x * x.scalar(by)
}

/// `x + by` in the type of `x`.
fn plus(x: &Tensor, by: f64) -> Tensor {
    x + x.scalar(by)
}

/// Numbers of type `dtype`; those of 16 bits are rounded by way of f32. A device without f64 meets none.
fn numbers(engine: &Engine, values: Vec<f64>, dims: &[usize], dtype: DType) -> Result<Tensor> {
    if dtype == DType::F64 {
        return Ok(engine.from_vec(values, shape(dims)?));
    }
    Ok(engine.from_vec(values.into_iter().map(|v| v as f32).collect(), shape(dims)?).cast(dtype))
}

/// A shape from computed extents.
fn shape(dims: &[usize]) -> Result<breakeven::Shape> {
    Ok(breakeven::Shape::new(dims)?)
}
