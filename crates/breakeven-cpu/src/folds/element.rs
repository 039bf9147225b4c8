//! Elements that reductions fold.

use breakeven_ir::DType;
use fearless_simd::Simd;

use super::{Rows, blocks};
use crate::domain::BLOCK;
use crate::halves::{Bf16, F16, Half, Narrowed};

/// A type that reductions fold: floats in double precision, integers in 64 bits.
pub(crate) trait Element: Copy + 'static {
    const DTYPE: DType;
    const FLOAT: bool;
    /// As a float.
    fn f(self) -> f64;
    /// The same bits, sign-extended: wraps like the type does.
    fn i(self) -> i64;
    /// An integer that is ordered like the type.
    fn key(self) -> i64;
    /// Rounded to the type.
    fn from_f(x: f64) -> Self;
    /// Wrapped to the type.
    fn from_i(x: i64) -> Self;
    /// Back from [`Element::key`].
    fn from_key(x: i64) -> Self;

    /// Sum, block by block.
    ///
    /// # Safety
    /// `n` elements must be readable at `from`.
    #[inline(always)]
    unsafe fn sum<S: Simd>(_: S, from: *const Self, n: usize) -> f64 {
        // SAFETY: the caller's contract.
        let element = |i: usize| unsafe { from.add(i).read() }.f();
        (0..n).step_by(BLOCK).map(|start| (start..n.min(start + BLOCK)).map(element).sum::<f64>()).sum()
    }

    /// Adds every row to the sums of the columns, which start at 0; false where one by one is the way.
    ///
    /// # Safety
    /// All of `rows` must be readable.
    #[inline(always)]
    unsafe fn add_rows<S: Simd>(_: S, _sums: &mut [f64], _rows: Rows) -> bool {
        false
    }

    /// The largest (or smallest); NaN where any is. `None` where one by one is the way.
    ///
    /// # Safety
    /// `n > 0` elements must be readable at `from`.
    #[inline(always)]
    unsafe fn extreme<S: Simd>(_: S, _from: *const Self, _n: usize, _smallest: bool) -> Option<f64> {
        None
    }

    /// Mean, and sum of squares about it.
    ///
    /// # Safety
    /// `n > 0` elements must be readable at `from`.
    #[inline(always)]
    unsafe fn moments<S: Simd>(simd: S, from: *const Self, n: usize) -> (f64, f64) {
        // SAFETY: the caller's contract.
        let mean = unsafe { Self::sum(simd, from, n) } / n as f64;
        // SAFETY: the caller's contract.
        let distance = |i: usize| unsafe { from.add(i).read() }.f() - mean;
        (mean, (0..n).map(|i| distance(i) * distance(i)).sum())
    }
}

macro_rules! integer {
    ($($t:ty => $dtype:ident, |$x:ident| $key:expr, |$k:ident| $back:expr;)+) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            const FLOAT: bool = false;
            #[inline(always)]
            fn f(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn i(self) -> i64 {
                self as i64
            }
            #[inline(always)]
            fn key(self) -> i64 {
                let $x = self;
                $key
            }
            #[inline(always)]
            fn from_f(x: f64) -> $t {
                x as $t
            }
            #[inline(always)]
            fn from_i(x: i64) -> $t {
                x as $t
            }
            #[inline(always)]
            fn from_key($k: i64) -> $t {
                $back
            }
        }
    )+};
}
integer! {
    i64 => I64, |x| x, |k| k;
    i32 => I32, |x| x as i64, |k| k as i32;
    i16 => I16, |x| x as i64, |k| k as i16;
    i8 => I8, |x| x as i64, |k| k as i8;
    u64 => U64, |x| (x ^ 1 << 63) as i64, |k| k as u64 ^ 1 << 63;
    u32 => U32, |x| x as i64, |k| k as u32;
    u16 => U16, |x| x as i64, |k| k as u16;
    u8 => U8, |x| x as i64, |k| k as u8;
}

macro_rules! float {
    ($t:ty => $dtype:ident { $($simd:item)* }) => {
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            const FLOAT: bool = true;
            #[inline(always)]
            fn f(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn i(self) -> i64 {
                self as i64
            }
            #[inline(always)]
            fn key(self) -> i64 {
                self as i64
            }
            #[inline(always)]
            fn from_f(x: f64) -> $t {
                x as $t
            }
            #[inline(always)]
            fn from_i(x: i64) -> $t {
                x as $t
            }
            #[inline(always)]
            fn from_key(x: i64) -> $t {
                x as $t
            }
            $($simd)*
        }
    };
}
float!(f64 => F64 {
    #[inline(always)]
    unsafe fn sum<S: Simd>(_: S, from: *const f64, n: usize) -> f64 {
        // SAFETY: the caller's contract.
        unsafe { std::slice::from_raw_parts(from, n) }.chunks(BLOCK).map(blocks::pairwise).sum()
    }
});
float!(f32 => F32 {
    #[inline(always)]
    unsafe fn sum<S: Simd>(simd: S, from: *const f32, n: usize) -> f64 {
        // SAFETY: the caller's contract.
        unsafe { blocks::sum_by_blocks(simd, from, n) }
    }
    #[inline(always)]
    unsafe fn add_rows<S: Simd>(simd: S, sums: &mut [f64], rows: Rows) -> bool {
        // SAFETY: the caller's contract.
        unsafe { blocks::add_rows(simd, sums, rows) };
        true
    }
    #[inline(always)]
    unsafe fn extreme<S: Simd>(simd: S, from: *const f32, n: usize, smallest: bool) -> Option<f64> {
        // SAFETY: the caller's contract.
        Some(f64::from(unsafe { blocks::extreme(simd, from, n, smallest) }))
    }
    #[inline(always)]
    unsafe fn moments<S: Simd>(simd: S, from: *const f32, n: usize) -> (f64, f64) {
        // SAFETY: the caller's contract.
        unsafe {
            let mean = blocks::sum_of(simd, from, n) / n as f64;
            (mean, blocks::sum_of_squares_about(simd, from, n, mean))
        }
    }
});

macro_rules! half {
    ($($t:ty => $dtype:ident;)+) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            const FLOAT: bool = true;
            #[inline(always)]
            fn f(self) -> f64 {
                f64::from(self.widen())
            }
            #[inline(always)]
            fn i(self) -> i64 {
                self.widen() as i64
            }
            #[inline(always)]
            fn key(self) -> i64 {
                self.widen() as i64
            }
            #[inline(always)]
            fn from_f(x: f64) -> $t {
                <$t>::narrow(x.narrowed())
            }
            #[inline(always)]
            fn from_i(x: i64) -> $t {
                <$t>::narrow(x.narrowed())
            }
            #[inline(always)]
            fn from_key(x: i64) -> $t {
                <$t>::narrow(x.narrowed())
            }
        }
    )+};
}
half! {
    F16 => F16;
    Bf16 => BF16;
}
