//! Tensor work where it is cheapest on the machine at hand.
//!
//! You write the mathematics once. A measured profile of the machine decides where each fused group of operations runs,
//! counting copies, dispatch and what is already resident; [`Engine::explain`] says why.
//!
//! ```
//! use breakeven::Engine;
//!
//! # fn main() -> breakeven::Result<()> {
//! let engine = Engine::detect()?;
//! let x = engine.tensor(&[1.0, 2.0, 3.0, 4.0], [2, 2]);
//! let w = engine.tensor(&[0.5, -1.0, 1.5, 2.0], [2, 2]);
//! let y = (x.matmul(&w) + 1.0).gelu().softmax(-1);
//! let rows: Vec<f32> = y.to_vec()?;
//! assert!((rows[0] + rows[1] - 1.0).abs() < 1e-6);
//! # Ok(())
//! # }
//! ```
#![deny(unsafe_code)]

mod attempts;
mod beside;
mod builder;
mod bytes;
mod cache;
pub mod calibrate;
mod coming;
mod compose;
mod contest;
mod custom;
mod data;
mod devices;
mod draft;
mod engine;
mod error;
mod evaluate;
mod failure;
mod folded;
mod health;
mod inside;
#[cfg(feature = "ndarray")]
mod interop;
mod mapped;
mod maps;
mod monitor;
mod npy;
mod numbers;
mod operators;
mod ops;
mod order;
mod patience;
mod pending;
mod planned;
mod profile_file;
mod program;
mod quantised;
mod record;
mod recovery;
mod reduce;
mod report;
mod room;
mod run_trace;
mod safetensors;
mod scan;
mod scatter;
mod search;
mod settings;
mod small;
mod stale;
mod stream;
mod subscription;
mod tensor;
mod trace;
mod value;
mod views;

pub use breakeven_device::{
    Deadline, Device, DeviceError, DeviceInfo, DeviceKind, HostBytes, Memory, PoolClass, PoolCounters,
};
pub use breakeven_ir::{
    Any, CallError, Combine, CustomInputs, CustomOp, CustomOutputs, DType, Element, Float, Fold, Integer, Kind, Logic,
    MapDef, Number, Precision, Row, Shape, Spec, Tolerance, Wgsl, Word, row,
};
pub use breakeven_plan::{Decision, DeviceId, DeviceProfile, Frozen, Plan, Profile};
pub use breakeven_wgpu::{Graphics, KeptCounters};
pub use builder::EngineBuilder;
pub use compose::{
    Activation, Attention, Conv, ConvTranspose, Coordinates, Filter, Gru, Lstm, Pad, Padding, Pool, Resize, Rnn,
    Rounding, Sequence, einsum,
};
pub use custom::{Example, compile_wgsl};
pub use devices::DeviceState;
pub use draft::Draft;
pub use engine::{DeviceReport, Engine, EngineOptions};
pub use error::{Error, Result};
pub use half::{bf16, f16};
pub use health::Health;
pub use mapped::map_file;
pub use operators::Operand;
pub use ops::{concat, stack};
pub use order::{Unique, UniqueOrder};
pub use program::Program;
pub use reduce::Axes;
pub use report::Report;
pub use run_trace::{Lane, RunTrace, TraceEvent};
pub use safetensors::Weights;
pub use scan::Scan;
pub use settings::{Cache, Settings};
pub use stream::Stream;
pub use subscription::HealthSubscription;
pub use tensor::Tensor;

/// The examples of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
