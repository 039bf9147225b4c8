//! The two things that can be wrong with a call: the call itself, or what a device can do.

use std::fmt;
use std::panic::Location;

use crate::Spec;

/// The call is wrong on any machine. Names the operation, what it was given, and where the caller wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct CallError {
    /// The operation that was called, as the user knows it.
    pub operation: &'static str,
    /// What is wrong and what would be right, in words.
    pub message: String,
    /// Dtypes and shapes of the operands, where there are any.
    pub operands: Vec<Spec>,
    /// The caller's file and line, where the front door knows it.
    pub location: Option<&'static Location<'static>>,
}

impl CallError {
    /// A call error with no operands and no location yet.
    pub fn new(operation: &'static str, message: impl Into<String>) -> CallError {
        CallError { operation, message: message.into(), operands: Vec::new(), location: None }
    }

    /// The same error, naming what the operation was given.
    pub fn of(mut self, operands: &[&Spec]) -> CallError {
        self.operands = operands.iter().copied().cloned().collect();
        self
    }

    /// The same error, naming the caller's line unless one is known already.
    pub fn at(mut self, location: &'static Location<'static>) -> CallError {
        self.location.get_or_insert(location);
        self
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.operation)?;
        if !self.operands.is_empty() {
            let operands: Vec<String> = self.operands.iter().map(Spec::to_string).collect();
            write!(f, "({})", operands.join(", "))?;
        }
        write!(f, ": {}", self.message)?;
        self.location.map_or(Ok(()), |at| write!(f, " (called at {}:{})", at.file(), at.line()))
    }
}

impl std::error::Error for CallError {}

/// Why a device cannot run a kernel; shown by `explain`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("unsupported here, because {0}")]
pub struct Unsupported(pub String);
