//! How a matrix product is cut: tiles of its result that threads share, and chunks of its terms where the result is small.

use super::Machine;
use super::products::{Product, Shapes};

/// Rows and columns of one tile: large enough that packing is cheap, few enough columns for one block of their terms to stay
/// in the second-level cache.
const TILE: usize = 512;
/// Rows and columns of a tile of integers.
const TILE_OF_INTEGERS: usize = 256;
/// Rows of one whose sums wait for an epilogue in the second-level cache.
const TILE_OF_SUMS: usize = 64;
/// Bytes of a right operand that every tile may read again: a part of the second-level cache.
const NEAR_BYTES: usize = 256 << 10;
/// Tiles for each thread: with fewer, they are made smaller.
const FEW: usize = 4;
/// Products in the smallest tile of integers, which are multiplied faster and cost more to pack.
const LEAST_OF_INTEGERS: usize = 1 << 22;
/// Results of a product with a vector that stay in the first-level cache.
const LONG: usize = 4096;

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
        let tuning = &self.machine.tuning;
        let products = tuning.part_ns / (2.0 * tuning.ns_per_product_flop);
        let paced = tuning.part_ns / (tuning.ns_per_byte * shapes.widths.0 as f64);
        let (most, least, whole) = match self.product {
            Product::Floats(gemm) => {
                let (row, panel) = gemm.whole();
                let rows = if self.waits { TILE_OF_SUMS } else { TILE };
                ((rows.next_multiple_of(row), TILE.next_multiple_of(panel)), products as usize, (row, panel))
            }
            Product::FewRows(gemm) => {
                let (row, panel) = gemm.whole();
                ((panel, TILE.next_multiple_of(row)), products as usize, (panel, row))
            }
            Product::Integers(..) => ((TILE_OF_INTEGERS, TILE_OF_INTEGERS), LEAST_OF_INTEGERS, (16, 16)),
            Product::Dots(_) | Product::Sums(_) | Product::Loop(_) => ((LONG, LONG), paced as usize, (16, 16)),
        };
        let enough = self.enough();
        let (mut rows, mut columns) = (shapes.m.clamp(1, most.0), shapes.n.clamp(1, most.1));
        let tiles = |rows: usize, columns: usize| self.batch * shapes.m.div_ceil(rows) * shapes.n.div_ceil(columns);
        let half = |extent: usize, of: usize| extent.div_ceil(2).next_multiple_of(of).min(extent);
        while tiles(rows, columns) < enough && rows * columns * shapes.k >= 2 * least {
            let (less, fewer) = ((half(rows, whole.0), columns), (rows, half(columns, whole.1)));
            // Fewer rows cost nothing where all of their columns are near, or are used often enough where they are not.
            let is_near = columns * shapes.k.min(TILE) * shapes.widths.1 <= NEAR_BYTES;
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
