//! Attention over intervals.

use breakeven_ir::{AttentionKernel, DType, Operand, Tolerance};

use super::slack::Slack;
use super::{Bound, Rules, load, matmul, row_wise};

/// The fewest keys that a device takes at a time: after each such block the largest score may be another one.
const BLOCK: usize = 16;

/// The output in row-major order.
pub fn attention(kernel: &AttentionKernel, inputs: &[&[u8]], rules: Rules) -> Vec<Bound> {
    let all = |o: &Operand, index: usize| load(o, inputs[index], rules);
    let (q, k, v) = (all(&kernel.q, 0), all(&kernel.k, 1), all(&kernel.v, 2));
    let bias = kernel.bias.as_ref().map(|bias| all(bias, 3));
    let dtype = kernel.accumulator();
    let (queries, keys, width, columns) = (kernel.queries(), kernel.keys(), kernel.width(), kernel.value_width());
    let row = |row: usize| {
        let (batch, query) = (row / queries, row % queries);
        let score = |j: usize| {
            let terms = (0..width).map(|p| (&q[row * width + p], &k[(batch * keys + j) * width + p]));
            let score = scaled(matmul::sum(terms, width, dtype, rules.gpu), kernel.scale, dtype);
            bias.as_ref().map_or(score, |bias| plus(score, bias[row * keys + j], dtype))
        };
        let weights = weights(&(0..kernel.seen_by(query)).map(score).collect::<Vec<_>>(), dtype);
        let one = |column: usize| {
            let terms = weights.iter().enumerate().map(|(j, w)| (w, &v[(batch * keys + j) * columns + column]));
            let sum = matmul::sum(terms, keys, dtype, rules.gpu).zero_of_any_sign();
            if kernel.out.dtype == dtype { sum } else { sum.widen(kernel.out.dtype, 1, Tolerance::EXACT) }
        };
        (0..columns).map(one).collect::<Vec<_>>()
    };
    (0..kernel.batch().iter().product::<usize>() * queries).flat_map(row).collect()
}

/// The factor is rounded, and the product.
fn scaled(score: Bound, scale: f64, dtype: DType) -> Bound {
    if score.is_nan_only() {
        return score;
    }
    let (low, high) = score.ends();
    let (a, b) = (low * scale, high * scale);
    rounded(Bound::between(a.min(b), a.max(b)).or_nan(score.may_be_nan()), dtype, 2)
}

/// An infinity stays one.
fn rounded(bound: Bound, dtype: DType, ulp: u32) -> Bound {
    let (low, high) = bound.ends();
    if low == high && low.is_infinite() { bound } else { bound.widen(dtype, ulp, Tolerance::EXACT) }
}

fn plus(a: Bound, b: Bound, dtype: DType) -> Bound {
    if a.is_nan_only() || b.is_nan_only() {
        return Bound::NAN;
    }
    let ((al, ah), (bl, bh)) = (a.ends(), b.ends());
    let (low, high) = (al + bl, ah + bh);
    if low.is_nan() && high.is_nan() {
        return Bound::NAN;
    }
    rounded(Bound::between(low, high).or_nan(a.may_be_nan() || b.may_be_nan()), dtype, 1)
}

/// The softmax of the scores of a query, 0 where all are -inf. A device that meets the largest score late has multiplied what
/// came before with a power of e for each time that it met a larger one, and may take the smallest weights for 0.
fn weights(scores: &[Bound], dtype: DType) -> Vec<Bound> {
    if scores.iter().all(|score| score.ends() == (f64::NEG_INFINITY, f64::NEG_INFINITY) && !score.may_be_nan()) {
        return vec![Bound::between(0.0, 0.0); scores.len()];
    }
    let later = 8.0 * Slack::of(dtype, 1).unit * scores.len().div_ceil(BLOCK) as f64;
    let least = if dtype == DType::F64 { 1e-300 } else { 1e-36 };
    let one = |weight: Bound| {
        if weight.is_nan_only() || weight == Bound::ANY {
            return weight;
        }
        let (low, high) = weight.ends();
        Bound::between(if low < least { 0.0 } else { low * (1.0 - later) }, high * (1.0 + later))
    };
    row_wise::softmax(scores, dtype, false).into_iter().map(one).collect()
}
