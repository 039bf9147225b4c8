//! SIMD kernels on threads: the device that is always there.
//!
//! Rows of the table become loops over lanes, one set for each instruction set (`lanes`, `natives`); an expression is
//! a program of such loops over blocks that stay in the cache (`program`); a kernel walks the elements of its operands
//! (`domain`, `blocks`), and a team of threads shares its parts (`team`).
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(clippy::inline_always, reason = "lanes must dissolve into the loop whose instructions they use")]
#![allow(clippy::cast_ptr_alignment, reason = "operands are aligned to their elements when they are bound")]
#![allow(clippy::needless_range_loop, reason = "loops index several operands by one position")]

#[cfg(test)]
mod accuracy;
mod backend;
mod bf16;
mod blocks;
mod caches;
mod casts;
mod copying;
mod device;
mod domain;
mod folds;
mod fused;
mod gemm;
mod halves;
mod integers;
mod isa;
mod jit;
mod kept;
mod kernels;
mod lanes;
mod launch;
mod memory;
mod natives;
mod options;
mod prefetch;
mod program;
mod segment;
mod shifts;
mod slots;
mod spare;
mod sweeps;
mod team;
mod together;
mod tuned;
mod vectors;

pub use backend::CpuBackend;
pub use bf16::Bf16Isa;
pub use device::CpuDevice;
pub use isa::Isa;
pub use options::{CpuOptions, Tuning};
pub use team::Team;
pub use tuned::WAKE_NS;
