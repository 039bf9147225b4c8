//! Resizing by interpolation.

use breakeven::{Coordinates, DType, Filter, Resize, Rounding, Tensor};

use super::{Operator, axis, extents, one};
use crate::call::{Call, Result};
use crate::error::{unsupported, wrong};

const RESIZE: &[&str] = &[
    "antialias",
    "axes",
    "coordinate_transformation_mode",
    "cubic_coeff_a",
    "exclude_outside",
    "extrapolation_value",
    "keep_aspect_ratio_policy",
    "mode",
    "nearest_mode",
];

/// The family.
pub(super) const OPERATORS: &[Operator] =
    &[one("Resize", RESIZE, resize), one("Upsample", &["height_scale", "mode", "scales", "width_scale"], upsample)];

/// To so many elements, each so much apart.
#[derive(Clone, Copy)]
struct Target {
    count: usize,
    scale: f64,
}

fn resize(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let dims = x.check()?.shape.clone();
    let axes = match call.list("axes")? {
        Some(list) => list.iter().map(|&a| axis(a, dims.rank())).collect::<Result<Vec<_>>>()?,
        None => (0..dims.rank()).collect(),
    };
    let extents: Vec<usize> = axes.iter().map(|&a| dims[a]).collect();
    let targets = targets(call, &extents)?;
    let region = if call.opset() >= 11 && call.has(1) { call.floats(1)? } else { Vec::new() };
    let crops = call.text("coordinate_transformation_mode", "half_pixel")? == "tf_crop_and_resize";
    if crops && region.len() != 2 * axes.len() {
        return wrong(format!("its region has {} numbers for {} axes", region.len(), axes.len()));
    }
    let all = axes.iter().zip(targets).enumerate().map(|(i, (&axis, target))| {
        let part = if crops { (region[i], region[i + axes.len()]) } else { (0.0, 1.0) };
        Ok((axis, how(call, target, part)?))
    });
    apply(&x, &all.collect::<Result<Vec<_>>>()?)
}

/// Nothing is done along an axis that keeps its elements. Integers are computed as f32.
fn apply(x: &Tensor, all: &[(usize, Resize)]) -> Result<Tensor> {
    let (dtype, dims) = (x.check()?.dtype, x.check()?.shape.clone());
    let changes = |axis: usize, how: &Resize| {
        let is_whole = matches!(how.coordinates, Coordinates::Crop(from, to) if (from, to) != (0.0, 1.0));
        how.count != dims[axis] || how.scale != 1.0 || is_whole
    };
    let over = if dtype.is_float() { x.clone() } else { x.cast(DType::F32) };
    let resized = all.iter().filter(|(axis, how)| changes(*axis, how));
    Ok(resized.fold(over, |x, (axis, how)| x.resize(*axis as isize, how)).cast(dtype))
}

/// Extents of the result from scales or sizes; a policy keeps the proportions.
fn targets(call: &Call<'_>, from: &[usize]) -> Result<Vec<Target>> {
    let given = |index: usize| call.has(index) && call.spec(index).is_ok_and(|spec| !spec.shape.is_empty());
    let scales_at = if call.opset() < 11 { 1 } else { 2 };
    if given(scales_at) {
        let scales = call.floats(scales_at)?;
        return by_scales(from, &scales);
    }
    if !given(3) {
        return wrong("has neither scales nor sizes");
    }
    let sizes = extents(&call.ints(3)?)?;
    if sizes.len() != from.len() {
        return wrong(format!("has {} sizes for {} axes", sizes.len(), from.len()));
    }
    let ratios = sizes.iter().zip(from).map(|(&to, &n)| to as f64 / n.max(1) as f64);
    let kept = match call.text("keep_aspect_ratio_policy", "stretch")? {
        "stretch" => {
            let one = |(&count, scale)| Target { count, scale };
            return Ok(sizes.iter().zip(ratios).map(one).collect());
        }
        "not_larger" => ratios.fold(f64::INFINITY, f64::min),
        "not_smaller" => ratios.fold(0.0, f64::max),
        other => return wrong(format!("keeps proportions by '{other}', which is not known")),
    };
    Ok(from.iter().map(|&n| Target { count: (kept * n as f64 + 0.5).floor() as usize, scale: kept }).collect())
}

fn by_scales(from: &[usize], scales: &[f64]) -> Result<Vec<Target>> {
    if scales.len() != from.len() {
        return wrong(format!("has {} scales for {} axes", scales.len(), from.len()));
    }
    let one = |(&n, &scale): (&usize, &f64)| Target { count: (n as f64 * scale).floor() as usize, scale };
    Ok(from.iter().zip(scales).map(one).collect())
}

fn how(call: &Call<'_>, target: Target, part: (f64, f64)) -> Result<Resize> {
    let default = if call.opset() < 11 { "asymmetric" } else { "half_pixel" };
    let coordinates = match call.text("coordinate_transformation_mode", default)? {
        "half_pixel" => Coordinates::HalfPixel,
        "half_pixel_symmetric" => Coordinates::HalfPixelSymmetric,
        "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
        "align_corners" => Coordinates::AlignCorners,
        "asymmetric" => Coordinates::Asymmetric,
        "tf_crop_and_resize" => Coordinates::Crop(part.0, part.1),
        other => return unsupported(format!("coordinates by '{other}'")),
    };
    let rounding = match call.text("nearest_mode", if call.opset() < 11 { "floor" } else { "round_prefer_floor" })? {
        "round_prefer_floor" => Rounding::HalfDown,
        "round_prefer_ceil" => Rounding::HalfUp,
        "floor" => Rounding::Floor,
        "ceil" => Rounding::Ceil,
        other => return wrong(format!("rounds by '{other}', which is not known")),
    };
    let filter = match call.text("mode", "nearest")? {
        "nearest" => Filter::Nearest(rounding),
        "linear" | "bilinear" => Filter::Linear,
        "cubic" => Filter::Cubic(call.float("cubic_coeff_a", -0.75)?),
        other => return wrong(format!("interpolates by '{other}', which is not known")),
    };
    Ok(Resize {
        count: target.count,
        scale: target.scale,
        coordinates,
        filter,
        antialias: call.flag("antialias", false)?,
        excludes_outside: call.flag("exclude_outside", false)?,
        outside: call.float("extrapolation_value", 0.0)?,
    })
}

/// The form that `Resize` replaced in opset 10.
fn upsample(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let dims = x.check()?.shape.clone();
    let scales: Vec<f64> = match call.float_list("scales")? {
        Some(scales) => scales.iter().map(|&s| f64::from(s)).collect(),
        None if call.has(1) => call.floats(1)?,
        None => vec![1.0, 1.0, call.float("height_scale", 1.0)?, call.float("width_scale", 1.0)?],
    };
    let filter = match call.text("mode", "nearest")? {
        "nearest" => Filter::Nearest(Rounding::Floor),
        "linear" | "bilinear" => Filter::Linear,
        other => return wrong(format!("interpolates by '{other}', which is not known")),
    };
    let all = by_scales(&dims, &scales)?.into_iter().enumerate().map(|(axis, Target { count, scale })| {
        (axis, Resize { scale, coordinates: Coordinates::Asymmetric, filter, ..Resize::nearest(dims[axis], count) })
    });
    apply(&x, &all.collect::<Vec<_>>())
}
