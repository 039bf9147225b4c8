//! Layouts of layouts: following one index mapping by another, and turning one around.

use breakeven_ir::{Layout, Shape};

/// `outer` after `inner`: `inner` gives positions in row-major order of `outer`'s shape. `None` where the result does
/// not step evenly along every axis.
pub(crate) fn compose(outer: &Layout, inner: &Layout) -> Option<Layout> {
    if inner.is_dense() && inner.shape == outer.shape {
        return Some(normal(outer.clone()));
    }
    if outer.is_contiguous() {
        return Some(normal(Layout { offset: inner.offset + outer.offset, ..inner.clone() }));
    }
    let runs = runs(outer);
    let start = digits(inner.offset, &runs);
    let mut bounds: Vec<(isize, isize)> = start.iter().map(|&d| (d, d)).collect();
    let mut out = Layout { offset: 0, ..inner.clone() };
    for (axis, &extent) in inner.shape.iter().enumerate() {
        let step = if extent == 1 { 0 } else { inner.strides[axis] };
        let moves = digits(step.unsigned_abs(), &runs);
        out.strides[axis] = dot(&moves, &runs) * step.signum();
        for (bound, digit) in bounds.iter_mut().zip(&moves) {
            let reach = digit * step.signum() * (extent as isize - 1);
            *bound = (bound.0 + reach.min(0), bound.1 + reach.max(0));
        }
    }
    let inside = bounds.iter().zip(&runs).all(|(b, run)| b.0 >= 0 && b.1 < run.extent as isize);
    out.offset = (outer.offset as isize + dot(&start, &runs)) as usize;
    inside.then_some(out)
}

/// The mapping turned around: from positions to row-major indices of its shape, as a layout over its axes in storage
/// order. `None` unless it reaches every position of a dense storage once.
pub(crate) fn inverse(layout: &Layout) -> Option<Layout> {
    let mut order: Vec<usize> = (0..layout.shape.rank()).collect();
    order.sort_by_key(|&axis| std::cmp::Reverse((layout.shape[axis] != 1, layout.strides[axis])));
    layout.permute(&order).is_dense().then(|| Layout::dense(layout.shape.clone()).permute(&order))
}

/// Axes of extent 1 step by 0, so that equal mappings are equal layouts.
pub(crate) fn normal(mut layout: Layout) -> Layout {
    for (&extent, stride) in layout.shape.iter().zip(&mut layout.strides) {
        if extent == 1 {
            *stride = 0;
        }
    }
    layout
}

/// `axes` of `0..rank` moved behind the others, each part in order.
pub(crate) fn axes_last(rank: usize, axes: &[usize]) -> Vec<usize> {
    (0..rank).filter(|axis| !axes.contains(axis)).chain(axes.iter().copied()).collect()
}

/// Both shapes, one after the other.
pub(crate) fn joined(a: &[usize], b: &[usize]) -> Shape {
    a.iter().chain(b).copied().collect()
}

/// Neighbouring axes that step as one.
struct Run {
    extent: usize,
    stride: isize,
    /// Row-major distance of neighbours.
    radix: usize,
}

fn runs(layout: &Layout) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::with_capacity(layout.shape.rank());
    for (&extent, &stride) in layout.shape.iter().zip(&layout.strides).filter(|(n, _)| **n != 1) {
        match runs.last_mut() {
            Some(run) if run.stride == stride * extent as isize => {
                run.extent *= extent;
                run.stride = stride;
            }
            _ => runs.push(Run { extent, stride, radix: 1 }),
        }
    }
    let mut radix = 1;
    for run in runs.iter_mut().rev() {
        run.radix = radix;
        radix *= run.extent;
    }
    runs
}

fn digits(position: usize, runs: &[Run]) -> Vec<isize> {
    runs.iter().map(|run| (position / run.radix % run.extent) as isize).collect()
}

fn dot(digits: &[isize], runs: &[Run]) -> isize {
    digits.iter().zip(runs).map(|(d, run)| d * run.stride).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(outer: &Layout, inner: &Layout, folds: bool) {
        let composed = compose(outer, inner);
        assert_eq!(composed.is_some(), folds, "{outer:?} after {inner:?}");
        if let Some(composed) = composed {
            let places: Vec<usize> = outer.positions().collect();
            let want: Vec<usize> = inner.positions().map(|at| places[at]).collect();
            assert_eq!(composed.positions().collect::<Vec<_>>(), want, "{outer:?} after {inner:?}");
        }
    }

    #[test]
    fn a_composed_layout_reads_what_both_read_in_turn() {
        let dense = Layout::dense([4, 6]);
        let turned = Layout::dense([6, 4]).permute(&[1, 0]);
        check(&dense, &Layout::dense([24]), true);
        check(&turned, &Layout::dense([24]), false);
        check(&turned, &Layout::dense([4, 6]).slice(1, 5, 3, -2), true);
        check(&turned, &Layout::dense([4, 2, 3]), true);
        check(&turned, &Layout::dense([4, 6]).permute(&[1, 0]), true);
        check(&turned, &Layout::dense([4, 6]).slice(0, 1, 1, 1).broadcast(&[3, 6].into()).unwrap(), true);
        check(&Layout::dense([4]).broadcast(&[3, 4].into()).unwrap(), &Layout::dense([12]).slice(0, 1, 5, 2), false);
        check(&Layout::dense([3, 3]).permute(&[1, 0]), &Layout::dense([9]).slice(0, 0, 3, 4), true);
        let windows = Layout::dense([9]).window(0, 4, 3, [2, 1]);
        check(&windows, &Layout::dense([12]), false);
        check(&windows, &Layout::dense([4, 3]).permute(&[1, 0]), true);
        check(&Layout::dense([4, 6]), &Layout::dense([24]).window(0, 5, 3, [4, 2]), true);
        check(&turned, &Layout::dense([4, 6]).window(1, 2, 3, [3, 1]), true);
    }

    #[test]
    fn an_inverse_undoes_a_storage_order() {
        let stored = Layout::dense_in_order(&[2, 3, 1, 4].into(), &[1, 3, 0, 2]);
        let back = compose(&inverse(&stored).unwrap(), &stored).unwrap();
        assert!(back.is_dense());
        assert!(inverse(&Layout::dense([4]).slice(0, 3, 4, -1)).is_none());
        assert!(inverse(&Layout::dense([4]).slice(0, 0, 2, 2)).is_none());
        assert!(inverse(&Layout::dense([4]).window(0, 3, 2, [1, 1])).is_none());
    }
}
