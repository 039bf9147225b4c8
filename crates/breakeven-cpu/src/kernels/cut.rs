//! How a matrix product is cut: tiles of its result that threads share, and chunks of its terms where the result is small.

use super::Machine;
use super::products::{Product, Shapes};
use crate::caches::Caches;

/// Rows of one tile: packing a column for so many costs little beside multiplying by it.
const TILE_ROWS: usize = 512;
/// Rows of one whose sums wait for an epilogue: with as many columns as a tile has, a sixteenth of the second-level cache.
const TILE_OF_SUMS: usize = 64;
/// Terms of a column that are multiplied at a time, in bytes: the longest block of them.
const DEPTH_BYTES: usize = crate::gemm::DEPTH_BYTES;
/// Columns of a tile at least, however small the cache: a few panels.
const LEAST_COLUMNS: usize = 96;
/// Tiles for each thread: with fewer, they are made smaller.
const FEW: usize = 4;
/// Products in the smallest tile of integers, which are multiplied faster and cost more to pack.
const LEAST_OF_INTEGERS: usize = 1 << 22;
/// Sums of one chunk at most: those of all chunks cost little beside reading the operands.
const CHUNK_SUMS: usize = 1 << 16;
/// A result's sides to one of its terms, at most: else tiles are enough to share, and chunks only cost.
const LONGER: usize = 8;
/// Terms of a chunk at least: a few blocks.
const CHUNK_TERMS: usize = 512;
/// Chunks at most: several for each of many threads.
const MOST_CHUNKS: usize = 32;
/// Products in a chunk at least, with a vector and without.
const CHUNK_OF_VECTOR: usize = 1 << 16;
const CHUNK: usize = 1 << 20;

/// What decides how a product is cut.
pub(super) struct Cut<'a> {
    pub product: Product,
    pub machine: &'a Machine,
    pub batch: usize,
    /// Sums wait for an epilogue.
    pub waits: bool,
}

/// Extents that fit the caches of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fit {
    /// Columns of a tile: one block of their terms fills half of the second-level cache, and leaves the rest to strips and sums.
    columns: usize,
    /// Rows and columns of a tile of integers: their sums of 4 bytes fill an eighth of it.
    side_of_integers: usize,
    /// Bytes of a right operand that every tile may read again: an eighth of it.
    near_bytes: usize,
    /// Results of a product with a vector: with 4 bytes each they fill a third of the first-level cache, beside two lines' terms.
    long: usize,
}

impl Fit {
    fn new(caches: Caches) -> Fit {
        let part = caches.second / 8;
        Fit {
            columns: tile_columns(caches),
            side_of_integers: (part / 4).isqrt().next_multiple_of(16),
            near_bytes: part,
            long: caches.first / 3 / 4,
        }
    }
}

/// Columns of a tile of floats.
pub(super) fn tile_columns(caches: Caches) -> usize {
    (caches.second / 2 / DEPTH_BYTES).max(LEAST_COLUMNS)
}

/// Parts of the terms that are summed by themselves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Chunks {
    pub count: usize,
    /// Terms of each but the last.
    pub terms: usize,
}

impl Cut<'_> {
    /// Extents of one tile: halved while there are few of them and each is still worth a thread's while. No result depends
    /// on them.
    pub fn tile(&self, shapes: &Shapes) -> (usize, usize) {
        let (tuning, fit) = (&self.machine.tuning, Fit::new(self.machine.caches));
        let products = tuning.part_ns / (2.0 * tuning.ns_per_product_flop);
        let paced = tuning.part_ns / (tuning.ns_per_byte * shapes.widths.0 as f64);
        let (most, least, whole) = match self.product {
            Product::Floats(gemm) => {
                let (row, panel) = gemm.whole();
                let rows = if self.waits { TILE_OF_SUMS } else { TILE_ROWS };
                ((rows.next_multiple_of(row), fit.columns.next_multiple_of(panel)), products as usize, (row, panel))
            }
            Product::FewRows(gemm) => {
                let (row, panel) = gemm.whole();
                ((panel, fit.columns.next_multiple_of(row)), products as usize, (panel, row))
            }
            Product::Integers(..) => ((fit.side_of_integers, fit.side_of_integers), LEAST_OF_INTEGERS, (16, 16)),
            Product::Dots(_) | Product::Sums(_) | Product::Loop(_) => ((fit.long, fit.long), paced as usize, (16, 16)),
        };
        let enough = self.enough();
        let (mut rows, mut columns) = (shapes.m.clamp(1, most.0), shapes.n.clamp(1, most.1));
        let tiles = |rows: usize, columns: usize| self.batch * shapes.m.div_ceil(rows) * shapes.n.div_ceil(columns);
        let half = |extent: usize, of: usize| extent.div_ceil(2).next_multiple_of(of).min(extent);
        while tiles(rows, columns) < enough && rows * columns * shapes.k >= 2 * least {
            let (less, fewer) = ((half(rows, whole.0), columns), (rows, half(columns, whole.1)));
            // Fewer rows cost nothing where all of their columns are near, or are used often enough where they are not.
            let is_near = columns * (shapes.k * shapes.widths.1).min(DEPTH_BYTES) <= fit.near_bytes;
            let by_rows = rows >= columns || rows > TILE_OF_SUMS || rows > 2 * whole.0 && is_near;
            let halved = if by_rows && less.0 < rows || fewer.1 == columns { less } else { fewer };
            if halved == (rows, columns) {
                break;
            }
            (rows, columns) = halved;
        }
        (rows, columns)
    }

    /// Tiles that are enough for all threads to end at about the same time.
    pub fn enough(&self) -> usize {
        let threads = self.machine.team.threads();
        if threads == 1 { 1 } else { FEW * threads }
    }

    /// Chunks of the terms, where the result is too small to be shared and its sums are long. They decide how sums are
    /// rounded, so they depend on the shapes alone.
    pub fn chunks(&self, shapes: &Shapes) -> Option<Chunks> {
        let least = match self.product {
            Product::Floats(_) | Product::FewRows(_) => CHUNK,
            Product::Dots(_) | Product::Sums(_) => CHUNK_OF_VECTOR,
            Product::Integers(..) | Product::Loop(_) => return None,
        };
        let results = shapes.m * shapes.n;
        if self.batch * results > CHUNK_SUMS || shapes.k < LONGER * shapes.m.max(shapes.n) {
            return None;
        }
        let count = (results * shapes.k / least).min(shapes.k / CHUNK_TERMS).min(MOST_CHUNKS);
        let terms = shapes.k.div_ceil(count.max(1)).next_multiple_of(CHUNK_TERMS / 8);
        (count > 1).then(|| Chunks { count: shapes.k.div_ceil(terms), terms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fit_the_caches() {
        let fit = |first: usize, second: usize| Fit::new(Caches { first: first << 10, second: second << 10 });
        let large = Fit { columns: 512, side_of_integers: 256, near_bytes: 256 << 10, long: 4096 };
        assert_eq!(fit(48, 2048), large);
        let small = Fit { columns: 128, side_of_integers: 128, near_bytes: 64 << 10, long: 2730 };
        assert_eq!(fit(32, 512), small);
        assert_eq!((fit(32, 256).columns, fit(32, 256).side_of_integers), (LEAST_COLUMNS, 96));
    }
}
