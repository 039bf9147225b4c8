//! Values that rows are instantiated with: SIMD lanes for f32, plain scalars for the other types.

mod float;
mod number;
mod plain;
mod sets;
mod turn;
#[cfg(target_arch = "x86_64")]
mod wide;

use number::LaneMask;
pub(crate) use number::{Lanes, token};
pub(crate) use plain::Plain;
pub(crate) use sets::fuses;
#[cfg(target_arch = "x86_64")]
use sets::is_avx2;
use sets::{is_avx512, picks_nan};

use breakeven_ir::Number;

/// What `at` gives for each of `N` places. Unlike `std::array::from_fn`, which calls its closure through a wrapper, it is a few registers in every
/// build: where a program is compiled without optimization across units, each of those calls goes through memory.
#[inline(always)]
pub(crate) fn array<T: Copy, const N: usize>(at: impl Fn(usize) -> T) -> [T; N] {
    let mut all = [at(0); N];
    for i in 1..N {
        all[i] = at(i);
    }
    all
}

/// A value that is loaded from and stored to elements in memory, `LEN` at a time.
pub(crate) trait Chunk: Number {
    /// Elements at a time.
    const LEN: usize;
    /// Bytes of one element.
    const WIDTH: usize;

    /// # Safety
    /// `LEN` elements must be readable at `from`.
    unsafe fn load(from: *const u8) -> Self;
    /// # Safety
    /// `LEN` elements must be writable at `to`.
    unsafe fn store(self, to: *mut u8);
    /// The `n` elements at `from`, fewer than `LEN`, then those of `rest`. Never by way of memory where there are masks: such
    /// a load waits for all stores before it.
    ///
    /// # Safety
    /// `n` elements must be readable at `from`.
    #[inline(always)]
    unsafe fn load_first(from: *const u8, n: usize, rest: Self) -> Self {
        let mut all = Register([0; 64]);
        // SAFETY: the register holds the longest chunk.
        unsafe {
            rest.store(all.0.as_mut_ptr());
            std::ptr::copy_nonoverlapping(from, all.0.as_mut_ptr(), n * Self::WIDTH);
            Self::load(all.0.as_ptr())
        }
    }
    /// Writes the first `n` elements, fewer than `LEN`.
    ///
    /// # Safety
    /// `n` elements must be writable at `to`.
    #[inline(always)]
    unsafe fn store_first(self, to: *mut u8, n: usize) {
        let mut all = Register([0; 64]);
        // SAFETY: the register holds the longest chunk.
        unsafe {
            self.store(all.0.as_mut_ptr());
            std::ptr::copy_nonoverlapping(all.0.as_ptr(), to, n * Self::WIDTH);
        }
    }
    /// # Safety
    /// `LEN` bytes must be readable at `from`.
    unsafe fn load_mask(from: *const u8) -> Self::Mask;
    /// # Safety
    /// `LEN` bytes must be writable at `to`.
    unsafe fn store_mask(mask: Self::Mask, to: *mut u8);
}

/// Room for the longest chunk.
#[repr(align(64))]
struct Register([u8; 64]);
