//! Bringing lines of f32 into planes, with zeros where there is no input.

use fearless_simd::{Simd, SimdBase};

use super::parts;
use crate::lanes::{Chunk, Lanes, token};
use crate::prefetch::prefetch;

/// Planes of some channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bring<'a> {
    pub x: *const f32,
    /// Elements from one channel to the next.
    pub apart: isize,
    pub channels: usize,
    pub planes: *mut f32,
    /// Elements from the planes of one channel to those of the next; those after the last line become zeros.
    pub per_channel: usize,
    /// For each line of a channel's planes where it lies in them, and where in the channel its row begins, if inside.
    pub lines: &'a [(usize, Option<isize>)],
    /// What each row gives lines of, a plane each.
    pub parts: &'a [Part],
    /// Elements from one line to the next, and from one part's plane to the next.
    pub steps: [usize; 2],
    /// Elements from one of a line to the next, in the channel.
    pub step: isize,
}

/// A part of a row: elements `before..before + seen` of a line, the first of which lies `from` elements into the row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub before: usize,
    pub seen: usize,
    pub from: isize,
}

/// The loop of one instruction set.
pub(crate) type BringLines = unsafe fn(&Bring<'_>);

/// The loop compiled for `S`. Planes must have room, rows must hold what is seen of them.
pub(crate) fn with<S: Simd>(_: S) -> BringLines {
    run::<S>
}

unsafe fn run<S: Simd>(b: &Bring<'_>) {
    // SAFETY: tables of `S` are only built with a value of `S` at hand.
    let simd = unsafe { token::<S>() };
    simd.vectorize(
        #[inline(always)]
        || {
            // SAFETY: the caller's contract.
            unsafe {
                match b.step {
                    1 => channels::<S, 1>(b),
                    2 => channels::<S, 2>(b),
                    _ => channels::<S, ANY>(b),
                }
            }
        },
    );
}

/// A step that is only known while running.
const ANY: usize = 0;

#[inline(always)]
unsafe fn channels<S: Simd, const STEP: usize>(b: &Bring<'_>) {
    let ends = b.lines.iter().map(|line| line.0 + b.steps[0]);
    let used = ends.max().unwrap_or(0) + (b.parts.len() - 1) * b.steps[1];
    for channel in 0..b.channels {
        let x = b.x.wrapping_offset(channel as isize * b.apart);
        let planes = b.planes.wrapping_add(channel * b.per_channel);
        // SAFETY: the caller's contract.
        unsafe {
            for &(to, from) in b.lines {
                for (number, part) in b.parts.iter().enumerate() {
                    let to = planes.wrapping_add(to + number * b.steps[1]);
                    match from {
                        Some(from) => line::<S, STEP>(b, part, x.wrapping_offset(from + part.from), to),
                        None => zeros::<S>(to, b.steps[0]),
                    }
                }
            }
            zeros::<S>(planes.wrapping_add(used), b.per_channel - used);
        }
    }
}

#[inline(always)]
unsafe fn line<S: Simd, const STEP: usize>(b: &Bring<'_>, part: &Part, from: *const f32, to: *mut f32) {
    let (seen, after) = (to.wrapping_add(part.before), part.before + part.seen);
    // SAFETY: the caller's contract.
    unsafe {
        zeros::<S>(to, part.before);
        match STEP {
            1 => copy::<S>(from, seen, part.seen, b.apart),
            2 => every_second::<S>(from, seen, part.seen, b.apart),
            _ => pick(from, b.step, seen, part.seen),
        }
        zeros::<S>(to.wrapping_add(after), b.steps[0] - after);
    }
}

#[inline(always)]
unsafe fn pick(from: *const f32, step: isize, to: *mut f32, n: usize) {
    let mut at = 0;
    while at < n {
        // SAFETY: the caller's contract.
        unsafe { to.add(at).write(from.offset(at as isize * step).read()) };
        at += 1;
    }
}

#[inline(always)]
unsafe fn every_second<S: Simd>(from: *const f32, to: *mut f32, n: usize, apart: isize) {
    let (len, mut at) = (S::f32s::LEN, 0);
    while at < n {
        let count = (n - at).min(len);
        // What lies after the last one may be nobody's.
        let span = 2 * count - 1;
        prefetch(from.wrapping_offset(apart).wrapping_add(2 * at));
        prefetch(from.wrapping_offset(apart).wrapping_add(2 * at + len));
        // SAFETY: the caller's contract.
        unsafe {
            let low = first::<S>(from.add(2 * at), span.min(len));
            let high = first::<S>(from.wrapping_add(2 * at + len), span.saturating_sub(len));
            let all = low.0.unzip_low(high.0);
            if count == len {
                Lanes::<S>(all).store(to.add(at).cast());
            } else {
                parts::store::<S>(all, to.wrapping_add(at), 0..count, false);
            }
        }
        at += len;
    }
}

/// The first `n` elements, at most a register, and zeros.
#[inline(always)]
unsafe fn first<S: Simd>(from: *const f32, n: usize) -> Lanes<S> {
    // SAFETY: the caller vouches for the elements.
    unsafe {
        let zero = Lanes::<S>(S::f32s::splat(token::<S>(), 0.0));
        if n == S::f32s::LEN { Lanes::<S>::load(from.cast()) } else { Lanes::<S>::load_first(from.cast(), n, zero) }
    }
}

/// Asks for the line of the next channel, which is too far away for a processor to look ahead by itself.
#[inline(always)]
unsafe fn copy<S: Simd>(from: *const f32, to: *mut f32, n: usize, apart: isize) {
    let len = S::f32s::LEN;
    // SAFETY: the caller's contract.
    unsafe {
        if n < len {
            return parts::store::<S>(first::<S>(from, n).0, to, 0..n, false);
        }
        let mut at = 0;
        while at < n {
            // The last register begins earlier, so that it ends with the line.
            let start = at.min(n - len);
            prefetch(from.wrapping_offset(apart).wrapping_add(start));
            Lanes::<S>::load(from.add(start).cast()).store(to.add(start).cast());
            at += len;
        }
    }
}

#[inline(always)]
unsafe fn zeros<S: Simd>(to: *mut f32, n: usize) {
    let len = S::f32s::LEN;
    // SAFETY: the caller's contract.
    unsafe {
        let zero = Lanes::<S>(S::f32s::splat(token::<S>(), 0.0));
        let mut at = 0;
        while at + len < n {
            zero.store(to.add(at).cast());
            at += len;
        }
        if at < n {
            parts::store::<S>(zero.0, to.wrapping_add(at), 0..n - at, false);
        }
    }
}
