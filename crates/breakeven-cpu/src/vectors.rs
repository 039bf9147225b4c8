//! Products of a matrix and a vector: memory sets their pace, so each element of the matrix is read once, in order.

use fearless_simd::Simd;

use crate::gemm::Element;
use crate::lanes::{array, token};

/// A matrix times a vector, both of one type. Which strides must be 1 is up to the loop that takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatVec {
    pub matrix: *const u8,
    /// Elements from one result's row of the matrix to the next.
    pub row: isize,
    /// Elements from one term of a sum to the next.
    pub term: isize,
    pub vector: *const u8,
    /// Elements from one element of the vector to the next.
    pub step: isize,
    pub out: *mut u8,
    /// Elements from one result to the next.
    pub out_step: isize,
    /// How many results.
    pub rows: usize,
    /// How many terms each sum has.
    pub terms: usize,
}

/// One loop.
pub(crate) type MatVecFn = unsafe fn(&MatVec);

/// The loops of one instruction set and type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vectors {
    /// For a matrix and a vector whose terms are neighbours.
    pub dots: MatVecFn,
    /// For a matrix whose rows are neighbours, one beside the other.
    pub sums: MatVecFn,
    /// The same for at most [`Vectors::most_of_few`] rows, whose sums stay in registers.
    pub few_sums: MatVecFn,
    pub most_of_few: usize,
}

impl Vectors {
    /// Compiled for `S`.
    pub fn with<T: Element, S: Simd>(_: S) -> Vectors {
        let most_of_few = FEW_REGISTERS * T::len::<S>();
        Vectors { dots: dots::<T, S>, sums: sums::<T, S>, few_sums: few_sums::<T, S>, most_of_few }
    }
}

/// Rows that share each load of the vector, and terms that share each load of the sums.
const ABREAST: usize = 4;
/// Registers of sums that [`ABREAST`] terms leave room for on every instruction set.
const FEW_REGISTERS: usize = 2;

unsafe fn dots<T: Element, S: Simd>(p: &MatVec) {
    // SAFETY: tables of `S` are only built with a value of `S` at hand.
    let simd = unsafe { token::<S>() };
    let row = |i: usize| p.matrix.cast::<T>().wrapping_offset(i as isize * p.row);
    let (vector, out) = (p.vector.cast::<T>(), p.out.cast::<T>());
    simd.vectorize(
        #[inline(always)]
        || {
            let whole = p.rows - p.rows % ABREAST;
            for i in (0..whole).step_by(ABREAST) {
                // SAFETY: the caller vouches for all operands.
                unsafe {
                    let rows: [_; ABREAST] = array(|k| row(i + k));
                    for (k, x) in dot::<T, S, ABREAST>(simd, rows, vector, p.terms).into_iter().enumerate() {
                        out.offset((i + k) as isize * p.out_step).write(x);
                    }
                }
            }
            for i in whole..p.rows {
                // SAFETY: as above. A row takes the same order of terms however many go abreast.
                unsafe {
                    let [x] = dot::<T, S, 1>(simd, [row(i)], vector, p.terms);
                    out.offset(i as isize * p.out_step).write(x);
                }
            }
        },
    );
}

/// Dot products of `N` rows with one vector, two registers of partial sums for each.
#[inline(always)]
unsafe fn dot<T: Element, S: Simd, const N: usize>(
    simd: S,
    rows: [*const T; N],
    vector: *const T,
    terms: usize,
) -> [T; N] {
    let len = T::len::<S>();
    let whole = terms - terms % (2 * len);
    let mut sums = [[T::splat(simd, T::ZERO); 2]; N];
    for at in (0..whole).step_by(2 * len) {
        for half in 0..2 {
            // SAFETY: `at + 2 * LEN` terms lie within the operands.
            unsafe {
                let at = at + half * len;
                let x = T::load(simd, vector.add(at));
                for k in 0..N {
                    sums[k][half] = T::mul_add::<S>(T::load(simd, rows[k].add(at)), x, sums[k][half]);
                }
            }
        }
    }
    array(|k| {
        let sum = T::sum_lanes::<S>(T::add::<S>(sums[k][0], sums[k][1]));
        // SAFETY: `i < terms`.
        (whole..terms).fold(sum, |sum, i| unsafe { rows[k].add(i).read().mul_add_one::<S>(vector.add(i).read(), sum) })
    })
}

unsafe fn sums<T: Element, S: Simd>(p: &MatVec) {
    // SAFETY: tables of `S` are only built with a value of `S` at hand.
    let simd = unsafe { token::<S>() };
    let mut sums = vec![T::ZERO; p.rows];
    let whole = p.terms - p.terms % ABREAST;
    simd.vectorize(
        #[inline(always)]
        || {
            for term in (0..whole).step_by(ABREAST) {
                // SAFETY: the caller vouches for all operands.
                unsafe { add_terms::<T, S, ABREAST>(simd, p, term, &mut sums) };
            }
            for term in whole..p.terms {
                // SAFETY: as above.
                unsafe { add_terms::<T, S, 1>(simd, p, term, &mut sums) };
            }
        },
    );
    for (i, x) in sums.into_iter().enumerate() {
        // SAFETY: the caller vouches for all operands.
        unsafe { p.out.cast::<T>().offset(i as isize * p.out_step).write(x) };
    }
}

/// Adds `N` terms from `term` on to every sum.
#[inline(always)]
unsafe fn add_terms<T: Element, S: Simd, const N: usize>(simd: S, p: &MatVec, term: usize, sums: &mut [T]) {
    let len = T::len::<S>();
    let whole = sums.len() - sums.len() % len;
    let rest = sums.len() - whole;
    // SAFETY: the caller vouches for all operands.
    unsafe {
        let (lines, wide) = terms::<T, S, N>(simd, p, term);
        for at in (0..whole).step_by(len) {
            let place = sums.as_mut_ptr().add(at);
            let mut sum = T::load(simd, place.cast_const());
            for k in 0..N {
                sum = T::mul_add::<S>(T::load(simd, lines[k].add(at)), wide[k], sum);
            }
            T::store::<S>(sum, place);
        }
        if rest > 0 {
            let place = sums.as_mut_ptr().add(whole);
            let mut sum = T::load_some(simd, place.cast_const(), rest);
            for k in 0..N {
                sum = T::mul_add::<S>(T::load_some(simd, lines[k].add(whole), rest), wide[k], sum);
            }
            T::store_some::<S>(sum, place, rest);
        }
    }
}

/// `N` lines of the matrix from `term` on, and the vector's elements for them.
#[inline(always)]
unsafe fn terms<T: Element, S: Simd, const N: usize>(
    simd: S,
    p: &MatVec,
    term: usize,
) -> ([*const T; N], [T::Register<S>; N]) {
    let line = |k: usize| p.matrix.cast::<T>().wrapping_offset((term + k) as isize * p.term);
    // SAFETY: the caller vouches for the vector.
    let factor = |k: usize| unsafe { p.vector.cast::<T>().offset((term + k) as isize * p.step).read() };
    (array(line), array(|k| T::splat(simd, factor(k))))
}

unsafe fn few_sums<T: Element, S: Simd>(p: &MatVec) {
    // SAFETY: tables of `S` are only built with a value of `S` at hand.
    let simd = unsafe { token::<S>() };
    simd.vectorize(
        #[inline(always)]
        || {
            // SAFETY: the caller's contract.
            unsafe {
                if p.rows <= T::len::<S>() { few::<T, S, 1>(simd, p) } else { few::<T, S, FEW_REGISTERS>(simd, p) }
            }
        },
    );
}

/// Sums of `V` registers, the last of which may have fewer elements; a partial sum for each of [`ABREAST`] terms.
#[inline(always)]
unsafe fn few<T: Element, S: Simd, const V: usize>(simd: S, p: &MatVec) {
    let (len, zero) = (T::len::<S>(), T::splat(simd, T::ZERO));
    let rest = p.rows - (V - 1) * len;
    // SAFETY: the caller vouches for all operands.
    let load = |line: *const T, v: usize| unsafe {
        let from = line.add(v * len);
        if v + 1 < V || rest == len { T::load(simd, from) } else { T::load_some(simd, from, rest) }
    };
    let (mut sums, whole) = ([[zero; V]; ABREAST], p.terms - p.terms % ABREAST);
    for term in (0..whole).step_by(ABREAST) {
        // SAFETY: as above.
        let (lines, wide) = unsafe { terms::<T, S, ABREAST>(simd, p, term) };
        for k in 0..ABREAST {
            for v in 0..V {
                sums[k][v] = T::mul_add::<S>(load(lines[k], v), wide[k], sums[k][v]);
            }
        }
    }
    for term in whole..p.terms {
        // SAFETY: as above.
        let (lines, wide) = unsafe { terms::<T, S, 1>(simd, p, term) };
        for v in 0..V {
            sums[0][v] = T::mul_add::<S>(load(lines[0], v), wide[0], sums[0][v]);
        }
    }
    let mut all = [T::ZERO; FEW_REGISTERS * crate::gemm::LONGEST];
    for v in 0..V {
        let sum = T::add::<S>(T::add::<S>(sums[0][v], sums[1][v]), T::add::<S>(sums[2][v], sums[3][v]));
        // SAFETY: there is room for all registers.
        unsafe { T::store::<S>(sum, all.as_mut_ptr().add(v * len)) };
    }
    for (i, x) in all[..p.rows].iter().enumerate() {
        // SAFETY: the caller vouches for the output.
        unsafe { p.out.cast::<T>().offset(i as isize * p.out_step).write(*x) };
    }
}
