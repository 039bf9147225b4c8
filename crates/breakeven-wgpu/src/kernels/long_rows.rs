//! Softmax of few long rows: folded by many workgroups, then mapped, since one workgroup to a row would leave the others idle.

use breakeven_ir::{DType, Expr, ExprBuilder, Fold, ReduceRows, Row, RowWise, RowWiseKernel, Shape, Unsupported};

use super::{Plan, body_of, map, reduce};
use crate::wgsl::Tensor;

/// Longest row that is left to one workgroup, which holds it.
const LONGEST: usize = 16_384;
/// Rows from which on one workgroup to each is enough to keep a large device busy.
const MANY: usize = 256;

/// True where rows are few and long.
pub(super) fn has(k: &RowWiseKernel) -> bool {
    let is_softmax = matches!(k.kind, RowWise::Softmax | RowWise::LogSoftmax);
    is_softmax && k.length > LONGEST && k.outer.elements() < MANY
}

/// The largest element of each row, the sum of what is made of it, then each element.
pub(super) fn plan(
    plan: &mut Plan,
    k: &RowWiseKernel,
    mut inputs: Vec<Tensor>,
    out: Tensor,
) -> Result<(), Unsupported> {
    let extras = inputs.split_off(k.pre.args().len());
    let (before, after) = k.params.split_at(k.pre.params());
    let top = scratch(plan, k);
    reduce::plan(plan, &fold(k, Fold::Max, k.pre.clone(), before), inputs.clone(), vec![top.clone()])?;
    inputs.push(along(k, top));
    let sum = scratch(plan, k);
    reduce::plan(plan, &fold(k, Fold::Sum, share(k), before), inputs.clone(), vec![sum.clone()])?;
    inputs.push(along(k, sum));
    inputs.extend(extras);
    map::push(plan, &body_of(&element(k))?, &[before, after].concat(), inputs, out);
    Ok(())
}

/// A number for each row.
fn scratch(plan: &mut Plan, k: &RowWiseKernel) -> Tensor {
    let start = plan.take_scratch(4 * k.outer.elements() as u64);
    Tensor::scratch(DType::F32, &k.outer, start)
}

/// The same number for each element of a row.
fn along(k: &RowWiseKernel, mut each: Tensor) -> Tensor {
    each.layout.shape = k.outer.iter().copied().chain([k.length]).collect();
    each.layout.strides.push(0);
    each
}

fn fold(k: &RowWiseKernel, fold: Fold, pre: Expr, params: &[f64]) -> ReduceRows {
    ReduceRows {
        fold,
        outer: k.outer.clone(),
        inner: Shape::from(k.length),
        pre,
        post: Expr::identity(DType::F32),
        params: params.to_vec(),
        inputs: vec![],
        outs: vec![],
    }
}

/// Arguments of `pre` and the largest element; gives the distance from it.
fn distance(k: &RowWiseKernel, e: &mut ExprBuilder) -> u16 {
    let args: Vec<u16> = k.pre.args().iter().map(|dtype| e.arg(*dtype)).collect();
    let top = e.arg(DType::F32);
    let x = e.expr(&k.pre, &args);
    row(e, "sub", &[x, top])
}

/// What an element adds to the sum of its row.
fn share(k: &RowWiseKernel) -> Expr {
    let mut e = ExprBuilder::default();
    let distance = distance(k, &mut e);
    let share = row(&mut e, "exp", &[distance]);
    e.finish(share)
}

/// An element of the result.
fn element(k: &RowWiseKernel) -> Expr {
    let mut e = ExprBuilder::default();
    let distance = distance(k, &mut e);
    let sum = e.arg(DType::F32);
    let y = if k.kind == RowWise::LogSoftmax {
        let logarithm = row(&mut e, "ln", &[sum]);
        row(&mut e, "sub", &[distance, logarithm])
    } else {
        let share = row(&mut e, "exp", &[distance]);
        row(&mut e, "div", &[share, sum])
    };
    let extras: Vec<u16> = k.post.args()[1..].iter().map(|dtype| e.arg(*dtype)).collect();
    let args = [&[y], extras.as_slice()].concat();
    let result = e.expr(&k.post, &args);
    let result = if e.len() == usize::from(result) + 1 { result } else { e.again(result) };
    e.finish(result)
}

fn row(e: &mut ExprBuilder, name: &str, operands: &[u16]) -> u16 {
    e.row(Row::named(name).expect("it is in the table"), DType::F32, operands)
}
