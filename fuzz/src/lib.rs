//! What hostile files are run through, and models made of arbitrary bytes.
#![forbid(unsafe_code)]

#[path = "../../crates/breakeven-cli/src/model/archive.rs"]
mod archive;
pub mod graph;
pub mod npz;
mod operators;
#[allow(dead_code, reason = "only what graphs are made of is used")]
#[path = "../../crates/breakeven-onnx/src/proto.rs"]
mod proto;
pub mod read;

/// Where the tables of operators are.
pub(crate) const OPERATORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/breakeven-onnx/src/ops");
