//! Order: sorting, the largest and smallest, and what depends on which values there are.

use std::cmp::Ordering;
use std::panic::Location;

use breakeven_ir::{Op, Scalar, Shape, Sort, Spec};

use crate::views::axis;
use crate::{Result, Tensor};

impl Tensor {
    /// The elements in order along `axis`, and the i64 indices that they had: `(values, indices)`.
    ///
    /// NaN counts as larger than anything, -0 equals 0, and of equals the one with the lower index comes first, whichever way
    /// is sorted.
    #[track_caller]
    pub fn sort(&self, axis: isize, descending: bool) -> (Tensor, Tensor) {
        self.sorted(Wish { operation: "sort", axis, descending, keep: None }, Location::caller())
    }

    /// The i64 indices that bring `axis` into order, as [`Tensor::sort`] does.
    #[must_use]
    #[track_caller]
    pub fn argsort(&self, axis: isize, descending: bool) -> Tensor {
        self.sorted(Wish { operation: "argsort", axis, descending, keep: None }, Location::caller()).1
    }

    /// The `count` largest (or smallest) elements along `axis`, in order, the most extreme first, and their i64 indices.
    /// Ties and NaN as in [`Tensor::sort`].
    #[track_caller]
    pub fn topk(&self, count: usize, axis: isize, largest: bool) -> (Tensor, Tensor) {
        let wish = Wish { operation: "topk", axis, descending: largest, keep: Some(count) };
        self.sorted(wish, Location::caller())
    }

    fn sorted(&self, wish: Wish, at: &'static Location<'static>) -> (Tensor, Tensor) {
        let Ok(spec) = &self.0.spec else { return (self.clone(), self.clone()) };
        let axis = match axis(wish.operation, wish.axis, spec.shape.rank()) {
            Ok(axis) => axis,
            Err(error) => {
                let wrong = Tensor::wrong(&self.0.engine, error.of(&[spec]).at(at));
                return (wrong.clone(), wrong);
            }
        };
        let sort = Sort { axis, descending: wish.descending, keep: wish.keep };
        let values = Tensor::apply(Op::Sort(sort), &[self], at);
        let indices = Tensor::apply(Op::Output(1), &[&values], at);
        (values, indices)
    }

    /// Where elements are not 0 (NaN is not): i64 `[rank, count]`, row-major, a column for each. Of a tensor of rank 0, `[0, 1]`
    /// or `[0, 0]`.
    ///
    /// How many there are depends on the data, so this reads the tensor and finds them on the host.
    #[track_caller]
    pub fn nonzero(&self) -> Result<Tensor> {
        let (spec, elements) = self.scalars()?;
        let found: Vec<usize> = (0..elements.len()).filter(|&at| elements[at].truth()).collect();
        let steps = spec.shape.strides();
        let place = |axis: usize, at: usize| at as i64 / steps[axis] as i64 % spec.shape[axis] as i64;
        let mut places = Vec::with_capacity(spec.shape.rank() * found.len());
        for axis in 0..spec.shape.rank() {
            places.extend(found.iter().map(|&at| place(axis, at)));
        }
        Ok(self.0.engine.from_vec(places, [spec.shape.rank(), found.len()]))
    }

    /// The different elements, or with `axis` the different slices along it; slices are ordered by their elements in row-major
    /// order. NaN equals NaN here, and -0 equals 0.
    ///
    /// How many there are depends on the data, so this reads the tensor and compares on the host.
    #[track_caller]
    pub fn unique(&self, along: Option<isize>, order: UniqueOrder) -> Result<Unique> {
        let (spec, elements) = self.scalars()?;
        let along = along.map(|along| axis("unique", along, spec.shape.rank())).transpose()?;
        let flat = Shape::from(spec.shape.elements());
        let (shape, axis) = along.map_or((&flat, 0), |axis| (&spec.shape, axis));
        // Slices of no elements take memory too.
        self.0.engine.room_for("unique", shape[axis], 2 * size_of::<Vec<usize>>())?;
        let inner = shape[axis + 1..].iter().fold(1, |all: usize, &n| all.saturating_mul(n));
        let slices = Slices { elements: &elements, count: shape[axis], inner };
        let groups = slices.groups(order);
        let firsts: Vec<i64> = groups.iter().map(|group| group[0] as i64).collect();
        let mut inverse = vec![0; slices.count];
        for (number, group) in groups.iter().enumerate() {
            for &at in group {
                inverse[at] = number as i64;
            }
        }
        let engine = &self.0.engine;
        let counts: Vec<i64> = groups.iter().map(|group| group.len() as i64).collect();
        let indices = engine.from_vec(firsts, [groups.len()]);
        let source = if along.is_some() { self.clone() } else { self.reshape([spec.shape.elements()]) };
        Ok(Unique {
            values: source.gather(axis as isize, &indices),
            inverse: engine.from_vec(inverse, [slices.count]),
            counts: engine.from_vec(counts, [groups.len()]),
            indices,
        })
    }

    /// All elements on the host, in row-major order.
    fn scalars(&self) -> Result<(Spec, Vec<Scalar>)> {
        let spec = self.check()?.clone();
        let bytes = self.to_bytes()?;
        let elements = (0..spec.shape.elements()).map(|at| Scalar::load(spec.dtype, &bytes, at)).collect();
        Ok((spec, elements))
    }
}

/// What is to be sorted, and under which name.
#[derive(Clone, Copy)]
struct Wish {
    operation: &'static str,
    axis: isize,
    descending: bool,
    keep: Option<usize>,
}

/// In which order different values are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UniqueOrder {
    /// The smallest first; NaN last.
    #[default]
    Sorted,
    /// The one that appears first.
    FirstSeen,
}

/// The different values of a tensor.
#[derive(Clone, Debug)]
pub struct Unique {
    /// Each different value once: `[count]`, or the tensor's shape with `count` along the axis.
    pub values: Tensor,
    /// Where each appears first; i64 `[count]`.
    pub indices: Tensor,
    /// Which of the values each element (or slice) is; i64.
    pub inverse: Tensor,
    /// How often each appears; i64 `[count]`.
    pub counts: Tensor,
}

/// Elements as slices along an axis, of which there are `count`.
struct Slices<'a> {
    elements: &'a [Scalar],
    count: usize,
    /// Elements that lie together in one slice.
    inner: usize,
}

impl Slices<'_> {
    /// The places of equal slices, ascending.
    fn groups(&self, order: UniqueOrder) -> Vec<Vec<usize>> {
        let mut places: Vec<usize> = (0..self.count).collect();
        places.sort_by(|&a, &b| self.compare(a, b));
        let mut groups: Vec<Vec<usize>> =
            places.chunk_by(|&a, &b| self.compare(a, b) == Ordering::Equal).map(<[usize]>::to_vec).collect();
        if order == UniqueOrder::FirstSeen {
            groups.sort_by_key(|group| group[0]);
        }
        groups
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        let slice = |at: usize| {
            let rows = self.elements.chunks((self.count * self.inner).max(1));
            rows.flat_map(move |row| &row[at * self.inner..][..self.inner])
        };
        let mut pairs = slice(a).zip(slice(b)).map(|(a, b)| a.order(*b));
        pairs.find(|ordering| ordering.is_ne()).unwrap_or(Ordering::Equal)
    }
}
