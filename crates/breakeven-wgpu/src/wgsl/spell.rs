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
        (_, DType::I64 | DType::U64) => wide(prim, dtype, a, b),
        (_, DType::I16 | DType::I8 | DType::U16 | DType::U8) => narrow(prim, dtype, a, b),
        (_, _) => integer(prim, dtype, a, b),
    }
}

/// Whether `spell` knows the primitive at this type. 16-bit floats are computed as f32.
pub fn is_spelled(prim: Prim, dtype: DType) -> bool {
    !matches!(dtype, DType::F64 | DType::F16 | DType::BF16) || prim == Prim::Pick
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
        Prim::Nearest => format!("round({a} * {b})"),
        Prim::Quotient => format!("{a} / {b}"),
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

/// Narrow integers are kept in a word, and wrapped after what may leave them.
fn narrow(prim: Prim, dtype: DType, a: &str, b: &str) -> String {
    let most = 8 * dtype.bytes() - 1;
    let signed = matches!(dtype, DType::I16 | DType::I8);
    let word = if signed { DType::I32 } else { DType::U32 };
    let count = format!("(bitcast<u32>({b}) & {most}u)");
    match prim {
        Prim::Lt | Prim::Le | Prim::Eq => integer(prim, word, a, b),
        Prim::Shl => super::wrapped(dtype, &format!("{a} << {count}")),
        Prim::Shr => format!("{a} >> {count}"),
        other => super::wrapped(dtype, &integer(other, word, a, b)),
    }
}

fn wide(prim: Prim, dtype: DType, a: &str, b: &str) -> String {
    let signed = dtype == DType::I64;
    let less = if signed { "i64_lt" } else { "u64_lt" };
    let own = |name: &str| format!("{}_{name}({a}, {b})", dtype.name());
    match prim {
        Prim::Eq => format!("all({a} == {b})"),
        Prim::Lt => format!("{less}({a}, {b})"),
        Prim::Le => format!("!{less}({b}, {a})"),
        Prim::Larger => format!("select({a}, {b}, {less}({a}, {b}))"),
        Prim::Smaller => format!("select({a}, {b}, {less}({b}, {a}))"),
        Prim::And => format!("{a} & {b}"),
        Prim::Or => format!("{a} | {b}"),
        Prim::Xor => format!("{a} ^ {b}"),
        Prim::Not => format!("~{a}"),
        Prim::Add => format!("i64_add({a}, {b})"),
        Prim::Sub => format!("i64_sub({a}, {b})"),
        Prim::Mul => format!("i64_mul({a}, {b})"),
        Prim::Neg => format!("i64_neg({a})"),
        Prim::Abs if signed => format!("i64_abs({a})"),
        Prim::Abs => a.to_owned(),
        Prim::Shl => format!("i64_shl({a}, {b})"),
        Prim::Shr => own("shr"),
        Prim::Div => own("div"),
        Prim::Rem => own("rem"),
        other => unreachable!("{other:?} is not defined for integers"),
    }
}
