//! Softmax and norms over intervals.

use breakeven_ir::{DType, RowWise, RowWiseKernel, Tolerance};

use super::bound::smallest_normal;
use super::expr::Meaning;
use super::fold::spread;
use super::slack::Slack;
use super::{Bound, Rules, load};

/// The output, row after row.
pub fn row_wise(kernel: &RowWiseKernel, inputs: &[&[u8]], rules: Rules) -> Vec<Bound> {
    let pre_args = kernel.pre.args().len();
    let (pre_params, post_params) = kernel.params.split_at(kernel.pre.params());
    let pre = Meaning::new(&kernel.pre, pre_params, rules, true);
    let post = Meaning::new(&kernel.post, post_params, rules, true);
    let columns: Vec<Vec<Bound>> = kernel.inputs.iter().zip(inputs).map(|(o, b)| load(o, b, rules)).collect();
    let mut out = Vec::with_capacity(kernel.elements());
    for o in 0..kernel.outer.elements() {
        let args = |range: &[Vec<Bound>], i: usize| range.iter().map(|c| c[o * kernel.length + i]).collect::<Vec<_>>();
        let row: Vec<Bound> = (0..kernel.length).map(|i| pre.of(&args(&columns[..pre_args], i))).collect();
        for (i, value) in along(kernel.kind, &row, kernel.pre.dtype(), rules).into_iter().enumerate() {
            let extras = args(&columns[pre_args..], i);
            out.push(post.of(&[value].into_iter().chain(extras).collect::<Vec<_>>()));
        }
    }
    out
}

fn along(kind: RowWise, row: &[Bound], dtype: DType, rules: Rules) -> Vec<Bound> {
    let rounded = |b: Bound| {
        let wide = b.widen(dtype, 2, Tolerance::EXACT);
        if rules.gpu { wide.flushed(dtype) } else { wide }
    };
    let all = match kind {
        RowWise::Softmax => softmax(row, dtype, false),
        RowWise::LogSoftmax => softmax(row, dtype, true),
        RowWise::LayerNorm { epsilon } => layer_norm(row, dtype, epsilon),
        RowWise::RmsNorm { epsilon } => {
            rms_norm(row, dtype, epsilon, if rules.gpu { smallest_normal(dtype) } else { 0.0 })
        }
    };
    all.into_iter().map(rounded).collect()
}

pub(super) fn softmax(row: &[Bound], dtype: DType, logarithm: bool) -> Vec<Bound> {
    let slack = Slack::of(dtype, row.len());
    let middle = |b: &Bound| if b.ends().0 == b.ends().1 { b.ends().0 } else { b.ends().0 / 2.0 + b.ends().1 / 2.0 };
    if row.iter().any(Bound::is_nan_only) {
        return vec![Bound::NAN; row.len()];
    }
    let open = |b: &Bound| b.ends().0 != b.ends().1 && (b.ends().0.is_infinite() || b.ends().1.is_infinite());
    if row.iter().any(|b| b.may_be_nan() || open(b)) {
        return vec![Bound::ANY; row.len()];
    }
    let max = row.iter().map(middle).fold(f64::NEG_INFINITY, f64::max);
    if max.is_infinite() {
        return vec![Bound::NAN; row.len()];
    }
    let width = row.iter().map(|b| b.ends().1 - b.ends().0).filter(|w| !w.is_nan()).fold(0.0, f64::max);
    let total: f64 = row.iter().map(|b| (middle(b) - max).exp()).sum();
    let far = row.iter().map(middle).filter(|x| x.is_finite()).fold(0f64, |far, x| far.max((x - max).abs().min(200.0)));
    let one = |b: &Bound| {
        let x = middle(b) - max;
        if x == f64::NEG_INFINITY {
            let value = if logarithm { x } else { 0.0 };
            return Bound::between(value, value);
        }
        // Terms far below the largest do not count in the total, so its error is that of the near ones.
        let in_total = slack.sum + slack.exponential(far) + width;
        if logarithm {
            let value = x - total.ln();
            let wrong = 4.0 * slack.unit * (x.abs() + total.ln()) + in_total + width;
            return Bound::between(value - wrong, value + wrong);
        }
        let value = x.exp() / total;
        let wrong = in_total + slack.exponential(x) + width;
        Bound::between(value * (-wrong).exp(), value * wrong.exp())
    };
    row.iter().map(one).collect()
}

fn layer_norm(row: &[Bound], dtype: DType, epsilon: f64) -> Vec<Bound> {
    let slack = Slack::of(dtype, row.len());
    if let Some(all) = not_finite(row) {
        return vec![all; row.len()];
    }
    let s = spread(row, dtype);
    let wrong =
        2.0 * slack.sum * s.variance + s.centre * s.centre + 2.0 * s.variance.sqrt() * s.width + s.width * s.width;
    let low = ((s.variance - wrong).max(0.0) + epsilon).sqrt() * (1.0 - slack.norm());
    let high = ((s.variance + wrong) + epsilon).sqrt() * (1.0 + slack.norm());
    let one = |b: &Bound| {
        let (l, h) = (b.ends().0 - s.mean, b.ends().1 - s.mean);
        let off = |x: f64| s.centre + s.width + 2.0 * slack.unit * x.abs();
        quotient((l - off(l), h + off(h)), (low, high))
    };
    row.iter().map(one).collect()
}

fn rms_norm(row: &[Bound], dtype: DType, epsilon: f64, tiny: f64) -> Vec<Bound> {
    let slack = Slack::of(dtype, row.len());
    if row.iter().any(Bound::is_nan_only) {
        return vec![Bound::NAN; row.len()];
    }
    if let Some(all) = not_finite(row) {
        // The mean square is infinite: what is finite becomes 0.
        let one =
            |b: &Bound| if b.ends().0.is_finite() && b.ends().1.is_finite() { Bound::between(0.0, 0.0) } else { all };
        return row.iter().map(|b| if all.is_nan_only() { one(b) } else { all }).collect();
    }
    let square = |x: f64| x * x;
    let nearest = |(l, h): (f64, f64)| if l <= 0.0 && h >= 0.0 { 0.0 } else { l.abs().min(h.abs()) };
    let count = row.len() as f64;
    let low = row.iter().map(|b| square(nearest(b.ends()))).sum::<f64>() / count;
    let high = row.iter().map(|b| square(b.ends().0.abs().max(b.ends().1.abs()))).sum::<f64>() / count;
    let off = 2.0 * slack.sum;
    let low = ((low * (1.0 - off) - tiny).max(0.0) + epsilon).sqrt() * (1.0 - slack.norm());
    let high = (high * (1.0 + off) + tiny + epsilon).sqrt() * (1.0 + slack.norm());
    row.iter().map(|b| quotient(b.ends(), (low, high))).collect()
}

/// What NaN or an infinity does to a layer norm: the mean is one of them, so every distance is NaN.
fn not_finite(row: &[Bound]) -> Option<Bound> {
    let infinite = |x: f64| x.is_infinite();
    let sure = |b: &Bound| b.is_nan_only() || (b.ends().0 == b.ends().1 && infinite(b.ends().0));
    let maybe = |b: &Bound| b.may_be_nan() || infinite(b.ends().0) || infinite(b.ends().1);
    if row.iter().any(sure) {
        return Some(Bound::NAN);
    }
    row.iter().any(maybe).then_some(Bound::ANY)
}

fn quotient((a, b): (f64, f64), (low, high): (f64, f64)) -> Bound {
    if low == 0.0 {
        return Bound::ANY;
    }
    let all = [a / low, a / high, b / low, b / high];
    Bound::between(
        all.iter().copied().fold(f64::INFINITY, f64::min),
        all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    )
}
