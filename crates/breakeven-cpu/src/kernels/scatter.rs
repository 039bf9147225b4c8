//! Combining elements with updates, by index: rows that share their indices and lie side by side go together.

use breakeven_ir::{Combine, DType, Scatter, Unsupported};

use super::gather::read_index;
use super::{Bound, Machine, views};
use crate::domain::{Axes, Domain, Order};

/// Rows that go together at most: one element of each is a piece of a slice.
const TOGETHER: usize = 256;

/// Where neighbouring rows have their next element, and how far apart they are.
#[derive(Clone, Copy)]
struct Piece<P> {
    at: P,
    step: isize,
}

/// Combines so many elements with as many updates.
type Join = unsafe fn(Piece<*mut u8>, Piece<*const u8>, usize);

/// Rows of a source, and updates of each.
#[derive(Debug)]
pub(crate) struct CpuScatter {
    join: Join,
    set: Join,
    outer: Domain,
    /// How output, source, index and updates step from row to row.
    across: [Axes; 4],
    /// How they step along a row.
    along: [isize; 4],
    length: usize,
    count: usize,
    index: DType,
    width: usize,
    nanoseconds: f64,
}

impl CpuScatter {
    pub fn new(kernel: &Scatter, nanoseconds: f64) -> Result<CpuScatter, Unsupported> {
        let dtype = kernel.out.dtype;
        let missing = || Unsupported(format!("the CPU has no {} of {dtype}", kernel.combine.name()));
        let operands = [&kernel.out, &kernel.source, &kernel.index, &kernel.updates];
        let rank = kernel.outer.rank();
        let (outer, across) = Domain::new(&views(operands), 0..rank, Order::Free);
        Ok(CpuScatter {
            join: join_of(kernel.combine, dtype).ok_or_else(missing)?,
            set: join_of(Combine::Set, dtype).ok_or_else(missing)?,
            outer,
            across: across.try_into().expect("four operands have four sets of axes"),
            along: operands.map(|o| o.layout.strides[rank]),
            length: kernel.length(),
            count: kernel.count(),
            index: kernel.index.dtype,
            width: dtype.bytes(),
            nanoseconds,
        })
    }

    /// # Safety
    /// As [`super::Compiled::run`].
    pub unsafe fn run(&self, machine: &Machine, bound: Bound<'_>) {
        let side = self.outer.dims().last().copied().unwrap_or(1);
        let shared = self.outer.last_step(&self.across[2]) == 0;
        let together = if shared { TOGETHER.min(side).max(1) } else { 1 };
        let per_side = side.div_ceil(together);
        let units = self.outer.elements() / side.max(1) * per_side;
        machine.split(units, self.nanoseconds, |units| {
            for unit in units {
                let start = unit % per_side * together;
                let n = together.min(side - start);
                // SAFETY: rows do not overlap.
                unsafe { self.rows(unit / per_side * side + start, n, bound) };
            }
        });
    }

    /// `n` neighbouring rows, which share their indices.
    unsafe fn rows(&self, first: usize, n: usize, bound: Bound<'_>) {
        let at = self.outer.run(first, n);
        let place = |k: usize, width: usize| self.outer.place(&self.across[k], &at) * width as isize;
        let step = |k: usize| self.outer.last_step(&self.across[k]);
        let width = self.width;
        let out = |i: usize| {
            let place = place(0, width) + i as isize * self.along[0] * width as isize;
            Piece { at: bound.output(0).wrapping_offset(place), step: step(0) }
        };
        let piece = |k: usize, i: usize| {
            let place = place(k, width) + i as isize * self.along[k] * width as isize;
            Piece { at: bound.input(k - 1).wrapping_offset(place), step: step(k) }
        };
        let index = bound.input(1).wrapping_offset(place(2, self.index.bytes()));
        // SAFETY: operands hold their rows, and an index is used where it lies inside.
        unsafe {
            for i in 0..self.length {
                (self.set)(out(i), piece(1, i), n);
            }
            for p in 0..self.count {
                let from = index.wrapping_offset(p as isize * self.along[2] * self.index.bytes() as isize);
                let to = read_index(self.index, from);
                let to = if to < 0 { to.wrapping_add(self.length as i64) } else { to };
                if let Some(to) = usize::try_from(to).ok().filter(|&to| to < self.length) {
                    (self.join)(out(to), piece(3, p), n);
                }
            }
        }
    }
}

fn join_of(combine: Combine, dtype: DType) -> Option<Join> {
    if combine == Combine::Set {
        return Some(match dtype.bytes() {
            1 => join::<u8, Set>,
            2 => join::<u16, Set>,
            4 => join::<u32, Set>,
            _ => join::<u64, Set>,
        });
    }
    Some(match dtype {
        DType::F32 => of::<f32>(combine),
        DType::F64 => of::<f64>(combine),
        DType::I64 => of::<i64>(combine),
        DType::I32 => of::<i32>(combine),
        DType::I16 => of::<i16>(combine),
        DType::I8 => of::<i8>(combine),
        DType::U64 => of::<u64>(combine),
        DType::U32 => of::<u32>(combine),
        DType::U16 => of::<u16>(combine),
        DType::U8 => of::<u8>(combine),
        _ => return None,
    })
}

fn of<T: Joined>(combine: Combine) -> Join {
    match combine {
        Combine::Mul => join::<T, Mul>,
        Combine::Max => join::<T, Max>,
        Combine::Min => join::<T, Min>,
        _ => join::<T, Add>,
    }
}

unsafe fn join<T: Copy, R: Rule<T>>(to: Piece<*mut u8>, from: Piece<*const u8>, n: usize) {
    let (out, update) = (to.at.cast::<T>(), from.at.cast::<T>());
    for i in 0..n as isize {
        // SAFETY: the caller vouches for `n` elements at both places.
        unsafe {
            let out = out.offset(i * to.step);
            out.write(R::both(out, update.offset(i * from.step).read()));
        }
    }
}

/// How an element and an update become one.
trait Rule<T> {
    /// # Safety
    /// One element must lie at `element`; where the rule does not look at it, it may be anything.
    unsafe fn both(element: *const T, update: T) -> T;
}

struct Set;
struct Add;
struct Mul;
struct Max;
struct Min;

impl<T> Rule<T> for Set {
    unsafe fn both(_: *const T, update: T) -> T {
        update
    }
}

macro_rules! rules {
    ($($Rule:ident $method:ident),+) => {$(
        impl<T: Joined> Rule<T> for $Rule {
            unsafe fn both(element: *const T, update: T) -> T {
                // SAFETY: the caller's contract.
                unsafe { element.read() }.$method(update)
            }
        }
    )+};
}
rules!(Add plus, Mul times, Max larger, Min smaller);

/// Numbers that updates are combined with.
trait Joined: Copy {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn larger(self, other: Self) -> Self;
    fn smaller(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($t:ty),+) => {$(
        impl Joined for $t {
            fn plus(self, other: $t) -> $t {
                self.wrapping_add(other)
            }
            fn times(self, other: $t) -> $t {
                self.wrapping_mul(other)
            }
            fn larger(self, other: $t) -> $t {
                self.max(other)
            }
            fn smaller(self, other: $t) -> $t {
                self.min(other)
            }
        }
    )+};
}
integers!(i64, i32, i16, i8, u64, u32, u16, u8);

macro_rules! floats {
    ($($t:ty),+) => {$(
        impl Joined for $t {
            fn plus(self, other: $t) -> $t {
                self + other
            }
            fn times(self, other: $t) -> $t {
                self * other
            }
            fn larger(self, other: $t) -> $t {
                if self > other || self.is_nan() { self } else { other }
            }
            fn smaller(self, other: $t) -> $t {
                if self < other || self.is_nan() { self } else { other }
            }
        }
    )+};
}
floats!(f64, f32);
