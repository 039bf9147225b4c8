//! Operators that pick, repeat or surround elements.

use breakeven::{DType, Pad, Tensor, concat};

use super::{Operator, axis, extents, one, shape};
use crate::call::{Call, Result};
use crate::error::{unsupported, wrong};

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    one("CenterCropPad", &["axes"], center_crop_pad),
    one("Compress", &["axis"], compress),
    one("EyeLike", &["dtype", "k"], eye_like),
    one("OneHot", &["axis"], one_hot),
    one("Pad", &["mode", "paddings", "pads", "value"], pad),
    one("ReverseSequence", &["batch_axis", "time_axis"], reverse_sequence),
    one("Tile", &[], tile),
    one("Trilu", &["upper"], trilu),
];

fn pad(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let rank = x.check()?.shape.rank();
    let given = match call.list("paddings")? {
        Some(list) => list.to_vec(),
        None => call.list_or_input("pads", 1)?.unwrap_or_default(),
    };
    let axes = match call.optional_ints(3)? {
        Some(axes) => axes.iter().map(|&a| axis(a, rank)).collect::<Result<Vec<_>>>()?,
        None => (0..rank).collect(),
    };
    if given.len() != 2 * axes.len() {
        return wrong(format!("has {} widths for {} axes", given.len(), axes.len()));
    }
    let mut widths = vec![(0, 0); rank];
    for (i, &axis) in axes.iter().enumerate() {
        widths[axis] = (given[i] as isize, given[i + axes.len()] as isize);
    }
    let with = match call.text("mode", "constant")? {
        "constant" if call.has(2) => Pad::Constant(call.floats(2)?.first().copied().unwrap_or(0.0)),
        "constant" => Pad::Constant(call.float("value", 0.0)?),
        "reflect" => Pad::Reflect,
        "edge" => Pad::Edge,
        "wrap" => Pad::Wrap,
        other => return wrong(format!("pads by '{other}', which is not known")),
    };
    Ok(x.pad(&widths, with))
}

fn tile(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let counts = extents(&call.ints(1)?)?;
    Ok(x.tile(&counts))
}

fn trilu(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let above = if call.has(1) { call.one_int(1)? } else { 0 };
    // Far beyond every diagonal is as good as further.
    let above = above.clamp(-(1 << 30), 1 << 30) as isize;
    Ok(if call.flag("upper", true)? { x.triu(above) } else { x.tril(above) })
}

fn eye_like(call: &Call<'_>) -> Result<Tensor> {
    let spec = call.spec(0)?;
    let &[rows, columns] = &spec.shape[..] else { return wrong(format!("takes a matrix, not {spec}")) };
    let dtype = call.dtype("dtype")?.unwrap_or(spec.dtype);
    Ok(call.engine().eye(dtype, rows, columns, call.int("k", 0)? as isize))
}

/// Values are one for off and one for on; an index outside is off everywhere.
fn one_hot(call: &Call<'_>) -> Result<Tensor> {
    let (index, values) = (call.tensor(0)?, call.tensor(2)?);
    let depth = extents(&[call.one_int(1)?])?[0];
    let rank = index.check()?.shape.rank();
    call.room(depth, size_of::<i64>())?;
    let at = axis(call.int("axis", -1)?, rank + 1)?;
    let whole = if index.dtype().is_integer() { index } else { index.cast(DType::I64) };
    let mut order: Vec<isize> = (0..rank as isize).collect();
    order.insert(at, rank as isize);
    let on = whole.one_hot(depth).permute(&order);
    Ok(on.where_(&values.slice(0, 1..2).reshape(()), &values.slice(0, 0..1).reshape(())))
}

/// Slices for which the condition holds, which is read.
fn compress(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let held = call.ints(1)?;
    let places: Vec<i64> = (0..held.len() as i64).filter(|&i| held[i as usize] != 0).collect();
    let (x, along) = match call.given_int("axis")? {
        Some(along) => (x.clone(), axis(along, x.check()?.shape.rank())?),
        None => (x.reshape(x.check()?.shape.elements()), 0),
    };
    let count = places.len();
    if held.len() > x.check()?.shape[along] {
        return wrong(format!("its condition has {} elements, more than axis {along} of {}", held.len(), x.shape()));
    }
    Ok(x.gather(along as isize, &call.made(places, count)))
}

/// The middle of each axis, with zeros where the wanted extent is larger.
fn center_crop_pad(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let dims = x.check()?.shape.clone();
    let wanted = extents(&call.ints(1)?)?;
    let axes = match call.list("axes")? {
        Some(list) => list.iter().map(|&a| axis(a, dims.rank())).collect::<Result<Vec<_>>>()?,
        None => (0..dims.rank()).collect(),
    };
    if axes.len() != wanted.len() {
        return wrong(format!("has {} extents for {} axes", wanted.len(), axes.len()));
    }
    let mut widths = vec![(0isize, 0isize); dims.rank()];
    for (&axis, &to) in axes.iter().zip(&wanted) {
        let more = to as isize - dims[axis] as isize;
        // Halves round down where elements are added and where they are taken away.
        let before = if more >= 0 { more / 2 } else { -(-more / 2) };
        widths[axis] = (before, more - before);
    }
    Ok(x.pad(&widths, Pad::Constant(0.0)))
}

/// The first steps of each sample backwards, the rest as they are; the lengths are read.
fn reverse_sequence(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let lengths = extents(&call.ints(1)?)?;
    let (batch, time) = (call.int("batch_axis", 1)?, call.int("time_axis", 0)?);
    if !matches!((batch, time), (0, 1) | (1, 0)) {
        return unsupported(format!("batch axis {batch} with time axis {time}"));
    }
    let x = if batch == 0 { x } else { x.transpose(0, 1) };
    let dims = x.check()?.shape.clone();
    let fits =
        matches!(dims[..], [samples, steps, ..] if lengths.len() == samples && lengths.iter().all(|&n| n <= steps));
    if !fits {
        return wrong(format!("lengths {lengths:?} do not fit {dims}"));
    }
    let rows: Vec<Tensor> = lengths
        .iter()
        .enumerate()
        .map(|(i, &n)| {
            let row = x.slice(0, i..=i);
            concat(&[&row.slice(1, 0..n).flip(1), &row.slice(1, n..)], 1)
        })
        .collect();
    let y = if rows.is_empty() { x.reshape(shape(&dims)?) } else { concat(&rows.iter().collect::<Vec<_>>(), 0) };
    Ok(if batch == 0 { y } else { y.transpose(0, 1) })
}
