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
        (self.shape.elements() as u64).saturating_mul(self.dtype.bytes() as u64)
    }

    /// Whether its bytes could be told apart by addresses, and its elements by strides, even where some extent is 0.
    pub fn is_addressable(&self) -> bool {
        let bytes = self.shape.steps().and_then(|steps| steps.checked_mul(self.dtype.bytes()));
        bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok())
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
    fn what_no_memory_holds_is_not_addressable() {
        assert!(Spec::new(DType::F32, [1 << 60]).is_addressable());
        assert!(!Spec::new(DType::F32, [1 << 61]).is_addressable());
        assert!(!Spec::new(DType::U8, [1 << 40, 1 << 40]).is_addressable());
        assert!(!Spec::new(DType::U8, [0, 1 << 40, 1 << 40]).is_addressable(), "its strides would wrap");
        assert_eq!(Spec::new(DType::F32, [1 << 40, 1 << 40]).bytes(), u64::MAX);
    }

    #[test]
    fn bytes_do_not_wrap_at_four_gibibytes() {
        assert_eq!(Spec::new(DType::F32, [(1 << 30) + 1]).bytes(), 4_294_967_300);
    }
}
