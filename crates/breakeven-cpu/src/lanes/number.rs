//! f32 lanes: arithmetic, comparisons, loads and stores.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Sub};

use breakeven_ir::{Mask, Number};
use fearless_simd::{ExtractToken, Select, Simd, SimdBase, SimdMask};

use super::{Chunk, picks_nan};
#[cfg(target_arch = "x86_64")]
use super::{is_avx2, is_avx512, wide};

/// As many f32 as one register of `S` holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes<S: Simd>(pub S::f32s);

/// A truth value for each of [`Lanes`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneMask<S: Simd>(pub S::mask32s);

impl<S: Simd> Lanes<S> {
    #[inline(always)]
    pub fn simd(self) -> S {
        self.0.token()
    }

    /// `f` lane by lane.
    #[inline(always)]
    pub fn each(self, f: impl Fn(f32) -> f32) -> Self {
        let lanes = self.0.as_slice();
        Lanes(S::f32s::from_fn(self.simd(), |i| f(lanes[i])))
    }
}

macro_rules! operators {
    ($($Trait:ident $method:ident),+) => {$(
        impl<S: Simd> $Trait for Lanes<S> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, rhs: Self) -> Self {
                Lanes(self.0.$method(rhs.0))
            }
        }
        impl<S: Simd> $Trait<f64> for Lanes<S> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, rhs: f64) -> Self {
                self.$method(self.lit(rhs))
            }
        }
    )+};
}
operators!(Add add, Sub sub, Mul mul, Div div);

impl<S: Simd> Rem for Lanes<S> {
    type Output = Self;
    #[inline(always)]
    fn rem(self, rhs: Self) -> Self {
        let (a, b) = (self.0.as_slice(), rhs.0.as_slice());
        Lanes(S::f32s::from_fn(self.simd(), |i| a[i] % b[i]))
    }
}

impl<S: Simd> Neg for Lanes<S> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Lanes(-self.0)
    }
}

impl<S: Simd> Number for Lanes<S> {
    type Mask = LaneMask<S>;

    #[inline(always)]
    fn lit(self, c: f64) -> Self {
        Lanes(S::f32s::splat(self.simd(), c as f32))
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Lanes(self.0.abs())
    }
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        if picks_nan::<S>() {
            return Lanes(self.0.simd_ne(self.0).select(self.0, self.0.max(other.0)));
        }
        // A NaN in `other` makes the first comparison false, which picks it.
        let first = self.0.simd_gt(other.0) | self.0.simd_ne(self.0);
        Lanes(first.select(self.0, other.0))
    }
    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        if picks_nan::<S>() {
            return Lanes(self.0.simd_ne(self.0).select(self.0, self.0.min(other.0)));
        }
        let first = self.0.simd_lt(other.0) | self.0.simd_ne(self.0);
        Lanes(first.select(self.0, other.0))
    }
    #[inline(always)]
    fn lt(self, other: Self) -> LaneMask<S> {
        LaneMask(self.0.simd_lt(other.0))
    }
    #[inline(always)]
    fn le(self, other: Self) -> LaneMask<S> {
        LaneMask(self.0.simd_le(other.0))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> LaneMask<S> {
        LaneMask(self.0.simd_eq(other.0))
    }
    #[inline(always)]
    fn pick(mask: LaneMask<S>, a: Self, b: Self) -> Self {
        Lanes(mask.0.select(a.0, b.0))
    }
}

macro_rules! logic {
    ($($Trait:ident $method:ident),+) => {$(
        impl<S: Simd> $Trait for LaneMask<S> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, rhs: Self) -> Self {
                LaneMask(self.0.$method(rhs.0))
            }
        }
    )+};
}
logic!(BitAnd bitand, BitOr bitor, BitXor bitxor);

impl<S: Simd> Not for LaneMask<S> {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        LaneMask(!self.0)
    }
}

impl<S: Simd> Mask for LaneMask<S> {}

/// The proof that the instructions of `S` exist, made again where only its type is known.
///
/// # Safety
/// A value of `S` must have been made by detection before.
#[inline(always)]
pub(crate) unsafe fn token<S: Simd>() -> S {
    const { assert!(size_of::<S>() == 0, "a proof carries no data") };
    // SAFETY: `S` is zero-sized and `Copy`, and by the contract above a value of it exists.
    unsafe { std::ptr::NonNull::<S>::dangling().read() }
}

impl<S: Simd> Chunk for Lanes<S> {
    const LEN: usize = S::f32s::LEN;
    const WIDTH: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for `LEN` readable elements; lanes of `S` are only used where `S` exists.
        unsafe { Lanes(S::f32s::from_slice(token(), std::slice::from_raw_parts(from.cast(), Self::LEN))) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller vouches for `LEN` writable elements.
        self.0.store_slice(unsafe { std::slice::from_raw_parts_mut(to.cast(), Self::LEN) });
    }
    #[inline(always)]
    unsafe fn load_first(from: *const u8, n: usize, rest: Self) -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_avx512::<S>() {
            // SAFETY: the caller's contract.
            return unsafe { wide::load_first(from.cast(), n, rest) };
        } else if is_avx2::<S>() {
            // SAFETY: the caller's contract.
            return unsafe { wide::load_first_of_eight(from.cast(), n, rest) };
        }
        let mut all = [0f32; 16];
        rest.0.store_slice(&mut all[..Self::LEN]);
        // SAFETY: the caller vouches for `n` elements, fewer than there is room for.
        unsafe {
            std::ptr::copy_nonoverlapping(from.cast(), all.as_mut_ptr(), n);
            Self::load(all.as_ptr().cast())
        }
    }
    #[inline(always)]
    unsafe fn load_mask(from: *const u8) -> LaneMask<S> {
        // SAFETY: the caller vouches for `LEN` readable bytes; lanes of `S` are only used where `S` exists.
        let (simd, bytes) = unsafe { (token::<S>(), std::slice::from_raw_parts(from, Self::LEN)) };
        let words = S::i32s::from_fn(simd, |i| -i32::from(bytes[i] != 0));
        LaneMask(S::mask32s::from_vector(words))
    }
    #[inline(always)]
    unsafe fn store_mask(mask: LaneMask<S>, to: *mut u8) {
        let words = mask.0.to_vector();
        // SAFETY: the caller vouches for `LEN` writable bytes.
        let bytes = unsafe { std::slice::from_raw_parts_mut(to, Self::LEN) };
        for (byte, word) in bytes.iter_mut().zip(words.as_slice()) {
            *byte = (word & 1) as u8;
        }
    }
}
