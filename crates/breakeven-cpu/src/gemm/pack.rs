//! Packing: lines of an operand (rows of the left one, columns of the right one) are copied in the order in which the
//! innermost loop reads them, and widened on the way.

use fearless_simd::Simd;

use super::element::{Element, SIDE, Source};
use crate::lanes::token;
use crate::prefetch::prefetch_second;

/// Some lines of an operand, which lie anywhere.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_field_names, reason = "how many lines it has stands beside how many terms each has")]
pub(crate) struct Lines {
    pub from: *const u8,
    pub lines: usize,
    pub terms: usize,
    /// Elements from line to line.
    pub across: isize,
    /// Elements from term to term.
    pub along: isize,
}

const CACHE_LINE: usize = 64;
/// Terms by which lines are asked for early: each may lie on another page, where no processor looks ahead by itself, and
/// all on few sets of the first-level cache, which would not hold them.
const AHEAD: isize = 32;

/// Where a packed strip has its rows and terms, in elements.
pub(super) type Steps = (isize, isize);

/// Packs a strip of rows.
pub(super) type PackLeft = unsafe fn(&Lines, *mut u8) -> Steps;
/// Packs a panel of columns, zeros after the last one: for each term, a row of so many.
pub(super) type PackRight = unsafe fn(&Lines, *mut u8, usize);

/// Elements between packed rows beyond their terms: rows that start a power of two apart would share few lines of the
/// first-level cache.
pub(super) const GAP: usize = 16;

/// Elements of a packed strip.
pub(super) fn strip_elements(rows: usize, terms: usize) -> usize {
    rows * (terms + GAP)
}

/// # Safety
/// `p.from` must hold the lines, `to` have room for [`strip_elements`].
pub(super) unsafe fn pack_left<F: Source, S: Simd>(p: &Lines, to: *mut u8) -> Steps {
    // SAFETY: tables of `S` are only built with a value of `S` at hand.
    let simd = unsafe { token::<S>() };
    let (from, to) = (p.from.cast::<F>(), to.cast::<F::Packed>());
    simd.vectorize(
        #[inline(always)]
        || {
            if p.along == 1 && p.lines == SIDE {
                // SAFETY: the caller's contract.
                unsafe { pack_lines::<F, S>(p, to, SIDE) };
                return (1, SIDE as isize);
            }
            let by_row = p.along == 1;
            let (lines, steps) = if by_row { (p.lines, p.across) } else { (p.terms, p.along) };
            let (length, step) = if by_row { (p.terms, p.along) } else { (p.lines, p.across) };
            let pitch = if by_row { p.terms + GAP } else { p.lines };
            for line in 0..lines {
                let from = from.wrapping_offset(line as isize * steps);
                // SAFETY: the caller's contract.
                unsafe { copy(simd, from, step, to.add(line * pitch), length) };
            }
            if by_row { (pitch as isize, 1) } else { (1, pitch as isize) }
        },
    )
}

/// # Safety
/// `p.from` must hold the lines, `to` have room for a panel of so many terms, each `width` columns.
pub(super) unsafe fn pack_right<F: Source, S: Simd>(p: &Lines, to: *mut u8, width: usize) {
    // SAFETY: tables of `S` are only built with a value of `S` at hand.
    let simd = unsafe { token::<S>() };
    let len = F::Packed::len::<S>();
    simd.vectorize(
        #[inline(always)]
        || {
            // SAFETY: the caller's contract.
            unsafe {
                if p.across == 1 && p.lines == 2 * len && width == 2 * len {
                    pack_rows::<F, S>(simd, p, to, 2 * len);
                } else if p.across == 1 && p.lines == 3 * len && width == 3 * len {
                    pack_rows::<F, S>(simd, p, to, 3 * len);
                } else if p.along == 1 && p.across != 1 {
                    pack_lines::<F, S>(p, to.cast(), width);
                } else {
                    pack_any::<F, S>(simd, p, to.cast(), width);
                }
            }
        },
    );
}

/// Neighbouring columns, as many as the compiler knows of.
#[inline(always)]
unsafe fn pack_rows<F: Source, S: Simd>(simd: S, p: &Lines, to: *mut u8, width: usize) {
    let (mut from, mut to) = (p.from.cast::<F>(), to.cast::<F::Packed>());
    for _ in 0..p.terms {
        let ahead = from.wrapping_offset(AHEAD * p.along);
        for at in (0..width * size_of::<F>()).step_by(CACHE_LINE) {
            prefetch_second(ahead.cast::<u8>().wrapping_add(at));
        }
        // SAFETY: the caller's contract.
        unsafe { copy(simd, from, 1, to, width) };
        (from, to) = (from.wrapping_offset(p.along), to.wrapping_add(width));
    }
}

#[inline(always)]
unsafe fn pack_any<F: Source, S: Simd>(simd: S, p: &Lines, to: *mut F::Packed, width: usize) {
    if p.lines < width {
        // SAFETY: the caller's contract; zero bytes are a zero.
        unsafe { to.write_bytes(0, p.terms * width) };
    }
    for term in 0..p.terms {
        let from = p.from.cast::<F>().wrapping_offset(term as isize * p.along);
        // SAFETY: as above.
        unsafe { copy(simd, from, p.across, to.add(term * width), p.lines) };
    }
}

/// Columns whose terms are neighbours: squares of them are turned.
#[inline(always)]
unsafe fn pack_lines<F: Source, S: Simd>(p: &Lines, to: *mut F::Packed, width: usize) {
    let (terms, lines) = (p.terms - p.terms % SIDE, p.lines - p.lines % SIDE);
    let place =
        |line: usize, term: usize| p.from.cast::<F>().wrapping_offset(line as isize * p.across).wrapping_add(term);
    for line in (0..lines).step_by(SIDE) {
        for term in (0..terms).step_by(SIDE) {
            // SAFETY: the square lies in the operand, and there is room for it.
            unsafe { F::turn::<S>(place(line, term), p.across, to.add(term * width + line), width) };
        }
    }
    let first = if lines == width { terms } else { 0 };
    for term in first..p.terms {
        let done = if term < terms { lines } else { 0 };
        for line in done..width {
            // SAFETY: as above.
            unsafe {
                let value = if line < p.lines { place(line, term).read().packed() } else { F::Packed::ZERO };
                to.add(term * width + line).write(value);
            }
        }
    }
}

#[inline(always)]
unsafe fn copy<F: Source, S: Simd>(simd: S, from: *const F, step: isize, to: *mut F::Packed, n: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        if step == 1 {
            return F::pack_run(simd, from, to, n);
        }
        for i in 0..n {
            to.add(i).write(from.offset(i as isize * step).read().packed());
        }
    }
}
