//! Ways a tensor can lie in its buffer.

use breakeven_ir::{Layout, Shape};

/// Layouts over `shape` in which no two elements share a place: for inputs and outputs.
pub fn distinct(shape: impl Into<Shape>) -> Vec<(&'static str, Layout)> {
    let shape = shape.into();
    let Some(last) = shape.rank().checked_sub(1) else {
        return vec![("dense", Layout::dense(())), ("offset", Layout { offset: 3, ..Layout::dense(()) })];
    };
    let reversed: Vec<usize> = (0..shape.rank()).rev().collect();
    vec![
        ("dense", Layout::dense(shape.clone())),
        ("offset", Layout { offset: 3, ..Layout::dense(shape.clone()) }),
        ("transposed", Layout::dense_in_order(&shape, &reversed)),
        ("every second", cut(&shape, last, 2 * shape[last], 1, 2)),
        ("padded rows", cut(&shape, last, shape[last] + 5, 2, 1)),
        ("cut first axis", cut(&shape, 0, shape[0] + 3, 2, 1)),
    ]
}

/// Layouts for inputs: also backwards, and with elements that stand for several.
pub fn all(shape: impl Into<Shape>) -> Vec<(&'static str, Layout)> {
    let shape = shape.into();
    let mut views = distinct(shape.clone());
    if shape.rank() == 0 || shape.is_empty() {
        return views;
    }
    let last = shape.rank() - 1;
    let back = |layout: Layout, axis: usize| layout.slice(axis, shape[axis] - 1, shape[axis], -1);
    let dense = || Layout::dense(shape.clone());
    let everywhere = (0..shape.rank()).fold(dense(), &back);
    let backwards_by_two = cut(&shape, last, 2 * shape[last], 0, 2);
    views.extend([
        ("backwards", back(dense(), last)),
        ("backwards in every axis", everywhere),
        ("backwards by two", back(backwards_by_two, last)),
        ("repeated along the first axis", repeated(&shape, &[0])),
        ("repeated along the last axis", repeated(&shape, &[last])),
        ("one element", repeated(&shape, &(0..shape.rank()).collect::<Vec<_>>())),
    ]);
    if last > 0 {
        views.push(("overlapping windows", windows(&shape, [1, 1])));
        views.push(("windows two apart, dilated by three", windows(&shape, [2, 3])));
    }
    views
}

/// Windows over an axis just long enough: the last axis runs along a window, the one before counts windows.
fn windows(shape: &Shape, apart: [usize; 2]) -> Layout {
    let (lead, &[count, size]) = shape.split_last_chunk().expect("windows have two axes");
    let extent = (count - 1) * apart[0] + (size - 1) * apart[1] + 1;
    Layout::dense([lead, &[extent]].concat().as_slice()).window(lead.len(), count, size, apart)
}

/// The part of a larger dense tensor whose `axis` has `extent` elements.
fn cut(shape: &Shape, axis: usize, extent: usize, start: usize, step: isize) -> Layout {
    let whole: Shape = shape.iter().enumerate().map(|(a, &n)| if a == axis { extent } else { n }).collect();
    Layout::dense(whole).slice(axis, start, shape[axis], step)
}

/// A dense tensor without these axes, broadcast along them.
pub fn repeated(shape: &Shape, axes: &[usize]) -> Layout {
    let small: Shape = shape.iter().enumerate().map(|(a, &n)| if axes.contains(&a) { 1 } else { n }).collect();
    Layout::dense(small).broadcast(shape).expect("extents of 1 broadcast")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_output_view_writes_a_place_twice() {
        for shape in [Shape::from([3, 5]), Shape::from(7), Shape::scalar(), Shape::from([2, 3, 4]), Shape::from([0, 3])]
        {
            for (name, layout) in distinct(shape.clone()) {
                let mut places: Vec<usize> = layout.positions().collect();
                places.sort_unstable();
                places.dedup();
                assert_eq!(places.len(), shape.elements(), "{name}");
            }
            assert!(all(shape.clone()).iter().all(|(_, l)| l.shape == shape));
        }
    }
}
