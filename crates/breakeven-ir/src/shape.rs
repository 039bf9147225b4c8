//! Shapes: the extents of a tensor, rank 0 to 8.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use arrayvec::ArrayVec;

use crate::CallError;

/// The highest rank a tensor can have.
pub const MAX_RANK: usize = 8;

/// The extents of a tensor, outermost first. Rank 0 is a single element.
///
/// Extents beyond the rank are 0, so that whole arrays are copied and compared.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Shape {
    rank: usize,
    dims: [usize; MAX_RANK],
}

impl Shape {
    /// Rank 0: one element.
    pub fn scalar() -> Shape {
        Shape::default()
    }

    /// Fails when the rank is over [`MAX_RANK`] or the element count does not fit a signed 64-bit integer.
    pub fn new(dims: &[usize]) -> Result<Shape, CallError> {
        let high = || format!("rank {} is over the highest supported rank, {MAX_RANK}", dims.len());
        let shape = Shape::of(dims).ok_or_else(|| CallError::new("shape", high()))?;
        match shape.steps().filter(|&n| isize::try_from(n).is_ok()) {
            Some(_) => Ok(shape),
            None => Err(CallError::new("shape", format!("{shape} has more elements than a 64-bit index can count"))),
        }
    }

    /// `None` when the rank is over [`MAX_RANK`].
    fn of(extents: &[usize]) -> Option<Shape> {
        let mut dims = [0; MAX_RANK];
        dims.get_mut(..extents.len())?.copy_from_slice(extents);
        Some(Shape { rank: extents.len(), dims })
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of elements; 1 for rank 0. Of a shape that no tensor can have, the largest number.
    pub fn elements(&self) -> usize {
        if self.is_empty() { 0 } else { self.steps().unwrap_or(usize::MAX) }
    }

    /// Number of elements that strides reckon with: an extent of 0 counts as 1.
    pub(crate) fn steps(&self) -> Option<usize> {
        self.iter().try_fold(1usize, |all, &n| all.checked_mul(n.max(1)))
    }

    /// True when some extent is 0.
    pub fn is_empty(&self) -> bool {
        self.contains(&0)
    }

    /// Row-major strides, in elements.
    pub fn strides(&self) -> Strides {
        let mut strides: Strides = self.iter().map(|_| 1).collect();
        for axis in (0..self.rank().saturating_sub(1)).rev() {
            strides[axis] = strides[axis + 1] * self[axis + 1].max(1) as isize;
        }
        strides
    }

    /// The same extents with `axis` taken out.
    pub fn without(&self, axis: usize) -> Shape {
        let keep = |(i, &n): (usize, &usize)| (i != axis).then_some(n);
        self.iter().enumerate().filter_map(keep).collect()
    }

    /// Right-aligned broadcasting: extents must be equal, or one of them 1.
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        let rank = self.rank().max(other.rank());
        let at = |s: &Shape, i: usize| (i + s.rank()).checked_sub(rank).map_or(1, |i| s[i]);
        let one = |i| match (at(self, i), at(other, i)) {
            (a, b) if a == b => Some(a),
            (1, b) => Some(b),
            (a, 1) => Some(a),
            _ => None,
        };
        (0..rank).map(one).collect()
    }
}

/// Signed steps between neighbours along each axis, in elements.
pub type Strides = ArrayVec<isize, MAX_RANK>;

impl Hash for Shape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl PartialOrd for Shape {
    fn partial_cmp(&self, other: &Shape) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Shape {
    fn cmp(&self, other: &Shape) -> Ordering {
        (**self).cmp(other)
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.dims[..self.rank]
    }
}

/// More elements than can be counted are the error of the operation that is asked for them.
///
/// # Panics
/// When the rank is over [`MAX_RANK`]; [`Shape::new`] returns that as an error.
impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Shape {
        Shape::of(dims).expect("a shape written in code has a supported rank")
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Shape {
        Shape::from(dims.as_slice())
    }
}

impl From<usize> for Shape {
    fn from(n: usize) -> Shape {
        Shape::from([n])
    }
}

impl From<()> for Shape {
    fn from((): ()) -> Shape {
        Shape::scalar()
    }
}

/// # Panics
/// When there are more than [`MAX_RANK`].
impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(dims: I) -> Shape {
        let mut shape = Shape::default();
        for extent in dims {
            shape.dims[shape.rank] = extent;
            shape.rank += 1;
        }
        shape
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.iter().map(usize::to_string).collect();
        f.pad(&format!("[{}]", dims.join(", ")))
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_of_one_broadcast() {
        let check = |a: &[usize], b: &[usize], want: Option<&[usize]>| {
            assert_eq!(Shape::from(a).broadcast(&Shape::from(b)), want.map(Shape::from), "{a:?} {b:?}");
        };
        check(&[2, 3], &[3], Some(&[2, 3]));
        check(&[2, 1], &[1, 3], Some(&[2, 3]));
        check(&[], &[4], Some(&[4]));
        check(&[0], &[1], Some(&[0]));
        check(&[2], &[3], None);
    }

    #[test]
    fn too_many_elements_is_an_error_not_a_wrap() {
        assert!(Shape::new(&[usize::MAX, 2]).is_err());
        assert!(Shape::new(&[1; 9]).is_err());
        assert!(Shape::new(&[0, usize::MAX]).is_err(), "its strides would not fit");
        assert!(Shape::new(&[0, 1 << 40]).is_ok());
    }

    #[test]
    fn strides_are_row_major() {
        assert_eq!(Shape::from([2, 3, 4]).strides().as_slice(), &[12, 4, 1]);
        assert_eq!(Shape::scalar().strides().as_slice(), &[] as &[isize]);
    }
}
