//! Which tiles of the result workgroups compute.

use breakeven_ir::MatMul;

use crate::wgsl::GROUP;

/// A tile of the result, and how its operands pass through workgroup memory: two steps of each lie there, so that the next
/// one is loaded while this one is computed.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Tile {
    /// Rows and columns of the tile.
    pub sides: [usize; 2],
    /// Rows and columns that one invocation computes.
    pub micro: [usize; 2],
    /// Terms of one step.
    pub step: usize,
    /// The fewest tiles that pay for it: large tiles read less, small ones keep more of a device busy.
    least: usize,
}

/// The first that fits is taken. Chosen by the shape of the product alone, so that the order of its sums is the same on every
/// device. Each fits the 16 KiB of workgroup memory that every device has.
const TILES: [Tile; 7] = [
    Tile { sides: [128, 128], micro: [8, 8], step: 8, least: 128 },
    Tile { sides: [128, 64], micro: [8, 4], step: 8, least: 128 },
    Tile { sides: [64, 64], micro: [4, 4], step: 16, least: 32 },
    Tile { sides: [128, 32], micro: [4, 4], step: 8, least: 32 },
    Tile { sides: [32, 128], micro: [4, 4], step: 8, least: 32 },
    Tile { sides: [16, 128], micro: [2, 4], step: 8, least: 32 },
    Tile { sides: [32, 32], micro: [1, 4], step: 32, least: 0 },
];

impl Tile {
    /// The tile for `k`.
    pub fn of(k: &MatMul) -> Tile {
        let fits = |t: &&Tile| 2 * k.m > t.sides[0] && 2 * k.n > t.sides[1] && t.count(k) >= t.least;
        TILES.iter().find(fits).copied().unwrap_or(TILES[TILES.len() - 1])
    }

    /// Tiles of the whole result.
    pub fn count(&self, k: &MatMul) -> usize {
        k.batch.elements() * k.m.div_ceil(self.sides[0]) * k.n.div_ceil(self.sides[1])
    }

    /// Quads of one step of the left (0) or right (1) operand.
    pub fn quads(&self, operand: usize) -> usize {
        self.sides[operand] * self.step / 4
    }

    /// Quads of a step that the same invocation loads.
    pub fn loads(&self, operand: usize) -> usize {
        self.quads(operand).div_ceil(GROUP as usize)
    }

    /// What invocation `lid` has to be for its quad to be one of a step, where not all are.
    pub fn guard(&self, operand: usize) -> Option<String> {
        let quads = self.quads(operand);
        (!quads.is_multiple_of(GROUP as usize)).then(|| format!("lid < {quads}u"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_is_computed_by_one_workgroup_and_fits_its_memory() {
        for tile in TILES {
            let invocations = tile.sides[0] / tile.micro[0] * (tile.sides[1] / tile.micro[1]);
            assert_eq!(invocations, GROUP as usize, "{tile:?}");
            assert!(2 * 16 * (tile.quads(0) + tile.quads(1)) <= 16 << 10, "{tile:?}");
        }
    }
}
