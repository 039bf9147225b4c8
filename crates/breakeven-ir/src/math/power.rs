//! Powers.

use crate::Float;

/// `x^y`, special values as IEEE 754 `pow`.
pub fn pow<V: Float>(x: V, y: V) -> V {
    (y * x.abs().log2()).exp2()
}
