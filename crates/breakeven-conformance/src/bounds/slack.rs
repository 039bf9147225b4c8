//! The allowances that are not a row's: how far sums, products and norms may lie from the exact result, and why.

/// Half a unit in the last place of 1, in f32: the relative error of one rounding.
pub const UNIT: f64 = 1.0 / (1u64 << 24) as f64;

/// A sum may be wrong by this part of the sum of magnitudes: what the numeric contract promises, for any length, because
/// sums are pairwise or blocked.
pub const SUM: f64 = 1e-6;

/// A product of `n` factors is rounded `n` times, in any order.
pub fn product(n: usize) -> f64 {
    2.0 * n as f64 * UNIT
}

/// A dot product of `k` terms: the classic bound `k u / (1 - k u)` times the sum of `|a b|`, valid for any order and with
/// or without fused multiply-add; a few roundings more for the epilogue's load and for splitting `k`.
pub fn dot(k: usize) -> f64 {
    (k as f64 + 8.0) * UNIT
}

/// A mean that is subtracted from its elements is right to one unit in the last place; what is left is corrected by the
/// mean of the differences, else variance cancels where the mean is far larger than the spread.
pub fn centre(mean: f64, mean_distance: f64) -> f64 {
    2.0 * UNIT * mean.abs() + SUM * mean_distance
}

/// `exp` of a difference: the rounding of the difference, then the tolerance of `exp` and of the division on a GPU.
pub fn exponential(difference: f64) -> f64 {
    UNIT * difference.abs() + 32.0 * UNIT
}

/// Square root, division and product at the end of a norm, each within a few units on a GPU.
pub const NORM: f64 = 16.0 * UNIT;
