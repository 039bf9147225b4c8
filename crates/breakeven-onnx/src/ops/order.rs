//! Sorting, picking the largest, and what combines elements by index.

use breakeven::{Combine, Tensor, UniqueOrder};

use super::{Operator, axis, many, one};
use crate::call::{Call, Result};
use crate::error::{unsupported, wrong};
use crate::value::Item;

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    one("NonZero", &[], |c| moved(c, &c.readable(c.item(0)?)?.nonzero()?)),
    one("Scatter", &["axis"], scatter_elements),
    one("ScatterElements", &["axis", "reduction"], scatter_elements),
    one("ScatterND", &["reduction"], scatter_nd),
    many("TopK", &["axis", "k", "largest", "sorted"], top_k),
    many("Unique", &["axis", "sorted"], unique),
];

/// A tensor that was computed on the host, on the engine of the call.
fn moved(call: &Call<'_>, tensor: &Tensor) -> Result<Tensor> {
    Ok(call.engine().tensor_from_bytes(tensor.check()?.clone(), tensor.to_bytes()?)?)
}

fn top_k(call: &Call<'_>) -> Result<Vec<Item>> {
    let x = call.tensor(0)?;
    // An attribute before opset 10, an input since.
    let k = match call.given_int("k")? {
        Some(k) => k,
        None => call.one_int(1)?,
    };
    let dims = &x.check()?.shape;
    let along = axis(call.int("axis", -1)?, dims.rank())?;
    let Some(count) = usize::try_from(k).ok().filter(|&k| k <= dims[along]) else {
        return wrong(format!("asks for {k} of {} elements", dims[along]));
    };
    let (values, indices) = x.topk(count, along as isize, call.flag("largest", true)?);
    Ok(vec![values.into(), indices.into()])
}

fn unique(call: &Call<'_>) -> Result<Vec<Item>> {
    let along = call.given_int("axis")?.map(|a| a as isize);
    let order = if call.flag("sorted", true)? { UniqueOrder::Sorted } else { UniqueOrder::FirstSeen };
    let found = call.readable(call.item(0)?)?.unique(along, order)?;
    let inverse = found.inverse.reshape(found.inverse.shape().elements());
    let all = [found.values, found.indices, inverse, found.counts];
    all.iter().map(|tensor| Ok(moved(call, tensor)?.into())).collect()
}

fn combine(call: &Call<'_>) -> Result<Combine> {
    Ok(match call.text("reduction", "none")? {
        "none" => Combine::Set,
        "add" => Combine::Add,
        "mul" => Combine::Mul,
        "max" => Combine::Max,
        "min" => Combine::Min,
        other => return unsupported(format!("the reduction '{other}'")),
    })
}

fn scatter_elements(call: &Call<'_>) -> Result<Tensor> {
    let (x, index, updates) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let along = axis(call.int("axis", 0)?, x.check()?.shape.rank())?;
    Ok(x.scatter_with(along as isize, &index, &updates, combine(call)?))
}

/// Each row of the index names the slice that it updates.
fn scatter_nd(call: &Call<'_>) -> Result<Tensor> {
    Ok(call.tensor(0)?.scatter_nd(&call.tensor(1)?, &call.tensor(2)?, combine(call)?))
}
