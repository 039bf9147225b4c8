//! Compares as the suite does: relative and absolute tolerance for floats, exact for everything else.

use breakeven::{DType, Element, Tensor, bf16, f16};
use breakeven_onnx::Value;

use crate::case::Case;

/// Two units in the last place of bf16, which the suite allows at least.
const BF16: f64 = 0.015625;

/// What differs, in words.
pub fn values(given: &Value, wanted: &Value, case: &Case) -> Result<(), String> {
    match (given, wanted) {
        (Value::Tensor(given), Value::Tensor(wanted)) => tensors(given, wanted, case),
        (Value::Sequence(given), Value::Sequence(wanted)) if given.len() == wanted.len() => {
            given.iter().zip(wanted).try_for_each(|(given, wanted)| values(given, wanted, case))
        }
        (Value::Optional(Some(given)), Value::Optional(Some(wanted))) => values(given, wanted, case),
        (Value::Optional(None), Value::Optional(None)) => Ok(()),
        (given, Value::Optional(Some(wanted))) => values(given, wanted, case),
        (Value::Optional(Some(given)), wanted) => values(given, wanted, case),
        (given, wanted) => Err(format!("is {}, not {}", kind(given), kind(wanted))),
    }
}

fn kind(value: &Value) -> String {
    match value {
        Value::Tensor(_) => "a tensor".to_owned(),
        Value::Sequence(values) => format!("a sequence of {}", values.len()),
        Value::Optional(None) => "absent".to_owned(),
        Value::Optional(Some(value)) => kind(value),
    }
}

fn tensors(given: &Tensor, wanted: &Tensor, case: &Case) -> Result<(), String> {
    let (is, should) = (given.check().map_err(text)?, wanted.check().map_err(text)?);
    if is != should {
        return Err(format!("is {is}, not {should}"));
    }
    let (rtol, atol) = (case.rtol, case.atol);
    match is.dtype {
        DType::F16 => floats(&read::<f16>(given)?, &read::<f16>(wanted)?, rtol, atol),
        DType::BF16 => floats(&read::<bf16>(given)?, &read::<bf16>(wanted)?, rtol.max(BF16), atol),
        DType::F32 => floats(&read::<f32>(given)?, &read::<f32>(wanted)?, rtol, atol),
        DType::F64 => floats(&read::<f64>(given)?, &read::<f64>(wanted)?, rtol, atol),
        _ => exact(&given.to_bytes().map_err(text)?, &wanted.to_bytes().map_err(text)?, is.dtype.bytes()),
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn read<T: Element + Into<f64>>(tensor: &Tensor) -> Result<Vec<f64>, String> {
    Ok(tensor.to_vec::<T>().map_err(text)?.into_iter().map(Into::into).collect())
}

/// Integers and truth values, as little-endian bytes.
fn exact(given: &[u8], wanted: &[u8], width: usize) -> Result<(), String> {
    let bad = given.chunks(width).zip(wanted.chunks(width)).enumerate().find(|(_, (a, b))| a != b);
    bad.map_or(Ok(()), |(i, (a, b))| Err(format!("has the bytes {a:?} at element {i}, not {b:?}")))
}

fn floats(given: &[f64], wanted: &[f64], rtol: f64, atol: f64) -> Result<(), String> {
    let near = |a: f64, b: f64| {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= atol + rtol * b.abs() && b.is_finite()
    };
    let bad = given.iter().zip(wanted).enumerate().find(|(_, (a, b))| !near(**a, **b));
    bad.map_or(Ok(()), |(i, (a, b))| Err(format!("has {a} at element {i}, not {b}")))
}
