//! Lines of the input as windows see them: elements in steps, zeros outside.

use std::ops::Range;

use super::geometry::Axis;
use crate::blocks::load_run;

/// Which of `n` numbers from `first` on, `step` apart, lie in `0..extent`.
pub(super) fn inside(first: isize, step: usize, n: usize, extent: usize) -> Range<usize> {
    let step = step as isize;
    let reach = |end: isize| usize::try_from((end - first + step - 1).div_euclid(step)).unwrap_or(0).min(n);
    let (low, high) = (reach(0), reach(extent as isize));
    low..high.max(low)
}

/// Writes the elements at `first`, `first + stride`, .. of an axis, `n` of them, `width` bytes each, to `to`.
///
/// # Safety
/// `from` must be the first element of the axis, readable over its extent; `to` must have room for `n` elements.
pub(super) unsafe fn line(
    axis: &Axis,
    from: *const u8,
    (first, stride): (isize, usize),
    (to, n): (*mut u8, usize),
    width: usize,
) {
    let seen = inside(first, stride, n, axis.extent);
    let start = from.wrapping_offset((first + (seen.start * stride) as isize) * axis.step * width as isize);
    // SAFETY: `seen` are the elements inside the extent, and both it and the rest lie within the `n` of `to`.
    unsafe {
        zero(to, seen.start * width);
        load_run(start, stride as isize * axis.step, to.add(seen.start * width), seen.len(), width);
        zero(to.add(seen.end * width), (n - seen.end) * width);
    }
}

/// # Safety
/// `bytes` must be writable at `to`.
pub(super) unsafe fn zero(to: *mut u8, bytes: usize) {
    // SAFETY: the same contract; zero bytes are zero in every type.
    unsafe { std::ptr::write_bytes(to, 0, bytes) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_inside_is_found() {
        for first in -9..12 {
            for step in 1..4 {
                for (n, extent) in [(0, 5), (1, 5), (7, 5), (3, 1), (4, 0), (20, 9)] {
                    let is_inside = |i: &usize| (0..extent as isize).contains(&(first + (i * step) as isize));
                    let want: Vec<usize> = (0..n).filter(is_inside).collect();
                    let seen = inside(first, step, n, extent);
                    assert_eq!(seen.clone().collect::<Vec<_>>(), want, "{first} by {step}: {n} of {extent}");
                    assert!(seen.end <= n);
                }
            }
        }
    }
}
