//! What to compute: dtypes, shapes, views, the table of operations, graphs, kernels and their reference meaning.
//!
//! Pure data: nothing here touches a machine.
#![forbid(unsafe_code)]

mod body;
mod build;
mod caps;
mod custom;
mod dtype;
mod error;
mod expr;
mod fingerprint;
mod graph;
mod kernel;
mod layout;
pub mod maps;
pub mod math;
pub mod narrow;
mod op;
mod precision;
mod row;
mod rules;
mod scalar;
mod shape;
mod spec;
mod value;
mod view;
mod vocabulary;

pub use body::{Body, Inst, Prim};
pub use build::{Builder, Term};
pub use caps::Caps;
pub use custom::{CustomInputs, CustomOp, CustomOutputs, Invocations, Wgsl};
pub use dtype::{DType, Element};
pub use error::{CallError, Unsupported};
pub use expr::{Expr, ExprBuilder, Item};
pub use graph::{Graph, Node, NodeId};
pub use kernel::{
    AttentionKernel, Class, ConvKernel, Custom, Gather, Kernel, Launch, Map, MatMul, Operand, ReduceRows,
    RowWiseKernel, ScanRows, Scatter, SortRows, Work,
};
pub use layout::{Layout, Positions};
pub use maps::MAPS;
pub use op::{Attention, Combine, Convolution, Fold, Op, Params, Reduce, RowWise, Scan, Sliding, Sort, View};
pub use precision::Precision;
pub use row::{Family, Kind, MapDef, Row, Tolerance};
pub use rules::Specs;
pub use scalar::Scalar;
pub use shape::{MAX_RANK, Shape, Strides};
pub use spec::Spec;
pub use value::{Any, Float, Integer, Logic, Mask, Number, Word};
pub use vocabulary::Vocabulary;
