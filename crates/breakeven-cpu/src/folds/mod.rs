//! How reductions fold elements: a block at a time along a row, or one element for each of many columns.

mod blocks;
mod element;
mod kinds;
mod scan;

use breakeven_ir::{DType, Fold};
use fearless_simd::Simd;

use crate::domain::BLOCK;
use crate::lanes::token;
use kinds::{All, Any, ArgMax, ArgMin, Max, Mean, Min, Moments, Prod, Sum};

pub(crate) use blocks::{sum_of, sum_of_squares_about};
pub(crate) use element::Element;
pub(crate) use scan::{Run, ScanFns, scan_of};

/// What some elements fold to; what `f`, `g` and `i` mean is up to the fold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Partial {
    pub f: f64,
    pub g: f64,
    pub i: i64,
    /// How many elements are in it.
    pub n: u64,
}

/// Columns that are folded side by side.
pub(crate) const COLUMNS: usize = 256;

/// A [`Partial`] for each column.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    pub f: [f64; COLUMNS],
    pub g: [f64; COLUMNS],
    pub i: [i64; COLUMNS],
    pub n: u64,
}

impl Columns {
    pub fn new() -> Columns {
        Columns { f: [0.0; COLUMNS], g: [0.0; COLUMNS], i: [0; COLUMNS], n: 0 }
    }

    pub fn partial(&self, column: usize) -> Partial {
        Partial { f: self.f[column], g: self.g[column], i: self.i[column], n: self.n }
    }
}

/// Elements that continue columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub from: *const u8,
    /// How many columns there are; neighbours in memory.
    pub width: usize,
    /// How many elements each column gets.
    pub count: usize,
    /// Bytes from one row to the next.
    pub step: isize,
}

/// The loops of one fold over one type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoldFns {
    /// Folds `n` elements, the first of which is number `.2` of its row.
    pub block: unsafe fn(*const u8, usize, u64) -> Partial,
    /// As that, for any number of elements: what folding them block by block gives.
    pub run: unsafe fn(*const u8, usize, u64) -> Partial,
    /// Folds the products of two rows of any length, where it need not have them in memory.
    pub products: Option<unsafe fn(*const u8, *const u8, usize) -> Partial>,
    /// Folds two neighbours, the earlier one first.
    pub join: fn(Partial, Partial) -> Partial,
    /// Folds more rows into columns.
    pub columns: unsafe fn(&mut Columns, Rows),
    /// Writes the results, one for each output.
    pub finish: unsafe fn(Partial, [*mut u8; 2]),
}

/// One way of folding elements of type `T`.
pub(crate) trait Folding<T: Element>: Sized {
    /// A block may have any length.
    const ENDLESS: bool = false;

    /// One element alone, which is number `at` of its row.
    fn one(x: T, at: u64) -> Partial;
    /// One more element.
    fn add(p: Partial, x: T, at: u64) -> Partial;
    /// Two neighbours, neither of them empty.
    fn join(a: Partial, b: Partial) -> Partial;
    /// Writes the results.
    ///
    /// # Safety
    /// One element of the result's type must be writable at each place.
    unsafe fn finish(p: Partial, to: [*mut u8; 2]);

    /// More elements of each column.
    ///
    /// # Safety
    /// All of `rows` must be readable.
    #[inline(always)]
    unsafe fn columns<S: Simd>(_: S, columns: &mut Columns, rows: Rows) {
        // SAFETY: the caller's contract.
        unsafe { one_by_one::<Self, T>(columns, rows) };
    }

    /// A block of a row.
    ///
    /// # Safety
    /// `n > 0` elements must be readable at `from`.
    #[inline(always)]
    unsafe fn block<S: Simd>(_: S, from: *const T, n: usize, at: u64) -> Partial {
        // SAFETY: the caller's contract.
        let element = |i: usize| unsafe { from.add(i).read() };
        (1..n).fold(Self::one(element(0), at), |p, i| Self::add(p, element(i), at + i as u64))
    }
}

/// # Safety
/// As [`Folding::columns`].
#[inline(always)]
unsafe fn one_by_one<F: Folding<T>, T: Element>(columns: &mut Columns, rows: Rows) {
    for row in 0..rows.count {
        let at = columns.n + row as u64;
        let from = rows.from.wrapping_offset(row as isize * rows.step).cast::<T>();
        // SAFETY: the caller's contract.
        let elements = unsafe { std::slice::from_raw_parts(from, rows.width) };
        let places = columns.f.iter_mut().zip(&mut columns.g).zip(&mut columns.i).zip(elements);
        for (((f, g), i), &x) in places {
            let p = if at == 0 { F::one(x, 0) } else { F::add(Partial { f: *f, g: *g, i: *i, n: at }, x, at) };
            (*f, *g, *i) = (p.f, p.g, p.i);
        }
    }
}

/// All folds for one instruction set.
pub(crate) struct Folds(Vec<(Fold, DType, FoldFns)>);

impl Folds {
    /// Compiled for `S`.
    pub fn with<S: Simd>(_: S) -> Folds {
        let mut all = Vec::new();
        floats::<f32, S>(&mut all);
        floats::<f64, S>(&mut all);
        numbers::<i64, S>(&mut all);
        numbers::<i32, S>(&mut all);
        numbers::<i16, S>(&mut all);
        numbers::<i8, S>(&mut all);
        numbers::<u64, S>(&mut all);
        numbers::<u32, S>(&mut all);
        numbers::<u16, S>(&mut all);
        numbers::<u8, S>(&mut all);
        all.push((Fold::All, DType::Bool, fns::<All, u8, S>()));
        all.push((Fold::Any, DType::Bool, fns::<Any, u8, S>()));
        for (fold, dtype, fns) in &mut all {
            fns.products = (matches!(fold, Fold::Sum | Fold::Mean) && *dtype == DType::F32).then_some(products::<S>);
        }
        Folds(all)
    }

    /// The loops of `fold` over elements of `dtype`.
    pub fn get(&self, fold: Fold, dtype: DType) -> Option<FoldFns> {
        self.0.iter().find(|(f, d, _)| (*f, *d) == (fold, dtype)).map(|(_, _, fns)| *fns)
    }
}

fn numbers<T: Element, S: Simd>(all: &mut Vec<(Fold, DType, FoldFns)>) {
    all.push((Fold::Sum, T::DTYPE, fns::<Sum, T, S>()));
    all.push((Fold::Prod, T::DTYPE, fns::<Prod, T, S>()));
    all.push((Fold::Max, T::DTYPE, fns::<Max, T, S>()));
    all.push((Fold::Min, T::DTYPE, fns::<Min, T, S>()));
    all.push((Fold::ArgMax, T::DTYPE, fns::<ArgMax, T, S>()));
    all.push((Fold::ArgMin, T::DTYPE, fns::<ArgMin, T, S>()));
}

fn floats<T: Element, S: Simd>(all: &mut Vec<(Fold, DType, FoldFns)>) {
    numbers::<T, S>(all);
    all.push((Fold::Mean, T::DTYPE, fns::<Mean, T, S>()));
    all.push((Fold::Moments, T::DTYPE, fns::<Moments, T, S>()));
}

fn fns<F: Folding<T>, T: Element, S: Simd>() -> FoldFns {
    FoldFns {
        block: block::<F, T, S>,
        run: run::<F, T, S>,
        products: None,
        join: join::<F, T>,
        columns: columns::<F, T, S>,
        finish: F::finish,
    }
}

unsafe fn block<F: Folding<T>, T: Element, S: Simd>(from: *const u8, n: usize, at: u64) -> Partial {
    if n == 0 {
        return Partial::default();
    }
    // SAFETY: tables of `S` are only built with a value of `S` at hand.
    let simd = unsafe { token::<S>() };
    // SAFETY: the caller vouches for `n` elements.
    let p = simd.vectorize(
        #[inline(always)]
        || unsafe { F::block(simd, from.cast::<T>(), n, at) },
    );
    Partial { n: n as u64, ..p }
}

unsafe fn run<F: Folding<T>, T: Element, S: Simd>(from: *const u8, n: usize, at: u64) -> Partial {
    let step = if F::ENDLESS { n.max(1) } else { BLOCK };
    let part = |start: usize| {
        let from = from.wrapping_add(start * size_of::<T>());
        // SAFETY: the caller vouches for `n` elements.
        unsafe { block::<F, T, S>(from, step.min(n - start), at + start as u64) }
    };
    (0..n).step_by(step).map(part).fold(Partial::default(), join::<F, T>)
}

unsafe fn products<S: Simd>(a: *const u8, b: *const u8, n: usize) -> Partial {
    // SAFETY: tables of `S` are only built with a value of `S` at hand.
    let simd = unsafe { token::<S>() };
    // SAFETY: the caller vouches for `n` elements of both.
    let f = simd.vectorize(
        #[inline(always)]
        || unsafe { blocks::sum_by_blocks(simd, (a.cast::<f32>(), b.cast::<f32>()), n) },
    );
    Partial { f, n: n as u64, ..Partial::default() }
}

fn join<F: Folding<T>, T: Element>(a: Partial, b: Partial) -> Partial {
    match (a.n, b.n) {
        (0, _) => b,
        (_, 0) => a,
        _ => Partial { n: a.n + b.n, ..F::join(a, b) },
    }
}

unsafe fn columns<F: Folding<T>, T: Element, S: Simd>(columns: &mut Columns, rows: Rows) {
    // SAFETY: tables of `S` are only built with a value of `S` at hand.
    let simd = unsafe { token::<S>() };
    // SAFETY: the caller vouches for all rows.
    simd.vectorize(
        #[inline(always)]
        || unsafe { F::columns(simd, columns, rows) },
    );
    columns.n += rows.count as u64;
}
