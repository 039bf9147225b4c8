//! A vector times a matrix: each element of the matrix is used once, and memory sets the pace.

use breakeven_ir::{ExprBuilder, Fold, MAX_RANK, MatMul, ReduceRows, Row, Shape, Unsupported};

use super::super::{Plan, reduce};
use super::sum_dtype;
use crate::wgsl::Tensor;

/// True where one side is a vector.
pub(super) fn has_one(k: &MatMul) -> bool {
    k.m.min(k.n) == 1 && k.k > 0 && k.batch.rank() + 3 <= MAX_RANK
}

/// Sums of products along rows or columns of the matrix.
pub(super) fn plan(plan: &mut Plan, k: &MatMul, mut inputs: Vec<Tensor>, outs: Vec<Tensor>) -> Result<(), Unsupported> {
    let rank = k.batch.rank();
    let outer = k.out.layout.shape.clone();
    let sum = sum_dtype(k);
    let mut pre = ExprBuilder::default();
    let factors = [inputs[0].stored.dtype, inputs[1].stored.dtype].map(|dtype| pre.arg(dtype));
    let factors = factors.map(|factor| pre.cast(factor, sum));
    let product = pre.row(Row::named("mul").expect("it is in the table"), sum, &factors);
    for (t, input) in inputs[..2].iter_mut().enumerate() {
        let s = &input.layout.strides;
        let ends = if t == 0 { [s[rank], 0, s[rank + 1]] } else { [0, s[rank + 1], s[rank]] };
        input.layout.strides = s[..rank].iter().copied().chain(ends).collect();
        input.layout.shape = outer.iter().copied().chain([k.k]).collect();
    }
    let sums = ReduceRows {
        fold: Fold::Sum,
        inner: Shape::from(k.k),
        pre: pre.finish(product),
        post: k.post.clone(),
        params: k.params.clone(),
        inputs: vec![],
        outs: vec![],
        outer,
    };
    reduce::plan(plan, &sums, inputs, outs)
}
