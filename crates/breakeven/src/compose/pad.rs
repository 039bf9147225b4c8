//! Padding and tiling.

use std::panic::Location;

use breakeven_ir::{CallError, Shape};

use super::{composed, need, right};
use crate::{Tensor, concat};

/// What is put around a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pad {
    /// One number.
    Constant(f64),
    /// The elements next to the edge, mirrored at it; the edge itself is not repeated.
    Reflect,
    /// The element at the edge.
    Edge,
    /// The elements of the other end.
    Wrap,
}

impl Tensor {
    /// Elements before and after along each axis; a negative count takes elements away.
    #[must_use]
    #[track_caller]
    pub fn pad(&self, widths: &[(isize, isize)], with: Pad) -> Tensor {
        composed(&[self], Location::caller(), || {
            let rank = self.shape().rank();
            let text = || format!("takes a width for each of {rank} axes, not {}", widths.len());
            need(widths.len() == rank, "pad", text)?;
            widths.iter().enumerate().try_fold(self.clone(), |x, (axis, &width)| padded(&x, axis, width, with))
        })
    }

    /// The tensor beside itself, as often as `counts` says along each axis.
    #[must_use]
    #[track_caller]
    pub fn tile(&self, counts: &[usize]) -> Tensor {
        composed(&[self], Location::caller(), || {
            let rank = self.shape().rank();
            let text = || format!("takes a count for each of {rank} axes, not {}", counts.len());
            need(counts.len() == rank, "tile", text)?;
            counts.iter().enumerate().try_fold(self.clone(), |x, (axis, &count)| tiled(&x, axis, count))
        })
    }
}

fn padded(x: &Tensor, axis: usize, (low, high): (isize, isize), with: Pad) -> Result<Tensor, CallError> {
    let n = right(x)?.shape()[axis] as isize;
    let wide = [low, high].iter().try_fold(n, |all, &more| all.checked_add(more.checked_abs()?));
    need(wide.is_some(), "pad", || format!("({low}, {high}) is more than can be counted"))?;
    let along = axis as isize;
    if low <= 0 && high <= 0 {
        let (from, to) = ((-low).min(n), (n + high).max((-low).min(n)));
        return Ok(if (low, high) == (0, 0) { x.clone() } else { x.slice(along, from as usize..to as usize) });
    }
    if let Pad::Constant(value) = with {
        let cut = padded(x, axis, (low.min(0), high.min(0)), with)?;
        let part = |count: isize| {
            let dims: Shape =
                x.shape().iter().enumerate().map(|(a, &n)| if a == axis { count.max(0) as usize } else { n }).collect();
            x.engine().full(x.dtype(), value, dims)
        };
        let (before, after) = (part(low), part(high));
        let parts: Vec<&Tensor> = [(low, &before), (1, &cut), (high, &after)]
            .into_iter()
            .filter_map(|(count, part)| (count > 0).then_some(part))
            .collect();
        return Ok(concat(&parts, along));
    }
    x.engine().room_for("pad", (n + low + high).max(0) as usize, size_of::<i64>())?;
    let places = (-low..n + high).map(|at| source(at, n, with)).collect::<Option<Vec<i64>>>();
    let text = || format!("{with:?} of ({low}, {high}) needs more elements than axis {axis} of {} has", x.shape());
    let places = places.ok_or_else(|| CallError::new("pad", text()))?;
    let count = places.len();
    Ok(x.gather(along, &x.engine().from_vec(places, count)))
}

/// The element that position `at` of an axis of `n` elements shows.
fn source(at: isize, n: isize, with: Pad) -> Option<i64> {
    if n == 0 {
        return None;
    }
    let place = match with {
        Pad::Edge => at.clamp(0, n - 1),
        Pad::Wrap => at.rem_euclid(n),
        Pad::Reflect if n == 1 => 0,
        Pad::Reflect => {
            let period = 2 * (n - 1);
            let at = at.rem_euclid(period);
            at.min(period - at)
        }
        Pad::Constant(_) => at,
    };
    (0..n).contains(&place).then_some(place as i64)
}

fn tiled(x: &Tensor, axis: usize, count: usize) -> Result<Tensor, CallError> {
    if count == 1 {
        return Ok(x.clone());
    }
    let dims = |middle: &[usize]| Shape::new(&[&x.shape()[..axis], middle, &x.shape()[axis + 1..]].concat());
    let n = right(x)?.shape()[axis];
    if x.shape().rank() == breakeven_ir::MAX_RANK {
        x.engine().room_for("tile", count, size_of::<Tensor>())?;
        let parts = vec![x; count];
        return if count == 0 { Ok(x.slice(axis as isize, 0..0)) } else { Ok(concat(&parts, axis as isize)) };
    }
    Ok(x.unsqueeze(axis as isize).broadcast_to(dims(&[count, n])?).reshape(dims(&[count.saturating_mul(n)])?))
}
