//! Matrix products over intervals.

use breakeven_ir::{DType, MatMul, Operand, Precision, Scalar, Tolerance};

use super::bound::smallest_normal;
use super::expr::Meaning;
use super::slack::Slack;
use super::{Bound, Rules, load};

/// The output in row-major order.
pub fn matmul(kernel: &MatMul, inputs: &[&[u8]], rules: Rules) -> Vec<Bound> {
    let factor = |o: &Operand, bytes| -> Vec<Bound> {
        load(o, bytes, rules).into_iter().map(|x| x.lowered(o.dtype, kernel.precision)).collect()
    };
    let (a, b) = (factor(&kernel.a, inputs[0]), factor(&kernel.b, inputs[1]));
    let flushes = rules.gpu || kernel.precision != Precision::Highest;
    let extras: Vec<Vec<Bound>> = kernel.inputs.iter().zip(&inputs[2..]).map(|(o, x)| load(o, x, rules)).collect();
    let post = Meaning::new(&kernel.post, &kernel.params, rules, true);
    let one = |e: usize| {
        let (batch, i, j) = (e / (kernel.m * kernel.n), e / kernel.n % kernel.m, e % kernel.n);
        let left = |p: usize| &a[(batch * kernel.m + i) * kernel.k + p];
        let right = |p: usize| &b[(batch * kernel.k + p) * kernel.n + j];
        let terms = (0..kernel.k).map(|p| (left(p), right(p)));
        let sum = sum(terms, kernel.k, kernel.accumulator(), flushes);
        post.of(&[sum.zero_of_any_sign()].into_iter().chain(extras.iter().map(|x| x[e])).collect::<Vec<_>>())
    };
    (0..kernel.batch.elements() * kernel.m * kernel.n).map(one).collect()
}

/// The sum of `count` products, of type `dtype`, of which denormals may be taken for zeros where it `flushes`.
pub(super) fn sum<'a>(
    terms: impl Iterator<Item = (&'a Bound, &'a Bound)>,
    count: usize,
    dtype: DType,
    flushes: bool,
) -> Bound {
    if dtype.is_integer() { whole(terms, dtype) } else { dot(terms, count, dtype, flushes) }
}

fn whole<'a>(terms: impl Iterator<Item = (&'a Bound, &'a Bound)>, dtype: DType) -> Bound {
    let int = |b: &Bound| if let Scalar::I(x) = b.samples()[0] { x } else { 0 };
    let sum = terms.fold(0i128, |acc, (a, b)| acc.wrapping_add(int(a) * int(b)));
    Bound::exactly(Scalar::I(sum).cast(dtype))
}

fn dot<'a>(terms: impl Iterator<Item = (&'a Bound, &'a Bound)>, count: usize, dtype: DType, flushes: bool) -> Bound {
    let (mut low, mut high, mut size, mut nan) = (0.0, 0.0, 0.0, false);
    for (a, b) in terms {
        if a.is_nan_only() || b.is_nan_only() {
            return Bound::NAN;
        }
        let ((al, ah), (bl, bh)) = (a.ends(), b.ends());
        let all = [al * bl, al * bh, ah * bl, ah * bh];
        if all.iter().all(|x| x.is_nan()) {
            return Bound::NAN;
        }
        nan |= a.may_be_nan() || b.may_be_nan() || all.iter().any(|x| x.is_nan());
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        low += least;
        high += most;
        size += least.abs().max(most.abs());
    }
    if low.is_nan() && high.is_nan() {
        return Bound::NAN;
    }
    if low == high && low.is_infinite() {
        return Bound::between(low, high).or_nan(nan);
    }
    let slack = Slack::of(dtype, count);
    if size > slack.largest {
        return Bound::ANY;
    }
    let flush = if flushes { (count as f64 + 1.0) * smallest_normal(dtype) } else { 0.0 };
    let wrong = slack.dot(count) * size + flush;
    let sum = Bound::between(low - wrong, high + wrong).or_nan(nan);
    sum.widen(dtype, 1, Tolerance::EXACT)
}
