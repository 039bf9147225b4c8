//! Operators that work element by element.

use breakeven::{DType, Tensor};

use super::{Operator, many, one};
use crate::call::{Call, Result};
use crate::error::{unsupported, wrong};
use crate::value::Item;

const LEGACY: &[&str] = &["axis", "broadcast"];

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    one("Abs", &[], |c| Ok(c.tensor(0)?.abs())),
    one("Acos", &[], |c| Ok(c.tensor(0)?.acos())),
    one("Acosh", &[], acosh),
    one("Add", LEGACY, |c| binary(c, Tensor::add)),
    one("And", LEGACY, |c| binary(c, Tensor::logical_and)),
    one("Asin", &[], |c| Ok(c.tensor(0)?.asin())),
    one("Asinh", &[], asinh),
    one("Atan", &[], |c| Ok(c.tensor(0)?.atan())),
    one("Atanh", &[], atanh),
    one("BitShift", &["direction"], bit_shift),
    one("BitwiseAnd", &[], |c| binary(c, Tensor::bit_and)),
    one("BitwiseNot", &[], |c| Ok(c.tensor(0)?.bit_not())),
    one("BitwiseOr", &[], |c| binary(c, Tensor::bit_or)),
    one("BitwiseXor", &[], |c| binary(c, Tensor::bit_xor)),
    one("Cast", &["round_mode", "saturate", "to"], cast),
    one("CastLike", &["round_mode", "saturate"], |c| Ok(c.tensor(0)?.cast(c.spec(1)?.dtype))),
    one("Ceil", &[], |c| Ok(c.tensor(0)?.ceil())),
    one("Clip", &["max", "min"], clip),
    one("Cos", &[], |c| Ok(c.tensor(0)?.cos())),
    one("Cosh", &[], |c| Ok(c.tensor(0)?.cosh())),
    one("Div", LEGACY, |c| binary(c, Tensor::div)),
    many("Dropout", &["is_test", "ratio", "seed"], dropout),
    one("Equal", LEGACY, |c| binary(c, Tensor::equal)),
    one("Erf", &[], |c| Ok(c.tensor(0)?.erf())),
    one("Exp", &[], |c| Ok(c.tensor(0)?.exp())),
    one("Floor", &[], |c| Ok(c.tensor(0)?.floor())),
    one("Greater", LEGACY, |c| binary(c, Tensor::greater)),
    one("GreaterOrEqual", &[], |c| binary(c, Tensor::greater_equal)),
    many("Identity", &[], |c| Ok(vec![c.item(0)?.clone()])),
    one("IsInf", &["detect_negative", "detect_positive"], is_inf),
    one("IsNaN", &[], |c| Ok(c.tensor(0)?.is_nan())),
    one("Less", LEGACY, |c| binary(c, Tensor::less)),
    one("LessOrEqual", &[], |c| binary(c, Tensor::less_equal)),
    one("Log", &[], |c| Ok(c.tensor(0)?.ln())),
    one("Max", &[], |c| variadic(c, Tensor::maximum)),
    one("Mean", &[], |c| Ok(variadic(c, Tensor::add)? * (1.0 / c.count() as f64))),
    one("Min", &[], |c| variadic(c, Tensor::minimum)),
    one("Mod", &["fmod"], modulo),
    one("Mul", LEGACY, |c| binary(c, Tensor::mul)),
    one("Neg", &[], |c| Ok(c.tensor(0)?.neg())),
    one("Not", &[], |c| Ok(c.tensor(0)?.logical_not())),
    one("Or", LEGACY, |c| binary(c, Tensor::logical_or)),
    one("Pow", LEGACY, pow),
    one("Reciprocal", &[], |c| Ok(c.tensor(0)?.recip())),
    one("Round", &[], |c| Ok(c.tensor(0)?.round())),
    one("Sign", &[], |c| Ok(c.tensor(0)?.sign())),
    one("Sin", &[], |c| Ok(c.tensor(0)?.sin())),
    one("Sinh", &[], |c| Ok(c.tensor(0)?.sinh())),
    one("Sqrt", &[], |c| Ok(c.tensor(0)?.sqrt())),
    one("Sub", LEGACY, |c| binary(c, Tensor::sub)),
    one("Sum", &[], |c| variadic(c, Tensor::add)),
    one("Tan", &[], |c| Ok(c.tensor(0)?.tan())),
    one("Tanh", &[], |c| Ok(c.tensor(0)?.tanh())),
    one("Where", &[], |c| Ok(c.tensor(0)?.where_(&c.tensor(1)?, &c.tensor(2)?))),
    one("Xor", LEGACY, |c| binary(c, Tensor::logical_xor)),
];

fn binary(call: &Call<'_>, op: fn(&Tensor, &Tensor) -> Tensor) -> Result<Tensor> {
    let (a, b) = pair(call)?;
    Ok(op(&a, &b))
}

/// Both operands. Before opset 7 the second is placed at an axis of the first by attributes.
fn pair(call: &Call<'_>) -> Result<(Tensor, Tensor)> {
    let (a, b) = (call.tensor(0)?, call.tensor(1)?);
    if call.opset() >= 7 || !call.flag("broadcast", false)? {
        return Ok((a, b));
    }
    let (rank, low) = (a.check()?.shape.rank(), b.check()?.shape.rank());
    let axis = call.int("axis", rank.saturating_sub(low) as i64)?;
    let places = usize::try_from(axis).ok().and_then(|axis| rank.checked_sub(low)?.checked_sub(axis));
    let Some(behind) = places else {
        return wrong(format!("its second operand {} does not lie at axis {axis} of {}", b.shape(), a.shape()));
    };
    let dims: Vec<usize> = b.shape().iter().copied().chain(std::iter::repeat_n(1, behind)).collect();
    Ok((a, b.reshape(super::shape(&dims)?)))
}

fn variadic(call: &Call<'_>, op: fn(&Tensor, &Tensor) -> Tensor) -> Result<Tensor> {
    let all = call.tensors()?;
    all.into_iter().reduce(|a, b| op(&a, &b)).map_or_else(|| wrong("takes at least one tensor"), Ok)
}

/// `ln(x + sqrt(x^2 - 1))`, without cancellation near 1.
fn acosh(call: &Call<'_>) -> Result<Tensor> {
    let above = call.tensor(0)? - 1.0;
    Ok((&above + (above.square() + &above * 2.0).sqrt()).log1p())
}

/// `ln(x + sqrt(x^2 + 1))`, without cancellation near 0 and below it.
fn asinh(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let square = x.square();
    let root = (&square + 1.0).sqrt();
    Ok(x.sign() * (x.abs() + square / (root + 1.0)).log1p())
}

fn atanh(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    Ok((x.log1p() - x.neg().log1p()) * 0.5)
}

/// A count outside the width shifts everything out.
fn bit_shift(call: &Call<'_>) -> Result<Tensor> {
    let (a, b) = pair(call)?;
    let width = a.check()?.dtype.bytes() * 8;
    let zero = a.scalar(0.0);
    let (shifted, out) = match call.text("direction", "")? {
        "LEFT" => (a.shift_left(&b), zero.clone()),
        "RIGHT" => (a.shift_right(&b), a.shift_right(&a.scalar(width as f64 - 1.0))),
        other => return wrong(format!("shifts LEFT or RIGHT, not '{other}'")),
    };
    Ok(b.less(&zero).logical_or(&b.greater_equal(&b.scalar(width as f64))).where_(&out, &shifted))
}

fn cast(call: &Call<'_>) -> Result<Tensor> {
    let Some(dtype) = call.dtype("to")? else { return wrong("does not say to which type it casts") };
    Ok(call.tensor(0)?.cast(dtype))
}

/// Bounds are attributes before opset 11 and optional inputs since.
fn clip(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let bound = |name: &str, index: usize| -> Result<Option<Tensor>> {
        match call.attribute(name) {
            Some(_) => Ok(Some(x.scalar(call.float(name, 0.0)?))),
            None => call.optional(index),
        }
    };
    let above = bound("min", 1)?.map_or_else(|| x.clone(), |low| x.maximum(&low));
    Ok(bound("max", 2)?.map_or_else(|| above.clone(), |high| above.minimum(&high)))
}

/// Passes everything on: networks here are not in training, and a ratio of 0 drops nothing.
fn dropout(call: &Call<'_>) -> Result<Vec<Item>> {
    let x = call.tensor(0)?;
    let in_training = call.has(2) && call.one_int(2)? != 0 || call.opset() < 7 && !call.flag("is_test", false)?;
    let ratio = if call.has(1) { call.one_float(1)? } else { call.float("ratio", 0.5)? };
    if in_training && ratio != 0.0 {
        return unsupported("it would drop at random, as in training");
    }
    let mask = call.engine().full(DType::Bool, 1.0, x.check()?.shape.clone());
    Ok(vec![x.into(), mask.into()])
}

fn is_inf(call: &Call<'_>) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let infinite = x.is_inf();
    let zero = x.scalar(0.0);
    Ok(match (call.flag("detect_negative", true)?, call.flag("detect_positive", true)?) {
        (true, true) => infinite,
        (true, false) => infinite.logical_and(&x.less(&zero)),
        (false, true) => infinite.logical_and(&x.greater(&zero)),
        (false, false) => infinite.logical_and(&infinite.logical_not()),
    })
}

/// The remainder with the sign of the divisor, or with `fmod` of the dividend.
fn modulo(call: &Call<'_>) -> Result<Tensor> {
    let (a, b) = pair(call)?;
    let rest = a.rem(&b);
    let is_unsigned = matches!(a.check()?.dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64);
    if call.flag("fmod", false)? || is_unsigned {
        return Ok(rest);
    }
    let zero = rest.scalar(0.0);
    let differ = rest.less(&zero).logical_xor(&b.less(&zero)).logical_and(&rest.not_equal(&zero));
    Ok(differ.where_(&(&rest + &b), &rest))
}

/// The result has the type of the base, whatever the exponent's. Integers are raised in f64.
fn pow(call: &Call<'_>) -> Result<Tensor> {
    let (base, exponent) = pair(call)?;
    let dtype = base.check()?.dtype;
    let over = if dtype.is_float() { dtype } else { DType::F64 };
    Ok(base.cast(over).pow(&exponent.cast(over)).cast(dtype))
}
