//! Which tiles workgroups compute.

use breakeven_ir::AttentionKernel;

use crate::wgsl::{GROUP, Shader};

/// Keys of a tile: a quad for each of 16 invocations.
pub(super) const KEYS: usize = 64;
/// Terms of the scores, or keys, that lie in workgroup memory at a time.
pub(super) const STEP: usize = 16;
/// Most columns of values: those of a row of the result lie in the registers of one group.
pub(super) const WIDEST: usize = 128;

/// Queries of a group, and how its invocations share the sums of values. Scores are shared by 16 by 16 invocations, each of which
/// has a quad of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    /// Queries.
    pub rows: usize,
    /// Invocations along the columns of values.
    pub across: usize,
    /// Quads of columns of one of them.
    pub quads: usize,
}

impl Tile {
    /// By the shape alone, so that the order of sums is the same on every device; `None` where no tile is wide enough.
    pub fn of(k: &AttentionKernel) -> Option<Tile> {
        let (queries, columns) = (k.queries(), k.value_width());
        let tile = |rows, across, quads| Some(Tile { rows, across, quads });
        match columns {
            0 => None,
            1..=32 if queries > 64 => tile(128, 8, 1),
            1..=64 if queries > 64 => tile(128, 16, 1),
            1..=WIDEST => tile(if queries > 16 { 64 } else { 16 }, 16, columns.div_ceil(64)),
            _ => None,
        }
    }

    /// Columns of values, with those that only fill it.
    pub fn columns(&self) -> usize {
        4 * self.across * self.quads
    }

    /// Queries whose scores one invocation has.
    pub fn score_rows(&self) -> usize {
        self.rows / 16
    }

    /// Rows of invocations that share the sums.
    pub fn down(&self) -> usize {
        GROUP as usize / self.across
    }

    /// Queries whose sums one invocation has.
    pub fn sum_rows(&self) -> usize {
        self.rows / self.down()
    }

    /// Where keys and values lie in workgroup memory: behind a step of queries or weights.
    pub fn second(&self) -> usize {
        STEP * self.rows / 4
    }

    /// Quads of workgroup memory.
    fn memory(&self) -> usize {
        self.second() + (STEP * KEYS / 4).max(STEP * self.across * self.quads)
    }

    /// Memory that steps pass through, and, for each query, the largest score with how much smaller it has made what was summed.
    pub fn declare(&self, shader: &mut Shader) {
        shader.shared("tile", &format!("array<vec4<f32>, {}>", self.memory()));
        shader.shared("tops", &format!("array<f32, {}>", self.rows));
        shader.shared("shares", &format!("array<f32, {}>", self.rows));
    }
}

#[cfg(test)]
mod tests {
    use breakeven_ir::{DType, Layout, Operand};

    use super::*;

    #[test]
    fn every_tile_fits_the_memory_that_every_device_has() {
        for queries in [1, 16, 17, 64, 65, 1000] {
            for columns in 1..=WIDEST {
                let f32s = |shape: [usize; 2]| Operand::new(DType::F32, Layout::dense(shape));
                let (q, k, v, out) = (f32s([queries, 8]), f32s([9, 8]), f32s([9, columns]), f32s([queries, columns]));
                let kernel = AttentionKernel { scale: 1.0, seen: None, q, k, v, bias: None, out };
                let tile = Tile::of(&kernel).expect("it is not too wide");
                assert!(16 * tile.memory() + 8 * tile.rows <= 16 << 10, "{tile:?}");
                assert!(tile.columns() >= columns && tile.rows * 4 <= tile.memory(), "{tile:?}");
                assert!(tile.sum_rows() == 1 || tile.sum_rows().is_multiple_of(4), "{tile:?}");
            }
        }
    }
}
