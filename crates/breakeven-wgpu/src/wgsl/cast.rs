//! Changes of type: saturating from float to integer, NaN to 0, anything but 0 to true, integers wrap.

use breakeven_ir::DType::{self, BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

use super::wrapped;

/// The value `x` of type `from` as type `to`; `None` where the device has no such cast.
pub fn cast(x: &str, from: DType, to: DType) -> Option<String> {
    Some(match (from, to) {
        (a, b) if a == b => x.to_owned(),
        (_, Bool) => is_not_zero(x, from),
        (F64, _) | (_, F64) => return None,
        (Bool, _) => of_truth(x, to),
        (F16 | BF16, _) => return cast(&widened(x, from), F32, to),
        (_, F16 | BF16) => narrowed(&float_to_round(x, from, to), to),
        (F32, _) => saturated(x, to),
        (_, F32) => float(x, from),
        (_, I64 | U64) => pair(x, from),
        _ => wrapped(to, &word(x, from, to)),
    })
}

fn is_not_zero(x: &str, from: DType) -> String {
    match from {
        F32 => format!("(bitcast<u32>({x}) & 0x7fffffffu) != 0u"),
        F16 | BF16 => format!("(({x}) & 0x7fffu) != 0u"),
        F64 => format!("any(({x} & vec2<u32>(0xffffffffu, 0x7fffffffu)) != vec2<u32>())"),
        I64 | U64 => format!("any({x} != vec2<u32>())"),
        I32 | I16 | I8 => format!("{x} != 0"),
        _ => format!("{x} != 0u"),
    }
}

fn of_truth(x: &str, to: DType) -> String {
    match to {
        F32 => format!("select(0.0, 1.0, {x})"),
        F16 => format!("select(0u, 0x3c00u, {x})"),
        BF16 => format!("select(0u, 0x3f80u, {x})"),
        I64 | U64 => format!("vec2<u32>(select(0u, 1u, {x}), 0u)"),
        I32 | I16 | I8 => format!("select(0, 1, {x})"),
        _ => format!("select(0u, 1u, {x})"),
    }
}

/// A 16-bit float as f32.
fn widened(x: &str, from: DType) -> String {
    if from == F16 { format!("f16_to_f32({x})") } else { format!("bitcast<f32>(({x}) << 16u)") }
}

/// An f32 as the nearest 16-bit float.
fn narrowed(x: &str, to: DType) -> String {
    if to == F16 { format!("f32_to_f16({x})") } else { format!("f32_to_bf16({x})") }
}

/// An f32 that rounds to the 16-bit float `to` as `x` itself does. No integer that f32 rounds is in reach of f16.
fn float_to_round(x: &str, from: DType, to: DType) -> String {
    match (from, to) {
        (F32, _) => x.to_owned(),
        (I32, BF16) => format!("i32_to_odd({x})"),
        (U32, BF16) => format!("u32_to_odd({x})"),
        (I64, BF16) => format!("i64_to_odd({x})"),
        (U64, BF16) => format!("u64_to_odd({x})"),
        _ => float(x, from),
    }
}

/// An integer as the nearest f32.
fn float(x: &str, from: DType) -> String {
    match from {
        I64 => format!("i64_to_f32({x})"),
        U64 => format!("u64_to_f32({x})"),
        _ => format!("f32({x})"),
    }
}

/// An f32 as an integer.
fn saturated(x: &str, to: DType) -> String {
    match to {
        I64 => format!("f32_to_i64({x})"),
        U64 => format!("f32_to_u64({x})"),
        I32 => format!("f32_to_i32({x})"),
        I16 => format!("clamp(f32_to_i32({x}), -32768, 32767)"),
        I8 => format!("clamp(f32_to_i32({x}), -128, 127)"),
        U16 => format!("min(f32_to_u32({x}), 65535u)"),
        U8 => format!("min(f32_to_u32({x}), 255u)"),
        _ => format!("f32_to_u32({x})"),
    }
}

/// An integer of a word as one of two.
fn pair(x: &str, from: DType) -> String {
    match from {
        I64 | U64 => x.to_owned(),
        I32 | I16 | I8 => format!("vec2<u32>(bitcast<u32>({x}), bitcast<u32>({x} >> 31u))"),
        _ => format!("vec2<u32>({x}, 0u)"),
    }
}

/// The lowest word of an integer, in the WGSL type of `to`.
fn word(x: &str, from: DType, to: DType) -> String {
    let x = if matches!(from, I64 | U64) { format!("{x}.x") } else { x.to_owned() };
    let is_signed = |d| matches!(d, I32 | I16 | I8);
    match (is_signed(from), is_signed(to)) {
        (true, false) => format!("bitcast<u32>({x})"),
        (false, true) => format!("bitcast<i32>({x})"),
        _ => x,
    }
}
