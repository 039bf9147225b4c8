//! Sums of lines times weights, f32, each line a place of its own in a plane: the inner loop of convolutions.

use breakeven_ir::Float;
use fearless_simd::{Simd, SimdBase};

use crate::lanes::{Chunk, Lanes, token};

/// `to[o][p] = sum over t of weight[o][t] * x[offsets[t] + p]`, for rows of `to` that are rounded up to whole registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shifts<'a> {
    pub x: *const f32,
    /// Where the line of each term begins.
    pub offsets: &'a [u32],
    pub weight: *const f32,
    /// Elements from one row of weights to the next; terms are neighbours.
    pub row: isize,
    /// How many rows.
    pub outs: usize,
    pub to: *mut f32,
    /// Elements from one row of sums to the next.
    pub pitch: usize,
    /// How many sums each row has.
    pub places: usize,
    /// Sums are added to what is there.
    pub add: bool,
}

/// The loop of one instruction set.
pub(crate) type SumShifts = unsafe fn(&Shifts<'_>);

/// Elements that may be read, and sums that may be written, after the last one: one less than the longest register has.
pub(crate) const SLACK: usize = 15;

/// The loop compiled for `S`. Its argument must hold what it says, with [`SLACK`] elements after each line and row.
pub(crate) fn with<S: Simd>(_: S) -> SumShifts {
    run::<S>
}

/// Registers hold sums of eight rows where there are 32 of them, of four where there are 16.
const fn has_many_registers(lanes: usize) -> bool {
    lanes == 16 || cfg!(target_arch = "aarch64")
}

unsafe fn run<S: Simd>(s: &Shifts<'_>) {
    // SAFETY: tables of `S` are only built with a value of `S` at hand.
    let simd = unsafe { token::<S>() };
    simd.vectorize(
        #[inline(always)]
        || {
            let vectors = s.places.div_ceil(S::f32s::LEN);
            // SAFETY: the caller's contract.
            unsafe { if s.outs < 3 { few::<S>(s, vectors) } else { many::<S>(s, vectors) } }
        },
    );
}

/// One or two rows: long stretches of each, so that enough sums are under way at once.
#[inline(always)]
unsafe fn few<S: Simd>(s: &Shifts<'_>, vectors: usize) {
    let mut at = 0;
    while at < vectors {
        let left = vectors - at;
        // SAFETY: the caller's contract.
        unsafe {
            at += match (s.outs, left) {
                (2, 4..) => block::<S, 2, 4>(s, 0, at),
                (2, 2..) => block::<S, 2, 2>(s, 0, at),
                (2, _) => block::<S, 2, 1>(s, 0, at),
                (_, 8..) => block::<S, 1, 8>(s, 0, at),
                (_, 4..) => block::<S, 1, 4>(s, 0, at),
                (_, 2..) => block::<S, 1, 2>(s, 0, at),
                (..) => block::<S, 1, 1>(s, 0, at),
            };
        }
    }
}

/// All rows at three registers of places, then at the next: what those see stays in the first-level cache.
#[inline(always)]
unsafe fn many<S: Simd>(s: &Shifts<'_>, vectors: usize) {
    let mut at = 0;
    while at < vectors {
        let left = vectors - at;
        // Four are two and two, which keeps more sums under way than three and one.
        let wide = if left == 4 { 2 } else { left.min(3) };
        // SAFETY: the caller's contract.
        unsafe {
            match wide {
                3 => rows::<S, 3>(s, at),
                2 => rows::<S, 2>(s, at),
                _ => rows::<S, 1>(s, at),
            }
        }
        at += wide;
    }
}

#[inline(always)]
unsafe fn rows<S: Simd, const X: usize>(s: &Shifts<'_>, at: usize) {
    let mut out = 0;
    // SAFETY: the caller's contract.
    unsafe {
        while has_many_registers(S::f32s::LEN) && out + 8 <= s.outs {
            block::<S, 8, X>(s, out, at);
            out += 8;
        }
        while out + 4 <= s.outs {
            block::<S, 4, X>(s, out, at);
            out += 4;
        }
        if out + 2 <= s.outs {
            block::<S, 2, X>(s, out, at);
            out += 2;
        }
        if out < s.outs {
            block::<S, 1, X>(s, out, at);
        }
    }
}

/// The sums of `O` rows from `out` on at `X` registers of places from register `at` on; gives `X`.
#[inline(always)]
unsafe fn block<S: Simd, const O: usize, const X: usize>(s: &Shifts<'_>, out: usize, at: usize) -> usize {
    let len = S::f32s::LEN;
    // SAFETY: tables of `S` are only built with a value of `S` at hand; the caller vouches for lines, weights and sums.
    unsafe {
        let simd = token::<S>();
        let zero = Lanes::<S>(S::f32s::splat(simd, 0.0));
        let mut sums = [[zero; X]; O];
        let weight: [*const f32; O] = std::array::from_fn(|o| s.weight.offset((out + o) as isize * s.row));
        let x = s.x.add(at * len);
        for (term, &offset) in s.offsets.iter().enumerate() {
            let from = x.add(offset as usize);
            let mut line = [zero; X];
            for k in 0..X {
                line[k] = Lanes::<S>::load(from.add(k * len).cast());
            }
            for o in 0..O {
                let factor = Lanes::<S>(S::f32s::splat(simd, weight[o].add(term).read()));
                for k in 0..X {
                    sums[o][k] = line[k].mul_add(factor, sums[o][k]);
                }
            }
        }
        for o in 0..O {
            for k in 0..X {
                let place = s.to.add((out + o) * s.pitch + (at + k) * len);
                let before = if s.add { Lanes::<S>::load(place.cast_const().cast()) } else { zero };
                (before + sums[o][k]).store(place.cast());
            }
        }
    }
    X
}
