//! Elements picked by index tensors, and running sums.

use breakeven::{DType, Tensor};

use super::{Operator, axis, extents, one, plus, shape, times};
use crate::call::{Call, Result};
use crate::error::wrong;

/// The family.
pub(super) const OPERATORS: &[Operator] = &[
    one("CumProd", &["exclusive", "reverse"], |c| running(c, Tensor::cumprod, 1.0)),
    one("CumSum", &["exclusive", "reverse"], |c| running(c, Tensor::cumsum, 0.0)),
    one("GatherElements", &["axis"], gather_elements),
    one("GatherND", &["batch_dims"], gather_nd),
    one("NonMaxSuppression", &["center_point_box"], non_max_suppression),
];

/// A running fold, from the end and without each result's own element where the node says so.
fn running(call: &Call<'_>, fold: fn(&Tensor, isize) -> Tensor, nothing: f64) -> Result<Tensor> {
    let x = call.tensor(0)?;
    let rank = x.check()?.shape.rank();
    let along = axis(call.one_int(1)?, rank)?;
    let at = along as isize;
    let reverse = call.flag("reverse", false)?;
    let turned = |t: Tensor| if reverse { t.flip(at) } else { t };
    let mut x = turned(x);
    if call.flag("exclusive", false)? && x.check()?.shape[along] > 0 {
        let mut widths = vec![(0, 0); rank];
        widths[along] = (1, -1);
        x = x.pad(&widths, breakeven::Pad::Constant(nothing));
    }
    Ok(turned(fold(&x, at)))
}

/// For each element of the index, the element of the input at its own place but along the axis at the index: places are
/// counted over the whole input.
fn gather_elements(call: &Call<'_>) -> Result<Tensor> {
    let (x, index) = (call.tensor(0)?, call.tensor(1)?);
    let (dims, to) = (x.check()?.shape.clone(), index.check()?.shape.clone());
    let along = axis(call.int("axis", 0)?, dims.rank())?;
    let fits = (0..dims.rank()).all(|a| a == along || to.get(a).is_some_and(|&n| n <= dims[a]));
    if to.rank() != dims.rank() || !fits {
        return wrong(format!("an index of {to} does not fit {dims}"));
    }
    let steps = dims.strides();
    let mut place = times(&counted(&index, dims[along]), steps[along] as f64);
    for a in (0..dims.rank()).filter(|&a| a != along) {
        let ramp: Vec<usize> = (a..dims.rank()).map(|b| if a == b { to[a] } else { 1 }).collect();
        place = place + call.engine().arange(DType::I32, 0.0, steps[a] as f64, to[a]).reshape(shape(&ramp)?);
    }
    picked(&x, &place)
}

/// An index as i32, counted from the front.
fn counted(index: &Tensor, extent: usize) -> Tensor {
    let index = index.cast(DType::I32);
    index.less(&index.scalar(0.0)).where_(&plus(&index, extent as f64), &index)
}

/// Elements by their place in the whole tensor.
fn picked(x: &Tensor, place: &Tensor) -> Result<Tensor> {
    let elements = x.check()?.shape.elements();
    if i32::try_from(elements).is_err() {
        return wrong(format!("{} has more elements than are picked from here, 2^31", x.shape()));
    }
    Ok(x.reshape(elements).gather(0, place))
}

/// Each row of the index names a slice by its first axes behind the batch.
fn gather_nd(call: &Call<'_>) -> Result<Tensor> {
    let (x, index) = (call.tensor(0)?, call.tensor(1)?);
    let (dims, to) = (x.check()?.shape.clone(), index.check()?.shape.clone());
    let batch = extents(&[call.int("batch_dims", 0)?])?[0];
    let depth = to.last().copied().unwrap_or(0);
    if to.rank() <= batch || batch + depth > dims.rank() || dims[..batch] != to[..batch] {
        return wrong(format!("an index of {to} does not fit {dims} with {batch} axes of batch"));
    }
    let (named, inner) = (&dims[batch..batch + depth], &dims[batch + depth..]);
    let lead: usize = dims[..batch].iter().product();
    let each: usize = named.iter().product();
    let rows = to[batch..to.rank() - 1].iter().product::<usize>();
    let index = index.reshape([lead, rows, depth]);
    let mut place = call.engine().arange(DType::I32, 0.0, each as f64, lead).unsqueeze(-1).broadcast_to([lead, rows]);
    let mut step = each;
    for (a, &extent) in named.iter().enumerate() {
        step /= extent.max(1);
        place = place + times(&counted(&index.slice(2, a..=a).squeeze(2), extent), step as f64);
    }
    let width: usize = inner.iter().product();
    let slices = x.reshape([lead * each, width]).gather(0, &place);
    Ok(slices.reshape(shape(&[&to[..to.rank() - 1], inner].concat())?))
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
