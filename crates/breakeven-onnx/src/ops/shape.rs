//! Operators that move elements or make them from shapes.

use breakeven::{Tensor, concat};

use super::{Operator, WRITTEN_DOWN, axes, axis, extents, many, one, product_of, shape};
use crate::attribute::Attribute;
use crate::call::{Call, Result};
use crate::error::{unsupported, wrong};
use crate::literal::Literal;
use crate::value::Item;

const CONSTANT: &[&str] = &[
    "sparse_value",
    "value",
    "value_float",
    "value_floats",
    "value_int",
    "value_ints",
    "value_string",
    "value_strings",
];

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    one("Concat", &["axis"], |c| join(&c.tensors()?, c.int("axis", 1)?)),
    one("Constant", CONSTANT, constant),
    one("ConstantOfShape", &["value"], constant_of_shape),
    one("DepthToSpace", &["blocksize", "mode"], depth_to_space),
    one("Expand", &[], expand),
    one("Flatten", &["axis"], flatten),
    one("Gather", &["axis"], gather),
    one("Range", &["stash_type"], range),
    one("Reshape", &["allowzero", "shape"], reshape),
    one("Shape", &["end", "start"], shape_of),
    one("Size", &[], |c| Ok(c.known(vec![c.spec(0)?.shape.elements() as i64], ()))),
    one("Slice", &["axes", "ends", "starts"], slice),
    one("SpaceToDepth", &["blocksize", "mode"], space_to_depth),
    many("Split", &["axis", "num_outputs", "split"], split),
    one("Squeeze", &["axes"], squeeze),
    one("Transpose", &["perm"], transpose),
    one("Unsqueeze", &["axes"], unsqueeze),
];

/// Tensors one after the other.
pub(super) fn join(tensors: &[Tensor], along: i64) -> Result<Tensor> {
    let Some(first) = tensors.first() else { return wrong("takes at least one tensor") };
    let along = axis(along, first.check()?.shape.rank())?;
    Ok(concat(&tensors.iter().collect::<Vec<_>>(), along as isize))
}

fn constant(call: &Call<'_>) -> Result<Tensor> {
    let attribute = CONSTANT.iter().find_map(|name| call.attribute(name));
    Ok(match attribute {
        Some(Attribute::Tensor(literal)) => call.literal(literal),
        Some(Attribute::Float(value)) => call.known(vec![*value], ()),
        Some(Attribute::Int(value)) => call.known(vec![*value], ()),
        Some(Attribute::Floats(values)) => call.known(values.clone(), values.len()),
        Some(Attribute::Ints(values)) => call.known(values.clone(), values.len()),
        Some(other) => return unsupported(format!("constants that are {}", other.kind())),
        None => return wrong("has no value"),
    })
}

fn constant_of_shape(call: &Call<'_>) -> Result<Tensor> {
    let dims = shape(&extents(&call.ints(0)?)?)?;
    let literal = match call.attribute("value") {
        Some(Attribute::Tensor(literal)) => literal.clone(),
        None => Literal::of(vec![0.0f32], 1),
        Some(other) => return wrong(format!("its value must be a tensor, not {}", other.kind())),
    };
    if literal.spec.shape.elements() != 1 {
        return wrong(format!("its value must be one number, not {}", literal.spec));
    }
    // The shape was read on the host; where it depends on data, so does the result.
    let engine = call.engine();
    Ok(engine.from_bytes(literal.bytes, literal.spec).reshape(()).broadcast_to(dims))
}

fn depth_to_space(call: &Call<'_>) -> Result<Tensor> {
    let (x, block) = (call.tensor(0)?, block(call)?);
    let &[n, c, h, w] = &x.check()?.shape[..] else { return wrong("takes a tensor of rank 4") };
    let each = product_of(&[block, block])?;
    if c % each != 0 {
        return wrong(format!("{c} channels are not a multiple of {block} x {block}"));
    }
    let (out, height, width) = (c / each, product_of(&[h, block])?, product_of(&[w, block])?);
    let (inner, axes): ([usize; 6], [isize; 6]) = match call.text("mode", "DCR")? {
        "DCR" => ([n, block, block, out, h, w], [0, 3, 4, 1, 5, 2]),
        "CRD" => ([n, out, block, block, h, w], [0, 1, 4, 2, 5, 3]),
        other => return wrong(format!("has the modes DCR and CRD, not '{other}'")),
    };
    Ok(x.reshape(inner).permute(&axes).reshape([n, out, height, width]))
}

fn space_to_depth(call: &Call<'_>) -> Result<Tensor> {
    let (x, block) = (call.tensor(0)?, block(call)?);
    let &[n, c, h, w] = &x.check()?.shape[..] else { return wrong("takes a tensor of rank 4") };
    if h % block != 0 || w % block != 0 {
        return wrong(format!("{h} x {w} is not a multiple of {block} x {block}"));
    }
    let axes: [isize; 6] = match call.text("mode", "DCR")? {
        "DCR" => [0, 3, 5, 1, 2, 4],
        "CRD" => [0, 1, 3, 5, 2, 4],
        other => return wrong(format!("has the modes DCR and CRD, not '{other}'")),
    };
    let parts = x.reshape([n, c, h / block, block, w / block, block]);
    Ok(parts.permute(&axes).reshape([n, product_of(&[c, block, block])?, h / block, w / block]))
}

fn block(call: &Call<'_>) -> Result<usize> {
    let block = call.int("blocksize", 0)?;
    usize::try_from(block).ok().filter(|&b| b > 0).map_or_else(|| wrong(format!("a blocksize of {block}")), Ok)
}

/// Broadcast both ways: an extent of 1 in the wanted shape leaves that of the tensor.
fn expand(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let wanted = shape(&extents(&call.ints(1)?)?)?;
    match x.check()?.shape.broadcast(&wanted) {
        Some(to) => Ok(x.broadcast_to(to)),
        None => wrong(format!("{} does not broadcast to {wanted}", x.shape())),
    }
}

fn flatten(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let dims = &x.check()?.shape;
    let axis = call.int("axis", 1)?;
    let at = if axis == dims.rank() as i64 { dims.rank() } else { super::axis(axis, dims.rank().max(1))? };
    let (rows, columns) = (dims[..at].iter().product::<usize>(), dims[at..].iter().product::<usize>());
    Ok(x.reshape([rows, columns]))
}

fn gather(call: &Call<'_>) -> Result<Tensor> {
    let (x, index) = (call.tensor(0)?, call.tensor(1)?);
    let along = axis(call.int("axis", 0)?, x.check()?.shape.rank())?;
    Ok(x.gather(along as isize, &index))
}

fn range(call: &Call<'_>) -> Result<Tensor> {
    let dtype = call.spec(0)?.dtype;
    if dtype.is_float() {
        let (start, limit, step) = (call.one_float(0)?, call.one_float(1)?, call.one_float(2)?);
        let count = count(call, ((limit - start) / step).ceil())?;
        return Ok(call.made((0..count).map(|i| start + i as f64 * step).collect(), count).cast(dtype));
    }
    let (start, limit, step) = (call.one_int(0)?, call.one_int(1)?, call.one_int(2)?);
    if step == 0 {
        return wrong("takes a step that is not 0");
    }
    let count = count(call, ((i128::from(limit) - i128::from(start)) as f64 / step as f64).ceil())?;
    let at = |i: i64| start.wrapping_add(i.wrapping_mul(step));
    Ok(call.made((0..count as i64).map(at).collect(), count).cast(dtype))
}

/// So many elements, if a list of them may be held.
fn count(call: &Call<'_>, exact: f64) -> Result<usize> {
    if exact.is_nan() {
        return wrong("has no number of elements");
    }
    let count = exact.max(0.0) as usize;
    call.room(count, size_of::<f64>()).map(|()| count)
}

/// 0 keeps an extent unless `allowzero` is set, and one -1 stands for what is left.
fn reshape(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let Some(wanted) = call.list_or_input("shape", 1)? else { return wrong("has no shape") };
    let from = &x.check()?.shape;
    let keeps_zero = !call.flag("allowzero", false)?;
    let mut dims = Vec::new();
    for (at, &n) in wanted.iter().enumerate() {
        dims.push(match n {
            0 if keeps_zero && at >= from.rank() => {
                return wrong(format!("{wanted:?} keeps an axis that is not there"));
            }
            0 if keeps_zero => from[at] as i64,
            n => n,
        });
    }
    let known = dims.iter().filter(|&&n| n != -1).try_fold(1i64, |a, &n| a.checked_mul(n));
    let known = known.map_or_else(|| wrong(format!("{wanted:?} is too large")), Ok)?;
    if let Some(at) = dims.iter().position(|&n| n == -1) {
        let elements = from.elements() as i64;
        if known <= 0 || elements % known != 0 {
            return wrong(format!("{from} has no shape {wanted:?}"));
        }
        dims[at] = elements / known;
    }
    Ok(x.reshape(shape(&extents(&dims)?)?))
}

/// Known without the elements.
fn shape_of(call: &Call<'_>) -> Result<Tensor> {
    let dims = call.spec(0)?.shape;
    let rank = dims.rank() as i64;
    let at = |n: i64| (if n < 0 { n + rank } else { n }).clamp(0, rank) as usize;
    let (start, end) = (at(call.int("start", 0)?), at(call.int("end", rank)?));
    let part: Vec<i64> = dims.get(start..end).unwrap_or_default().iter().map(|&n| n as i64).collect();
    let count = part.len();
    Ok(call.known(part, count))
}

/// Attributes before opset 10, inputs since.
fn slice(call: &Call<'_>) -> Result<Tensor> {
    let mut x = call.tensor(0)?;
    let rank = x.check()?.shape.rank();
    let (Some(starts), Some(ends)) = (call.list_or_input("starts", 1)?, call.list_or_input("ends", 2)?) else {
        return wrong("has no starts or ends");
    };
    let along = call.list_or_input("axes", 3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = call.optional_ints(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), along.len(), steps.len()].iter().any(|&n| n != starts.len()) {
        return wrong("its starts, ends, axes and steps differ in number");
    }
    for (i, &a) in along.iter().enumerate() {
        let axis = axis(a, rank)?;
        let (start, count) = span(x.shape()[axis], starts[i], ends[i], steps[i])?;
        x = x.slice_by(axis as isize, start, count, steps[i] as isize);
    }
    Ok(x)
}

/// First element and number of elements that `start..end` by `step` takes of `extent`.
fn span(extent: usize, start: i64, end: i64, step: i64) -> Result<(usize, usize)> {
    if step == 0 {
        return wrong("takes a step that is not 0");
    }
    let n = extent as i64;
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let place = |at: i64| if at < 0 { at.saturating_add(n) } else { at }.clamp(low, high);
    let (start, end) = (place(start), place(end));
    let distance = if step > 0 { end - start } else { start - end };
    let count = if distance <= 0 { 0 } else { (distance as u64).div_ceil(step.unsigned_abs()) as usize };
    Ok((if count == 0 { 0 } else { start as usize }, count))
}

fn split(call: &Call<'_>) -> Result<Vec<Item>> {
    let x = call.tensor(0)?;
    let along = axis(call.int("axis", 0)?, x.check()?.shape.rank())?;
    let extent = x.shape()[along];
    let parts = match call.list_or_input("split", 1)? {
        Some(parts) => extents(&parts)?,
        None => even_parts(call, extent)?,
    };
    if parts.iter().copied().fold(0, usize::saturating_add) != extent {
        return wrong(format!("{parts:?} does not make up an extent of {extent}"));
    }
    Ok(x.split(along as isize, &parts).into_iter().map(Item::Tensor).collect())
}

/// Equal parts; the last one is smaller where they do not fit.
fn even_parts(call: &Call<'_>, extent: usize) -> Result<Vec<usize>> {
    let count = call.int("num_outputs", call.outputs() as i64)?;
    let Some(count) = usize::try_from(count).ok().filter(|&n| n > 0) else { return wrong("splits into no part") };
    call.room(count, WRITTEN_DOWN)?;
    let part = extent.div_ceil(count);
    Ok((0..count).map(|i| part.min(extent.saturating_sub(i * part))).collect())
}

fn squeeze(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let dims = &x.check()?.shape;
    let gone = match call.list_or_input("axes", 1)? {
        Some(given) => axes(&given, dims.rank())?,
        None => (0..dims.rank()).filter(|&a| dims[a] == 1).collect(),
    };
    if let Some(&axis) = gone.iter().find(|&&a| dims[a] != 1) {
        return wrong(format!("axis {axis} of {dims} is not of extent 1"));
    }
    let left: Vec<usize> = (0..dims.rank()).filter(|a| !gone.contains(a)).map(|a| dims[a]).collect();
    Ok(x.reshape(shape(&left)?))
}

fn unsqueeze(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let Some(given) = call.list_or_input("axes", 1)? else { return wrong("has no axes") };
    let dims = &x.check()?.shape;
    let rank = dims.rank() + given.len();
    let new = axes(&given, rank)?;
    let mut old = dims.iter().copied();
    let all: Vec<usize> =
        (0..rank).map(|a| if new.contains(&a) { 1 } else { old.next().expect("one for each old axis") }).collect();
    Ok(x.reshape(shape(&all)?))
}

fn transpose(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let rank = x.check()?.shape.rank();
    let axes: Vec<isize> = match call.list("perm")? {
        Some(given) => given.iter().map(|&a| a as isize).collect(),
        None => (0..rank as isize).rev().collect(),
    };
    Ok(x.permute(&axes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_counts_what_it_takes() {
        let check = |extent, start, end, step, expected: (usize, usize)| {
            assert_eq!(span(extent, start, end, step).expect("a step"), expected, "{start}..{end} by {step}");
        };
        check(10, 2, 8, 3, (2, 2));
        check(10, -3, i64::MAX, 1, (7, 3));
        check(10, i64::MAX, i64::MIN, -1, (9, 10));
        check(10, 20, 0, -4, (9, 3));
        check(10, 5, 5, 1, (0, 0));
        check(0, 0, 1, 1, (0, 0));
        check(10, 8, 2, 1, (0, 0));
        assert!(span(10, 0, 1, 0).is_err());
    }
}
