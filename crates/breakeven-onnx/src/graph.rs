//! Models as they run: nodes with their operators found, literals read, attributes sorted out.

use std::sync::Arc;

use breakeven::DType;

use crate::attribute::Attributes;
use crate::literal::Literal;
use crate::ops::Operator;

/// A graph or subgraph; its nodes are in an order in which they can run.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
    pub initialisers: Vec<Initialiser>,
    pub nodes: Vec<Node>,
}

/// A tensor that the file holds, under the name that nodes use.
#[derive(Debug)]
pub(crate) struct Initialiser {
    pub id: u32,
    pub name: String,
    pub literal: Literal,
}

/// A function that the model brings, called like an operator.
#[derive(Debug)]
pub(crate) struct Function {
    pub inputs: Vec<String>,
    /// Values of attributes that the caller does not give.
    pub defaults: Attributes,
    pub outputs: Vec<String>,
    pub nodes: Vec<Node>,
}

/// One node.
#[derive(Debug)]
pub(crate) struct Node {
    /// Unique in the model, subgraphs and functions included.
    pub id: u32,
    pub name: String,
    pub operator: String,
    /// Opset of the operator's domain.
    pub opset: i64,
    /// An empty name is an input that is not given.
    pub inputs: Vec<String>,
    /// An empty name is an output that nobody reads.
    pub outputs: Vec<String>,
    pub attributes: Attributes,
    pub action: Action,
}

/// What a node does.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Operator(&'static Operator),
    Function(Arc<Function>),
    /// It is listed as missing, so the model does not run.
    Missing,
}

impl Node {
    /// Its name, or that of its first output.
    pub fn label(&self) -> String {
        let name = if self.name.is_empty() { self.outputs.first() } else { Some(&self.name) };
        format!("node '{}'", name.map_or("without a name", String::as_str))
    }

    /// Name, operator and opset, for errors.
    pub fn describe(&self) -> String {
        format!("{} ({}, opset {})", self.label(), self.operator, self.opset)
    }
}

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: PortKind,
}

/// What an input or output holds.
#[derive(Clone, Debug, PartialEq)]
pub enum PortKind {
    /// A tensor.
    Tensor {
        /// Element type.
        dtype: DType,
        /// Extents; `None` where not even the rank is known.
        dims: Option<Vec<Dim>>,
    },
    /// A list of values.
    Sequence(Box<PortKind>),
    /// A value that may be absent.
    Optional(Box<PortKind>),
    /// The file does not say.
    Unknown,
    /// What this library has no type for, in words.
    Other(String),
}

/// One extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// Always this.
    Fixed(usize),
    /// Given when the model runs; the same name means the same extent.
    Named(String),
    /// Given when the model runs.
    Any,
}

impl std::fmt::Display for Dim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Dim::Fixed(extent) => write!(f, "{extent}"),
            Dim::Named(name) => f.write_str(name),
            Dim::Any => f.write_str("?"),
        }
    }
}

impl std::fmt::Display for PortKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PortKind::Tensor { dtype, dims: None } => write!(f, "{dtype} of any shape"),
            PortKind::Tensor { dtype, dims: Some(dims) } => {
                let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
                write!(f, "{dtype}[{}]", dims.join(", "))
            }
            PortKind::Sequence(of) => write!(f, "a sequence of {of}"),
            PortKind::Optional(of) => write!(f, "optionally {of}"),
            PortKind::Unknown => f.write_str("a value of a type that the file does not tell"),
            PortKind::Other(what) => f.write_str(what),
        }
    }
}
