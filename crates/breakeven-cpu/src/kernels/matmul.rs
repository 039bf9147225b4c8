//! Matrix products.

use breakeven_ir::{MatMul, Shape, Unsupported};

use super::epilogue::Epilogue;
use super::products::{Product, Shapes, Types};
use super::{Bound, Machine, views};
use crate::domain::{Axes, BLOCK, Domain, Order};
use crate::program::Scratch;

/// Rows and columns of one tile: large enough that packing is cheap, and the same whatever the thread count, so that a
/// result does not depend on it.
const TILE: usize = 256;
/// Fewer tiles than this are made smaller.
const FEW: usize = 8;
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
            tile: tile(product, &shapes),
            nanoseconds,
        })
    }

    /// # Safety
    /// As [`super::Compiled::run`].
    pub unsafe fn run(&self, machine: &Machine, bound: Bound<'_>) {
        let (rows, columns) = self.tile;
        let down = self.shapes.m.div_ceil(rows);
        let tiles = down * self.shapes.n.div_ceil(columns);
        self.post.expect(machine, self.batch.elements() * self.shapes.m * self.shapes.n);
        machine.split(self.batch.elements() * tiles, self.nanoseconds, |units| {
            let mut room = TileRoom::new(self);
            for unit in units {
                let (batch, tile) = (unit / tiles, unit % tiles);
                let corner = (tile % down * rows, tile / down * columns);
                // SAFETY: tiles do not overlap.
                unsafe { self.tile(batch, corner, bound, &mut room) };
            }
        });
    }

    unsafe fn tile(&self, batch: usize, (i, j): (usize, usize), bound: Bound<'_>, room: &mut TileRoom<'_>) {
        let at = self.batch.run(batch, 1);
        let place = |k: usize| self.batch.place(&self.across[k], &at);
        let s = &self.shapes;
        let a = bound.input(0).wrapping_offset((place(0) + i as isize * s.a.0) * s.widths.0 as isize);
        let b = bound.input(1).wrapping_offset((place(1) + j as isize * s.b.1) * s.widths.1 as isize);
        let out = bound.output(0).wrapping_offset(place(2) * self.out_width as isize);
        let (m, n) = (self.tile.0.min(s.m - i), self.tile.1.min(s.n - j));
        if let Some((row, column)) = self.direct {
            let to = out.wrapping_offset((i as isize * row + j as isize * column) * self.out_width as isize);
            // SAFETY: the operands hold the tile.
            return unsafe { self.product.run(&Shapes { m, n, ..*s }, (a, b), to, &mut room.packed) };
        }
        for k in 0..self.extras {
            let axes = &self.across[3 + k];
            room.bases[2 + k] = bound.input(2 + k).wrapping_offset(place(3 + k) * axes.width as isize);
        }
        // SAFETY: the operands hold the tile, the sums have room for it, and a run of a row is a block at most.
        unsafe {
            let sums = room.sums.start();
            self.product.run(&Shapes { m, n, to: (n as isize, 1), ..*s }, (a, b), sums, &mut room.packed);
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

/// Extents of one tile: halved while there are few of them and each is still worth a thread's while.
fn tile(product: Product, shapes: &Shapes) -> (usize, usize) {
    let (most, least) = match product {
        Product::Loop(_) | Product::Halves(_) => (TILE, LEAST),
        Product::Integers(..) => (TILE, LEAST_OF_INTEGERS),
        Product::Dots(_) | Product::Sums(_) => (LONG, LEAST_OF_VECTOR),
    };
    let (mut rows, mut columns) = (shapes.m.clamp(1, most), shapes.n.clamp(1, most));
    let tiles = |rows: usize, columns: usize| shapes.m.div_ceil(rows) * shapes.n.div_ceil(columns);
    let half = |extent: usize| extent.div_ceil(2).next_multiple_of(16).min(extent);
    while tiles(rows, columns) < FEW && rows * columns * shapes.k >= 2 * least {
        let halved = if rows >= columns { (half(rows), columns) } else { (rows, half(columns)) };
        if halved == (rows, columns) {
            break;
        }
        (rows, columns) = halved;
    }
    (rows, columns)
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
