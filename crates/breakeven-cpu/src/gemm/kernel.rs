//! The innermost loops: a strip of rows of the left operand times panels of the right one, sums in registers.

use std::hint::black_box;

use fearless_simd::{Simd, SimdBase};

use super::element::Element;
use crate::lanes::token;

/// Most rows of a strip, on any instruction set.
pub(super) const MOST_ROWS: usize = 12;
/// Registers that hold a row of a whole panel, at most.
const MOST_ABREAST: usize = 3;
/// Elements of the largest block of sums: 24 registers of 16.
const SUMS: usize = 24 * 16;

/// Rows that are reached from one pointer.
const GROUP: usize = 6;
const GROUPS: usize = MOST_ROWS.div_ceil(GROUP);

/// Says `$body` for each row: written out, since the compiler does not unroll so long a loop before it gives out registers.
macro_rules! each_row {
    ($r:ident < $R:ident: $body:block) => {
        each_row!($r < $R: $body; 0 1 2 3 4 5 6 7 8 9 10 11)
    };
    ($r:ident < $R:ident: $body:block; $($row:literal)+) => {$(
        if $row < $R {
            let $r: usize = $row;
            $body
        }
    )+};
}

/// Terms by which the right operand is asked for early: about the time that the second-level cache takes.
const AHEAD: isize = 8;
/// Terms that take long enough for the lines of the result to be fetched meanwhile.
const LONG: usize = 64;

/// A strip of rows to be multiplied: no more than [`widths`] says. Steps count elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strip {
    pub terms: usize,
    pub left: *const u8,
    /// From row to row, and from term to term.
    pub left_steps: (isize, isize),
    pub right: *const u8,
    /// From term to term, and from panel to panel.
    pub right_steps: (isize, isize),
    /// Columns of a panel: of two registers, or as many as [`widths`] says.
    pub panel: usize,
    /// Columns in all; what the last panel has beyond them is readable.
    pub columns: usize,
    pub to: *mut u8,
    /// From row to row, and from column to column.
    pub to_steps: (isize, isize),
    /// Sums are added to what is there.
    pub add: bool,
}

/// The loop for so many rows.
pub(super) type StripFn = unsafe fn(&Strip);

/// Registers that hold a row of a panel: three where there are 32 of them, since then a factor is used three times.
const fn abreast<S: Simd>() -> usize {
    if S::f32s::LEN == 16 || cfg!(target_arch = "aarch64") { MOST_ABREAST } else { 2 }
}

/// Rows of a strip over `registers` abreast: with sums for each, a row of the panel and one factor, as many as there are
/// registers for.
const fn rows<S: Simd>(registers: usize) -> usize {
    match (S::f32s::LEN, registers) {
        _ if abreast::<S>() == MOST_ABREAST => {
            if registers < MOST_ABREAST {
                MOST_ROWS
            } else {
                8
            }
        }
        (8, _) => 6,
        _ => 5,
    }
}

/// Rows of a strip and columns of a panel, first for wide panels, then for those of two registers.
pub(super) fn widths<T: Element, S: Simd>() -> [(usize, usize); 2] {
    [abreast::<S>(), 2].map(|registers| (rows::<S>(registers), registers * T::len::<S>()))
}

/// The loops for 1, 2 and so on rows. Those beyond [`rows`] do nothing.
pub(super) fn strips<T: Element, S: Simd>() -> [StripFn; MOST_ROWS] {
    [
        strip::<T, S, 1>,
        strip::<T, S, 2>,
        strip::<T, S, 3>,
        strip::<T, S, 4>,
        strip::<T, S, 5>,
        strip::<T, S, 6>,
        strip::<T, S, 7>,
        strip::<T, S, 8>,
        strip::<T, S, 9>,
        strip::<T, S, 10>,
        strip::<T, S, 11>,
        strip::<T, S, 12>,
    ]
}

/// # Safety
/// Operands and result must hold the strip.
unsafe fn strip<T: Element, S: Simd, const R: usize>(s: &Strip) {
    if R > const { rows::<S>(1) } {
        return;
    }
    // SAFETY: tables of `S` are only built with a value of `S` at hand.
    let simd = unsafe { token::<S>() };
    simd.vectorize(
        #[inline(always)]
        || {
            let (one, panel) = (T::len::<S>(), s.panel);
            let (mut right, mut to) = (s.right.cast::<T>(), s.to.cast::<T>());
            let mut left = s.columns;
            while left > 0 {
                // SAFETY: the caller's contract.
                unsafe {
                    if left <= one {
                        block::<T, S, R, 1>(simd, s, right, to, left);
                    } else if left.min(panel) <= 2 * one || const { abreast::<S>() == 2 } {
                        block::<T, S, R, 2>(simd, s, right, to, left.min(panel));
                    } else if R <= const { rows::<S>(MOST_ABREAST) } {
                        block::<T, S, R, MOST_ABREAST>(simd, s, right, to, left.min(panel));
                    }
                }
                right = right.wrapping_offset(s.right_steps.1);
                to = to.wrapping_offset(panel as isize * s.to_steps.1);
                left = left.saturating_sub(panel);
            }
        },
    );
}

/// The sums of one panel, of which `columns` count.
#[inline(always)]
unsafe fn block<T: Element, S: Simd, const R: usize, const V: usize>(
    simd: S,
    s: &Strip,
    right: *const T,
    to: *mut T,
    columns: usize,
) {
    let len = T::len::<S>();
    if s.terms >= LONG {
        for r in 0..R {
            let to = to.wrapping_offset(r as isize * s.to_steps.0);
            for v in 0..V {
                prefetch(to.wrapping_add(v * len));
            }
        }
    }
    // SAFETY: the caller's contract.
    let sums = unsafe { products::<T, S, R, V>(simd, s, right) };
    if columns == V * len && s.to_steps.1 == 1 {
        for (r, row) in sums.into_iter().enumerate() {
            for (v, sum) in row.into_iter().enumerate() {
                // SAFETY: the result holds whole panels.
                unsafe {
                    let to = to.offset(r as isize * s.to_steps.0).add(v * len);
                    T::store::<S>(if s.add { T::add::<S>(T::load(simd, to), sum) } else { sum }, to);
                }
            }
        }
        return;
    }
    let mut rest = [T::ZERO; SUMS];
    for (r, row) in sums.into_iter().enumerate() {
        for (v, sum) in row.into_iter().enumerate() {
            // SAFETY: there is room for the sums of all rows.
            unsafe { T::store::<S>(sum, rest.as_mut_ptr().add((r * V + v) * len)) };
        }
    }
    for r in 0..R {
        for j in 0..columns {
            let sum = rest[r * V * len + j];
            // SAFETY: the result holds so many columns.
            unsafe {
                let to = to.offset(r as isize * s.to_steps.0 + j as isize * s.to_steps.1);
                to.write(if s.add { to.read().sum(sum) } else { sum });
            }
        }
    }
}

#[inline(always)]
unsafe fn products<T: Element, S: Simd, const R: usize, const V: usize>(
    simd: S,
    s: &Strip,
    mut right: *const T,
) -> [[T::Register<S>; V]; R] {
    let len = T::len::<S>();
    let mut sums = [[T::splat(simd, T::ZERO); V]; R];
    let (row, term) = s.left_steps;
    // The compiler would otherwise reach each row from the one before it: a chain of additions as long as the products,
    // which also take the ports of multiplications.
    let offsets: [isize; GROUP] = std::array::from_fn(|r| if r == 0 { 0 } else { black_box(r as isize * row) });
    let mut left: [*const T; GROUPS] =
        std::array::from_fn(|group| black_box(s.left.cast::<T>().wrapping_offset((group * GROUP) as isize * row)));
    let mut ahead = right.wrapping_offset(AHEAD * s.right_steps.0).cast_mut();
    for _ in 0..s.terms {
        // SAFETY: the operands hold all terms.
        unsafe {
            for v in 0..V {
                prefetch(ahead.wrapping_add(v * len));
            }
            let factors: [T::Register<S>; V] = std::array::from_fn(|v| T::load(simd, right.add(v * len)));
            each_row!(r < R: {
                let x = T::splat(simd, left[r / GROUP].offset(offsets[r % GROUP]).read());
                for v in 0..V {
                    sums[r][v] = T::mul_add::<S>(x, factors[v], sums[r][v]);
                }
            });
        }
        for left in &mut left {
            *left = left.wrapping_offset(term);
        }
        right = right.wrapping_offset(s.right_steps.0);
        ahead = ahead.wrapping_offset(s.right_steps.0);
    }
    sums
}

/// Asks for the line at `to`, which need not exist.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch<T>(to: *mut T) {
    // SAFETY: a prefetch never faults.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(to.cast_const().cast()) };
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn prefetch<T>(_: *mut T) {}
