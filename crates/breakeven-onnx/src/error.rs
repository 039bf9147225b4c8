//! What can go wrong with a model, in sentences that name node, operator and opset.

use std::path::Path;

use crate::Missing;

/// What calls on a model return when they have no value.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file, or one that it names, is not what it should be.
    #[error("{path}: {message}")]
    File {
        /// Which file.
        path: String,
        /// What is wrong with it and what to do.
        message: String,
    },
    /// The model needs what is not there yet; everything at once.
    #[error("{0}")]
    Missing(Missing),
    /// An input is not what the model takes.
    #[error("input '{input}': {message}")]
    Input {
        /// Which input.
        input: String,
        /// What is wrong with it and what to do.
        message: String,
    },
    /// A node asks for what this crate does not do; the model may be right.
    #[error("{node} is not supported: {message}")]
    Unsupported {
        /// Node, operator and opset.
        node: String,
        /// What is not supported.
        message: String,
    },
    /// A node contradicts the standard, or its tensors do not fit.
    #[error("{node}: {message}")]
    Node {
        /// Node, operator and opset.
        node: String,
        /// What is wrong.
        message: String,
    },
    /// The engine could not do what a node needs.
    #[error("{node}: {source}")]
    Engine {
        /// Node, operator and opset, or the read that came after the last node.
        node: String,
        /// What the engine says.
        source: breakeven::Error,
    },
}

impl Error {
    pub(crate) fn file(path: &Path, message: impl Into<String>) -> Error {
        Error::File { path: path.display().to_string(), message: message.into() }
    }

    pub(crate) fn input(input: &str, message: impl Into<String>) -> Error {
        Error::Input { input: input.to_owned(), message: message.into() }
    }
}

/// What calls on a model return.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operator gave nothing, before the node is named.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Right, and not done here.
    Unsupported(String),
    /// Wrong on any machine.
    Wrong(String),
    /// The engine says so.
    Engine(breakeven::Error),
    /// A node of a subgraph, which is named already.
    Inner(Box<Error>),
}

impl Fault {
    /// The fault of a node that is described as `node`.
    pub fn of(self, node: impl FnOnce() -> String) -> Error {
        match self {
            Fault::Unsupported(message) => Error::Unsupported { node: node(), message },
            Fault::Wrong(message) => Error::Node { node: node(), message },
            Fault::Engine(source) => Error::Engine { node: node(), source },
            Fault::Inner(error) => *error,
        }
    }
}

impl From<breakeven::Error> for Fault {
    fn from(error: breakeven::Error) -> Fault {
        Fault::Engine(error)
    }
}

impl From<breakeven::CallError> for Fault {
    fn from(error: breakeven::CallError) -> Fault {
        Fault::Engine(error.into())
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Inner(Box::new(error))
    }
}

pub(crate) fn unsupported<T>(message: impl Into<String>) -> std::result::Result<T, Fault> {
    Err(Fault::Unsupported(message.into()))
}

pub(crate) fn wrong<T>(message: impl Into<String>) -> std::result::Result<T, Fault> {
    Err(Fault::Wrong(message.into()))
}
