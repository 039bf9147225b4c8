//! Reductions.

use breakeven::{Axes, DType, Tensor};

use super::{Operator, one};
use crate::call::{Call, Result};
use crate::error::unsupported;

const WAYS: &[&str] = &["axes", "keepdims", "noop_with_empty_axes"];
const ARG: &[&str] = &["axis", "keepdims", "select_last_index"];

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    one("ArgMax", ARG, |c| arg(c, |x, axis| x.argmax(axis))),
    one("ArgMin", ARG, |c| arg(c, |x, axis| x.argmin(axis))),
    one("ReduceL1", WAYS, |c| reduce(c, |x| x.abs(), |x, axes| x.sum(axes))),
    one("ReduceL2", WAYS, |c| reduce(c, Tensor::clone, |x, axes| x.norm(axes))),
    one("ReduceLogSum", WAYS, |c| reduce(c, Tensor::clone, |x, axes| x.sum(axes).ln())),
    one("ReduceLogSumExp", WAYS, |c| reduce(c, Tensor::clone, log_sum_exp)),
    one("ReduceMax", WAYS, |c| extreme(c, f64::NEG_INFINITY, |x, axes| x.max(axes), |x, axes| x.any(axes))),
    one("ReduceMean", WAYS, |c| reduce(c, Tensor::clone, |x, axes| x.mean(axes))),
    one("ReduceMin", WAYS, |c| extreme(c, f64::INFINITY, |x, axes| x.min(axes), |x, axes| x.all(axes))),
    one("ReduceProd", WAYS, |c| reduce(c, Tensor::clone, |x, axes| x.prod(axes))),
    one("ReduceSum", WAYS, |c| reduce(c, Tensor::clone, |x, axes| x.sum(axes))),
    one("ReduceSumSquare", WAYS, |c| reduce(c, Tensor::square, |x, axes| x.sum(axes))),
];

/// Which axes are folded, and whether they stay with extent 1. Without axes all of them, or none if the node says so.
struct Folding {
    axes: Vec<isize>,
    keeps: bool,
}

fn folding(call: &Call<'_>, x: &Tensor) -> Result<Folding> {
    let rank = x.check()?.shape.rank();
    let given = call.list_or_input("axes", 1)?.unwrap_or_default();
    let all = given.is_empty() && !call.flag("noop_with_empty_axes", false)?;
    let axes = if all { (0..rank).collect() } else { super::axes(&given, rank)? };
    let axes = axes.into_iter().map(|axis| axis as isize).collect();
    Ok(Folding { axes, keeps: call.flag("keepdims", true)? })
}

impl Folding {
    fn of(&self, x: &Tensor, fold: impl Fn(&Tensor, Axes) -> Tensor) -> Tensor {
        if self.axes.is_empty() {
            return fold(&x.unsqueeze(-1), Axes::from(-1));
        }
        let folded = fold(x, Axes::from(&self.axes[..]));
        if self.keeps { folded.keep(x, &self.axes[..]) } else { folded }
    }
}

fn reduce(call: &Call<'_>, each: fn(&Tensor) -> Tensor, fold: fn(&Tensor, Axes) -> Tensor) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let folding = folding(call, &x)?;
    Ok(folding.of(&each(&x), fold))
}

/// `ln` of nothing's sum is -inf, where the largest of nothing is not defined.
fn log_sum_exp(x: &Tensor, axes: Axes) -> Tensor {
    let is_empty = x.check().is_ok_and(|spec| spec.shape.is_empty());
    if is_empty { x.exp().sum(axes).ln() } else { x.logsumexp(axes) }
}

/// The largest or smallest; truth values count as 0 and 1, and of nothing it is `of_nothing`.
fn extreme(
    call: &Call<'_>,
    of_nothing: f64,
    fold: fn(&Tensor, Axes) -> Tensor,
    of_truth: fn(&Tensor, Axes) -> Tensor,
) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let folding = folding(call, &x)?;
    if x.dtype() == DType::Bool {
        return Ok(folding.of(&x, of_truth));
    }
    if folding.axes.iter().all(|&axis| x.shape()[axis as usize] != 0) {
        return Ok(folding.of(&x, fold));
    }
    if !x.dtype().is_float() {
        return unsupported("the largest or smallest integer of none");
    }
    // The shape of a sum of nothing, and nothing but the bound in it.
    let zeros = folding.of(&x, |x, axes| x.sum(axes));
    Ok(zeros + of_nothing)
}

/// The index along one axis; the last of equals by looking from the other end.
fn arg(call: &Call<'_>, find: fn(&Tensor, isize) -> Tensor) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let axis = super::axis(call.int("axis", 0)?, x.check()?.shape.rank())?;
    let along = axis as isize;
    let found = if call.flag("select_last_index", false)? {
        let last = x.shape()[axis] as f64 - 1.0;
        let back = find(&x.flip(along), along);
        back.scalar(last) - back
    } else {
        find(&x, along)
    };
    Ok(if call.flag("keepdims", true)? { found.unsqueeze(along) } else { found })
}
