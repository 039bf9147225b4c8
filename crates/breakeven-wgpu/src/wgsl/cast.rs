//! Changes of type: saturating from float to integer, NaN to 0, anything but 0 to true.

use breakeven_ir::DType;

/// The value `x` of type `from` as type `to`; `None` where the device has no such cast.
pub fn cast(x: &str, from: DType, to: DType) -> Option<String> {
    use DType::{Bool, F32, I32, I64, U8, U32};
    Some(match (from, to) {
        (a, b) if a == b => x.to_owned(),
        (F32, Bool) => format!("(bitcast<u32>({x}) & 0x7fffffffu) != 0u"),
        (I32, Bool) => format!("{x} != 0"),
        (U32 | U8, Bool) => format!("{x} != 0u"),
        (I64, Bool) => format!("any({x} != vec2<u32>())"),
        (F32, I32) => format!("f32_to_i32({x})"),
        (F32, U32) => format!("f32_to_u32({x})"),
        (F32, U8) => format!("min(f32_to_u32({x}), 255u)"),
        (F32, I64) => format!("f32_to_i64({x})"),
        (I32 | U32 | U8, F32) => format!("f32({x})"),
        (I64, F32) => format!("i64_to_f32({x})"),
        (I32, U32) | (U32, I32) => format!("bitcast<{}>({x})", super::type_name(to)),
        (U8, I32) => format!("i32({x})"),
        (U8, U32) => x.to_owned(),
        (I32, U8) => format!("bitcast<u32>({x}) & 255u"),
        (U32, U8) => format!("{x} & 255u"),
        (I64, I32) => format!("bitcast<i32>({x}.x)"),
        (I64, U32) => format!("{x}.x"),
        (I64, U8) => format!("{x}.x & 255u"),
        (I32, I64) => format!("vec2<u32>(bitcast<u32>({x}), bitcast<u32>({x} >> 31u))"),
        (U32 | U8, I64) => format!("vec2<u32>({x}, 0u)"),
        (Bool, F32) => format!("select(0.0, 1.0, {x})"),
        (Bool, I32) => format!("select(0, 1, {x})"),
        (Bool, U32 | U8) => format!("select(0u, 1u, {x})"),
        (Bool, I64) => format!("vec2<u32>(select(0u, 1u, {x}), 0u)"),
        _ => return None,
    })
}
