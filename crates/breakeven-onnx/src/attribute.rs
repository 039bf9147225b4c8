//! Attributes of nodes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::graph::Graph;
use crate::literal::Literal;

/// Attributes by name.
pub(crate) type Attributes = HashMap<String, Attribute>;

/// The value of one attribute.
#[derive(Clone, Debug)]
pub(crate) enum Attribute {
    Float(f32),
    Int(i64),
    Text(String),
    Tensor(Literal),
    Graph(Arc<Graph>),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Texts(Vec<String>),
    /// A type; values carry their own.
    Type,
    /// What the caller of the surrounding function gave under this name.
    Reference(String),
}

impl Attribute {
    /// What it is, for errors.
    pub fn kind(&self) -> &'static str {
        match self {
            Attribute::Float(_) => "a number",
            Attribute::Int(_) => "an integer",
            Attribute::Text(_) => "a text",
            Attribute::Tensor(_) => "a tensor",
            Attribute::Graph(_) => "a graph",
            Attribute::Floats(_) => "numbers",
            Attribute::Ints(_) => "integers",
            Attribute::Texts(_) => "texts",
            Attribute::Type => "a type",
            Attribute::Reference(_) => "a reference",
        }
    }
}
