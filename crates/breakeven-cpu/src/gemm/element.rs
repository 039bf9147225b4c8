//! What a product of floats is summed in: registers of f32 or f64.

use fearless_simd::{Simd, SimdBase, SimdFloat};

#[cfg(target_arch = "x86_64")]
use super::masked;
use crate::halves::{Bf16, F16, Half};
use crate::lanes::{array, fuses};

/// An element of a packed panel, and of a sum.
pub(crate) trait Element: Copy + 'static {
    /// One register of them.
    type Register<S: Simd>: Copy;
    const ZERO: Self;

    /// Elements in a register.
    fn len<S: Simd>() -> usize;
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Register<S>;
    fn mul_add<S: Simd>(a: Self::Register<S>, b: Self::Register<S>, c: Self::Register<S>) -> Self::Register<S>;
    fn add<S: Simd>(a: Self::Register<S>, b: Self::Register<S>) -> Self::Register<S>;
    fn sum(self, other: Self) -> Self;

    /// # Safety
    /// A register's elements must be readable at `from`.
    unsafe fn load<S: Simd>(simd: S, from: *const Self) -> Self::Register<S>;
    /// # Safety
    /// A register's elements must be writable at `to`.
    unsafe fn store<S: Simd>(x: Self::Register<S>, to: *mut Self);
    /// The first `n` elements and zeros: fewer than a register.
    ///
    /// # Safety
    /// They must be readable at `from`.
    unsafe fn load_some<S: Simd>(simd: S, from: *const Self, n: usize) -> Self::Register<S>;
    /// Stores the first `n` elements: fewer than a register.
    ///
    /// # Safety
    /// They must be writable at `to`.
    unsafe fn store_some<S: Simd>(x: Self::Register<S>, to: *mut Self, n: usize);
    /// The sum of a register's elements, the first one first.
    fn sum_lanes<S: Simd>(x: Self::Register<S>) -> Self;
    /// `self * b + c` as [`Element::mul_add`] does it.
    fn mul_add_one<S: Simd>(self, b: Self, c: Self) -> Self;
}

/// Elements of the longest register.
pub(crate) const LONGEST: usize = 16;

macro_rules! element {
    ($t:ident, $lanes:ident) => {
        impl Element for $t {
            type Register<S: Simd> = S::$lanes;
            const ZERO: $t = 0.0;

            #[inline(always)]
            fn len<S: Simd>() -> usize {
                S::$lanes::LEN
            }
            #[inline(always)]
            fn splat<S: Simd>(simd: S, x: $t) -> S::$lanes {
                S::$lanes::splat(simd, x)
            }
            #[inline(always)]
            fn mul_add<S: Simd>(a: S::$lanes, b: S::$lanes, c: S::$lanes) -> S::$lanes {
                a.mul_add(b, c)
            }
            #[inline(always)]
            fn add<S: Simd>(a: S::$lanes, b: S::$lanes) -> S::$lanes {
                a + b
            }
            #[inline(always)]
            fn sum(self, other: $t) -> $t {
                self + other
            }
            #[inline(always)]
            unsafe fn load<S: Simd>(simd: S, from: *const $t) -> S::$lanes {
                // SAFETY: the caller vouches for the elements.
                S::$lanes::from_slice(simd, unsafe { std::slice::from_raw_parts(from, S::$lanes::LEN) })
            }
            #[inline(always)]
            unsafe fn store<S: Simd>(x: S::$lanes, to: *mut $t) {
                // SAFETY: the caller vouches for the elements.
                x.store_slice(unsafe { std::slice::from_raw_parts_mut(to, S::$lanes::LEN) });
            }
            #[inline(always)]
            unsafe fn load_some<S: Simd>(simd: S, from: *const $t, n: usize) -> S::$lanes {
                // SAFETY: the caller vouches for the elements; registers so long come with their instructions.
                unsafe {
                    #[cfg(target_arch = "x86_64")]
                    match size_of::<S::$lanes>() {
                        64 => return std::mem::transmute_copy(&masked::$t::load_of_64(from, n)),
                        32 => return std::mem::transmute_copy(&masked::$t::load_of_32(from, n)),
                        _ => {}
                    }
                    let mut some = [0.0; LONGEST];
                    std::ptr::copy_nonoverlapping(from, some.as_mut_ptr(), n);
                    Self::load(simd, some.as_ptr())
                }
            }
            #[inline(always)]
            unsafe fn store_some<S: Simd>(x: S::$lanes, to: *mut $t, n: usize) {
                // SAFETY: the caller vouches for the elements; registers so long come with their instructions.
                unsafe {
                    #[cfg(target_arch = "x86_64")]
                    match size_of::<S::$lanes>() {
                        64 => return masked::$t::store_of_64(to, n, std::mem::transmute_copy(&x)),
                        32 => return masked::$t::store_of_32(to, n, std::mem::transmute_copy(&x)),
                        _ => {}
                    }
                    std::ptr::copy_nonoverlapping(x.as_slice().as_ptr(), to, n);
                }
            }
            #[inline(always)]
            fn sum_lanes<S: Simd>(x: S::$lanes) -> $t {
                x.as_slice().iter().sum()
            }
            #[inline(always)]
            fn mul_add_one<S: Simd>(self, b: $t, c: $t) -> $t {
                if fuses::<S>() { self.mul_add(b, c) } else { self * b + c }
            }
        }
    };
}
element!(f32, f32s);
element!(f64, f64s);

/// Lines and terms of a square that is turned at once.
pub(super) const SIDE: usize = 8;

/// An element of an operand, as a panel holds it.
pub(crate) trait Source: Copy + 'static {
    type Packed: Element;
    fn packed(self) -> Self::Packed;

    /// Packs `n` neighbours.
    ///
    /// # Safety
    /// They must lie at `from`, and `to` have room for them.
    #[inline(always)]
    unsafe fn pack_run<S: Simd>(_: S, from: *const Self, to: *mut Self::Packed, n: usize) {
        // SAFETY: the caller's contract; a panel never overlaps an operand.
        let (from, to) = unsafe { (std::slice::from_raw_parts(from, n), std::slice::from_raw_parts_mut(to, n)) };
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.packed();
        }
    }

    /// Writes element `[i][j]` of a square to `[j][i]`; lines are `step` and `pitch` elements apart.
    ///
    /// # Safety
    /// Both squares must lie in memory.
    #[inline(always)]
    unsafe fn turn<S: Simd>(from: *const Self, step: isize, to: *mut Self::Packed, pitch: usize) {
        // SAFETY: the caller's contract.
        unsafe { turn_plainly(from, step, to, pitch) };
    }
}

#[inline(always)]
unsafe fn turn_plainly<F: Source>(from: *const F, step: isize, to: *mut F::Packed, pitch: usize) {
    // SAFETY: the caller's contract.
    let line = |i: usize| unsafe { from.offset(i as isize * step).cast::<[F; SIDE]>().read() };
    let square: [[F; SIDE]; SIDE] = array(line);
    for j in 0..SIDE {
        // SAFETY: as above.
        unsafe { to.add(j * pitch).cast::<[F::Packed; SIDE]>().write(array(|i| square[i][j].packed())) };
    }
}

/// As [`Source::pack_run`], in registers: a run is too short for a call of `memcpy`.
#[inline(always)]
unsafe fn copy_run<T: Element, S: Simd>(simd: S, from: *const T, to: *mut T, n: usize) {
    let len = T::len::<S>();
    let whole = n - n % len;
    // SAFETY: the caller's contract.
    unsafe {
        for at in (0..whole).step_by(len) {
            T::store::<S>(T::load(simd, from.add(at)), to.add(at));
        }
        if whole < n {
            T::store_some::<S>(T::load_some(simd, from.add(whole), n - whole), to.add(whole), n - whole);
        }
    }
}

impl Source for f32 {
    type Packed = f32;
    #[inline(always)]
    fn packed(self) -> f32 {
        self
    }
    #[inline(always)]
    unsafe fn pack_run<S: Simd>(simd: S, from: *const f32, to: *mut f32, n: usize) {
        // SAFETY: the same contract.
        unsafe { copy_run(simd, from, to, n) };
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn turn<S: Simd>(from: *const f32, step: isize, to: *mut f32, pitch: usize) {
        // SAFETY: the caller's contract; registers of eight and more come with AVX.
        unsafe {
            if S::f32s::LEN >= SIDE { turn_eight(from, step, to, pitch) } else { turn_plainly(from, step, to, pitch) }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx")]
unsafe fn turn_eight(from: *const f32, step: isize, to: *mut f32, pitch: usize) {
    use std::arch::x86_64::{
        __m256, _mm256_loadu_ps, _mm256_permute2f128_ps, _mm256_shuffle_ps, _mm256_storeu_ps, _mm256_unpackhi_ps,
        _mm256_unpacklo_ps,
    };
    // SAFETY: the caller's contract.
    let x: [__m256; SIDE] = array(|i| unsafe { _mm256_loadu_ps(from.offset(i as isize * step)) });
    let pairs: [__m256; SIDE] = array(|i| {
        let (a, b) = (x[i / 2 * 2], x[i / 2 * 2 + 1]);
        if i % 2 == 0 { _mm256_unpacklo_ps(a, b) } else { _mm256_unpackhi_ps(a, b) }
    });
    // Four lines each, columns `j` and `j + 4`.
    let fours: [__m256; SIDE] = array(|i| {
        let (a, b) = (pairs[i / 4 * 4 + i % 4 / 2], pairs[i / 4 * 4 + i % 4 / 2 + 2]);
        if i % 2 == 0 { _mm256_shuffle_ps::<0x44>(a, b) } else { _mm256_shuffle_ps::<0xEE>(a, b) }
    });
    for j in 0..SIDE {
        let (a, b) = (fours[j % 4], fours[j % 4 + 4]);
        let line = if j < 4 { _mm256_permute2f128_ps::<0x20>(a, b) } else { _mm256_permute2f128_ps::<0x31>(a, b) };
        // SAFETY: the caller's contract.
        unsafe { _mm256_storeu_ps(to.add(j * pitch), line) };
    }
}

macro_rules! source {
    ($(|$x:ident: $from:ty| -> $to:ty { $body:expr })+) => {$(
        impl Source for $from {
            type Packed = $to;
            #[inline(always)]
            fn packed(self) -> $to {
                let $x = self;
                $body
            }
        }
    )+};
}
impl Source for f64 {
    type Packed = f64;
    #[inline(always)]
    fn packed(self) -> f64 {
        self
    }
    #[inline(always)]
    unsafe fn pack_run<S: Simd>(simd: S, from: *const f64, to: *mut f64, n: usize) {
        // SAFETY: the same contract.
        unsafe { copy_run(simd, from, to, n) };
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn turn<S: Simd>(from: *const f64, step: isize, to: *mut f64, pitch: usize) {
        // SAFETY: the caller's contract; registers of four and more come with AVX.
        unsafe {
            if S::f64s::LEN < 4 {
                return turn_plainly(from, step, to, pitch);
            }
            for i in [0, 4] {
                for j in [0, 4] {
                    turn_four(from.offset(i as isize * step).add(j), step, to.add(j * pitch + i), pitch);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx")]
unsafe fn turn_four(from: *const f64, step: isize, to: *mut f64, pitch: usize) {
    use std::arch::x86_64::{
        __m256d, _mm256_loadu_pd, _mm256_permute2f128_pd, _mm256_storeu_pd, _mm256_unpackhi_pd, _mm256_unpacklo_pd,
    };
    // SAFETY: the caller's contract.
    let x: [__m256d; 4] = array(|i| unsafe { _mm256_loadu_pd(from.offset(i as isize * step)) });
    let pairs: [__m256d; 4] = array(|i| {
        let (a, b) = (x[i / 2 * 2], x[i / 2 * 2 + 1]);
        if i % 2 == 0 { _mm256_unpacklo_pd(a, b) } else { _mm256_unpackhi_pd(a, b) }
    });
    for j in 0..4 {
        let (a, b) = (pairs[j % 2], pairs[j % 2 + 2]);
        let line = if j < 2 { _mm256_permute2f128_pd::<0x20>(a, b) } else { _mm256_permute2f128_pd::<0x31>(a, b) };
        // SAFETY: the caller's contract.
        unsafe { _mm256_storeu_pd(to.add(j * pitch), line) };
    }
}

source! {
    |x: F16| -> f32 { x.widen() }
    |x: Bf16| -> f32 { x.widen() }
}
