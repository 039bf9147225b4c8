//! Sums of lines times weights, f32, each line a place of its own in a plane: the inner loop of convolutions.

/// Says `$body` for each register: written out, since sums stay in registers only where their numbers are known.
macro_rules! each_register {
    ($k:ident < $X:ident: $body:block) => {
        each_register!($k < $X: $body; 0 1 2 3 4 5 6 7)
    };
    ($k:ident < $X:ident: $body:block; $($register:literal)+) => {$(
        if $register < $X {
            let $k: usize = $register;
            $body
        }
    )+};
}

mod bring;
mod parts;
mod single;

use breakeven_ir::Float;
use fearless_simd::{Simd, SimdBase};

use crate::lanes::{Chunk, Lanes, token};
use crate::prefetch::prefetch;
pub(crate) use bring::{Bring, BringLines, Part, with as bring};

/// `sum over t of weight[o][t] * x[offsets[t] + p]` for each row `o` and place `p`, of which those count that lie in lines.
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
    pub lines: Lines,
    /// Sums are added to what is there.
    pub add: bool,
}

/// Which places count: `count` lines of `length` neighbours, `every` places from one line to the next, whose sums lie `step`
/// elements apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    pub count: usize,
    pub length: usize,
    pub every: usize,
    pub step: usize,
}

impl Lines {
    /// Places from the first to the last that counts.
    fn places(&self) -> usize {
        (self.count - 1) * self.every + self.length
    }
}

/// A place, as column of a line.
#[derive(Clone, Copy)]
struct Place {
    line: usize,
    column: usize,
}

impl Place {
    #[inline(always)]
    fn after(mut self, places: usize, every: usize) -> Place {
        self.column += places;
        while self.column >= every {
            self.column -= every;
            self.line += 1;
        }
        self
    }
}

/// The loop of one instruction set.
pub(crate) type SumShifts = unsafe fn(&Shifts<'_>);

/// Elements that may be read after the last one: one less than the longest register has.
pub(crate) const SLACK: usize = 15;
/// Weights of a cache line.
const NEAR: usize = 16;

/// The loop compiled for `S`. Its argument must hold what it says, with [`SLACK`] elements after each line of a term.
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
            let (len, lines) = (S::f32s::LEN, s.lines);
            let vectors = lines.places().div_ceil(len);
            // SAFETY: the caller's contract.
            unsafe {
                match s.outs {
                    1 if lines.count > 1 && lines.length >= len => single::sum::<S>(s),
                    1 | 2 => few::<S>(s, vectors),
                    _ => many::<S>(s, vectors),
                }
            }
        },
    );
}

/// Registers of places from `vector` on, which start at `place`.
#[derive(Clone, Copy)]
struct Stretch {
    vector: usize,
    place: Place,
    /// None follow.
    is_last: bool,
}

impl Stretch {
    const FIRST: Stretch = Stretch { vector: 0, place: Place { line: 0, column: 0 }, is_last: false };

    #[inline(always)]
    fn after<S: Simd>(self, vectors: usize, every: usize) -> Stretch {
        let place = self.place.after(vectors * S::f32s::LEN, every);
        Stretch { vector: self.vector + vectors, place, ..self }
    }
}

/// One or two rows: long stretches of each, so that enough sums are under way at once.
#[inline(always)]
unsafe fn few<S: Simd>(s: &Shifts<'_>, vectors: usize) {
    let mut at = Stretch::FIRST;
    while at.vector < vectors {
        // SAFETY: the caller's contract.
        let taken = unsafe {
            match (s.outs, vectors - at.vector) {
                (2, 4..) => block::<S, 2, 4>(s, 0, at),
                (2, 2..) => block::<S, 2, 2>(s, 0, at),
                (2, _) => block::<S, 2, 1>(s, 0, at),
                (_, 8..) => block::<S, 1, 8>(s, 0, at),
                (_, 4..) => block::<S, 1, 4>(s, 0, at),
                (_, 2..) => block::<S, 1, 2>(s, 0, at),
                (..) => block::<S, 1, 1>(s, 0, at),
            }
        };
        at = at.after::<S>(taken, s.lines.every);
    }
}

/// All rows at three registers of places, then at the next: what those see stays in the first-level cache.
#[inline(always)]
unsafe fn many<S: Simd>(s: &Shifts<'_>, vectors: usize) {
    let mut at = Stretch::FIRST;
    while at.vector < vectors {
        let left = vectors - at.vector;
        // Four are two and two, which keeps more sums under way than three and one.
        let wide = if left == 4 { 2 } else { left.min(3) };
        at.is_last = left == wide;
        // SAFETY: the caller's contract.
        unsafe {
            match wide {
                3 => rows::<S, 3>(s, at),
                2 => rows::<S, 2>(s, at),
                _ => rows::<S, 1>(s, at),
            }
        }
        at = at.after::<S>(wide, s.lines.every);
    }
}

#[inline(always)]
unsafe fn rows<S: Simd, const X: usize>(s: &Shifts<'_>, at: Stretch) {
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

/// The weights that will be wanted after those of `O` rows from `out` on: of the next rows, of the first ones again, or of the
/// next terms. They come from rows far apart, a few lines of each, where no processor looks ahead by itself.
#[inline(always)]
fn next_weights<const O: usize>(s: &Shifts<'_>, out: usize, at: Stretch) -> *const f32 {
    let terms = if at.is_last { s.offsets.len() } else { 0 };
    let next = if out + O < s.outs { s.weight.wrapping_offset((out + O) as isize * s.row) } else { s.weight };
    if out + O < s.outs { next } else { next.wrapping_add(terms) }
}

/// The sums of `O` rows from `out` on at `X` registers of places; gives `X`.
#[inline(always)]
unsafe fn block<S: Simd, const O: usize, const X: usize>(s: &Shifts<'_>, out: usize, at: Stretch) -> usize {
    let len = S::f32s::LEN;
    // SAFETY: tables of `S` are only built with a value of `S` at hand; the caller vouches for lines, weights and sums.
    unsafe {
        let simd = token::<S>();
        let zero = Lanes::<S>(S::f32s::splat(simd, 0.0));
        let mut sums = [[zero; X]; O];
        let weight: [*const f32; O] = std::array::from_fn(|o| s.weight.offset((out + o) as isize * s.row));
        let (next, x) = (next_weights::<O>(s, out, at), s.x.add(at.vector * len));
        for (term, &offset) in s.offsets.iter().enumerate() {
            let from = x.add(offset as usize);
            if O > 2 && term.is_multiple_of(NEAR / O) {
                let row = (term / (NEAR / O) % O) as isize;
                prefetch(next.wrapping_offset(row * s.row).wrapping_add(term / NEAR * NEAR));
            }
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
        each_register!(k < X: {
            write::<S, O, X>(s, out, at.place.after(k * len, s.lines.every), k, &sums);
        });
    }
    X
}

/// Writes those sums of register `k` of each row that count.
#[inline(always)]
unsafe fn write<S: Simd, const O: usize, const X: usize>(
    s: &Shifts<'_>,
    out: usize,
    mut place: Place,
    k: usize,
    sums: &[[Lanes<S>; X]; O],
) {
    let (len, lines) = (S::f32s::LEN, s.lines);
    if place.line < lines.count && place.column + len <= lines.length {
        let to = s.to.wrapping_add(out * s.pitch + place.line * lines.step + place.column);
        each_register!(o < O: {
            // SAFETY: the caller vouches for the sums of this line.
            unsafe { parts::store_all::<S>(sums[o][k], to.wrapping_add(o * s.pitch), s.add) };
        });
        return;
    }
    let mut lane = 0;
    while lane < len && place.line < lines.count {
        let end = (lane + lines.length.saturating_sub(place.column)).min(len);
        if lane < end {
            let start = (place.line * lines.step + place.column) as isize - lane as isize;
            let to = s.to.wrapping_add(out * s.pitch).wrapping_offset(start);
            each_register!(o < O: {
                // SAFETY: the caller vouches for the sums of this line.
                unsafe { parts::store::<S>(sums[o][k].0, to.wrapping_add(o * s.pitch), lane..end, s.add) };
            });
        }
        lane += lines.every - place.column;
        place = Place { line: place.line + 1, column: 0 };
    }
}
