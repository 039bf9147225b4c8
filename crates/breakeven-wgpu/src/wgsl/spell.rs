//! The one place that spells each primitive for this language.

use breakeven_ir::{DType, Prim};

/// A primitive over operands of type `dtype`; `x` are their names. Functions that WGSL lacks are called by the name that
/// `functions` gives them.
pub fn spell(prim: Prim, dtype: DType, x: &[String; 3]) -> String {
    let [a, b, c] = x;
    match (prim, dtype) {
        (Prim::Pick, _) => format!("select({c}, {b}, {a})"),
        (_, DType::Bool) => logic(prim, a, b),
        (_, DType::F32) => float(prim, a, b, c),
        (_, DType::I64) => wide(prim, a, b),
        (_, DType::U8) => byte(prim, a, b),
        (_, _) => integer(prim, dtype, a, b),
    }
}

/// Whether `spell` knows the primitive at this type.
pub fn is_spelled(prim: Prim, dtype: DType) -> bool {
    match dtype {
        DType::I64 => matches!(prim, Prim::Pick | Prim::Eq | Prim::And | Prim::Or | Prim::Xor | Prim::Not),
        DType::Bool | DType::F32 | DType::I32 | DType::U32 | DType::U8 => true,
        _ => false,
    }
}

fn logic(prim: Prim, a: &str, b: &str) -> String {
    match prim {
        Prim::And => format!("{a} && {b}"),
        Prim::Or => format!("{a} || {b}"),
        Prim::Xor => format!("{a} != {b}"),
        Prim::Not => format!("!{a}"),
        Prim::Eq => format!("{a} == {b}"),
        other => unreachable!("{other:?} is not defined for truth values"),
    }
}

fn compare(prim: Prim, a: &str, b: &str) -> Option<String> {
    match prim {
        Prim::Lt => Some(format!("{a} < {b}")),
        Prim::Le => Some(format!("{a} <= {b}")),
        Prim::Eq => Some(format!("{a} == {b}")),
        _ => None,
    }
}

fn arithmetic(prim: Prim, a: &str, b: &str) -> Option<String> {
    match prim {
        Prim::Add => Some(format!("{a} + {b}")),
        Prim::Sub => Some(format!("{a} - {b}")),
        Prim::Mul => Some(format!("{a} * {b}")),
        _ => compare(prim, a, b),
    }
}

fn float(prim: Prim, a: &str, b: &str, c: &str) -> String {
    match prim {
        Prim::Lt | Prim::Le | Prim::Eq | Prim::Div => call(prim, a, b),
        Prim::Neg => format!("-{a}"),
        Prim::Abs => format!("abs({a})"),
        Prim::Floor => format!("floor({a})"),
        Prim::Ceil => format!("ceil({a})"),
        Prim::Trunc => format!("trunc({a})"),
        Prim::Round => format!("round({a})"),
        Prim::Sqrt => format!("sqrt({a})"),
        Prim::MulAdd => format!("fma({a}, {b}, {c})"),
        Prim::TurnRest => format!("f_turn({a}).x"),
        Prim::TurnQuadrant => format!("f_turn({a}).y"),
        _ => arithmetic(prim, a, b).unwrap_or_else(|| call(prim, a, b)),
    }
}

fn call(prim: Prim, a: &str, b: &str) -> String {
    let name = super::functions::name(prim);
    if prim.arity() == 1 { format!("{name}({a})") } else { format!("{name}({a}, {b})") }
}

fn integer(prim: Prim, dtype: DType, a: &str, b: &str) -> String {
    let signed = dtype == DType::I32;
    match prim {
        Prim::Div => format!("{}_div({a}, {b})", super::type_name(dtype)),
        Prim::Rem => format!("{}_rem({a}, {b})", super::type_name(dtype)),
        Prim::Neg if signed => format!("-{a}"),
        Prim::Neg => format!("0u - {a}"),
        Prim::Abs if signed => format!("abs({a})"),
        Prim::Abs => a.to_owned(),
        Prim::Larger => format!("max({a}, {b})"),
        Prim::Smaller => format!("min({a}, {b})"),
        Prim::And => format!("{a} & {b}"),
        Prim::Or => format!("{a} | {b}"),
        Prim::Xor => format!("{a} ^ {b}"),
        Prim::Not => format!("~{a}"),
        Prim::Shl => format!("{a} << (bitcast<u32>({b}) & 31u)"),
        Prim::Shr => format!("{a} >> (bitcast<u32>({b}) & 31u)"),
        other => arithmetic(other, a, b).unwrap_or_else(|| unreachable!("{other:?} is not defined for integers")),
    }
}

/// Bytes are kept in the low 8 bits of a word.
fn byte(prim: Prim, a: &str, b: &str) -> String {
    match prim {
        Prim::Lt | Prim::Le | Prim::Eq => integer(prim, DType::U32, a, b),
        Prim::Shl => format!("({a} << ({b} & 7u)) & 255u"),
        Prim::Shr => format!("{a} >> ({b} & 7u)"),
        other => format!("({}) & 255u", integer(other, DType::U32, a, b)),
    }
}

fn wide(prim: Prim, a: &str, b: &str) -> String {
    match prim {
        Prim::Eq => format!("all({a} == {b})"),
        Prim::And => format!("{a} & {b}"),
        Prim::Or => format!("{a} | {b}"),
        Prim::Xor => format!("{a} ^ {b}"),
        Prim::Not => format!("~{a}"),
        other => unreachable!("{other:?} is refused for 64-bit integers"),
    }
}
