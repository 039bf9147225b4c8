//! Which tiles of the result workgroups compute, and subgroups of them.

use breakeven_ir::{DType, MatMul, Precision};

use super::super::super::Shaping;
use super::SIDE;
#[cfg(test)]
use super::side::Side;
use crate::wgsl::Tensor;

/// A tile of the result that one workgroup computes.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// Rows and columns.
    pub sides: [usize; 2],
    /// Terms of a step, of which two lie in workgroup memory.
    pub step: usize,
    /// Rows and columns of subgroups.
    pub grid: [usize; 2],
    /// The fewest tiles that pay for it.
    pub least: usize,
}

/// The first that fits is taken: large ones read less, small ones keep more of a device busy. By times on an H200.
pub const TILES: [Tile; 5] = [
    Tile { sides: [128, 256], step: 16, grid: [2, 4], least: 96 },
    Tile { sides: [128, 128], step: 32, grid: [2, 4], least: 128 },
    Tile { sides: [64, 128], step: 32, grid: [2, 4], least: 0 },
    Tile { sides: [128, 64], step: 32, grid: [4, 2], least: 0 },
    Tile { sides: [64, 64], step: 32, grid: [2, 4], least: 0 },
];

impl Tile {
    /// The tile for `k`, where the device can and may multiply it so, and it fills half a tile.
    pub fn of(k: &MatMul, inputs: &[Tensor], shaping: &Shaping) -> Option<Tile> {
        let is_half = inputs.iter().take(2).all(|t| t.stored.dtype == DType::F16 && !t.stored.in_words);
        let may = shaping.is_cooperative && is_half && k.precision != Precision::Highest && k.k > 0;
        if !may {
            return None;
        }
        let fits = |t: &&Tile| 2 * k.m > t.sides[0] && 2 * k.n > t.sides[1] && t.count(k) >= t.least;
        TILES.iter().find(fits).copied()
    }

    /// Tiles of the whole result.
    pub fn count(&self, k: &MatMul) -> usize {
        k.batch.elements() * k.m.div_ceil(self.sides[0]) * k.n.div_ceil(self.sides[1])
    }

    /// Rows and columns of a subgroup's part.
    pub fn part(&self) -> [usize; 2] {
        [self.sides[0] / self.grid[0], self.sides[1] / self.grid[1]]
    }

    /// Cooperative matrices of a subgroup's part, by row and column.
    pub fn matrices(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let [rows, columns] = self.part().map(|side| side / SIDE);
        (0..rows).flat_map(move |r| (0..columns).map(move |c| (r, c)))
    }

    /// Subgroups of the workgroup.
    pub fn subgroups(&self) -> usize {
        self.grid[0] * self.grid[1]
    }

    /// Bytes of workgroup memory.
    #[cfg(test)]
    pub fn bytes(&self, sides: &[Side; 2]) -> usize {
        let staged = 2 * (sides[0].quads(*self, 0) + sides[1].quads(*self, 1));
        8 * staged + 4 * self.subgroups() * SIDE * SIDE
    }
}
