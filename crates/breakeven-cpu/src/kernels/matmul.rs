//! Matrix products.

use breakeven_ir::{MatMul, Shape, Unsupported};

use super::epilogue::Epilogue;
use super::products::{Product, Shapes, Types, float_tile, right};
use super::{Bound, Machine, views};
use crate::domain::{Axes, BLOCK, Domain, Order};
use crate::gemm::{Gemm, Lines, Right};
use crate::program::Scratch;

/// Rows and columns of one tile: large enough that packing is cheap.
const TILE: usize = 256;
/// Rows of one whose sums wait for an epilogue in the second-level cache.
const TILE_OF_SUMS: usize = 64;
/// Tiles for each thread: with fewer, they are made smaller.
const FEW: usize = 4;
/// Bytes of a right operand that are packed at once for all rows.
const PACKED_BYTES: usize = 16 << 20;
/// Products in the smallest tile that large ones are cut into.
const LEAST: usize = 1 << 20;
/// The same for products with a vector, which memory paces.
const LEAST_OF_VECTOR: usize = 1 << 16;
/// The same for panels of integers, which are multiplied faster and cost more to pack.
const LEAST_OF_INTEGERS: usize = 1 << 22;
/// Results of a product with a vector that stay in the first-level cache.
const LONG: usize = 4096;

/// A product of tiles.
#[derive(Debug)]
pub(crate) struct CpuMatMul {
    product: Product,
    shapes: Shapes,
    batch: Domain,
    /// How the left and right operands, the output and the further inputs step through the batch.
    across: Vec<Axes>,
    /// The rows and columns of one product, as the epilogue sees them.
    grid: Domain,
    post: Epilogue,
    extras: usize,
    /// Strides of the output by row and column, where sums can be written to it at once.
    direct: Option<(isize, isize)>,
    /// Bytes of a sum and of a result.
    sum_width: usize,
    out_width: usize,
    tile: (usize, usize),
    /// The right operand is packed once for all tiles of a column.
    shared: Option<Gemm>,
    nanoseconds: f64,
}

impl CpuMatMul {
    pub fn new(machine: &Machine, kernel: &MatMul, nanoseconds: f64) -> Result<CpuMatMul, Unsupported> {
        let types = Types { a: kernel.a.dtype, b: kernel.b.dtype, sums: kernel.accumulator() };
        let rank = kernel.batch.rank();
        let places = [&kernel.a, &kernel.b, &kernel.out].into_iter().chain(&kernel.inputs);
        let (batch, across) = batches(&kernel.batch, &views(places));
        let (grid, mut grid_axes) =
            Domain::new(&views([&kernel.out].into_iter().chain(&kernel.inputs)), rank..rank + 2, Order::Kept);
        let out = grid_axes.remove(0);
        let post = Epilogue::new(machine, &kernel.post, &kernel.params, (out, grid_axes, 2))?;
        let strides = |o: &breakeven_ir::Operand| (o.layout.strides[rank], o.layout.strides[rank + 1]);
        let shapes = Shapes {
            m: kernel.m,
            n: kernel.n,
            k: kernel.k,
            a: strides(&kernel.a),
            b: strides(&kernel.b),
            to: strides(&kernel.out),
            widths: (types.a.bytes(), types.b.bytes()),
        };
        let missing = || {
            let Types { a, b, sums } = types;
            Unsupported(format!("the CPU has no matrix product of {a} and {b} that is summed in {sums}"))
        };
        let product = Product::new(machine, types, &shapes).ok_or_else(missing)?;
        let threads = machine.team.threads();
        let tile = Cut { product, threads, batch: batch.elements(), waits: !post.is_identity() }.tile(&shapes);
        let shared = shares(product, &shapes, tile.0);
        Ok(CpuMatMul {
            product,
            shapes,
            batch,
            across,
            grid,
            direct: post.is_identity().then_some(shapes.to),
            post,
            extras: kernel.inputs.len(),
            sum_width: types.sums.bytes(),
            out_width: kernel.out.dtype.bytes(),
            tile,
            shared,
            nanoseconds,
        })
    }

    /// # Safety
    /// As [`super::Compiled::run`].
    pub unsafe fn run(&self, machine: &Machine, bound: Bound<'_>) {
        self.post.expect(machine, self.batch.elements() * self.shapes.m * self.shapes.n);
        if let Some(gemm) = self.shared {
            // SAFETY: the same contract.
            return unsafe { self.run_shared(machine, bound, gemm) };
        }
        let (down, across) = self.tiles();
        let tiles = down * across;
        machine.split(self.batch.elements() * tiles, self.nanoseconds, |units| {
            let mut room = TileRoom::new(self);
            for unit in units {
                let (batch, tile) = (unit / tiles, unit % tiles);
                // SAFETY: tiles do not overlap.
                unsafe { self.tile(batch, (tile % down, tile / down), None, bound, &mut room) };
            }
        });
    }

    /// Tiles from row to row, and from column to column.
    fn tiles(&self) -> (usize, usize) {
        (self.shapes.m.div_ceil(self.tile.0), self.shapes.n.div_ceil(self.tile.1))
    }

    /// Packs some columns of the right operand, then makes all tiles of these columns, and so on.
    unsafe fn run_shared(&self, machine: &Machine, bound: Bound<'_>, gemm: Gemm) {
        let (s, (down, across)) = (&self.shapes, self.tiles());
        let at_once = (PACKED_BYTES / gemm.packed_bytes(self.tile.1, s.k)).clamp(1, across);
        let rounds = self.batch.elements() * across.div_ceil(at_once);
        machine.with_packed(gemm.packed_bytes(at_once * self.tile.1, s.k), |room| {
            for round in 0..rounds {
                let (batch, first) = (round / across.div_ceil(at_once), round % across.div_ceil(at_once) * at_once);
                let (start, tiles) = (first * self.tile.1, at_once.min(across - first));
                let columns = (tiles * self.tile.1).min(s.n - start);
                let lines = right(&Shapes { n: columns, ..*s }, self.corner(1, batch, (s.b.1, start), bound));
                let (packed, panels) = (Packed { lines, room }, columns.div_ceil(gemm.panel()));
                let bytes = gemm.packed_bytes(columns, s.k) as f64;
                machine.split(panels, 2.0 * bytes * machine.tuning.ns_per_byte, |panels| {
                    // SAFETY: the room holds all panels.
                    panels.for_each(|panel| unsafe { packed.pack(gemm, panel) });
                });
                machine.split(down * tiles, self.nanoseconds / rounds as f64, |units| {
                    let mut room = TileRoom::new(self);
                    for unit in units {
                        let place = (unit % down, first + unit / down);
                        let panel = unit / down * self.tile.1 / gemm.panel();
                        let right = packed.right(panel);
                        // SAFETY: tiles do not overlap, and their columns were packed.
                        unsafe { self.tile(batch, place, Some((gemm, right)), bound, &mut room) };
                    }
                });
            }
        });
    }

    /// Where line `line` of input `k` lies, whose lines are `step` elements apart.
    fn corner(&self, k: usize, batch: usize, (step, line): (isize, usize), bound: Bound<'_>) -> *const u8 {
        let start = self.batch.place(&self.across[k], &self.batch.run(batch, 1));
        let width = if k == 0 { self.shapes.widths.0 } else { self.shapes.widths.1 };
        bound.input(k).wrapping_offset((start + line as isize * step) * width as isize)
    }

    /// Makes the tile at `place`, counted in tiles, of which the columns may be packed.
    unsafe fn tile(
        &self,
        batch: usize,
        place: (usize, usize),
        packed: Option<(Gemm, Right)>,
        bound: Bound<'_>,
        room: &mut TileRoom<'_>,
    ) {
        let (i, j) = (place.0 * self.tile.0, place.1 * self.tile.1);
        let at = self.batch.run(batch, 1);
        let place = |k: usize| self.batch.place(&self.across[k], &at);
        let s = &self.shapes;
        let (a, b) = (self.corner(0, batch, (s.a.0, i), bound), self.corner(1, batch, (s.b.1, j), bound));
        let out = bound.output(0).wrapping_offset(place(2) * self.out_width as isize);
        let (m, n) = (self.tile.0.min(s.m - i), self.tile.1.min(s.n - j));
        if let Some((row, column)) = self.direct {
            let to = out.wrapping_offset((i as isize * row + j as isize * column) * self.out_width as isize);
            // SAFETY: the operands hold the tile.
            return unsafe { self.sums(&Shapes { m, n, ..*s }, (a, b), packed, to, &mut room.packed) };
        }
        for k in 0..self.extras {
            let axes = &self.across[3 + k];
            room.bases[2 + k] = bound.input(2 + k).wrapping_offset(place(3 + k) * axes.width as isize);
        }
        // SAFETY: the operands hold the tile, the sums have room for it, and a run of a row is a block at most.
        unsafe {
            let sums = room.sums.start();
            self.sums(&Shapes { m, n, to: (n as isize, 1), ..*s }, (a, b), packed, sums, &mut room.packed);
            for row in 0..m {
                for start in (0..n).step_by(BLOCK) {
                    let block = self.grid.run((i + row) * s.n + j + start, BLOCK.min(n - start));
                    let values = sums.wrapping_add((row * n + start) * self.sum_width);
                    self.post.write(&self.grid, &block, values, &room.bases, out, &mut room.post);
                }
            }
        }
    }
}

impl CpuMatMul {
    /// Writes the sums of one tile.
    ///
    /// # Safety
    /// As [`Product::run`].
    unsafe fn sums(
        &self,
        shapes: &Shapes,
        (a, b): (*const u8, *const u8),
        packed: Option<(Gemm, Right)>,
        to: *mut u8,
        room: &mut Scratch,
    ) {
        // SAFETY: the same contract.
        unsafe {
            match packed {
                Some((gemm, right)) => gemm.run(&float_tile(shapes, a, right, to), room),
                None => self.product.run(shapes, (a, b), to, room),
            }
        }
    }
}

/// What decides the extents of a tile.
struct Cut {
    product: Product,
    threads: usize,
    batch: usize,
    /// Sums wait for an epilogue.
    waits: bool,
}

impl Cut {
    /// Extents of one tile: halved while there are few of them and each is still worth a thread's while. No result depends
    /// on them.
    fn tile(&self, shapes: &Shapes) -> (usize, usize) {
        let (most, least, whole) = match self.product {
            Product::Loop(_) => ((TILE, TILE), LEAST, 16),
            Product::Floats(gemm) => {
                let rows = if self.waits { TILE_OF_SUMS } else { TILE };
                ((rows, TILE.next_multiple_of(gemm.panel())), LEAST, gemm.panel())
            }
            Product::Integers(..) => ((TILE, TILE), LEAST_OF_INTEGERS, 16),
            Product::Dots(_) | Product::Sums(_) => ((LONG, LONG), LEAST_OF_VECTOR, 16),
        };
        let (mut rows, mut columns) = (shapes.m.clamp(1, most.0), shapes.n.clamp(1, most.1));
        let tiles = |rows: usize, columns: usize| self.batch * shapes.m.div_ceil(rows) * shapes.n.div_ceil(columns);
        let half = |extent: usize, of: usize| extent.div_ceil(2).next_multiple_of(of).min(extent);
        while tiles(rows, columns) < FEW * self.threads && rows * columns * shapes.k >= 2 * least {
            let (less, fewer) = ((half(rows, 16), columns), (rows, half(columns, whole)));
            let halved = if rows >= columns || fewer.1 == columns { less } else { fewer };
            if halved == (rows, columns) {
                break;
            }
            (rows, columns) = halved;
        }
        (rows, columns)
    }
}

/// The way of a product whose right operand is better packed once for all rows.
fn shares(product: Product, shapes: &Shapes, rows: usize) -> Option<Gemm> {
    let Product::Floats(gemm) = product else { return None };
    (rows < shapes.m && shapes.k > 0 && gemm.packs(shapes.m, shapes.b.1)).then_some(gemm)
}

/// Columns of the right operand, and the room that they are packed in.
#[derive(Clone, Copy)]
struct Packed {
    lines: Lines,
    room: *mut u8,
}

// SAFETY: the operand is only read, and each panel of the room is written by one thread, before any reads it.
unsafe impl Sync for Packed {}
// SAFETY: as above.
unsafe impl Send for Packed {}

impl Packed {
    /// # Safety
    /// The room must hold all panels, of which nobody else writes or reads this one meanwhile.
    unsafe fn pack(&self, gemm: Gemm, panel: usize) {
        // SAFETY: the same contract.
        unsafe { gemm.pack_columns(&self.lines, panel, self.room) };
    }

    /// The columns from `panel` on.
    fn right(&self, panel: usize) -> Right {
        Right::Packed { from: self.room, columns: self.lines.lines, panel }
    }
}

/// The batch axes of `operands`.
fn batches(shape: &Shape, operands: &[(&breakeven_ir::Layout, usize)]) -> (Domain, Vec<Axes>) {
    Domain::new(operands, 0..shape.rank(), Order::Kept)
}

/// What one thread needs.
struct TileRoom<'a> {
    post: super::map::Room<'a>,
    bases: Vec<*const u8>,
    sums: Scratch,
    packed: Scratch,
}

impl<'a> TileRoom<'a> {
    fn new(of: &'a CpuMatMul) -> TileRoom<'a> {
        let elements = if of.direct.is_some() { 0 } else { of.tile.0 * of.tile.1 };
        TileRoom {
            post: of.post.room(),
            bases: vec![std::ptr::null(); 2 + of.extras],
            sums: Scratch::of_bytes(elements * of.sum_width),
            packed: Scratch::default(),
        }
    }
}
