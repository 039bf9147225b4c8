//! Programs: what fusion makes of a graph, kernels over values that have no place yet.

use breakeven_ir::{DType, Kernel, Layout, NodeId};

/// Kernels in an order in which they can run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Everything that kernels read and write.
    pub values: Vec<Value>,
    /// What is computed.
    pub kernels: Vec<Fused>,
    /// What is wanted, in the order of the graph's outputs.
    pub wanted: Vec<Wanted>,
}

/// A storage that is written once and then read: by one kernel, or by several that each write a part of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The node whose value it holds.
    pub node: NodeId,
    /// Type of its elements.
    pub dtype: DType,
    /// Bytes it takes, without padding.
    pub bytes: u64,
    /// True when the bytes are given, not computed.
    pub is_input: bool,
}

/// One kernel and the values it is bound to.
#[derive(Clone, Debug, PartialEq)]
pub struct Fused {
    /// The work.
    pub kernel: Kernel,
    /// Values of [`Kernel::inputs`], in order.
    pub inputs: Vec<usize>,
    /// Values of [`Kernel::outputs`], in order.
    pub outputs: Vec<usize>,
    /// Nodes of the graph that it computes, ascending.
    pub nodes: Vec<NodeId>,
    /// It only brings elements into another order, because a reshape could not be read from where they lay.
    pub is_layout_copy: bool,
}

/// A wanted output of the graph.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// It has no elements, so no value.
    Empty,
    /// It lies in a value.
    Value {
        /// Which one.
        value: usize,
        /// Where its elements lie there.
        layout: Layout,
    },
}
