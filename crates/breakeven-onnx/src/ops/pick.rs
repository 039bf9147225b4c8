//! Elements picked by index tensors, and running sums.

use breakeven::{Fold, Scan, Tensor};

use super::{Operator, axis, extents, one, shape};
use crate::call::{Call, Result};
use crate::error::wrong;

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    one("CumProd", &["exclusive", "reverse"], |c| running(c, Fold::Prod)),
    one("CumSum", &["exclusive", "reverse"], |c| running(c, Fold::Sum)),
    one("GatherElements", &["axis"], gather_elements),
    one("GatherND", &["batch_dims"], gather_nd),
    one("NonMaxSuppression", &["center_point_box"], non_max_suppression),
];

/// A running fold, from the end and without each result's own element where the node says so.
fn running(call: &Call<'_>, fold: Fold) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let along = axis(call.one_int(1)?, x.check()?.shape.rank())?;
    let (exclusive, reverse) = (call.flag("exclusive", false)?, call.flag("reverse", false)?);
    Ok(x.scan(along as isize, Scan { fold, exclusive, reverse }))
}

fn gather_elements(call: &Call<'_>) -> Result<Tensor> {
    Ok(call.tensor(0)?.take_along(call.int("axis", 0)? as isize, &call.tensor(1)?))
}

/// Each row of the index names a slice by its first axes behind the batch.
fn gather_nd(call: &Call<'_>) -> Result<Tensor> {
    let (x, index) = (call.tensor(0)?, call.tensor(1)?);
    let batch = extents(&[call.int("batch_dims", 0)?])?[0];
    if batch == 0 {
        return Ok(x.gather_nd(&index));
    }
    let (dims, to) = (x.check()?.shape.clone(), index.check()?.shape.clone());
    if to.rank() <= batch || batch >= dims.rank() || dims[..batch] != to[..batch] {
        return wrong(format!("an index of {to} does not fit {dims} with {batch} axes of batch"));
    }
    // The batch as one axis that the index names too.
    let lead: usize = dims[..batch].iter().product();
    let x = x.reshape(shape(&[&[lead], &dims[batch..]].concat())?);
    let depth = to[to.rank() - 1];
    let rows = to[batch..to.rank() - 1].iter().product::<usize>();
    let own = call.engine().arange(index.dtype(), 0.0, 1.0, lead).reshape([lead, 1, 1]).broadcast_to([lead, rows, 1]);
    let all = breakeven::concat(&[&own, &index.reshape([lead, rows, depth])], -1);
    let rest = &dims[(batch + depth).min(dims.rank())..];
    Ok(x.gather_nd(&all).reshape(shape(&[&to[..to.rank() - 1], rest].concat())?))
}

/// A box by its corners, `[y1, x1, y2, x2]` with the lower first.
type Corners = [f64; 4];

/// Boxes that overlap a better one too much are left out; all is read and decided on the host.
fn non_max_suppression(call: &Call<'_>) -> Result<Tensor> {
    let (boxes, scores) = (call.spec(0)?.shape, call.spec(1)?.shape);
    let (&[batches, count, 4], &[_, classes, _]) = (&boxes[..], &scores[..]) else {
        return wrong(format!("takes boxes [batches, count, 4] and scores, not {boxes} and {scores}"));
    };
    if scores[..] != [batches, classes, count] {
        return wrong(format!("scores of {scores} do not fit boxes of {boxes}"));
    }
    let by_centre = call.flag("center_point_box", false)?;
    let corners: Vec<Corners> = call.floats(0)?.chunks_exact(4).map(|b| corners(b, by_centre)).collect();
    let scores = call.floats(1)?;
    let number = |i: usize| if call.has(i) { call.floats(i).map(|v| v.first().copied()) } else { Ok(None) };
    let (most, overlap) = (number(2)?.unwrap_or(0.0), number(3)?.unwrap_or(0.0));
    let least = number(4)?.unwrap_or(f64::NEG_INFINITY);
    let mut picked: Vec<i64> = Vec::new();
    for (batch, class) in (0..batches).flat_map(|b| (0..classes).map(move |c| (b, c))) {
        let scores = &scores[(batch * classes + class) * count..][..count];
        let boxes = &corners[batch * count..][..count];
        let mut order: Vec<usize> = (0..count).filter(|&i| scores[i] > least).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        let mut kept: Vec<usize> = Vec::new();
        for i in order {
            call.step(kept.len())?;
            if (kept.len() as f64) < most && kept.iter().all(|&k| common_share(&boxes[i], &boxes[k]) <= overlap) {
                kept.push(i);
            }
        }
        picked.extend(kept.into_iter().flat_map(|i| [batch as i64, class as i64, i as i64]));
    }
    let rows = picked.len() / 3;
    Ok(call.made(picked, [rows, 3]))
}

fn corners(b: &[f64], by_centre: bool) -> Corners {
    if by_centre {
        let [x, y, width, height] = [b[0], b[1], b[2] / 2.0, b[3] / 2.0];
        return [y - height, x - width, y + height, x + width];
    }
    [b[0].min(b[2]), b[1].min(b[3]), b[0].max(b[2]), b[1].max(b[3])]
}

/// What two boxes have in common, as a share of both together.
fn common_share(a: &Corners, b: &Corners) -> f64 {
    let side = |low: usize| (a[low + 2].min(b[low + 2]) - a[low].max(b[low])).max(0.0);
    let area = |c: &Corners| (c[2] - c[0]) * (c[3] - c[1]);
    let common = side(0) * side(1);
    if common > 0.0 { common / (area(a) + area(b) - common) } else { 0.0 }
}
