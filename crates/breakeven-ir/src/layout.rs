//! Layouts: where the elements of a view lie in the storage it looks at.

use crate::{MAX_RANK, Shape, Strides};

/// A view into a storage: element `[i, j, ..]` lies at `offset + i * strides[0] + j * strides[1] + ..`.
///
/// Units are elements, not bytes. Strides may be negative or zero.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Extents of the view.
    pub shape: Shape,
    /// Where element `[0, 0, ..]` lies.
    pub offset: usize,
    /// Step between neighbours along each axis.
    pub strides: Strides,
}

impl Layout {
    /// Row-major, from the start of the storage.
    pub fn dense(shape: impl Into<Shape>) -> Layout {
        let shape = shape.into();
        Layout { offset: 0, strides: shape.strides(), shape }
    }

    /// Storage order `order` (outermost axis first): a dense storage whose axes lie in another order than the view's.
    pub fn dense_in_order(shape: &Shape, order: &[usize]) -> Layout {
        let stored: Shape = order.iter().map(|&axis| shape[axis]).collect();
        let mut layout = Layout::dense(shape.clone());
        for (&axis, stride) in order.iter().zip(stored.strides()) {
            layout.strides[axis] = stride;
        }
        layout
    }

    /// True when the elements lie row-major without gaps from `offset` on. Extents of 1 may have any stride.
    pub fn is_contiguous(&self) -> bool {
        let dense = self.shape.strides();
        let same = |axis: usize| self.shape[axis] == 1 || self.strides[axis] == dense[axis];
        self.shape.is_empty() || (0..self.shape.rank()).all(same)
    }

    /// Contiguous and starting at the start of the storage.
    pub fn is_dense(&self) -> bool {
        self.offset == 0 && self.is_contiguous()
    }

    /// Axes in the order `axes`.
    pub fn permute(&self, axes: &[usize]) -> Layout {
        Layout {
            shape: axes.iter().map(|&a| self.shape[a]).collect(),
            offset: self.offset,
            strides: axes.iter().map(|&a| self.strides[a]).collect(),
        }
    }

    /// Every axis broadcast to `shape`, right-aligned; `None` when the extents do not fit.
    pub fn broadcast(&self, shape: &Shape) -> Option<Layout> {
        if self.shape.broadcast(shape).as_ref() != Some(shape) {
            return None;
        }
        let lead = shape.rank() - self.shape.rank();
        let stride = |axis: usize| match axis.checked_sub(lead) {
            Some(own) if self.shape[own] == shape[axis] => self.strides[own],
            _ => 0,
        };
        let strides = (0..shape.rank()).map(stride).collect();
        Some(Layout { shape: shape.clone(), offset: self.offset, strides })
    }

    /// Along `axis`, `count` elements from `start` on, `step` apart. `start` counts from the front and may be any
    /// element when `step` is negative.
    pub fn slice(&self, axis: usize, start: usize, count: usize, step: isize) -> Layout {
        let mut out = self.clone();
        if count > 0 {
            out.offset = (self.offset as isize + start as isize * self.strides[axis]) as usize;
        }
        out.shape = (0..self.shape.rank()).map(|a| if a == axis { count } else { self.shape[a] }).collect();
        out.strides[axis] = self.strides[axis] * step;
        out
    }

    /// Along `axis`, `count` windows of `size` elements; windows lie `apart[0]` elements from each other and neighbours in
    /// a window `apart[1]`. The new last axis runs along a window.
    ///
    /// # Panics
    /// When the rank is over [`MAX_RANK`] then.
    pub fn window(&self, axis: usize, count: usize, size: usize, apart: [usize; 2]) -> Layout {
        let [step, dilation] = apart;
        let mut out = self.clone();
        out.shape =
            (0..self.shape.rank()).map(|a| if a == axis { count } else { self.shape[a] }).chain([size]).collect();
        // Only a step that is never taken can be too large for an axis.
        out.strides[axis] = self.strides[axis].wrapping_mul(step as isize);
        out.strides.push(self.strides[axis].wrapping_mul(dilation as isize));
        out
    }

    /// The same elements in the same order under another shape, where that needs no copy.
    pub fn reshape(&self, shape: &Shape) -> Option<Layout> {
        if shape.elements() != self.shape.elements() {
            return None;
        }
        if shape.is_empty() {
            return Some(Layout { offset: self.offset, ..Layout::dense(shape.clone()) });
        }
        let runs = self.merged();
        let mut strides = Strides::new();
        let mut dims = shape.iter().copied().peekable();
        for (extent, stride) in runs {
            let mut left = extent;
            while left > 1 || (dims.peek() == Some(&1)) {
                let n = dims.next()?;
                if left % n != 0 {
                    return None;
                }
                left /= n;
                strides.push(stride * left as isize);
            }
        }
        dims.for_each(|_| strides.push(1));
        Some(Layout { shape: shape.clone(), offset: self.offset, strides })
    }

    /// Runs of axes that step through the storage as one axis would, outermost first; extents of 1 drop out.
    fn merged(&self) -> Vec<(usize, isize)> {
        let mut runs: Vec<(usize, isize)> = Vec::with_capacity(MAX_RANK);
        for (&n, &s) in self.shape.iter().zip(&self.strides).filter(|(n, _)| **n != 1) {
            match runs.last_mut() {
                Some((extent, stride)) if *stride == s * n as isize => {
                    *extent *= n;
                    *stride = s;
                }
                _ => runs.push((n, s)),
            }
        }
        runs
    }

    /// Storage positions of all elements, in row-major order of the view.
    pub fn positions(&self) -> Positions<'_> {
        let left = self.shape.elements();
        Positions { layout: self, index: [0; MAX_RANK], at: self.offset as isize, left }
    }

    /// Where the element with these coordinates lies.
    pub fn position(&self, index: &[usize]) -> usize {
        let steps = index.iter().zip(&self.strides).map(|(&i, &s)| i as isize * s);
        (self.offset as isize + steps.sum::<isize>()) as usize
    }

    /// Lowest and highest position any element has; `None` when there is no element.
    pub fn span(&self) -> Option<(usize, usize)> {
        if self.shape.is_empty() {
            return None;
        }
        let reach = |sign: isize| -> isize {
            let far = |(&n, &s): (&usize, &isize)| (n as isize - 1) * s;
            self.shape.iter().zip(&self.strides).map(far).filter(|d| d.signum() == sign).sum()
        };
        let at = |d: isize| (self.offset as isize + d) as usize;
        Some((at(reach(-1)), at(reach(1))))
    }

    /// How many different storage elements the view reads: broadcast axes count once, and so does what several windows
    /// see. At most a few too many where axes overlap in steps that do not divide each other.
    pub fn distinct(&self) -> usize {
        if self.shape.is_empty() {
            return 0;
        }
        let (mut distinct, mut reach, mut unit) = (1usize, 0usize, 0usize);
        for (extent, step) in self.progressions() {
            unit = gcd(unit, step);
            let overlaps = step <= reach;
            reach += (extent - 1) * step;
            distinct *= extent;
            if overlaps {
                distinct = distinct.min(reach / unit + 1);
            }
        }
        distinct
    }

    /// True when each axis steps over all that the finer ones reach, so that no two elements have one place. Layouts that
    /// interleave finer than that may say no.
    pub fn is_injective(&self) -> bool {
        let axes = self.shape.iter().zip(&self.strides).filter(|(n, _)| **n > 1);
        let mut steps: Vec<(usize, usize)> = axes.map(|(&n, &s)| (s.unsigned_abs(), n)).collect();
        steps.sort_unstable();
        let mut reach = 0;
        steps.into_iter().all(|(step, extent)| {
            let is_over = step > reach;
            reach += (extent - 1) * step;
            is_over
        })
    }

    /// Axes as sets of places, finest first: extents and steps, where axes that fill or cover each other's steps are one.
    fn progressions(&self) -> Vec<(usize, usize)> {
        let axes = self.shape.iter().zip(&self.strides).filter(|(n, s)| **n > 1 && **s != 0);
        let mut steps: Vec<(usize, usize)> = axes.map(|(&n, &s)| (s.unsigned_abs(), n)).collect();
        steps.sort_unstable();
        let mut merged: Vec<(usize, usize)> = Vec::with_capacity(steps.len());
        for (step, extent) in steps {
            let closes = |(n, s): &&mut (usize, usize)| step % *s == 0 && step / *s <= *n;
            match merged.iter_mut().find(closes) {
                Some((n, s)) => *n += (extent - 1) * (step / *s),
                None => merged.push((extent, step)),
            }
        }
        merged
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Iterator of [`Layout::positions`].
#[derive(Debug)]
pub struct Positions<'a> {
    layout: &'a Layout,
    index: [usize; MAX_RANK],
    at: isize,
    left: usize,
}

impl Iterator for Positions<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let here = self.at as usize;
        for axis in (0..self.layout.shape.rank()).rev() {
            self.index[axis] += 1;
            self.at += self.layout.strides[axis];
            if self.index[axis] < self.layout.shape[axis] {
                break;
            }
            self.at -= self.layout.strides[axis] * self.index[axis] as isize;
            self.index[axis] = 0;
        }
        Some(here)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Positions<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(layout: &Layout) -> Vec<usize> {
        layout.positions().collect()
    }

    #[test]
    fn views_step_where_they_should() {
        let x = Layout::dense([2, 3]);
        assert_eq!(positions(&x.permute(&[1, 0])), [0, 3, 1, 4, 2, 5]);
        assert_eq!(positions(&x.slice(1, 2, 3, -1)), [2, 1, 0, 5, 4, 3]);
        assert_eq!(positions(&x.slice(0, 1, 1, 1).broadcast(&[2, 3].into()).unwrap()), [3, 4, 5, 3, 4, 5]);
        assert_eq!(x.slice(1, 2, 2, -2).span(), Some((0, 5)));
        assert_eq!(positions(&Layout::dense(())), [0]);
        assert_eq!(positions(&Layout::dense([0, 3])), [] as [usize; 0]);
    }

    #[test]
    fn reshape_folds_where_it_can() {
        let x = Layout::dense([2, 3, 4]);
        assert_eq!(x.reshape(&[6, 4].into()), Some(Layout::dense([6, 4])));
        assert_eq!(x.permute(&[1, 0, 2]).reshape(&[6, 4].into()), None);
        let split = x.permute(&[2, 0, 1]).reshape(&[2, 2, 6].into()).unwrap();
        assert_eq!(positions(&split), positions(&x.permute(&[2, 0, 1])));
        let flipped = x.slice(2, 3, 4, -1).reshape(&[3, 2, 1, 2, 2].into());
        assert_eq!(flipped.unwrap().strides.as_slice(), &[8, 4, 4, -2, -1]);
        assert_eq!(Layout::dense([1, 1]).reshape(&Shape::scalar()), Some(Layout::dense(())));
        assert_eq!(Layout::dense(()).reshape(&[1, 1].into()).unwrap().shape, Shape::from([1, 1]));
    }

    #[test]
    fn a_storage_order_is_its_own_inverse_view() {
        let shape = Shape::from([2, 12, 5, 3]);
        let stored = Layout::dense_in_order(&shape, &[0, 2, 1, 3]);
        assert!(stored.permute(&[0, 2, 1, 3]).is_dense());
        assert_eq!(stored.distinct(), shape.elements());
    }

    #[test]
    fn what_windows_share_is_one_place() {
        let image = Layout::dense([2, 9, 7]);
        let check = |layout: &Layout| {
            let mut places = positions(layout);
            places.sort_unstable();
            places.dedup();
            assert_eq!(layout.distinct(), places.len(), "{layout:?}");
            assert!(!layout.is_injective() || places.len() == layout.shape.elements(), "{layout:?}");
        };
        for (size, step, dilation) in [(3, 1, 1), (2, 2, 1), (3, 2, 1), (2, 3, 1), (2, 1, 3), (3, 2, 2), (1, 2, 1)] {
            let count = |extent: usize| (extent - 1 - (size - 1) * dilation) / step + 1;
            let rows = image.window(1, count(9), size, [step, dilation]);
            let both = rows.window(2, count(7), size, [step, dilation]);
            [&rows, &both, &both.permute(&[0, 2, 1, 4, 3])].into_iter().for_each(check);
            check(&both.slice(3, size - 1, size, -1));
            assert_eq!(both.is_injective(), step >= size && dilation == 1, "{size} {step} {dilation}");
        }
        check(&Layout::dense([4, 5]).broadcast(&[3, 4, 5].into()).unwrap());
        check(&Layout::dense([4, 5]).slice(0, 0, 0, 1));
        let interleaved = Layout { strides: [2isize, 3].into_iter().collect(), ..Layout::dense([3, 2]) };
        assert!(!interleaved.is_injective());
        assert_eq!(interleaved.distinct(), 6);
    }
}
