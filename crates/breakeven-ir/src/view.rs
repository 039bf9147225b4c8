//! What a view does to shapes and layouts.

use crate::{CallError, Layout, Shape, View};

impl View {
    /// Shape of the view of a tensor of `shape`; the rules are checked here and nowhere else.
    pub fn shape(&self, shape: &Shape) -> Result<Shape, CallError> {
        match self {
            View::Reshape(to) if to.elements() == shape.elements() => Ok(to.clone()),
            View::Reshape(to) => {
                fail("reshape", format!("{to} has {} elements, not {}", to.elements(), shape.elements()))
            }
            View::Permute(axes) => permuted(shape, axes),
            View::Broadcast(to) if shape.broadcast(to).as_ref() == Some(to) => Ok(to.clone()),
            View::Broadcast(to) => fail("broadcast", format!("{shape} does not broadcast to {to}")),
            View::Slice { axis, start, count, step } => sliced(shape, *axis, *start, *count, *step),
            View::Window { axis, size, step, dilation } => windowed(shape, *axis, [*size, *step, *dilation]),
        }
    }

    /// The view of a layout, where that needs no copy. The shape must have passed [`View::shape`].
    pub fn layout(&self, of: &Layout) -> Option<Layout> {
        match self {
            View::Reshape(to) => of.reshape(to),
            View::Permute(axes) => Some(of.permute(axes)),
            View::Broadcast(to) => of.broadcast(to),
            View::Slice { axis, start, count, step } => Some(of.slice(*axis, *start, *count, *step)),
            View::Window { axis, size, step, dilation } => {
                let count = windows(of.shape[*axis], *size, *step, *dilation);
                Some(of.window(*axis, count, *size, [*step, *dilation]))
            }
        }
    }
}

fn fail<T>(operation: &'static str, message: String) -> Result<T, CallError> {
    Err(CallError::new(operation, message))
}

fn permuted(shape: &Shape, axes: &[usize]) -> Result<Shape, CallError> {
    let mut seen: Vec<usize> = axes.to_vec();
    seen.sort_unstable();
    if !seen.iter().copied().eq(0..shape.rank()) {
        return fail("permute", format!("{axes:?} does not name each axis of {shape} once"));
    }
    Ok(axes.iter().map(|&a| shape[a]).collect())
}

fn sliced(shape: &Shape, axis: usize, start: usize, count: usize, step: isize) -> Result<Shape, CallError> {
    let Some(&extent) = shape.get(axis) else {
        return fail("slice", format!("axis {axis} does not exist in {shape}"));
    };
    let last = count.checked_sub(1).map_or(Some(0), |n| step.checked_mul(n as isize)?.checked_add_unsigned(start));
    let inside = |at: Option<isize>| at.is_some_and(|at| (0..extent as isize).contains(&at));
    if step == 0 || (count > 0 && !(start < extent && inside(last))) {
        let message = format!("{count} elements from {start} by {step} leave axis {axis} of {shape}");
        return fail("slice", message);
    }
    Ok(shape.iter().enumerate().map(|(a, &n)| if a == axis { count } else { n }).collect())
}

fn windowed(shape: &Shape, axis: usize, window: [usize; 3]) -> Result<Shape, CallError> {
    let [size, step, dilation] = window;
    let Some(&extent) = shape.get(axis) else {
        return fail("window", format!("axis {axis} does not exist in {shape}"));
    };
    if window.contains(&0) {
        let message = format!("size {size}, step {step} and dilation {dilation} must be at least 1");
        return fail("window", message);
    }
    let mut dims = [&shape[..], &[size]].concat();
    dims[axis] = windows(extent, size, step, dilation);
    Shape::new(&dims)
}

/// Whole windows in an axis.
fn windows(extent: usize, size: usize, step: usize, dilation: usize) -> usize {
    let reach = (size - 1).checked_mul(dilation);
    let last = reach.and_then(|reach| extent.checked_sub(1)?.checked_sub(reach));
    last.map_or(0, |last| last / step + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_that_leaves_its_tensor_is_a_call_error() {
        let shape = Shape::from([2, 3]);
        let slice = |start, count, step| View::Slice { axis: 1, start, count, step }.shape(&shape);
        assert_eq!(slice(2, 3, -1), Ok([2, 3].into()));
        assert_eq!(slice(9, 0, 1), Ok([2, 0].into()));
        assert!(slice(0, 4, 1).is_err());
        assert!(slice(1, 3, -1).is_err());
        assert!(slice(1, usize::MAX, 2).is_err());
        assert!(slice(1, 1, 0).is_err());
        assert!(View::Permute([0, 0].as_slice().into()).shape(&shape).is_err());
        assert!(View::Reshape([7].into()).shape(&shape).is_err());
        assert!(View::Broadcast([3, 3].into()).shape(&shape).is_err());
    }

    #[test]
    fn only_whole_windows_count() {
        let window = |axis, size, step, dilation| View::Window { axis, size, step, dilation }.shape(&[2, 7].into());
        assert_eq!(window(1, 3, 1, 1), Ok([2, 5, 3].into()));
        assert_eq!(window(1, 3, 2, 1), Ok([2, 3, 3].into()));
        assert_eq!(window(1, 3, 3, 2), Ok([2, 1, 3].into()));
        assert_eq!(window(0, 2, 5, 1), Ok([1, 7, 2].into()));
        assert_eq!(window(0, 3, 1, 1), Ok([0, 7, 3].into()));
        assert_eq!(window(0, 2, 1, usize::MAX), Ok([0, 7, 2].into()));
        assert_eq!(View::Window { axis: 0, size: 1, step: 1, dilation: 1 }.shape(&[0].into()), Ok([0, 1].into()));
        assert!(window(2, 1, 1, 1).is_err());
        assert!(window(1, 0, 1, 1).is_err() && window(1, 1, 0, 1).is_err() && window(1, 1, 1, 0).is_err());
        let full = Shape::from([1; 8]);
        assert!(View::Window { axis: 0, size: 1, step: 1, dilation: 1 }.shape(&full).is_err());
    }

    #[test]
    fn a_window_sees_its_part_of_any_layout() {
        let view = View::Window { axis: 0, size: 2, step: 2, dilation: 3 };
        let flipped = Layout::dense([8, 2]).slice(0, 7, 8, -1);
        let seen = view.layout(&flipped).expect("a window is never a copy");
        assert_eq!(seen.shape, view.shape(&flipped.shape).unwrap());
        assert_eq!(seen.positions().collect::<Vec<_>>(), [14, 8, 15, 9, 10, 4, 11, 5, 6, 0, 7, 1]);
        let far = View::Window { axis: 0, size: 1, step: usize::MAX, dilation: usize::MAX };
        assert_eq!(far.layout(&flipped).unwrap().positions().collect::<Vec<_>>(), [14, 15]);
    }
}
