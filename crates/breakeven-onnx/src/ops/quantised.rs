//! Quantised tensors: 8-bit integers that stand for floats by a scale and a zero point.

use breakeven::{DType, Tensor};

use super::{Operator, many, one, window};
use crate::call::{Call, Result};
use crate::error::wrong;
use crate::value::Item;

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    one("ConvInteger", window::CONV, |c| conv_integer(c, [0, 1], [2, 3])),
    one("DequantizeLinear", &["axis", "block_size", "output_dtype"], dequantize),
    many("DynamicQuantizeLinear", &[], |c| {
        let (quantised, scale, zero) = c.tensor(0)?.dynamic_quantize_linear();
        Ok(vec![quantised.into(), scale.into(), Item::from(zero)])
    }),
    one("MatMulInteger", &[], |c| product(c, [0, 1], [2, 3])),
    one("QLinearConv", window::CONV, q_linear_conv),
    one("QLinearMatMul", &[], q_linear_matmul),
    one("QuantizeLinear", &["axis", "block_size", "output_dtype", "precision", "saturate"], quantize),
];

/// Scale and zero point of one block for each element of `x`, where the node quantises in blocks.
fn blocks(call: &Call<'_>, x: &Tensor, given: &Tensor) -> Result<Tensor> {
    let size = call.int("block_size", 0)?;
    if size == 0 {
        return Ok(given.clone());
    }
    let rank = x.check()?.shape.rank();
    let along = super::axis(call.int("axis", 1)?, rank)?;
    let (n, blocks) = (x.shape()[along], given.check()?.shape.get(along).copied().unwrap_or(0));
    let Some(size) = usize::try_from(size).ok().filter(|&size| size > 0 && n.div_ceil(size) == blocks) else {
        return wrong(format!("blocks of {size} do not make {n} elements of {blocks}"));
    };
    call.room(n, size_of::<i64>())?;
    let places: Vec<i64> = (0..n).map(|i| (i / size) as i64).collect();
    Ok(given.gather(along as isize, &call.made(places, n)))
}

/// Input `index` in blocks, if it is given.
fn optional_blocks(call: &Call<'_>, x: &Tensor, index: usize) -> Result<Option<Tensor>> {
    call.optional(index)?.map(|zero| blocks(call, x, &zero)).transpose()
}

fn quantize(call: &Call<'_>) -> Result<Tensor> {
    let (x, scale) = (call.tensor(0)?, call.tensor(1)?);
    let scale = blocks(call, &x, &scale)?;
    let zero = optional_blocks(call, &x, 2)?;
    let dtype = match (&zero, call.dtype("output_dtype")?) {
        (Some(zero), _) => zero.check()?.dtype,
        (None, Some(dtype)) => dtype,
        (None, None) => DType::U8,
    };
    if call.int("block_size", 0)? == 0 {
        return Ok(x.quantize_linear(&scale, zero.as_ref(), call.int("axis", 1)? as isize, dtype));
    }
    let scaled = (x.cast(DType::F32) / scale.cast(DType::F32)).round();
    Ok(zero.map_or_else(|| scaled.clone(), |zero| &scaled + zero.cast(DType::F32)).cast(dtype))
}

fn dequantize(call: &Call<'_>) -> Result<Tensor> {
    let (x, scale) = (call.tensor(0)?, call.tensor(1)?);
    let scale = blocks(call, &x, &scale)?;
    let zero = optional_blocks(call, &x, 2)?;
    let y = if call.int("block_size", 0)? == 0 {
        x.dequantize_linear(&scale, zero.as_ref(), call.int("axis", 1)? as isize)
    } else {
        let wide = x.cast(DType::I32);
        let moved = zero.map_or_else(|| wide.clone(), |zero| &wide - zero.cast(DType::I32));
        moved.cast(scale.check()?.dtype) * scale
    };
    Ok(call.dtype("output_dtype")?.map_or_else(|| y.clone(), |dtype| y.cast(dtype)))
}

/// The product in i32 of two inputs, less their zero points.
fn product(call: &Call<'_>, [a, b]: [usize; 2], zeros: [usize; 2]) -> Result<Tensor> {
    let (a, b) = (call.tensor(a)?, call.tensor(b)?);
    let (zero_a, zero_b) = (call.optional(zeros[0])?, call.optional(zeros[1])?);
    // A list of one is one number for all.
    let plain = |zero: Option<Tensor>| -> Result<Option<Tensor>> {
        let Some(zero) = zero else { return Ok(None) };
        Ok(Some(if zero.check()?.shape[..] == [1] { zero.reshape(()) } else { zero }))
    };
    Ok(a.matmul_int(&b, plain(zero_a)?.as_ref(), plain(zero_b)?.as_ref()))
}

/// The convolution in i32 of two inputs, less their zero points.
fn conv_integer(call: &Call<'_>, [x, w]: [usize; 2], zeros: [usize; 2]) -> Result<Tensor> {
    let (x, w) = (call.tensor(x)?, call.tensor(w)?);
    let wide = |t: &Tensor, zero: Option<Tensor>| -> Result<Tensor> {
        let wide = t.cast(DType::I32);
        let Some(zero) = zero else { return Ok(wide) };
        let zero = zero.cast(DType::I32);
        let rank = t.check()?.shape.rank();
        let by_channel = zero.check()?.shape.elements() > 1;
        let dims: Vec<usize> = (0..rank).map(|a| if a == 0 && by_channel { t.shape()[0] } else { 1 }).collect();
        Ok(wide - zero.reshape(super::shape(&dims)?))
    };
    // Padding is with zero, which is what the zero point stands for.
    let (x, w) = (wide(&x, call.optional(zeros[0])?)?, wide(&w, call.optional(zeros[1])?)?);
    Ok(x.conv(&w, None, &window::conv(call)?))
}

/// Sums in i32 brought to the scale and zero point of the result.
fn requantized(sums: &Tensor, scale: &Tensor, to: &Tensor, zero: &Tensor) -> Result<Tensor> {
    let dtype = zero.check()?.dtype;
    let one =
        |t: &Tensor| Ok(if t.check()?.shape.elements() == 1 { t.reshape(()) } else { t.clone() }) as Result<Tensor>;
    let scaled = sums.cast(DType::F32) * (one(scale)?.cast(DType::F32) / one(to)?.cast(DType::F32));
    Ok((scaled.round() + one(zero)?.cast(DType::F32)).cast(dtype))
}

fn q_linear_matmul(call: &Call<'_>) -> Result<Tensor> {
    let sums = product(call, [0, 3], [2, 5])?;
    let scale_a = call.tensor(1)?;
    let scale_b = call.tensor(4)?;
    // One scale for each row of the left side stands beside columns.
    let by_row = scale_a.check()?.shape.rank() == 1 && scale_a.shape().elements() > 1;
    let scale_a = if by_row { scale_a.unsqueeze(-1) } else { scale_a };
    requantized(&sums, &(scale_a.cast(DType::F32) * scale_b.cast(DType::F32)), &call.tensor(6)?, &call.tensor(7)?)
}

fn q_linear_conv(call: &Call<'_>) -> Result<Tensor> {
    let sums = conv_integer(call, [0, 3], [2, 5])?;
    let rank = sums.check()?.shape.rank();
    let by_channel = |t: Tensor| -> Result<Tensor> {
        let n = t.check()?.shape.elements();
        let dims: Vec<usize> = (0..rank).map(|a| if a == 1 { n } else { 1 }).collect();
        Ok(t.reshape(super::shape(&dims)?))
    };
    let sums = match call.optional(8)? {
        Some(bias) => sums + by_channel(bias)?,
        None => sums,
    };
    let scale = call.tensor(1)?.reshape(()) * by_channel(call.tensor(4)?)?;
    requantized(&sums, &scale, &call.tensor(6)?, &call.tensor(7)?)
}
