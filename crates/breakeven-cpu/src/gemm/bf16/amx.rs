//! AMX: tiles 0 to 3 hold sums, 4 and 5 rows, 6 and 7 pairs of terms.

use std::arch::asm;

use super::tiles::{Block, Factors, ROW_BYTES, SIDE, Tiles};

/// The tiles of the thread that made it, which must drop it too; they are given back then, so that the system has less to
/// keep when it changes threads.
#[derive(Debug)]
pub(super) struct Hardware {
    /// Rows below are configured.
    has_lower: bool,
    /// Not sent to other threads.
    _here: std::marker::PhantomData<*mut ()>,
}

/// What `ldtilecfg` reads.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Tiles for Hardware {
    unsafe fn new([upper, lower]: [usize; 2]) -> Hardware {
        let has_lower = lower > 0;
        let [upper, lower] = [upper, lower].map(|rows| rows as u8);
        let full = SIDE as u8;
        let (mut rows, mut row_bytes) = ([0; 16], [0; 16]);
        rows[..8].copy_from_slice(&[upper, upper, lower, lower, upper, lower, full, full]);
        // Tiles without rows are not there, and have no bytes either.
        (0..8).filter(|&tile| rows[tile] > 0).for_each(|tile| row_bytes[tile] = ROW_BYTES as u16);
        let shapes = Shapes { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows };
        // SAFETY: the caller vouches for the instruction; these shapes are within what every processor with tiles has.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const shapes, options(readonly, nostack, preserves_flags)) };
        Hardware { has_lower, _here: std::marker::PhantomData }
    }

    unsafe fn clear(&mut self) {
        // SAFETY: these tiles have rows.
        unsafe {
            asm!("tilezero tmm0", "tilezero tmm1", options(nostack, preserves_flags));
            if self.has_lower {
                asm!("tilezero tmm2", "tilezero tmm3", options(nostack, preserves_flags));
            }
        }
    }

    unsafe fn load(&mut self, block: Block, from: *const u8, step: isize) {
        macro_rules! load {
            ($tile:literal) => {
                asm!(concat!("tileloadd ", $tile, ", [{}+{}*1]"), in(reg) from, in(reg) step,
                    options(readonly, nostack, preserves_flags))
            };
        }
        // SAFETY: the caller's contract.
        unsafe {
            match block {
                Block::UpperLeft => load!("tmm0"),
                Block::UpperRight => load!("tmm1"),
                Block::LowerLeft => load!("tmm2"),
                Block::LowerRight => load!("tmm3"),
            }
        }
    }

    unsafe fn store(&mut self, block: Block, to: *mut u8, step: isize) {
        macro_rules! store {
            ($tile:literal) => {
                asm!(concat!("tilestored [{}+{}*1], ", $tile), in(reg) to, in(reg) step, options(nostack, preserves_flags))
            };
        }
        // SAFETY: the caller's contract.
        unsafe {
            match block {
                Block::UpperLeft => store!("tmm0"),
                Block::UpperRight => store!("tmm1"),
                Block::LowerLeft => store!("tmm2"),
                Block::LowerRight => store!("tmm3"),
            }
        }
    }

    #[inline(always)]
    unsafe fn multiply<const BOTH: bool>(&mut self, f: &Factors) {
        let second = f.right.wrapping_add(ROW_BYTES);
        // SAFETY: the caller's contract.
        unsafe {
            if BOTH {
                let below = f.left.wrapping_offset(SIDE as isize * f.left_step);
                asm!(
                    "tileloadd tmm6, [{right}+{right_step}*1]",
                    "tileloadd tmm4, [{left}+{left_step}*1]",
                    "tileloadd tmm7, [{second}+{right_step}*1]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm5, [{below}+{left_step}*1]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    right = in(reg) f.right,
                    second = in(reg) second,
                    right_step = in(reg) f.right_step,
                    left = in(reg) f.left,
                    below = in(reg) below,
                    left_step = in(reg) f.left_step,
                    options(readonly, nostack, preserves_flags)
                );
            } else {
                asm!(
                    "tileloadd tmm6, [{right}+{right_step}*1]",
                    "tileloadd tmm4, [{left}+{left_step}*1]",
                    "tileloadd tmm7, [{second}+{right_step}*1]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    right = in(reg) f.right,
                    second = in(reg) second,
                    right_step = in(reg) f.right_step,
                    left = in(reg) f.left,
                    left_step = in(reg) f.left_step,
                    options(readonly, nostack, preserves_flags)
                );
            }
        }
    }
}

impl Drop for Hardware {
    fn drop(&mut self) {
        // SAFETY: the tiles exist since `new`.
        unsafe { asm!("tilerelease", options(nostack, preserves_flags)) };
    }
}
