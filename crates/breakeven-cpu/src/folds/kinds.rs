//! The folds themselves.

use fearless_simd::Simd;

use super::{Columns, Element, Folding, Partial, Rows, one_by_one};

pub(super) struct Sum;
pub(super) struct Mean;
pub(super) struct Prod;
pub(super) struct Max;
pub(super) struct Min;
pub(super) struct ArgMax;
pub(super) struct ArgMin;
pub(super) struct Moments;
pub(super) struct All;
pub(super) struct Any;

/// # Safety
/// One `T` must be writable at `to`.
unsafe fn write<T>(to: *mut u8, x: T) {
    // SAFETY: the caller's contract.
    unsafe { to.cast::<T>().write(x) }
}

impl<T: Element> Folding<T> for Sum {
    const ENDLESS: bool = true;

    #[inline(always)]
    fn one(x: T, _: u64) -> Partial {
        if T::FLOAT { Partial { f: x.f(), ..Partial::default() } } else { Partial { i: x.i(), ..Partial::default() } }
    }
    #[inline(always)]
    fn add(p: Partial, x: T, _: u64) -> Partial {
        if T::FLOAT { Partial { f: p.f + x.f(), ..p } } else { Partial { i: p.i.wrapping_add(x.i()), ..p } }
    }
    fn join(a: Partial, b: Partial) -> Partial {
        Partial { f: a.f + b.f, i: a.i.wrapping_add(b.i), ..a }
    }
    unsafe fn finish(p: Partial, to: [*mut u8; 2]) {
        // SAFETY: the caller's contract.
        unsafe { write(to[0], if T::FLOAT { T::from_f(p.f) } else { T::from_i(p.i) }) };
    }
    #[inline(always)]
    unsafe fn block<S: Simd>(simd: S, from: *const T, n: usize, _: u64) -> Partial {
        if T::FLOAT {
            // SAFETY: the caller's contract.
            return Partial { f: unsafe { T::sum(simd, from, n) }, ..Partial::default() };
        }
        // SAFETY: the caller's contract.
        let i = (0..n).fold(0i64, |sum, i| sum.wrapping_add(unsafe { from.add(i).read() }.i()));
        Partial { i, ..Partial::default() }
    }
    #[inline(always)]
    unsafe fn columns<S: Simd>(simd: S, columns: &mut Columns, rows: Rows) {
        // SAFETY: the caller's contract.
        if !unsafe { T::add_rows(simd, &mut columns.f, rows) } {
            // SAFETY: the caller's contract.
            unsafe { one_by_one::<Sum, T>(columns, rows) };
        }
    }
}

impl<T: Element> Folding<T> for Mean {
    const ENDLESS: bool = true;

    #[inline(always)]
    fn one(x: T, at: u64) -> Partial {
        Sum::one(x, at)
    }
    #[inline(always)]
    fn add(p: Partial, x: T, at: u64) -> Partial {
        Sum::add(p, x, at)
    }
    fn join(a: Partial, b: Partial) -> Partial {
        <Sum as Folding<T>>::join(a, b)
    }
    unsafe fn finish(p: Partial, to: [*mut u8; 2]) {
        // SAFETY: the caller's contract.
        unsafe { write(to[0], T::from_f(p.f / p.n as f64)) };
    }
    #[inline(always)]
    unsafe fn block<S: Simd>(simd: S, from: *const T, n: usize, at: u64) -> Partial {
        // SAFETY: the caller's contract.
        unsafe { Sum::block(simd, from, n, at) }
    }
    #[inline(always)]
    unsafe fn columns<S: Simd>(simd: S, columns: &mut Columns, rows: Rows) {
        // SAFETY: the caller's contract.
        unsafe { <Sum as Folding<T>>::columns(simd, columns, rows) };
    }
}

impl<T: Element> Folding<T> for Prod {
    #[inline(always)]
    fn one(x: T, at: u64) -> Partial {
        Sum::one(x, at)
    }
    #[inline(always)]
    fn add(p: Partial, x: T, _: u64) -> Partial {
        if T::FLOAT { Partial { f: p.f * x.f(), ..p } } else { Partial { i: p.i.wrapping_mul(x.i()), ..p } }
    }
    fn join(a: Partial, b: Partial) -> Partial {
        Partial { f: a.f * b.f, i: a.i.wrapping_mul(b.i), ..a }
    }
    unsafe fn finish(p: Partial, to: [*mut u8; 2]) {
        let p = if p.n == 0 { Partial { f: 1.0, i: 1, ..p } } else { p };
        // SAFETY: the caller's contract.
        unsafe { Sum::finish_as::<T>(p, to) };
    }
}

impl Sum {
    unsafe fn finish_as<T: Element>(p: Partial, to: [*mut u8; 2]) {
        // SAFETY: the caller's contract.
        unsafe { <Sum as Folding<T>>::finish(p, to) };
    }
}

/// `f` (or `i`) is the value, `g` its index.
#[inline(always)]
fn valued<T: Element>(x: T, at: u64) -> Partial {
    Partial { f: if T::FLOAT { x.f() } else { 0.0 }, g: at as f64, i: if T::FLOAT { 0 } else { x.key() }, n: 1 }
}

/// The better one; the earlier one of equals, and the first NaN of all.
#[inline(always)]
fn better<T: Element, const SMALLEST: bool>(a: Partial, b: Partial) -> Partial {
    let later = if T::FLOAT {
        let beats = if SMALLEST { b.f < a.f } else { b.f > a.f };
        (beats | b.f.is_nan()) & !a.f.is_nan()
    } else if SMALLEST {
        b.i < a.i
    } else {
        b.i > a.i
    };
    if later { Partial { n: a.n, ..b } } else { a }
}

/// # Safety
/// As [`Folding::block`].
#[inline(always)]
unsafe fn extreme_block<T: Element, S: Simd, const SMALLEST: bool>(
    simd: S,
    from: *const T,
    n: usize,
    at: u64,
    indexed: bool,
) -> Partial {
    // SAFETY: the caller's contract.
    let element = |i: usize| unsafe { from.add(i).read() };
    // SAFETY: the caller's contract.
    let Some(f) = (unsafe { T::extreme(simd, from, n, SMALLEST) }) else {
        let rest = 1..n;
        return rest.fold(valued(element(0), at), |p, i| better::<T, SMALLEST>(p, valued(element(i), at + i as u64)));
    };
    let same = |i: &usize| element(*i).f() == f || f.is_nan() && element(*i).f().is_nan();
    let first = if indexed { (0..n).find(same).unwrap_or(0) } else { 0 };
    Partial { f, g: (at + first as u64) as f64, ..Partial::default() }
}

macro_rules! extremes {
    ($($Name:ident: $smallest:literal, $indexed:literal;)+) => {$(
        impl<T: Element> Folding<T> for $Name {
            // The place of an element is looked for while its block is near.
            const ENDLESS: bool = !$indexed;

            #[inline(always)]
            fn one(x: T, at: u64) -> Partial {
                valued(x, at)
            }
            #[inline(always)]
            fn add(p: Partial, x: T, at: u64) -> Partial {
                better::<T, $smallest>(p, valued(x, at))
            }
            fn join(a: Partial, b: Partial) -> Partial {
                better::<T, $smallest>(a, b)
            }
            unsafe fn finish(p: Partial, to: [*mut u8; 2]) {
                // SAFETY: the caller's contract.
                unsafe {
                    if $indexed {
                        write(to[0], p.g as i64);
                    } else {
                        write(to[0], if T::FLOAT { T::from_f(p.f) } else { T::from_key(p.i) });
                    }
                }
            }
            #[inline(always)]
            unsafe fn block<S: Simd>(simd: S, from: *const T, n: usize, at: u64) -> Partial {
                // SAFETY: the caller's contract.
                unsafe { extreme_block::<T, S, $smallest>(simd, from, n, at, $indexed) }
            }
        }
    )+};
}
extremes! {
    Max: false, false;
    Min: true, false;
    ArgMax: false, true;
    ArgMin: true, true;
}

/// `f` is the mean, `g` the sum of squared distances from it.
impl<T: Element> Folding<T> for Moments {
    #[inline(always)]
    fn one(x: T, _: u64) -> Partial {
        // The distance of NaN and of infinity from themselves is NaN.
        Partial { f: x.f(), g: x.f() - x.f(), ..Partial::default() }
    }
    #[inline(always)]
    fn add(p: Partial, x: T, at: u64) -> Partial {
        let d = x.f() - p.f;
        let f = p.f + d * (1.0 / (at as f64 + 1.0));
        Partial { f, g: p.g + d * (x.f() - f), ..p }
    }
    fn join(a: Partial, b: Partial) -> Partial {
        let (n, m, d) = (a.n as f64, b.n as f64, b.f - a.f);
        let part = m / (n + m);
        Partial { f: a.f + d * part, g: a.g + b.g + d * d * n * part, ..a }
    }
    unsafe fn finish(p: Partial, to: [*mut u8; 2]) {
        let (mean, variance) = if p.n == 0 { (f64::NAN, f64::NAN) } else { (p.f, p.g / p.n as f64) };
        // SAFETY: the caller's contract.
        unsafe {
            write(to[0], T::from_f(mean));
            write(to[1], T::from_f(variance));
        }
    }
    #[inline(always)]
    unsafe fn block<S: Simd>(simd: S, from: *const T, n: usize, _: u64) -> Partial {
        // SAFETY: the caller's contract.
        let (f, g) = unsafe { T::moments(simd, from, n) };
        Partial { f, g, ..Partial::default() }
    }
}

macro_rules! logic {
    ($($Name:ident: $op:tt, $empty:literal;)+) => {$(
        impl Folding<u8> for $Name {
            #[inline(always)]
            fn one(x: u8, _: u64) -> Partial {
                Partial { i: i64::from(x != 0), ..Partial::default() }
            }
            #[inline(always)]
            fn add(p: Partial, x: u8, _: u64) -> Partial {
                Partial { i: p.i $op i64::from(x != 0), ..p }
            }
            fn join(a: Partial, b: Partial) -> Partial {
                Partial { i: a.i $op b.i, ..a }
            }
            unsafe fn finish(p: Partial, to: [*mut u8; 2]) {
                // SAFETY: the caller's contract.
                unsafe { write(to[0], if p.n == 0 { $empty } else { p.i as u8 }) };
            }
        }
    )+};
}
logic! {
    All: &, 1;
    Any: |, 0;
}
