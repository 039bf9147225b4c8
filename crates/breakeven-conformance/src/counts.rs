//! What a run of the suite did.

use std::fmt;

/// Kernels run and refused, elements compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Kernels run.
    pub launches: u64,
    /// Elements compared.
    pub elements: u64,
    /// Kernels that the device does not support.
    pub refused: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} kernels ran, {} elements compared, {} refused", self.launches, self.elements, self.refused)
    }
}
