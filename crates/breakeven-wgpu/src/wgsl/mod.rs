//! WGSL text: how values, operands and index arithmetic are spelled.

mod access;
mod body;
mod cast;
mod conversions;
mod foreign;
mod functions;
mod members;
mod shader;
mod spell;
mod tensor;
mod walk;
mod wide;

pub use access::{Access, Bound, Want, bind, bind_members, declare, place};
pub use body::{check, function, parameter};
pub use cast::cast;
pub use foreign::{FOREIGN, compile, is_foreign};
pub use members::{finish, member_bytes};
pub use shader::{GROUP, Shader};
pub use tensor::{Place, Stored, Tensor, Width};
pub use walk::Walk;

use breakeven_ir::DType;

/// True for functions of ours, which a module has when it calls them.
pub fn is_core(name: &str) -> bool {
    functions::core(name).is_some()
}

/// The WGSL type that holds an element of `dtype`. Narrow integers are worked on in a word, sign and all; of 16-bit floats
/// and of what WGSL has no type for there are the bits.
pub fn type_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::I32 | DType::I16 | DType::I8 => "i32",
        DType::Bool => "bool",
        DType::I64 | DType::U64 | DType::F64 => "vec2<u32>",
        _ => "u32",
    }
}

/// The integer expression `x`, computed in a word, as narrow as `dtype` is.
pub fn wrapped(dtype: DType, x: &str) -> String {
    match dtype {
        DType::I16 => format!("((({x}) << 16u) >> 16u)"),
        DType::I8 => format!("((({x}) << 24u) >> 24u)"),
        DType::U16 => format!("(({x}) & 65535u)"),
        DType::U8 => format!("(({x}) & 255u)"),
        _ => x.to_owned(),
    }
}
