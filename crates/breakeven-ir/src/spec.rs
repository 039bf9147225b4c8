//! What is known of a tensor before any byte exists.

use std::fmt;

use crate::{DType, Shape};

/// Element type and extents.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// Type of each element.
    pub dtype: DType,
    /// Extents.
    pub shape: Shape,
}

impl Spec {
    /// Element type and extents together.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> Spec {
        Spec { dtype, shape: shape.into() }
    }

    /// Bytes when stored densely, without padding. 64 bits wide, whatever the host's index width.
    pub fn bytes(&self) -> u64 {
        self.shape.elements() as u64 * self.dtype.bytes() as u64
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_do_not_wrap_at_four_gibibytes() {
        assert_eq!(Spec::new(DType::F32, [(1 << 30) + 1]).bytes(), 4_294_967_300);
    }
}
