//! Copies between storage orders: small square tiles, so that both sides are touched a cache line at a time.

use crate::domain::{Axes, Domain};
use crate::lanes::array;

/// Rows and columns of a tile.
const SIDE: usize = 16;

/// A copy whose input is contiguous along another axis than its output.
#[derive(Debug)]
pub(super) struct Transpose {
    /// The axis along which the input is contiguous.
    across: usize,
    /// Tiles along that axis, and along the last one.
    tiles: (usize, usize),
    /// Extents of the other axes.
    others: Vec<usize>,
}

impl Transpose {
    /// A plan for the copy, where it is one.
    pub fn new(domain: &Domain, out: &Axes, input: &Axes) -> Option<Transpose> {
        let dims = domain.dims();
        let last = dims.len().checked_sub(1)?;
        let across = (0..last).find(|&axis| input.steps[axis] == 1)?;
        if out.steps[last] != 1 || dims[last] < SIDE || dims[across] < SIDE {
            return None;
        }
        let others = (0..last).filter(|&axis| axis != across).map(|axis| dims[axis]).collect();
        Some(Transpose { across, tiles: (dims[across].div_ceil(SIDE), dims[last].div_ceil(SIDE)), others })
    }

    /// How many tiles there are.
    pub fn units(&self) -> usize {
        self.others.iter().product::<usize>() * self.tiles.0 * self.tiles.1
    }

    /// Copies tile number `unit`.
    ///
    /// # Safety
    /// `from` and `to` must hold the domain.
    pub unsafe fn copy(
        &self,
        unit: usize,
        domain: &Domain,
        (out, to): (&Axes, *mut u8),
        (input, from): (&Axes, *const u8),
    ) {
        let (dims, last) = (domain.dims(), domain.rank() - 1);
        let (mut left, i, j) =
            (unit / self.tiles.0 / self.tiles.1, unit / self.tiles.1 % self.tiles.0, unit % self.tiles.1);
        let (i, j) = (i * SIDE, j * SIDE);
        let mut places = (out.start + j as isize, input.start + i as isize + j as isize * input.steps[last]);
        places.0 += i as isize * out.steps[self.across];
        for (&n, axis) in self.others.iter().rev().zip((0..last).rev().filter(|&axis| axis != self.across)) {
            let index = (left % n) as isize;
            left /= n;
            places = (places.0 + index * out.steps[axis], places.1 + index * input.steps[axis]);
        }
        let width = out.width as isize;
        let tile = Tile {
            from: from.wrapping_offset(places.1 * width),
            from_step: input.steps[last],
            to: to.wrapping_offset(places.0 * width),
            to_step: out.steps[self.across],
            rows: SIDE.min(dims[self.across] - i),
            columns: SIDE.min(dims[last] - j),
        };
        // SAFETY: the tile lies in both operands.
        unsafe {
            match width {
                1 => tile.copy::<u8>(),
                2 => tile.copy::<u16>(),
                4 => tile.copy::<u32>(),
                _ => tile.copy::<u64>(),
            }
        }
    }
}

/// `columns` runs of `rows` elements, `from_step` apart, that become `rows` runs of `columns`, `to_step` apart.
struct Tile {
    from: *const u8,
    from_step: isize,
    to: *mut u8,
    to_step: isize,
    rows: usize,
    columns: usize,
}

impl Tile {
    /// # Safety
    /// All runs must be in memory that is aligned to `T`.
    unsafe fn copy<T: Copy + Default>(&self) {
        let (from, to) = (self.from.cast::<T>(), self.to.cast::<T>());
        let mut tile = [[T::default(); SIDE]; SIDE];
        for (j, run) in tile.iter_mut().enumerate().take(self.columns) {
            // SAFETY: the caller's contract; a run fits the tile.
            unsafe {
                std::ptr::copy_nonoverlapping(from.offset(j as isize * self.from_step), run.as_mut_ptr(), self.rows);
            }
        }
        for i in 0..self.rows {
            let line: [T; SIDE] = array(|j| tile[j][i]);
            // SAFETY: as above.
            unsafe {
                std::ptr::copy_nonoverlapping(line.as_ptr(), to.offset(i as isize * self.to_step), self.columns);
            }
        }
    }
}
