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
use sets::{is_avx512, picks_nan};

use breakeven_ir::Number;

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
    /// # Safety
    /// `LEN` bytes must be readable at `from`.
    unsafe fn load_mask(from: *const u8) -> Self::Mask;
    /// # Safety
    /// `LEN` bytes must be writable at `to`.
    unsafe fn store_mask(mask: Self::Mask, to: *mut u8);
}
