//! Losses, as far as inference computes them.

use breakeven::Tensor;

use super::{Operator, many, one};
use crate::call::{Call, Result};
use crate::error::wrong;
use crate::value::Item;

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    one("NegativeLogLikelihoodLoss", &["ignore_index", "reduction"], |c| likelihood(c, &c.tensor(0)?)),
    many("SoftmaxCrossEntropyLoss", &["ignore_index", "reduction"], cross_entropy),
];

fn cross_entropy(call: &Call<'_>) -> Result<Vec<Item>> {
    let logarithms = call.tensor(0)?.log_softmax(1);
    Ok(vec![likelihood(call, &logarithms)?.into(), logarithms.into()])
}

/// What `[n, classes, ..]` says of the class that each place has, negated and weighted.
fn likelihood(call: &Call<'_>, logarithms: &Tensor) -> Result<Tensor> {
    let target = call.tensor(1)?;
    let dims = &logarithms.check()?.shape;
    let rank = dims.rank();
    if rank < 2 || target.check()?.shape.rank() + 1 != rank {
        return wrong(format!("takes [n, classes, ..] and [n, ..], not {dims} and {}", target.shape()));
    }
    let classes = dims[1];
    // The classes go from the last axis to axis 1.
    let mut order: Vec<isize> = (0..rank as isize - 1).collect();
    order.insert(1, rank as isize - 1);
    let is_class = target.one_hot(classes).permute(&order);
    let zero = logarithms.scalar(0.0);
    let picked = is_class.where_(logarithms, &zero).sum(1).neg();
    let ones = match call.optional(2)? {
        Some(weight) => {
            let along: Vec<usize> = (1..rank).map(|axis| if axis == 1 { classes } else { 1 }).collect();
            is_class.where_(&weight.reshape(super::shape(&along)?), &zero).sum(1)
        }
        None => call.engine().full(logarithms.dtype(), 1.0, target.shape().clone()),
    };
    let weights = match call.given_int("ignore_index")? {
        Some(ignored) => target.equal(&target.scalar(ignored as f64)).where_(&zero, &ones),
        None => ones,
    };
    let losses = weights.equal(&zero).where_(&zero, &(picked * &weights));
    match call.text("reduction", "mean")? {
        "none" => Ok(losses),
        "sum" => Ok(losses.sum(..)),
        "mean" => Ok(losses.sum(..) / weights.sum(..)),
        other => wrong(format!("reduces by none, sum or mean, not '{other}'")),
    }
}
