//! Compares as the suite does: relative and absolute tolerance for floats, exact for everything else.

use breakeven::{DType, Tensor};
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
    match is.dtype {
        DType::F16 | DType::F32 => {
            floats(&read(&given.cast(DType::F32))?, &read(&wanted.cast(DType::F32))?, case.rtol, case.atol)
        }
        DType::BF16 => {
            floats(&read(&given.cast(DType::F32))?, &read(&wanted.cast(DType::F32))?, case.rtol.max(BF16), case.atol)
        }
        DType::F64 => {
            let read = |t: &Tensor| t.to_vec::<f64>().map_err(text);
            floats(&read(given)?, &read(wanted)?, case.rtol, case.atol)
        }
        DType::U64 => exact(&given.to_vec::<u64>().map_err(text)?, &wanted.to_vec::<u64>().map_err(text)?),
        DType::Bool => exact(&given.to_vec::<bool>().map_err(text)?, &wanted.to_vec::<bool>().map_err(text)?),
        _ => {
            let read = |t: &Tensor| t.cast(DType::I64).to_vec::<i64>().map_err(text);
            exact(&read(given)?, &read(wanted)?)
        }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn read(tensor: &Tensor) -> Result<Vec<f64>, String> {
    Ok(tensor.to_vec::<f32>().map_err(text)?.into_iter().map(f64::from).collect())
}

fn exact<T: PartialEq + std::fmt::Debug>(given: &[T], wanted: &[T]) -> Result<(), String> {
    let bad = given.iter().zip(wanted).enumerate().find(|(_, (a, b))| a != b);
    bad.map_or(Ok(()), |(i, (a, b))| Err(format!("has {a:?} at element {i}, not {b:?}")))
}

fn floats(given: &[f64], wanted: &[f64], rtol: f64, atol: f64) -> Result<(), String> {
    let near = |a: f64, b: f64| {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= atol + rtol * b.abs() && b.is_finite()
    };
    let bad = given.iter().zip(wanted).enumerate().find(|(_, (a, b))| !near(**a, **b));
    bad.map_or(Ok(()), |(i, (a, b))| Err(format!("has {a} at element {i}, not {b}")))
}
