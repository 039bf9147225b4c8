//! The allowances that are not a row's: how far sums, products and norms may lie from the exact result, and why.

use breakeven_ir::DType;

/// What arithmetic in one type may get wrong.
#[derive(Clone, Copy, Debug)]
pub struct Slack {
    /// Half a unit in the last place of 1: the relative error of one rounding.
    pub unit: f64,
    /// A sum may be wrong by this part of the sum of magnitudes.
    pub sum: f64,
    /// The largest finite number: what sums beyond it give is open.
    pub largest: f64,
}

impl Slack {
    /// For folding `terms` values that are computed in `dtype`.
    ///
    /// In f32 a sum keeps what the numeric contract promises for any length, because sums are pairwise or blocked. In f64 it
    /// keeps the classic bound for any order, once for the device and once for this suite, which computes in f64 itself.
    pub fn of(dtype: DType, terms: usize) -> Slack {
        if dtype == DType::F64 {
            let unit = f64::EPSILON / 2.0;
            return Slack { unit, sum: 2.0 * (terms as f64 + 2.0) * unit, largest: f64::MAX };
        }
        Slack { unit: f64::from(f32::EPSILON) / 2.0, sum: 1e-6, largest: f64::from(f32::MAX) }
    }

    /// A product of `n` factors is rounded `n` times, in any order.
    pub fn product(self, n: usize) -> f64 {
        2.0 * n as f64 * self.unit
    }

    /// A dot product of `k` terms: the classic bound `k u / (1 - k u)` times the sum of `|a b|`, valid for any order and with
    /// or without fused multiply-add; a few roundings more for the epilogue's load and for splitting `k`. As much again
    /// where the suite's own sum is no more exact.
    pub fn dot(self, k: usize) -> f64 {
        (k as f64 + 8.0) * self.unit * if self.is_as_exact_as_the_suite() { 2.0 } else { 1.0 }
    }

    /// A mean that is subtracted from its elements is right to one unit in the last place; what is left is corrected by the
    /// mean of the differences, else variance cancels where the mean is far larger than the spread. In f64 the suite's own
    /// mean is a plain sum.
    pub fn centre(self, mean: f64, mean_distance: f64) -> f64 {
        let own = if self.is_as_exact_as_the_suite() { self.sum } else { 0.0 };
        (2.0 * self.unit + own) * mean.abs() + self.sum * mean_distance
    }

    fn is_as_exact_as_the_suite(self) -> bool {
        self.largest == f64::MAX
    }

    /// `exp` of a difference: the rounding of the difference, then the tolerance of `exp` and of the division on a GPU.
    pub fn exponential(self, difference: f64) -> f64 {
        self.unit * difference.abs() + 32.0 * self.unit
    }

    /// Square root, division and product at the end of a norm, each within a few units on a GPU.
    pub fn norm(self) -> f64 {
        16.0 * self.unit
    }
}
