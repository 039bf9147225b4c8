//! Matrix products.

mod chunks;
mod few_rows;
mod kept;
mod shared;

use breakeven_ir::{MatMul, Shape, Unsupported};
use smallvec::{SmallVec, smallvec};

use super::cut::{Chunks, Cut};
use super::epilogue::Epilogue;
use super::products::{Product, Shapes, Types, float_tile, turned};
use super::{Bound, Machine, views};
use crate::domain::{Axes, BLOCK, Domain, Order};
use crate::gemm::{Gemm, Right, ThinTile};
use crate::natives::RowFn;
use crate::program::Scratch;
use crate::spare::Lent;
use chunks::adding;
pub(crate) use kept::Keeps;
use shared::{rows_at_once, shares};

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
    /// Sums are made in parts, which are then added up.
    chunks: Option<(Chunks, RowFn)>,
    /// How the right operand is packed where it is used again.
    keeps: Option<Keeps>,
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
        let shapes = shapes(kernel, types);
        let missing = || {
            let Types { a, b, sums } = types;
            Unsupported(format!("the CPU has no matrix product of {a} and {b} that is summed in {sums}"))
        };
        let lower = machine.lower(kernel).map(|(gemm, _)| Product::of_floats(gemm, &shapes));
        let product = lower.or_else(|| Product::new(machine, types, &shapes)).ok_or_else(missing)?;
        let cut = Cut { product, machine, batch: batch.elements(), waits: !post.is_identity() };
        let mut tile = cut.tile(&shapes);
        let chunks = cut.chunks(&shapes).zip(adding(machine, types.sums));
        let shared = shares(product, &shapes, tile.0).filter(|_| chunks.is_none());
        if let Some(gemm) = shared {
            tile.0 = rows_at_once(&cut, &shapes, tile, gemm);
        }
        let keeps = Keeps::new(&cut, kernel, &shapes).filter(|_| chunks.is_none());
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
            chunks,
            keeps,
            nanoseconds,
        })
    }

    /// # Safety
    /// As [`super::Compiled::run`].
    pub unsafe fn run(&self, machine: &Machine, bound: Bound<'_>) {
        self.post.expect(machine, self.batch.elements() * self.shapes.m * self.shapes.n);
        // SAFETY: the same contract.
        unsafe {
            if let Some((chunks, add)) = self.chunks {
                return self.run_chunks(machine, bound, chunks, add);
            }
            if let (Some(keeps), Some(packed)) = (&self.keeps, bound.packed) {
                return self.run_kept(machine, bound, keeps, packed);
            }
            if let Some(gemm) = self.shared {
                return self.run_shared(machine, bound, gemm);
            }
            if let Product::FewRows(gemm) = self.product {
                return self.run_few_rows(machine, bound, gemm);
            }
        }
        // SAFETY: the same contract.
        unsafe { self.run_tiles(machine, bound, self.tile, |_, _| None) }
    }

    /// Makes all tiles of so many rows and columns, each with what `packed` gives for its product and first column.
    unsafe fn run_tiles<'a>(
        &self,
        machine: &Machine,
        bound: Bound<'_>,
        tile: (usize, usize),
        packed: impl Fn(usize, usize) -> Option<Packed<'a>> + Sync,
    ) {
        let (s, (down, across)) = (&self.shapes, self.tiles(tile));
        let tiles = down * across;
        machine.split(self.batch.elements() * tiles, self.nanoseconds, |units| {
            let mut room = TileRoom::new(self, machine, tile);
            for unit in units {
                // Small products take as long as some divisions.
                let (batch, at) = if tiles == 1 { (unit, 0) } else { (unit / tiles, unit % tiles) };
                let area = Area::new(s, (at % down, at / down), tile);
                // SAFETY: tiles do not overlap.
                unsafe { self.tile(batch, area, packed(batch, area.column), bound, &mut room) };
            }
        });
    }

    /// Tiles from row to row, and from column to column.
    fn tiles(&self, tile: (usize, usize)) -> (usize, usize) {
        (self.shapes.m.div_ceil(tile.0), self.shapes.n.div_ceil(tile.1))
    }

    /// Where line `line` of input `k` lies, whose lines are `step` elements apart.
    fn corner(&self, k: usize, batch: usize, (step, line): (isize, usize), bound: Bound<'_>) -> *const u8 {
        let start = self.batch.place(&self.across[k], &self.batch.run(batch, 1));
        let width = if k == 0 { self.shapes.widths.0 } else { self.shapes.widths.1 };
        bound.input(k).wrapping_offset((start + line as isize * step) * width as isize)
    }

    /// Where the result and the further inputs of one product lie.
    fn bind(&self, batch: usize, bound: Bound<'_>, room: &mut TileRoom<'_>) -> *mut u8 {
        let at = self.batch.run(batch, 1);
        for k in 0..self.extras {
            let axes = &self.across[3 + k];
            let place = self.batch.place(axes, &at) * axes.width as isize;
            room.bases[2 + k] = bound.input(2 + k).wrapping_offset(place);
        }
        bound.output(0).wrapping_offset(self.batch.place(&self.across[2], &at) * self.out_width as isize)
    }

    /// Makes a tile, of which a side may be packed, or both.
    unsafe fn tile(
        &self,
        batch: usize,
        area: Area,
        packed: Option<Packed<'_>>,
        bound: Bound<'_>,
        room: &mut TileRoom<'_>,
    ) {
        let (s, Area { row: i, column: j, rows: m, columns: n }) = (&self.shapes, area);
        let (a, b) = (self.corner(0, batch, (s.a.0, i), bound), self.corner(1, batch, (s.b.1, j), bound));
        let out = self.bind(batch, bound, room);
        if let Some((row, column)) = self.direct {
            let to = out.wrapping_offset((i as isize * row + j as isize * column) * self.out_width as isize);
            // SAFETY: the operands hold the tile.
            return unsafe { self.sums(&Shapes { m, n, ..*s }, (a, b), packed, to, &mut room.packed) };
        }
        // SAFETY: the operands hold the tile, the sums have room for it, and a run of a row is a block at most.
        unsafe {
            let sums = room.sums.as_mut().expect("lent where sums wait").start();
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

    /// Writes the sums of one tile.
    ///
    /// # Safety
    /// As [`Product::run`].
    unsafe fn sums(
        &self,
        shapes: &Shapes,
        (a, b): (*const u8, *const u8),
        packed: Option<Packed<'_>>,
        to: *mut u8,
        room: &mut Scratch,
    ) {
        // SAFETY: the same contract.
        unsafe {
            match packed {
                Some(Packed::Rows(gemm, rows)) => gemm.run(&float_tile(&turned(shapes), b, rows, to), room),
                Some(Packed::Columns(gemm, right)) => gemm.run(&float_tile(shapes, a, right, to), room),
                Some(Packed::Both(gemm, tile)) => {
                    gemm.run_thin(&ThinTile { columns: shapes.n, to, steps: shapes.to, ..tile });
                }
                None => self.product.run(shapes, (a, b), to, room),
            }
        }
    }
}

fn shapes(kernel: &MatMul, types: Types) -> Shapes {
    let rank = kernel.batch.rank();
    let strides = |o: &breakeven_ir::Operand| (o.layout.strides[rank], o.layout.strides[rank + 1]);
    Shapes {
        m: kernel.m,
        n: kernel.n,
        k: kernel.k,
        a: strides(&kernel.a),
        b: strides(&kernel.b),
        to: strides(&kernel.out),
        widths: (types.a.bytes(), types.b.bytes()),
    }
}

/// Memory for sums or packed rows, of which each is written by one thread before others read it.
#[derive(Clone, Copy)]
struct Sums(*mut u8);

// SAFETY: threads write disjoint sums, and read those of others when all are written.
unsafe impl Sync for Sums {}
// SAFETY: as above.
unsafe impl Send for Sums {}

impl Sums {
    fn at(&self, bytes: usize) -> *mut u8 {
        self.0.wrapping_add(bytes)
    }
}

/// The batch axes of `operands`.
fn batches(shape: &Shape, operands: &[(&breakeven_ir::Layout, usize)]) -> (Domain, Vec<Axes>) {
    Domain::new(operands, 0..shape.rank(), Order::Kept)
}

/// A part of a result.
#[derive(Clone, Copy)]
struct Area {
    row: usize,
    column: usize,
    rows: usize,
    columns: usize,
}

impl Area {
    /// The tile at `place`, counted in tiles.
    fn new(s: &Shapes, place: (usize, usize), (rows, columns): (usize, usize)) -> Area {
        let (row, column) = (place.0 * rows, place.1 * columns);
        Area { row, column, rows: rows.min(s.m - row), columns: columns.min(s.n - column) }
    }
}

/// What of a tile's operands was packed before.
#[derive(Clone, Copy)]
enum Packed<'a> {
    /// The left one, as the right one of the turned product.
    Rows(&'a Gemm, Right),
    /// The right one.
    Columns(&'a Gemm, Right),
    /// Few rows, and the right operand in thin panels.
    Both(&'a Gemm, ThinTile),
}

/// What one thread needs.
struct TileRoom<'a> {
    post: super::map::Room<'a>,
    bases: SmallVec<[*const u8; 8]>,
    /// Sums that wait for the epilogue, where there is one.
    sums: Option<Lent<'a>>,
    packed: Lent<'a>,
}

impl<'a> TileRoom<'a> {
    fn new(of: &'a CpuMatMul, machine: &'a Machine, (rows, columns): (usize, usize)) -> TileRoom<'a> {
        TileRoom {
            post: of.post.room(),
            bases: smallvec![std::ptr::null(); 2 + of.extras],
            sums: of.direct.is_none().then(|| machine.spare.lend(rows * columns * of.sum_width)),
            packed: machine.spare.lend(0),
        }
    }
}
