//! Running folds over intervals.

use breakeven_ir::{DType, Fold, Scalar, ScanRows, Tolerance};

use super::bound::smallest_normal;
use super::fold::{rounded_product, times};
use super::slack::Slack;
use super::{Bound, Rules, load};

/// The output, row after row.
pub fn scan(kernel: &ScanRows, inputs: &[&[u8]], rules: Rules) -> Vec<Bound> {
    let elements = load(&kernel.input, inputs[0], rules);
    let mut out = Vec::with_capacity(elements.len());
    for row in elements.chunks(kernel.length.max(1)) {
        let mut running = Running::new(kernel, rules);
        for x in row {
            let before = running.bound();
            running.add(x);
            out.push(if kernel.exclusive { before } else { running.bound() });
        }
    }
    out
}

/// What so many elements fold to.
struct Running {
    fold: Fold,
    dtype: DType,
    /// How far denormals that are flushed may move one step.
    flush: f64,
    count: usize,
    /// Exact arithmetic on the ends of the elements.
    at: Bound,
    /// Sum of magnitudes.
    size: f64,
    /// Elements that are infinite for sure, above and below, and some that may be.
    infinite: [bool; 3],
}

impl Running {
    fn new(kernel: &ScanRows, rules: Rules) -> Running {
        let dtype = kernel.input.dtype;
        let flush = if rules.gpu { smallest_normal(dtype) } else { 0.0 };
        let at = Bound::exactly(kernel.of_nothing());
        Running { fold: kernel.fold, dtype, flush, count: 0, at, size: 0.0, infinite: [false; 3] }
    }

    fn add(&mut self, x: &Bound) {
        self.count += 1;
        if let (Scalar::I(a), Scalar::I(b)) = (self.at.samples()[0], x.samples()[0]) {
            let both = match self.fold {
                Fold::Prod => a.wrapping_mul(b),
                Fold::Max => a.max(b),
                Fold::Min => a.min(b),
                _ => a + b,
            };
            self.at = Bound::exactly(Scalar::I(both).cast(self.dtype));
            return;
        }
        self.at = match self.fold {
            _ if self.at.is_nan_only() || x.is_nan_only() => Bound::NAN,
            Fold::Prod => times(self.at, x),
            Fold::Max => extreme(self.at, x, f64::max),
            Fold::Min => extreme(self.at, x, f64::min),
            _ => self.plus(x),
        };
    }

    fn plus(&mut self, x: &Bound) -> Bound {
        let (low, high) = x.ends();
        let nan = self.at.may_be_nan() || x.may_be_nan();
        if low.is_finite() && high.is_finite() {
            self.size += low.abs().max(high.abs());
            let at = self.at.ends();
            return Bound::between(at.0 + low, at.1 + high).or_nan(nan);
        }
        self.infinite[0] |= low == f64::INFINITY;
        self.infinite[1] |= high == f64::NEG_INFINITY;
        self.infinite[2] |= low != high;
        self.at.or_nan(nan)
    }

    fn bound(&self) -> Bound {
        let flush = self.flush * self.count as f64;
        let computed = match self.fold {
            _ if self.count == 0 || self.at.is_nan_only() || self.dtype.is_integer() => self.at,
            Fold::Prod => rounded_product(self.at, self.count, flush, self.computed()),
            Fold::Max | Fold::Min => self.at,
            _ => self.sum(flush),
        };
        computed.widen(self.dtype, 0, Tolerance::EXACT)
    }

    /// The type that running folds of the type are computed in.
    fn computed(&self) -> DType {
        if self.dtype.is_half() { DType::F32 } else { self.dtype }
    }

    fn sum(&self, flush: f64) -> Bound {
        match self.infinite {
            [true, true, _] => return Bound::NAN,
            [_, _, true] => return Bound::ANY,
            [true, ..] => return Bound::between(f64::INFINITY, f64::INFINITY).or_nan(self.at.may_be_nan()),
            [_, true, _] => return Bound::between(f64::NEG_INFINITY, f64::NEG_INFINITY).or_nan(self.at.may_be_nan()),
            _ if self.size > Slack::of(self.computed(), self.count).largest => return Bound::ANY,
            _ => {}
        }
        let (low, high) = self.at.ends();
        let wrong = Slack::of(self.computed(), self.count).sum * self.size + flush;
        Bound::between(low - wrong, high + wrong).or_nan(self.at.may_be_nan()).widen_any(self.computed())
    }
}

fn extreme(at: Bound, x: &Bound, choose: fn(f64, f64) -> f64) -> Bound {
    let ((a, b), (c, d)) = (at.ends(), x.ends());
    Bound::between(choose(a, c), choose(b, d)).or_nan(at.may_be_nan() || x.may_be_nan())
}
