//! WGSL kernels on Vulkan, Metal, DX12, GLES and WebGPU.
//!
//! A launch becomes one or more dispatches: generated WGSL text (its structure), a block of arguments (its sizes,
//! strides and parameters) and the slots it binds. Maps that differ in data alone and do not depend on each other share
//! one. A prepared segment is one encoder, one pass, one submit.
#![deny(unsafe_op_in_unsafe_fn)]

mod adapter;
mod backend;
mod budget;
mod counters;
mod device;
mod errors;
mod failures;
mod flight;
mod graphics;
mod heaps;
mod hold;
mod in_place;
mod kept;
mod kept_file;
mod kernels;
mod lend;
mod memory;
mod pieces;
mod pipeline;
mod prepared;
mod recent;
mod self_test;
mod shared;
mod staging;
mod straight;
mod submit;
mod tape;
mod texts;
mod wgsl;

pub use backend::{Limits, WgpuBackend, WgpuOptions};
pub use counters::Counters;
pub use device::WgpuDevice;
pub use graphics::Graphics;
pub use kept::{KeptCounters, KeptPipelines};
pub use kernels::compile_custom;
pub use self_test::{SelfTestVerdict, pass_self_test, self_test};
