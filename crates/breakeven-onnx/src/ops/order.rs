//! Sorting, picking the largest, and what combines elements by index.

use breakeven::{Combine, DType, Tensor, UniqueOrder};

use super::{Operator, axis, many, one, plus, shape, times};
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
    let (dims, to) = (x.check()?.shape.clone(), index.check()?.shape.clone());
    let along = axis(call.int("axis", 0)?, dims.rank())?;
    if (0..dims.rank()).any(|a| a != along && to.get(a).is_some_and(|&n| n > dims[a])) {
        return wrong(format!("an index of {to} does not fit {dims}"));
    }
    if (0..dims.rank()).all(|a| a == along || to.get(a) == Some(&dims[a])) {
        return Ok(x.scatter_with(along as isize, &index, &updates, combine(call)?));
    }
    // Only a part of the other axes is updated: the index says which elements of that part.
    let part = (0..dims.rank()).filter(|&a| a != along).fold(x.clone(), |part, a| part.slice(a as isize, ..to[a]));
    let new = part.scatter_with(along as isize, &index, &updates, combine(call)?);
    Ok(put_back(&x, &new))
}

/// `new` in place of the first elements along every axis of `x`.
fn put_back(x: &Tensor, new: &Tensor) -> Tensor {
    let (dims, part) = (x.shape().clone(), new.shape().clone());
    (0..dims.rank()).rev().fold(new.clone(), |new, a| {
        // Axes before this one are still as short as the part.
        let rest = (0..a).fold(x.clone(), |rest, b| rest.slice(b as isize, ..part[b]));
        breakeven::concat(&[&new, &rest.slice(a as isize, part[a]..)], a as isize)
    })
}

/// Each row of the index names the slice that it updates.
fn scatter_nd(call: &Call<'_>) -> Result<Tensor> {
    let (x, index, updates) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let (dims, to) = (x.check()?.shape.clone(), index.check()?.shape.clone());
    let depth = to.last().copied().unwrap_or(0);
    if to.rank() == 0 || depth > dims.rank() {
        return wrong(format!("an index of {to} does not fit {dims}"));
    }
    let (named, inner) = (&dims[..depth], dims[depth..].iter().product::<usize>());
    let (rows, each) = (to[..to.rank() - 1].iter().product::<usize>(), named.iter().product::<usize>());
    let index = index.reshape([rows, depth]).cast(DType::I32);
    let (mut place, mut step) = (call.engine().full(DType::I32, 0.0, [rows]), each);
    for (a, &extent) in named.iter().enumerate() {
        step /= extent.max(1);
        let one = index.slice(1, a..=a).squeeze(1);
        let one = one.less(&one.scalar(0.0)).where_(&plus(&one, extent as f64), &one);
        place = place + times(&one, step as f64);
    }
    let place = place.unsqueeze(-1).broadcast_to([rows, inner]);
    let flat = x.reshape([each, inner]);
    let new = flat.scatter_with(0, &place, &updates.reshape([rows, inner]), combine(call)?);
    Ok(new.reshape(shape(&dims)?))
}
