//! Softmax and norms: each element of the result depends on its whole row.

use super::{Operand, eval, load_all};
use crate::{Expr, RowWise, Scalar, Shape};

/// `out[o, i] = post(f(pre(in0[o, ..], ..))[i], extra0[o, i], ..)` along the last axis.
///
/// Every input lies over `outer ++ [length]`: the first `pre.args().len()` feed `pre`, the rest are the arguments of
/// `post` after its first. The parameters are those of `pre`, then those of `post`.
#[derive(Clone, Debug, PartialEq)]
pub struct RowWiseKernel {
    /// What is done to each row.
    pub kind: RowWise,
    /// Leading extents.
    pub outer: Shape,
    /// Elements of one row.
    pub length: usize,
    /// Applied to each element first.
    pub pre: Expr,
    /// Applied to each element of the result.
    pub post: Expr,
    /// Parameters of `pre`, then of `post`.
    pub params: Vec<f64>,
    /// What it reads.
    pub inputs: Vec<Operand>,
    /// What it writes, over `outer ++ [length]`.
    pub out: Operand,
}

impl RowWiseKernel {
    /// Elements written.
    pub fn elements(&self) -> usize {
        self.outer.elements() * self.length
    }

    pub(super) fn flops(&self) -> u64 {
        let each = match self.kind {
            RowWise::Softmax | RowWise::LogSoftmax => 4 + crate::Prim::Exp.flops(),
            RowWise::LayerNorm { .. } => 7,
            RowWise::RmsNorm { .. } => 4,
        };
        self.elements() as u64 * (self.pre.flops() + self.post.flops() + each)
    }

    pub(super) fn reference(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        let pre_args = self.pre.args().len();
        let (pre_params, post_params) = self.params.split_at(self.pre.params());
        let operands: Vec<&Operand> = self.inputs.iter().collect();
        let mut walks: Vec<_> = operands.iter().map(|o| o.layout.positions()).collect();
        let mut out_walk = self.out.layout.positions();
        for _ in 0..self.outer.elements() {
            let mut element = |_| {
                let places: Vec<usize> = walks.iter_mut().map(|w| w.next().expect("one shape")).collect();
                load_all(&operands, inputs, &places)
            };
            let loaded: Vec<Vec<Scalar>> = (0..self.length).map(&mut element).collect();
            let row: Vec<f64> = loaded.iter().map(|a| eval(&self.pre, &a[..pre_args], pre_params).to_f64()).collect();
            for (value, args) in along(self.kind, &row).into_iter().zip(&loaded) {
                let args: Vec<Scalar> =
                    [Scalar::F(value)].into_iter().chain(args[pre_args..].iter().copied()).collect();
                let at = out_walk.next().expect("one shape");
                eval(&self.post, &args, post_params).store(self.out.dtype, outputs[0], at);
            }
        }
    }
}

fn along(kind: RowWise, row: &[f64]) -> Vec<f64> {
    let max = row.iter().fold(f64::NEG_INFINITY, |m, &x| if m.is_nan() || x.is_nan() { f64::NAN } else { m.max(x) });
    let mean = |f: &dyn Fn(f64) -> f64| row.iter().map(|&x| f(x)).sum::<f64>() / row.len() as f64;
    let sum = row.iter().map(|x| (x - max).exp()).sum::<f64>();
    match kind {
        RowWise::Softmax => row.iter().map(|x| (x - max).exp() / sum).collect(),
        RowWise::LogSoftmax => row.iter().map(|x| x - max - sum.ln()).collect(),
        RowWise::LayerNorm { epsilon } => {
            let middle = mean(&|x| x);
            let scale = (mean(&|x| (x - middle) * (x - middle)) + epsilon).sqrt();
            row.iter().map(|x| (x - middle) / scale).collect()
        }
        RowWise::RmsNorm { epsilon } => {
            let scale = (mean(&|x| x * x) + epsilon).sqrt();
            row.iter().map(|x| x / scale).collect()
        }
    }
}
