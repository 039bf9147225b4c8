//! Products of a matrix and a vector, f32: memory sets their pace, so each element of the matrix is read once, in order.

use breakeven_ir::Float;
use fearless_simd::{Simd, SimdBase};

use crate::lanes::{Chunk, Lanes, token};

/// A matrix times a vector. Which strides must be 1 is up to the loop that takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatVec {
    pub matrix: *const f32,
    /// Elements from one result's row of the matrix to the next.
    pub row: isize,
    /// Elements from one term of a sum to the next.
    pub term: isize,
    pub vector: *const f32,
    /// Elements from one element of the vector to the next.
    pub step: isize,
    pub out: *mut f32,
    /// Elements from one result to the next.
    pub out_step: isize,
    /// How many results.
    pub rows: usize,
    /// How many terms each sum has.
    pub terms: usize,
}

/// The loops of one instruction set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vectors {
    /// For a matrix and a vector whose terms are neighbours.
    pub dots: unsafe fn(&MatVec),
    /// For a matrix whose rows are neighbours, one beside the other.
    pub sums: unsafe fn(&MatVec),
}

impl Vectors {
    /// Compiled for `S`.
    pub fn with<S: Simd>(_: S) -> Vectors {
        Vectors { dots: dots::<S>, sums: sums::<S> }
    }
}

/// Rows that share each load of the vector.
const ABREAST: usize = 4;

unsafe fn dots<S: Simd>(p: &MatVec) {
    // SAFETY: tables of `S` are only built with a value of `S` at hand.
    let simd = unsafe { token::<S>() };
    let row = |i: usize| p.matrix.wrapping_offset(i as isize * p.row);
    simd.vectorize(
        #[inline(always)]
        || {
            let whole = p.rows - p.rows % ABREAST;
            for i in (0..whole).step_by(ABREAST) {
                // SAFETY: the caller vouches for all operands.
                unsafe {
                    let rows: [_; ABREAST] = std::array::from_fn(|k| row(i + k));
                    for (k, x) in dot::<S, ABREAST>(simd, rows, p.vector, p.terms).into_iter().enumerate() {
                        p.out.offset((i + k) as isize * p.out_step).write(x);
                    }
                }
            }
            for i in whole..p.rows {
                // SAFETY: as above. A row takes the same order of terms however many go abreast.
                unsafe {
                    let [x] = dot::<S, 1>(simd, [row(i)], p.vector, p.terms);
                    p.out.offset(i as isize * p.out_step).write(x);
                }
            }
        },
    );
}

/// Dot products of `N` rows with one vector, two registers of partial sums for each.
#[inline(always)]
unsafe fn dot<S: Simd, const N: usize>(simd: S, rows: [*const f32; N], vector: *const f32, terms: usize) -> [f32; N] {
    let len = S::f32s::LEN;
    let whole = terms - terms % (2 * len);
    let mut sums = [[Lanes::<S>(S::f32s::splat(simd, 0.0)); 2]; N];
    for at in (0..whole).step_by(2 * len) {
        for half in 0..2 {
            // SAFETY: `at + 2 * LEN` terms lie within the operands.
            unsafe {
                let at = at + half * len;
                let x = Lanes::<S>::load(vector.add(at).cast());
                for k in 0..N {
                    sums[k][half] = Lanes::<S>::load(rows[k].add(at).cast()).mul_add(x, sums[k][half]);
                }
            }
        }
    }
    std::array::from_fn(|k| {
        let lanes = (sums[k][0] + sums[k][1]).0;
        let sum: f32 = lanes.as_slice().iter().sum();
        // SAFETY: `i < terms`.
        (whole..terms).fold(sum, |sum, i| unsafe { rows[k].add(i).read() * vector.add(i).read() } + sum)
    })
}

unsafe fn sums<S: Simd>(p: &MatVec) {
    // SAFETY: tables of `S` are only built with a value of `S` at hand.
    let simd = unsafe { token::<S>() };
    let mut sums = vec![0f32; p.rows];
    let whole = p.terms - p.terms % ABREAST;
    simd.vectorize(
        #[inline(always)]
        || {
            for term in (0..whole).step_by(ABREAST) {
                // SAFETY: the caller vouches for all operands.
                unsafe { add_terms::<S, ABREAST>(p, term, &mut sums) };
            }
            for term in whole..p.terms {
                // SAFETY: as above.
                unsafe { add_terms::<S, 1>(p, term, &mut sums) };
            }
        },
    );
    for (i, x) in sums.into_iter().enumerate() {
        // SAFETY: the caller vouches for all operands.
        unsafe { p.out.offset(i as isize * p.out_step).write(x) };
    }
}

/// Adds `N` terms from `term` on to every sum.
#[inline(always)]
unsafe fn add_terms<S: Simd, const N: usize>(p: &MatVec, term: usize, sums: &mut [f32]) {
    let len = S::f32s::LEN;
    let whole = sums.len() - sums.len() % len;
    // SAFETY: the caller vouches for all operands.
    unsafe {
        let lines: [_; N] = std::array::from_fn(|k| p.matrix.offset((term + k) as isize * p.term));
        let factors: [f32; N] = std::array::from_fn(|k| p.vector.offset((term + k) as isize * p.step).read());
        let wide = factors.map(|x| Lanes::<S>(S::f32s::splat(token(), x)));
        for at in (0..whole).step_by(len) {
            let place = sums.as_mut_ptr().add(at);
            let mut sum = Lanes::<S>::load(place.cast_const().cast());
            for k in 0..N {
                sum = Lanes::<S>::load(lines[k].add(at).cast()).mul_add(wide[k], sum);
            }
            sum.store(place.cast());
        }
        for at in whole..sums.len() {
            sums[at] = (0..N).fold(sums[at], |sum, k| lines[k].add(at).read() * factors[k] + sum);
        }
    }
}
