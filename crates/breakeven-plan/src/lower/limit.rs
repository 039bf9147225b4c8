//! Limits of a device that a kernel is past, in words.

use std::fmt;
use std::mem::discriminant;

use breakeven_ir::{Caps, Operand};

use super::chunk::span;

/// Why a kernel is not one launch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    Operands { operands: usize, most: usize },
    Bytes { bytes: u64, most: u64 },
    Elements { elements: u64, highest: u64 },
    Time,
}

/// One limit of each kind that a kernel or a part of it is past, the first that was met.
#[derive(Debug, Default)]
pub(crate) struct Limits(pub Vec<Limit>);

impl Limits {
    pub fn add(&mut self, limit: Limit) {
        if !self.0.iter().any(|known| discriminant(known) == discriminant(&limit)) {
            self.0.push(limit);
        }
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(Limit::to_string).collect();
        f.write_str(&all.join(", and "))
    }
}

impl Limit {
    /// The limit that an operand is past, if any.
    pub fn of_operand(operand: &Operand, caps: &Caps) -> Option<Limit> {
        let elements = span(&operand.layout);
        let bytes = elements * operand.dtype.bytes() as u64;
        let (most, highest) = (caps.max_binding_bytes, caps.max_index);
        let too_wide = (bytes > most).then_some(Limit::Bytes { bytes, most });
        too_wide.or((elements.saturating_sub(1) > highest).then_some(Limit::Elements { elements, highest }))
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Operands { operands, most } => {
                write!(f, "it binds {operands} buffers at once, and the device allows {most}")
            }
            Limit::Bytes { bytes, most } => {
                write!(f, "an operand spans {bytes} bytes, more than a launch can see ({most})")
            }
            Limit::Elements { elements, highest } => {
                write!(f, "an operand spans {elements} elements, and a kernel's indices end at {highest}")
            }
            Limit::Time => f.write_str("one launch would be longer than one may be"),
        }
    }
}
