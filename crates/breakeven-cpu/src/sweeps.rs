//! Sweeps: softmax and norms over rows that lie without gaps.

use breakeven_ir::{DType, Float, RowWise};
use fearless_simd::{Simd, SimdBase, SimdNarrow, SimdWiden};

use crate::domain::BLOCK;
use crate::folds::{Element, sum_of, sum_of_squares_about};
use crate::lanes::{Chunk, Lanes, Plain, token};
use crate::prefetch::prefetch;

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

/// All sweeps for one instruction set.
pub(crate) struct Sweeps([(DType, [Sweep; 4]); 2]);

impl Sweeps {
    /// Compiled for `S`.
    pub fn with<S: Simd>(_: S) -> Sweeps {
        Sweeps([(DType::F32, all::<f32, Lanes<S>, S>()), (DType::F64, all::<f64, Plain<f64>, S>())])
    }

    /// The sweep of `kind` over rows of `dtype`, and its epsilon.
    pub fn get(&self, kind: RowWise, dtype: DType) -> Option<(Sweep, f64)> {
        let (at, epsilon) = match kind {
            RowWise::Softmax => (0, 0.0),
            RowWise::LogSoftmax => (1, 0.0),
            RowWise::LayerNorm { epsilon } => (2, epsilon),
            RowWise::RmsNorm { epsilon } => (3, epsilon),
        };
        self.0.iter().find(|(d, _)| *d == dtype).map(|(_, sweeps)| (sweeps[at], epsilon))
    }
}

/// Floats whose rows are swept.
trait Swept: Element {
    /// Sum, in double precision.
    unsafe fn total<S: Simd>(simd: S, from: *const Self, n: usize) -> f64;
    /// Sum of squares about `middle`, in double precision.
    unsafe fn squares<S: Simd>(simd: S, from: *const Self, n: usize, middle: f64) -> f64;
    /// `(x - middle) * scale`, in double precision.
    unsafe fn shift<S: Simd>(simd: S, from: *const Self, to: *mut Self, n: usize, middle: f64, scale: f64);
}

impl Swept for f32 {
    #[inline(always)]
    unsafe fn total<S: Simd>(simd: S, from: *const f32, n: usize) -> f64 {
        // SAFETY: the caller's contract.
        unsafe { sum_of(simd, from, n) }
    }
    #[inline(always)]
    unsafe fn squares<S: Simd>(simd: S, from: *const f32, n: usize, middle: f64) -> f64 {
        // SAFETY: the caller's contract.
        unsafe { sum_of_squares_about(simd, from, n, middle) }
    }
    #[inline(always)]
    unsafe fn shift<S: Simd>(_: S, from: *const f32, to: *mut f32, n: usize, middle: f64, scale: f64) {
        let whole = n - n % S::f32s::LEN;
        for i in (0..whole).step_by(S::f32s::LEN) {
            // SAFETY: `i + LEN <= n`.
            unsafe {
                let (low, high) = Lanes::<S>::load(from.add(i).cast()).0.widen();
                Lanes::<S>(((low - middle) * scale).narrow((high - middle) * scale)).store(to.add(i).cast());
            }
        }
        for i in whole..n {
            // SAFETY: `i < n`.
            unsafe { to.add(i).write(((f64::from(from.add(i).read()) - middle) * scale) as f32) };
        }
    }
}

impl Swept for f64 {
    #[inline(always)]
    unsafe fn total<S: Simd>(simd: S, from: *const f64, n: usize) -> f64 {
        // SAFETY: the caller's contract.
        unsafe { <f64 as Element>::sum(simd, from, n) }
    }
    #[inline(always)]
    unsafe fn squares<S: Simd>(_: S, from: *const f64, n: usize, middle: f64) -> f64 {
        // SAFETY: the caller's contract.
        (0..n).map(|i| unsafe { from.add(i).read() } - middle).map(|d| d * d).sum()
    }
    #[inline(always)]
    unsafe fn shift<S: Simd>(_: S, from: *const f64, to: *mut f64, n: usize, middle: f64, scale: f64) {
        for i in 0..n {
            // SAFETY: `i < n`.
            unsafe { to.add(i).write((from.add(i).read() - middle) * scale) };
        }
    }
}

fn all<T: Swept, V: Float + Chunk, S: Simd>() -> [Sweep; 4] {
    [softmax::<T, V, S>, log_softmax::<T, V, S>, layer_norm::<T, V, S>, rms_norm::<T, V, S>]
}

/// `f` over `n` elements, in chunks; the last ones padded with zeros.
///
/// # Safety
/// `n` elements of `T`, the element of `V`, must be readable at `from` and writable at `to`.
#[inline(always)]
unsafe fn map<T: Element, V: Chunk>(from: *const T, to: *mut T, n: usize, f: impl Fn(V) -> V) {
    let whole = n - n % V::LEN;
    let mut tail = [T::from_f(0.0); 16];
    let (mut source, mut target, mut count) = (from, to, whole);
    // SAFETY: the caller's contract; the tail holds the longest chunk.
    unsafe {
        loop {
            for i in (0..count).step_by(V::LEN) {
                f(V::load(source.add(i).cast())).store(target.add(i).cast());
            }
            if whole == n || source == tail.as_ptr() {
                break;
            }
            std::ptr::copy_nonoverlapping(from.add(whole), tail.as_mut_ptr(), n - whole);
            (source, target, count) = (tail.as_ptr(), tail.as_mut_ptr(), V::LEN);
        }
        std::ptr::copy_nonoverlapping(tail.as_ptr(), to.add(whole), n - whole);
    }
}

/// A value of `V` to make constants from.
#[inline(always)]
fn zero<T: Element, V: Chunk>() -> V {
    let zeros = [T::from_f(0.0); 16];
    // SAFETY: the array holds the longest chunk.
    unsafe { V::load(zeros.as_ptr().cast()) }
}

/// The largest element; NaN where any is.
#[inline(always)]
unsafe fn largest<T: Swept, S: Simd>(simd: S, from: *const T, n: usize) -> f64 {
    // SAFETY: the caller's contract.
    unsafe {
        if let Some(max) = T::extreme(simd, from, n, false) {
            return max;
        }
        let larger = |a: f64, b: f64| if a > b || a.is_nan() { a } else { b };
        (1..n).fold(from.read().f(), |max, i| larger(max, from.add(i).read().f()))
    }
}

/// Partial sums side by side, as many on every instruction set.
const WIDE: usize = 64;

/// Gives the sum of `e^(x - max)`; leaves the terms at `to` if there is such a place. The next row lies `next` bytes on.
///
/// # Safety
/// `n` elements must be readable at `from`, and writable at `to`.
#[inline(always)]
unsafe fn exponentials<T: Swept, V: Float + Chunk, S: Simd>(
    simd: S,
    from: *const T,
    to: Option<*mut T>,
    n: usize,
    max: f64,
    next: isize,
) -> f64 {
    let middle = zero::<T, V>().lit(max);
    let mut total = 0.0;
    for start in (0..n).step_by(BLOCK) {
        let (count, to) = (BLOCK.min(n - start), to.map(|to| to.wrapping_add(start)));
        let whole = count - count % WIDE;
        let mut sums = [zero::<T, V>(); WIDE];
        // SAFETY: `start + count <= n`; the tail holds as many elements as there are partial sums.
        unsafe {
            let from = from.add(start);
            for at in (0..whole).step_by(WIDE) {
                // Arithmetic leaves memory idle, which the next row uses; a line is fetched for every register.
                for line in (0..WIDE * size_of::<T>()).step_by(64) {
                    prefetch(from.add(at).cast::<u8>().wrapping_offset(next + line as isize));
                }
                add_exponentials(from.add(at), to.map(|to| to.add(at)), WIDE / V::LEN, middle, &mut sums);
            }
            if whole < count {
                let mut tail = [T::from_f(f64::NEG_INFINITY); WIDE];
                std::ptr::copy_nonoverlapping(from.add(whole), tail.as_mut_ptr(), count - whole);
                let registers = (count - whole).div_ceil(V::LEN);
                add_exponentials(tail.as_ptr(), Some(tail.as_mut_ptr()), registers, middle, &mut sums);
                if let Some(to) = to {
                    std::ptr::copy_nonoverlapping(tail.as_ptr(), to.add(whole), count - whole);
                }
            }
            let mut partial = [T::from_f(0.0); WIDE];
            for k in 0..WIDE / V::LEN {
                sums[k].store(partial.as_mut_ptr().add(k * V::LEN).cast());
            }
            total += T::sum(simd, partial.as_ptr(), WIDE);
        }
    }
    total
}

/// Adds `e^(x - middle)` of some registers to as many sums.
#[inline(always)]
unsafe fn add_exponentials<T: Swept, V: Float + Chunk>(
    from: *const T,
    to: Option<*mut T>,
    registers: usize,
    middle: V,
    sums: &mut [V; WIDE],
) {
    for k in 0..registers {
        // SAFETY: the caller vouches for so many registers at both places.
        unsafe {
            let power = (V::load(from.add(k * V::LEN).cast()) - middle).exp();
            if let Some(to) = to {
                power.store(to.add(k * V::LEN).cast());
            }
            sums[k] = sums[k] + power;
        }
    }
}

macro_rules! sweep {
    ($($(#[doc = $doc:literal])+ $name:ident($simd:ident, $from:ident, $to:ident, $n:ident, $task:ident) $body:block)+) => {$(
        $(#[doc = $doc])+
        unsafe fn $name<T: Swept, V: Float + Chunk, S: Simd>($task: &Task) {
            // SAFETY: tables of `S` are only built with a value of `S` at hand.
            let $simd = unsafe { token::<S>() };
            let $n = $task.length;
            $simd.vectorize(
                #[inline(always)]
                || {
                    $task.each(
                        #[inline(always)]
                        // SAFETY: the caller vouches for `n > 0` elements of each row at both places.
                        |$from: *const T, $to: *mut T| unsafe { $body },
                    );
                },
            );
        }
    )+};
}
sweep! {
    /// `e^(x - max)` over their sum.
    softmax(simd, from, to, n, task) {
        let max = largest(simd, from, n);
        let sum = exponentials::<T, V, S>(simd, from, Some(to), n, max, task.steps.0);
        let scale = zero::<T, V>().lit(1.0 / sum);
        map::<T, V>(to, to, n, #[inline(always)] |x| x * scale);
    }
    /// The logarithm of that.
    log_softmax(simd, from, to, n, task) {
        let max = largest(simd, from, n);
        let sum = exponentials::<T, V, S>(simd, from, None, n, max, task.steps.0);
        // The two are not added up first: beside a large maximum the logarithm would lose its digits.
        let (middle, log) = (zero::<T, V>().lit(max), zero::<T, V>().lit(sum.ln()));
        map::<T, V>(from, to, n, #[inline(always)] |x| (x - middle) - log);
    }
    /// `(x - mean) / sqrt(variance + epsilon)`
    layer_norm(simd, from, to, n, task) {
        let mean = T::total(simd, from, n) / n as f64;
        let variance = T::squares(simd, from, n, mean) / n as f64;
        T::shift(simd, from, to, n, mean, 1.0 / (variance + task.epsilon).sqrt());
    }
    /// `x / sqrt(mean square + epsilon)`
    rms_norm(simd, from, to, n, task) {
        let square = T::squares(simd, from, n, 0.0) / n as f64;
        T::shift(simd, from, to, n, 0.0, 1.0 / (square + task.epsilon).sqrt());
    }
}
