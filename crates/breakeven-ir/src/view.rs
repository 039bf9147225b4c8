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
        }
    }

    /// The view of a layout, where that needs no copy. The shape must have passed [`View::shape`].
    pub fn layout(&self, of: &Layout) -> Option<Layout> {
        match self {
            View::Reshape(to) => of.reshape(to),
            View::Permute(axes) => Some(of.permute(axes)),
            View::Broadcast(to) => of.broadcast(to),
            View::Slice { axis, start, count, step } => Some(of.slice(*axis, *start, *count, *step)),
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
}
