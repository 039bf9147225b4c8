//! Sweeps: softmax and norms over rows that lie without gaps.

mod kinds;
mod swept;

use breakeven_ir::{DType, Float, RowWise};
use fearless_simd::Simd;

use crate::domain::BLOCK;
use crate::lanes::{Chunk, Lanes, Plain, token};
use kinds::{Kind, LayerNorm, LogSoftmax, RmsNorm, Softmax};
use swept::Swept;

/// Works rows, none of them empty.
pub(crate) type Sweep = unsafe fn(&Task);

/// Rows to work: where they lie and where the results go, which may be the same place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub from: *const u8,
    pub to: *mut u8,
    /// How many rows.
    pub rows: usize,
    /// Bytes from row to row, of both sides.
    pub steps: (isize, isize),
    /// Elements of a row.
    pub length: usize,
    /// Added to a variance.
    pub epsilon: f64,
}

impl Task {
    /// Calls `work(from, to)` for each row.
    #[inline(always)]
    fn each<T>(&self, work: impl Fn(*const T, *mut T)) {
        for row in 0..self.rows as isize {
            let from = self.from.wrapping_offset(row * self.steps.0);
            work(from.cast(), self.to.wrapping_offset(row * self.steps.1).cast());
        }
    }
}

/// Elements of a row that are swept at a time: what a row adds up to is the sum over its runs, on however many threads.
pub(crate) const RUN: usize = 32 * BLOCK;

/// Part of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub from: *const u8,
    pub to: *mut u8,
    pub n: usize,
}

/// What is known of a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// Elements of it.
    pub length: usize,
    /// Added to a variance.
    pub epsilon: f64,
    /// Its maximum or mean.
    pub middle: f64,
    /// Sum over its elements of whatever depends on the middle.
    pub total: f64,
}

/// The passes over a row, by runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stages {
    /// The maximum or sum of a run.
    pub first: unsafe fn(&Piece) -> f64,
    /// The middle of a row of so many elements, from what its runs gave.
    pub middle: fn(&[f64], usize) -> f64,
    /// What a run adds to the total.
    pub second: unsafe fn(&Piece, &Known) -> f64,
    /// Writes the results of a run.
    pub finish: unsafe fn(&Piece, &Known),
}

/// The loops of one kind of sweep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SweepFns {
    /// Sweeps rows.
    pub rows: Sweep,
    /// Sweeps one by several threads.
    pub stages: Stages,
}

/// All sweeps for one instruction set.
pub(crate) struct Sweeps([(DType, [SweepFns; 4]); 2]);

impl Sweeps {
    /// Compiled for `S`.
    pub fn with<S: Simd>(_: S) -> Sweeps {
        Sweeps([(DType::F32, all::<f32, Lanes<S>, S>()), (DType::F64, all::<f64, Plain<f64>, S>())])
    }

    /// The sweep of `kind` over rows of `dtype`, and its epsilon.
    pub fn get(&self, kind: RowWise, dtype: DType) -> Option<(SweepFns, f64)> {
        let (at, epsilon) = match kind {
            RowWise::Softmax => (0, 0.0),
            RowWise::LogSoftmax => (1, 0.0),
            RowWise::LayerNorm { epsilon } => (2, epsilon),
            RowWise::RmsNorm { epsilon } => (3, epsilon),
        };
        self.0.iter().find(|(d, _)| *d == dtype).map(|(_, sweeps)| (sweeps[at], epsilon))
    }
}

fn all<T: Swept, V: Float + Chunk, S: Simd>() -> [SweepFns; 4] {
    [fns::<Softmax, T, V, S>(), fns::<LogSoftmax, T, V, S>(), fns::<LayerNorm, T, V, S>(), fns::<RmsNorm, T, V, S>()]
}

/// The middle of a row of `length` elements, from what its runs gave.
fn middle<K: Kind>(firsts: &[f64], length: usize) -> f64 {
    let larger = |a: f64, b: f64| if a > b || a.is_nan() { a } else { b };
    let join = |a: f64, &b: &f64| if K::MAXIMUM { larger(a, b) } else { a + b };
    let all = firsts[1..].iter().fold(firsts[0], join);
    if K::MAXIMUM { all } else { all / length as f64 }
}

fn fns<K: Kind, T: Swept, V: Float + Chunk, S: Simd>() -> SweepFns {
    let stages = Stages {
        first: first::<K, T, S>,
        middle: middle::<K>,
        second: second::<K, T, V, S>,
        finish: finish::<K, T, V, S>,
    };
    SweepFns { rows: rows::<K, T, V, S>, stages }
}

macro_rules! with_simd {
    ($S:ty, $simd:ident => $then:expr) => {{
        // SAFETY: tables of `S` are only built with a value of `S` at hand.
        let $simd = unsafe { token::<$S>() };
        $simd.vectorize(
            #[inline(always)]
            // SAFETY: the caller vouches for the elements of what it hands over, on both sides.
            || unsafe { $then },
        )
    }};
}

unsafe fn rows<K: Kind, T: Swept, V: Float + Chunk, S: Simd>(task: &Task) {
    with_simd!(S, simd => {
        task.each(
            #[inline(always)]
            |from: *const T, to: *mut T| one_row::<K, T, V, S>(simd, from, to, task),
        );
    });
}

#[inline(always)]
unsafe fn one_row<K: Kind, T: Swept, V: Float + Chunk, S: Simd>(simd: S, from: *const T, to: *mut T, task: &Task) {
    let n = task.length;
    let mut known = Known { length: n, epsilon: task.epsilon, ..Known::default() };
    // SAFETY: the caller vouches for `n` elements at both places.
    unsafe {
        if n <= RUN {
            known.middle = middle::<K>(&[K::first::<T, S>(simd, from, n)], n);
            known.total = K::second::<T, V, S>(simd, (from, to, n), &known, task.steps.0);
        } else {
            let mut firsts = Vec::with_capacity(n.div_ceil(RUN));
            for start in (0..n).step_by(RUN) {
                firsts.push(K::first::<T, S>(simd, from.add(start), RUN.min(n - start)));
            }
            known.middle = middle::<K>(&firsts, n);
            for start in (0..n).step_by(RUN) {
                let run = (from.add(start), to.add(start), RUN.min(n - start));
                known.total += K::second::<T, V, S>(simd, run, &known, task.steps.0);
            }
        }
        K::finish::<T, V, S>(simd, (from, to, n), &known);
    }
}

unsafe fn first<K: Kind, T: Swept, S: Simd>(piece: &Piece) -> f64 {
    with_simd!(S, simd => K::first::<T, S>(simd, piece.from.cast(), piece.n))
}

unsafe fn second<K: Kind, T: Swept, V: Float + Chunk, S: Simd>(piece: &Piece, known: &Known) -> f64 {
    with_simd!(S, simd => K::second::<T, V, S>(simd, (piece.from.cast(), piece.to.cast(), piece.n), known, 0))
}

unsafe fn finish<K: Kind, T: Swept, V: Float + Chunk, S: Simd>(piece: &Piece, known: &Known) {
    with_simd!(S, simd => K::finish::<T, V, S>(simd, (piece.from.cast(), piece.to.cast(), piece.n), known));
}
