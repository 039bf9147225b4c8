//! WGSL text: how values, operands and index arithmetic are spelled.

mod access;
mod body;
mod cast;
mod foreign;
mod functions;
mod members;
mod shader;
mod spell;
mod tensor;
mod walk;

pub use access::{Access, Bound, Want, bind, bind_members, declare, place};
pub use body::{check, function, parameter};
pub use foreign::{FOREIGN, compile, is_foreign};
pub use members::{finish, member_bytes};
pub use shader::{GROUP, Shader};
pub use tensor::{Place, Stored, Tensor, Width};
pub use walk::Walk;

use breakeven_ir::DType;

/// The WGSL type that holds an element of `dtype`; bytes live in a word while they are worked on.
pub fn type_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::I32 => "i32",
        DType::Bool => "bool",
        DType::I64 => "vec2<u32>",
        _ => "u32",
    }
}
