//! Tiles as the processor's manual describes them, in plain code: what drives tiles is tested on every machine.

use super::tiles::{Block, Factors, ROW_BYTES, SIDE, Tiles};

/// The sums, and rows above and below.
pub(super) struct Model {
    sums: [[[f32; SIDE]; SIDE]; 4],
    rows: [usize; 2],
}

impl Model {
    fn rows_of(&self, block: Block) -> usize {
        self.rows[usize::from(matches!(block, Block::LowerLeft | Block::LowerRight))]
    }
}

unsafe fn read<T: Copy>(from: *const u8, row: usize, step: isize) -> T {
    // SAFETY: the caller vouches for the row.
    unsafe { from.wrapping_offset(row as isize * step).cast::<T>().read_unaligned() }
}

impl Tiles for Model {
    unsafe fn new(rows: [usize; 2]) -> Model {
        assert!(rows.iter().all(|&rows| rows <= SIDE) && rows[0] > 0, "{rows:?}");
        Model { sums: [[[0.0; SIDE]; SIDE]; 4], rows }
    }

    unsafe fn clear(&mut self) {
        self.sums = [[[0.0; SIDE]; SIDE]; 4];
    }

    unsafe fn load(&mut self, block: Block, from: *const u8, step: isize) {
        let rows = self.rows_of(block);
        assert!(rows > 0, "a tile without rows is not there");
        for row in 0..rows {
            // SAFETY: the caller's contract.
            self.sums[block as usize][row] = unsafe { read(from, row, step) };
        }
    }

    unsafe fn store(&mut self, block: Block, to: *mut u8, step: isize) {
        for row in 0..self.rows_of(block) {
            let to = to.wrapping_offset(row as isize * step).cast::<[f32; SIDE]>();
            // SAFETY: the caller's contract.
            unsafe { to.write_unaligned(self.sums[block as usize][row]) };
        }
    }

    unsafe fn multiply<const BOTH: bool>(&mut self, f: &Factors) {
        assert_eq!(BOTH, self.rows[1] > 0);
        for (block, half, across) in [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1)] {
            for row in 0..self.rows[half] {
                // SAFETY: the caller's contract.
                let left: [[u16; 2]; SIDE] = unsafe { read(f.left, half * SIDE + row, f.left_step) };
                let mut parts = [[0.0f32; 2]; SIDE];
                for (k, left) in left.iter().enumerate() {
                    let from = f.right.wrapping_add(across * ROW_BYTES);
                    // SAFETY: the caller's contract.
                    let right: [[u16; 2]; SIDE] = unsafe { read(from, k, f.right_step) };
                    for (part, right) in parts.iter_mut().zip(right) {
                        for i in 0..2 {
                            let wide = |x: u16| f32::from_bits(u32::from(x) << 16);
                            part[i] = wide(left[i]).mul_add(wide(right[i]), part[i]);
                        }
                    }
                }
                for (sum, part) in self.sums[block][row].iter_mut().zip(parts) {
                    *sum += part[0] + part[1];
                }
            }
        }
    }
}
