//! Scaled dot product attention.

use super::Operand;
use crate::{DType, Prim, Scalar};

/// `out[.., i, ..] = sum over j of weight[.., i, j] * v[.., j, ..]`, where the weights of a query are the softmax of its scores
/// `scale * (q[.., i, ..] . k[.., j, ..]) + bias[.., i, j]`. A query whose scores are all -inf, or that sees no key, gives 0.
///
/// `q` lies over `batch ++ [queries, width]`, `k` over `batch ++ [keys, width]`, `v` over `batch ++ [keys, value width]`, the bias
/// over `batch ++ [queries, keys]` and the output over `batch ++ [queries, value width]`; broadcasting is a stride of 0. All are of
/// one type; 16-bit floats are computed as f32. No score is ever stored: a device that has to store them refuses the kernel and
/// gets the products and the softmax that it is made of.
///
/// A key that is not seen has the weight 0, but whether its value is multiplied with that is up to the device: where the value
/// is not finite, NaN may come of it.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionKernel {
    /// What products are multiplied with.
    pub scale: f64,
    /// How many keys the first query sees, each further query one more; all of them where it is not said.
    pub seen: Option<usize>,
    /// Queries.
    pub q: Operand,
    /// Keys.
    pub k: Operand,
    /// Values.
    pub v: Operand,
    /// What is added to the scores.
    pub bias: Option<Operand>,
    /// What it writes.
    pub out: Operand,
}

impl AttentionKernel {
    /// Leading extents.
    pub fn batch(&self) -> &[usize] {
        let shape = &self.out.layout.shape;
        &shape[..shape.rank() - 2]
    }

    /// Rows of the result.
    pub fn queries(&self) -> usize {
        self.q.layout.shape[self.batch().len()]
    }

    /// What a query may see.
    pub fn keys(&self) -> usize {
        self.k.layout.shape[self.batch().len()]
    }

    /// Terms of each score.
    pub fn width(&self) -> usize {
        self.q.layout.shape[self.batch().len() + 1]
    }

    /// Columns of the result.
    pub fn value_width(&self) -> usize {
        self.v.layout.shape[self.batch().len() + 1]
    }

    /// Type in which it is computed.
    pub fn accumulator(&self) -> DType {
        if self.q.dtype.is_half() { DType::F32 } else { self.q.dtype }
    }

    /// How many keys a query sees.
    pub fn seen_by(&self, query: usize) -> usize {
        self.seen.map_or(self.keys(), |seen| seen.saturating_add(query).min(self.keys()))
    }

    pub(super) fn flops(&self) -> u64 {
        let scores: usize = (0..self.queries()).map(|query| self.seen_by(query)).sum();
        let batch: usize = self.batch().iter().product();
        let each = 2 * (self.width() + self.value_width()) as u64 + 4 + Prim::Exp.flops();
        (batch * scores) as u64 * each
    }

    pub(super) fn reference(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        let all = |o: &Operand, bytes: &[u8]| -> Vec<f64> {
            o.layout.positions().map(|at| Scalar::load(o.dtype, bytes, at).to_f64()).collect()
        };
        let (q, k, v) = (all(&self.q, inputs[0]), all(&self.k, inputs[1]), all(&self.v, inputs[2]));
        let bias = self.bias.as_ref().map(|bias| all(bias, inputs[3]));
        let (queries, keys, width, columns) = (self.queries(), self.keys(), self.width(), self.value_width());
        let mut places = self.out.layout.positions();
        for row in 0..self.out.layout.shape.elements() / columns.max(1) {
            let (batch, query) = (row / queries, row % queries);
            let score = |j: usize| {
                let dot = |p: usize| q[row * width + p] * k[(batch * keys + j) * width + p];
                let score = self.scale * (0..width).map(dot).sum::<f64>();
                bias.as_ref().map_or(score, |bias| score + bias[row * keys + j])
            };
            let weights = weights(&(0..self.seen_by(query)).map(score).collect::<Vec<_>>());
            for (column, at) in (0..columns).zip(&mut places) {
                let term = |(j, weight): (usize, &f64)| weight * v[(batch * keys + j) * columns + column];
                let sum = weights.iter().enumerate().map(term).sum();
                Scalar::F(sum).store(self.out.dtype, outputs[0], at);
            }
        }
    }
}

/// The softmax of the scores of a query; 0 where all are -inf.
fn weights(scores: &[f64]) -> Vec<f64> {
    let larger = |m: f64, &x: &f64| if m.is_nan() || x.is_nan() { f64::NAN } else { m.max(x) };
    let most = scores.iter().fold(f64::NEG_INFINITY, larger);
    if most == f64::NEG_INFINITY {
        return vec![0.0; scores.len()];
    }
    let sum: f64 = scores.iter().map(|x| (x - most).exp()).sum();
    scores.iter().map(|x| (x - most).exp() / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kernel, Layout};

    /// One query of two numbers and three keys, whose values are 1, 2 and 4.
    fn check(bias: [f64; 3], seen: Option<usize>, expected: f64) {
        let f64s = |shape: [usize; 2]| Operand::new(DType::F64, Layout::dense(shape));
        let (q, k, v, bias_at, out) = (f64s([1, 2]), f64s([3, 2]), f64s([3, 1]), f64s([1, 3]), f64s([1, 1]));
        let kernel = Kernel::Attention(AttentionKernel { scale: 0.5, seen, q, k, v, bias: Some(bias_at), out });
        let bytes = |x: &[f64]| x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let inputs =
            [bytes(&[1.0, 2.0]), bytes(&[0.0, 0.0, 0.0, 1.0, 2.0, 0.0]), bytes(&[1.0, 2.0, 4.0]), bytes(&bias)];
        let mut out = [0; 8];
        kernel.reference(&inputs.each_ref().map(Vec::as_slice), &mut [&mut out]);
        assert!((f64::from_le_bytes(out) - expected).abs() < 1e-15, "{} {expected}", f64::from_le_bytes(out));
    }

    #[test]
    fn weights_are_those_of_the_keys_that_are_seen() {
        let e = std::f64::consts::E;
        check([0.0; 3], None, (1.0 + 2.0 * e + 4.0 * e) / (1.0 + 2.0 * e));
        check([0.0, 0.0, f64::NEG_INFINITY], None, (1.0 + 2.0 * e) / (1.0 + e));
        check([0.0; 3], Some(2), (1.0 + 2.0 * e) / (1.0 + e));
        check([0.0; 3], Some(1), 1.0);
        check([0.0; 3], Some(0), 0.0);
        check([f64::NEG_INFINITY; 3], None, 0.0);
        check([1e300, 0.0, 0.0], None, 1.0);
    }
}
