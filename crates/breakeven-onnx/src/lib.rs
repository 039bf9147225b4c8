//! ONNX models, run where they are cheapest.
//!
//! A [`Model`] is read from a file, and [`Model::run`] writes down what it computes on the lazy tensors of an
//! [`Engine`](breakeven::Engine): the whole graph is planned at once when an output is read, and the next run with the
//! same shapes repeats it without looking at the nodes. What depends on the model and on shapes alone is folded on the CPU and kept.
//! Operators that need the elements of a tensor (the condition of a loop, the shape of a reshape that was computed from
//! data) read it, wherever it is: correct always, and fast where it is rare.
//!
//! **Why a reader of our own.** The crate `onnx-ir` reads models for a code generator: it wants the newest opset, lifts
//! constants, rewrites nodes into its own node types and brings its own types of tensors, none of which a model from the wild
//! gives us. Code generated from the schema by `prost-build` needs `protoc` or a second protobuf parser at build time, for
//! messages that are 200 lines by hand; `proto` holds those that we read, with the published field numbers, over the
//! runtime of `prost`, which reads big tensors in place from a mapped file.
#![forbid(unsafe_code)]

mod attribute;
mod call;
mod error;
mod external;
mod graph;
mod host;
mod literal;
mod missing;
mod model;
mod ops;
pub mod pb;
mod proto;
mod read;
mod repeat;
mod run;
#[cfg(test)]
mod sample;
mod store;
mod value;

pub use error::{Error, Result};
pub use graph::{Dim, Port, PortKind};
pub use missing::{Missing, MissingItem};
pub use model::{Model, Outputs, RunOptions};
pub use value::Value;
