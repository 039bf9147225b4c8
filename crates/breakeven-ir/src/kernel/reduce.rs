//! Reductions: the trailing axes of `outer ++ inner` folded to one element each.

use super::{Operand, eval, load_all};
use crate::{Expr, Fold, Scalar, Shape};

/// `out[o] = post(fold over i of pre(in0[o, i], ..), extra0[o], ..)`.
///
/// The first `pre.args().len()` inputs lie over `outer ++ inner` and feed `pre`; the rest lie over `outer` and are the
/// arguments of `post` after its first, which is the folded value. The parameters are those of `pre`, then those of
/// `post`. [`Fold::Moments`] has two outputs, and its `post` changes nothing but their type.
#[derive(Clone, Debug, PartialEq)]
pub struct ReduceRows {
    /// How elements are folded.
    pub fold: Fold,
    /// Shape of each output.
    pub outer: Shape,
    /// Extents that are folded, in row-major order.
    pub inner: Shape,
    /// Applied to each element before folding.
    pub pre: Expr,
    /// Applied to each folded value.
    pub post: Expr,
    /// Parameters of `pre`, then of `post`.
    pub params: Vec<f64>,
    /// What it reads.
    pub inputs: Vec<Operand>,
    /// What it writes, each over `outer`.
    pub outs: Vec<Operand>,
}

impl ReduceRows {
    pub(super) fn flops(&self) -> u64 {
        let folded = (self.outer.elements() * self.inner.elements()) as u64;
        let each = if self.fold == Fold::Moments { 4 } else { 1 };
        folded * (self.pre.flops() + each) + self.post.flops() * self.outer.elements() as u64
    }

    pub(super) fn reference(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        let pre_args = self.pre.args().len();
        let (pre_params, post_params) = self.params.split_at(self.pre.params());
        let (operands, extras): (Vec<&Operand>, Vec<&Operand>) =
            (self.inputs[..pre_args].iter().collect(), self.inputs[pre_args..].iter().collect());
        let body = self.pre.lower();
        let mut walks: Vec<_> = operands.iter().map(|o| o.layout.positions()).collect();
        let mut extra_walks: Vec<_> = extras.iter().map(|o| o.layout.positions()).collect();
        let mut out_walks: Vec<_> = self.outs.iter().map(|o| o.layout.positions()).collect();
        for _ in 0..self.outer.elements() {
            let mut element = |_| {
                let places: Vec<usize> = walks.iter_mut().map(|w| w.next().expect("one shape")).collect();
                body.eval(&load_all(&operands, inputs, &places), pre_params)
            };
            let row: Vec<Scalar> = (0..self.inner.elements()).map(&mut element).collect();
            let places: Vec<usize> = extra_walks.iter_mut().map(|w| w.next().expect("one shape")).collect();
            let more = load_all(&extras, &inputs[pre_args..], &places);
            for ((value, out), (walk, buffer)) in fold(self.fold, &row, self.pre.dtype())
                .into_iter()
                .zip(&self.outs)
                .zip(out_walks.iter_mut().zip(outputs.iter_mut()))
            {
                let args: Vec<Scalar> = [value].into_iter().chain(more.iter().copied()).collect();
                let value = if self.fold == Fold::Moments { value } else { eval(&self.post, &args, post_params) };
                value.store(out.dtype, buffer, walk.next().expect("one shape"));
            }
        }
    }
}

/// All results of folding one row.
fn fold(fold: Fold, row: &[Scalar], dtype: crate::DType) -> Vec<Scalar> {
    let floats = || row.iter().map(|s| s.to_f64());
    let count = row.len() as f64;
    let int = |s: &Scalar| if let Scalar::I(x) = s { *x } else { 0 };
    vec![match fold {
        Fold::Sum if dtype.is_integer() => Scalar::I(row.iter().map(int).sum()).cast(dtype),
        Fold::Prod if dtype.is_integer() => {
            row.iter().fold(Scalar::I(1), |acc, s| Scalar::I(int(&acc).wrapping_mul(int(s))).cast(dtype))
        }
        Fold::Sum => Scalar::F(floats().sum()),
        Fold::Mean => Scalar::F(floats().sum::<f64>() / count),
        Fold::Prod => Scalar::F(floats().product()),
        Fold::Max => row[best(row, false)],
        Fold::Min => row[best(row, true)],
        Fold::ArgMax => Scalar::I(best(row, false) as i128),
        Fold::ArgMin => Scalar::I(best(row, true) as i128),
        Fold::All => Scalar::B(row.iter().all(|s| s.truth())),
        Fold::Any => Scalar::B(row.iter().any(|s| s.truth())),
        Fold::Moments => {
            let mean = floats().sum::<f64>() / count;
            let variance = floats().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
            return vec![Scalar::F(mean), Scalar::F(variance)];
        }
    }]
}

/// Index of the largest (or smallest): the first NaN, else the lowest index among equals.
fn best(row: &[Scalar], smallest: bool) -> usize {
    let better = |a: Scalar, b: Scalar| match (a, b) {
        (Scalar::I(a), Scalar::I(b)) if smallest => a < b,
        (Scalar::I(a), Scalar::I(b)) => a > b,
        (a, b) => {
            let (a, b) = (a.to_f64(), b.to_f64());
            !b.is_nan() && (a.is_nan() || if smallest { a < b } else { a > b })
        }
    };
    (1..row.len()).fold(0, |at, i| if better(row[i], row[at]) { i } else { at })
}
