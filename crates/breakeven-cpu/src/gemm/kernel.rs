//! The innermost loops: a strip of rows of the left operand times panels of the right one, sums in registers.

use fearless_simd::{Simd, SimdBase};

use super::element::Element;
use super::opaque::{opaque_place, opaque_step};
use crate::lanes::token;
use crate::prefetch::{prefetch, prefetch_second};

/// Most rows of a strip, on any instruction set.
pub(super) const MOST_ROWS: usize = 16;
/// Registers that hold a row of a whole panel, at most.
const MOST_ABREAST: usize = 3;
/// Elements of the largest block of sums: 24 registers of 16.
const SUMS: usize = 24 * 16;

/// Rows that are reached from one pointer.
const GROUP: usize = 6;
const GROUPS: usize = MOST_ROWS.div_ceil(GROUP);

/// Says `$body` for each row: written out, since the compiler does not unroll so long a loop before it gives out registers, and
/// sums that a loop reaches by an index are kept in memory.
macro_rules! each_row {
    ($r:ident < $R:ident: $body:block) => {
        each_row!($r < $R: $body; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    ($r:ident < $R:ident: $body:block; $($row:literal)+) => {$(
        if $row < $R {
            let $r: usize = $row;
            $body
        }
    )+};
}

const CACHE_LINE: usize = 64;

/// Terms by which the right operand is asked for early: about the time that the second-level cache takes.
const AHEAD: isize = 8;
/// The same where a term is one register: few rows read such panels once, from memory.
const FAR_AHEAD: isize = 32;
/// The same for a packed left operand, whose lines have two terms or more each: a panel is as large as the first-level cache,
/// so that a strip is out of it when the next panel wants it.
const LEFT_AHEAD: isize = 16;
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
    /// What the strip after this one will read.
    pub next: Next,
}

/// Lines of memory that will be read soon, asked for little by little.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    pub from: *const u8,
    pub lines: usize,
    /// Bytes from line to line.
    pub step: isize,
    /// Bytes of each.
    pub bytes: usize,
}

impl Next {
    /// Nothing.
    pub const NONE: Next = Next { from: std::ptr::null(), lines: 0, step: 0, bytes: 0 };

    /// Asks for part `part` of so many: some bytes of all lines, or some of the lines.
    #[inline(always)]
    pub(super) fn fetch(&self, part: usize, parts: usize) {
        let share = |all: usize| all * part / parts..all * (part + 1) / parts;
        let (lines, bytes) = if self.bytes > CACHE_LINE {
            (0..self.lines, share(self.bytes))
        } else {
            (share(self.lines), 0..self.bytes)
        };
        for line in lines {
            let from = self.from.wrapping_offset(line as isize * self.step);
            for at in bytes.clone().step_by(CACHE_LINE) {
                prefetch_second(from.wrapping_add(at));
            }
        }
    }
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
    let has_many = abreast::<S>() == MOST_ABREAST;
    match (S::f32s::LEN, registers) {
        (_, 1) if has_many => MOST_ROWS,
        (_, 2) if has_many => 12,
        _ if has_many => 8,
        (_, 1) => 12,
        (8, _) => 6,
        _ => 5,
    }
}

/// Rows of a strip and columns of a panel: first for wide panels, then for those of two registers, then of one.
pub(super) fn widths<T: Element, S: Simd>() -> [(usize, usize); 3] {
    [abreast::<S>(), 2, 1].map(|registers| (rows::<S>(registers), registers * T::len::<S>()))
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
        strip::<T, S, 13>,
        strip::<T, S, 14>,
        strip::<T, S, 15>,
        strip::<T, S, 16>,
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
            let (mut left, parts) = (s.columns, s.columns.div_ceil(panel));
            for part in 0..parts {
                if s.next.lines > 0 {
                    s.next.fetch(part, parts);
                }
                // SAFETY: the caller's contract.
                unsafe {
                    if left.min(panel) <= one {
                        block::<T, S, R, 1>(simd, s, right, to, left.min(panel));
                    } else if left.min(panel) <= 2 * one || const { abreast::<S>() == 2 } {
                        if R <= const { rows::<S>(2) } {
                            block::<T, S, R, 2>(simd, s, right, to, left.min(panel));
                        }
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
                prefetch(to.wrapping_add(v * len).cast_const());
            }
        }
    }
    // SAFETY: the caller's contract.
    unsafe {
        let sums = products::<T, S, R, V>(simd, s, right);
        if s.to_steps.1 == 1 {
            write_rows::<T, S, R, V>(simd, s, &sums, to, columns);
        } else {
            write_anywhere::<T, S, R, V>(s, &sums, to, columns);
        }
    }
}

/// Writes sums whose columns are neighbours.
#[inline(always)]
unsafe fn write_rows<T: Element, S: Simd, const R: usize, const V: usize>(
    simd: S,
    s: &Strip,
    sums: &[[T::Register<S>; V]; R],
    to: *mut T,
    columns: usize,
) {
    let len = T::len::<S>();
    // Only the last register of a row can have fewer columns.
    let whole = if columns == V * len { V } else { V - 1 };
    each_row!(r < R: {
        let to = to.wrapping_offset(r as isize * s.to_steps.0);
        // SAFETY: the result holds so many columns.
        unsafe {
            for v in 0..V {
                let (to, sum) = (to.add(v * len), sums[r][v]);
                if v < whole {
                    T::store::<S>(if s.add { T::add::<S>(T::load(simd, to), sum) } else { sum }, to);
                } else {
                    let rest = columns - whole * len;
                    let sum = if s.add { T::add::<S>(T::load_some(simd, to, rest), sum) } else { sum };
                    T::store_some::<S>(sum, to, rest);
                }
            }
        }
    });
}

/// Writes sums whose columns have gaps between them.
#[inline(always)]
unsafe fn write_anywhere<T: Element, S: Simd, const R: usize, const V: usize>(
    s: &Strip,
    sums: &[[T::Register<S>; V]; R],
    to: *mut T,
    columns: usize,
) {
    let len = T::len::<S>();
    let mut rest = [T::ZERO; SUMS];
    each_row!(r < R: {
        for v in 0..V {
            // SAFETY: there is room for the sums of all rows.
            unsafe { T::store::<S>(sums[r][v], rest.as_mut_ptr().add((r * V + v) * len)) };
        }
    });
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
    // The compiler would otherwise reach each row from the one before it, a chain of additions as long as the products, or keep
    // a pointer for each: more than there are registers, so that half of them are loaded anew for each term.
    let mut offsets = [0; GROUP];
    for r in 1..GROUP {
        offsets[r] = opaque_step(r as isize * row);
    }
    let mut left = [s.left.cast::<T>(); GROUPS];
    for g in 1..R.div_ceil(GROUP) {
        left[g] = left[0].wrapping_offset((g * GROUP) as isize * row);
    }
    let terms_ahead = if V == 1 { FAR_AHEAD } else { AHEAD };
    let mut ahead = right.wrapping_offset(terms_ahead * s.right_steps.0);
    for _ in 0..s.terms {
        // SAFETY: the operands hold all terms.
        unsafe {
            for v in 0..V {
                prefetch(ahead.wrapping_add(v * len));
            }
            // Rows of one register leave no load to spare.
            if V > 1 {
                prefetch(left[0].wrapping_offset(LEFT_AHEAD * term));
            }
            // Closures in an inner loop are calls where a program is built without optimization across its units.
            let mut factors = [T::splat(simd, T::ZERO); V];
            for v in 0..V {
                factors[v] = T::load(simd, right.add(v * len));
            }
            each_row!(r < R: {
                let x = T::splat(simd, left[r / GROUP].offset(offsets[r % GROUP]).read());
                for v in 0..V {
                    sums[r][v] = T::mul_add::<S>(x, factors[v], sums[r][v]);
                }
            });
        }
        for g in 0..R.div_ceil(GROUP) {
            left[g] = opaque_place(left[g].wrapping_offset(term));
        }
        right = right.wrapping_offset(s.right_steps.0);
        ahead = ahead.wrapping_offset(s.right_steps.0);
    }
    sums
}
