//! Moving blocks between operands and contiguous temporaries.

use crate::domain::{Axes, Block, Domain};

impl Domain {
    /// The elements of a block without gaps: where they lie, or copied to `temp`.
    ///
    /// # Safety
    /// `base` must be the operand's storage, large enough for its layout; `temp` must hold the block.
    pub unsafe fn fetch(&self, axes: &Axes, base: *const u8, block: &Block, temp: *mut u8) -> *const u8 {
        if let Some(place) = self.direct(axes, block) {
            return base.wrapping_offset(place * axes.width as isize);
        }
        // SAFETY: the same contract.
        unsafe { self.gather(axes, base, block, temp) };
        temp
    }

    /// Copies the elements of a block to `temp`.
    ///
    /// # Safety
    /// As [`Domain::fetch`].
    pub unsafe fn gather(&self, axes: &Axes, base: *const u8, block: &Block, temp: *mut u8) {
        let width = axes.width as isize;
        let mut to = temp;
        self.runs(axes, block, |place, step, n| {
            let from = base.wrapping_offset(place * width);
            // SAFETY: the run lies in the operand, and all runs together fit the temporary.
            unsafe {
                load_run(from, step, to, n, axes.width);
                to = to.add(n * axes.width);
            }
        });
    }

    /// Copies a block from `from` to where it belongs.
    ///
    /// # Safety
    /// `base` must be the operand's storage, large enough for its layout; `from` must hold the block.
    pub unsafe fn scatter(&self, axes: &Axes, base: *mut u8, block: &Block, from: *const u8) {
        let width = axes.width as isize;
        let mut from = from;
        self.runs(axes, block, |place, step, n| {
            let to = base.wrapping_offset(place * width);
            // SAFETY: the run lies in the operand, and all runs together are in `from`.
            unsafe {
                store_run(from, to, step, n, axes.width);
                from = from.add(n * axes.width);
            }
        });
    }
}

macro_rules! by_width {
    ($width:expr, $f:ident($($arg:expr),+)) => {
        match $width {
            1 => $f::<u8>($($arg),+),
            2 => $f::<u16>($($arg),+),
            4 => $f::<u32>($($arg),+),
            _ => $f::<u64>($($arg),+),
        }
    };
}

/// # Safety
/// `n` elements of `width` bytes, `step` apart, must be readable from `from` on, and `n` writable at `to`.
pub(crate) unsafe fn load_run(from: *const u8, step: isize, to: *mut u8, n: usize, width: usize) {
    // SAFETY: the same contract.
    unsafe { by_width!(width, load_elements(from, step, to, n)) }
}

/// # Safety
/// `n` elements of `width` bytes must be readable at `from`, and `n`, `step` apart, writable from `to` on.
pub(crate) unsafe fn store_run(from: *const u8, to: *mut u8, step: isize, n: usize, width: usize) {
    // SAFETY: the same contract.
    unsafe { by_width!(width, store_elements(from, to, step, n)) }
}

unsafe fn load_elements<T: Copy>(from: *const u8, step: isize, to: *mut u8, n: usize) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    // SAFETY: the caller's contract; temporaries never overlap operands.
    unsafe {
        match step {
            1 => std::ptr::copy_nonoverlapping(from, to, n),
            0 => {
                let value = from.read();
                (0..n).for_each(|i| to.add(i).write(value));
            }
            // A constant step becomes SIMD.
            2 => (0..n).for_each(|i| to.add(i).write(from.add(2 * i).read())),
            _ => (0..n).for_each(|i| to.add(i).write(from.offset(i as isize * step).read())),
        }
    }
}

unsafe fn store_elements<T: Copy>(from: *const u8, to: *mut u8, step: isize, n: usize) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    // SAFETY: the caller's contract; temporaries never overlap operands.
    unsafe {
        if step == 1 {
            std::ptr::copy_nonoverlapping(from, to, n);
        } else {
            (0..n).for_each(|i| to.offset(i as isize * step).write(from.add(i).read()));
        }
    }
}
