//! Matrix products.

use breakeven_ir::{DType, MatMul, Shape, Unsupported, Work};

use super::epilogue::Epilogue;
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

/// Writes `rows x columns` sums to `to`, row-major without gaps.
type Product = unsafe fn(&Shapes, *const u8, *const u8, *mut u8);

/// One tile: its extents, and the strides of both operands by row and column.
#[derive(Clone, Copy, Debug)]
struct Shapes {
    m: usize,
    n: usize,
    k: usize,
    a: (isize, isize),
    b: (isize, isize),
    /// Of the sums: elements from row to row, and from column to column.
    to: (isize, isize),
}

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
    width: usize,
    out_width: usize,
    tile: (usize, usize),
    nanoseconds: f64,
}

impl CpuMatMul {
    pub fn new(machine: &Machine, kernel: &MatMul, work: Work) -> Result<CpuMatMul, Unsupported> {
        let dtype = kernel.a.dtype;
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
        };
        Ok(CpuMatMul {
            product: product(dtype).ok_or_else(|| Unsupported(format!("the CPU has no matrix product of {dtype}")))?,
            shapes,
            batch,
            across,
            grid,
            direct: post.is_identity().then_some(shapes.to),
            post,
            extras: kernel.inputs.len(),
            width: dtype.bytes(),
            out_width: kernel.out.dtype.bytes(),
            tile: tile(&shapes),
            nanoseconds: work.flops as f64 * machine.tuning.ns_per_product_flop,
        })
    }

    /// # Safety
    /// As [`super::Compiled::run`].
    pub unsafe fn run(&self, machine: &Machine, bound: Bound<'_>) {
        let (rows, columns) = self.tile;
        let down = self.shapes.m.div_ceil(rows);
        let tiles = down * self.shapes.n.div_ceil(columns);
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

    unsafe fn tile(&self, batch: usize, (i, j): (usize, usize), bound: Bound<'_>, room: &mut TileRoom) {
        let at = self.batch.run(batch, 1);
        let place = |k: usize| self.batch.place(&self.across[k], &at);
        let (width, s) = (self.width as isize, &self.shapes);
        let a = bound.input(0).wrapping_offset((place(0) + i as isize * s.a.0) * width);
        let b = bound.input(1).wrapping_offset((place(1) + j as isize * s.b.1) * width);
        let out = bound.output(0).wrapping_offset(place(2) * self.out_width as isize);
        let (m, n) = (self.tile.0.min(s.m - i), self.tile.1.min(s.n - j));
        if let Some((row, column)) = self.direct {
            let to = out.wrapping_offset((i as isize * row + j as isize * column) * width);
            // SAFETY: the operands hold the tile.
            return unsafe { (self.product)(&Shapes { m, n, ..*s }, a, b, to) };
        }
        for k in 0..self.extras {
            let axes = &self.across[3 + k];
            room.bases[2 + k] = bound.input(2 + k).wrapping_offset(place(3 + k) * axes.width as isize);
        }
        // SAFETY: the operands hold the tile, the sums have room for it, and a run of a row is a block at most.
        unsafe {
            let sums = room.sums.start();
            (self.product)(&Shapes { m, n, to: (n as isize, 1), ..*s }, a, b, sums);
            for row in 0..m {
                for start in (0..n).step_by(BLOCK) {
                    let block = self.grid.run((i + row) * s.n + j + start, BLOCK.min(n - start));
                    let values = sums.wrapping_add((row * n + start) * self.width);
                    self.post.write(&self.grid, &block, values, &room.bases, out, &mut room.post);
                }
            }
        }
    }
}

/// Extents of one tile: halved while there are few of them and each is still worth a thread's while.
fn tile(shapes: &Shapes) -> (usize, usize) {
    let (mut rows, mut columns) = (shapes.m.clamp(1, TILE), shapes.n.clamp(1, TILE));
    let tiles = |rows: usize, columns: usize| shapes.m.div_ceil(rows) * shapes.n.div_ceil(columns);
    while tiles(rows, columns) < FEW && rows * columns * shapes.k >= 2 * LEAST {
        if rows >= columns {
            rows = rows.div_ceil(2).next_multiple_of(16);
        } else {
            columns = columns.div_ceil(2).next_multiple_of(16);
        }
    }
    (rows, columns)
}

/// The batch axes of `operands`.
fn batches(shape: &Shape, operands: &[(&breakeven_ir::Layout, usize)]) -> (Domain, Vec<Axes>) {
    Domain::new(operands, 0..shape.rank(), Order::Kept)
}

/// What one thread needs.
struct TileRoom {
    post: super::map::Room,
    bases: Vec<*const u8>,
    sums: Scratch,
}

impl TileRoom {
    fn new(of: &CpuMatMul) -> TileRoom {
        let elements = if of.direct.is_some() { 0 } else { of.tile.0 * of.tile.1 };
        TileRoom {
            post: of.post.room(),
            bases: vec![std::ptr::null(); 2 + of.extras],
            sums: Scratch::of_bytes(elements * of.width),
        }
    }
}

fn product(dtype: DType) -> Option<Product> {
    Some(match dtype {
        DType::F32 => floats::<f32>,
        DType::F64 => floats::<f64>,
        DType::I64 => integers::<i64>,
        DType::I32 => integers::<i32>,
        DType::I16 => integers::<i16>,
        DType::I8 => integers::<i8>,
        DType::U64 => integers::<u64>,
        DType::U32 => integers::<u32>,
        DType::U16 => integers::<u16>,
        DType::U8 => integers::<u8>,
        DType::F16 | DType::BF16 | DType::Bool => return None,
    })
}

unsafe fn floats<T: From<u8> + Copy + 'static>(s: &Shapes, a: *const u8, b: *const u8, to: *mut u8) {
    let (zero, one) = (T::from(0), T::from(1));
    // SAFETY: the caller vouches for all three operands; the output is not read.
    unsafe {
        gemm::gemm(
            s.m,
            s.n,
            s.k,
            to.cast::<T>(),
            s.to.1,
            s.to.0,
            false,
            a.cast::<T>(),
            s.a.1,
            s.a.0,
            b.cast::<T>(),
            s.b.1,
            s.b.0,
            zero,
            one,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// Integers that wrap.
trait Wrapping: Copy + Default {
    fn add_product(self, a: Self, b: Self) -> Self;
}

macro_rules! wrapping {
    ($($t:ty),+) => {$(
        impl Wrapping for $t {
            #[inline(always)]
            fn add_product(self, a: $t, b: $t) -> $t {
                self.wrapping_add(a.wrapping_mul(b))
            }
        }
    )+};
}
wrapping!(i64, i32, i16, i8, u64, u32, u16, u8);

unsafe fn integers<T: Wrapping>(s: &Shapes, a: *const u8, b: *const u8, to: *mut u8) {
    let (a, b, to) = (a.cast::<T>(), b.cast::<T>(), to.cast::<T>());
    for i in 0..s.m as isize {
        for j in 0..s.n as isize {
            // SAFETY: the caller vouches for all three operands.
            let term =
                |p: isize| unsafe { (a.offset(i * s.a.0 + p * s.a.1).read(), b.offset(p * s.b.0 + j * s.b.1).read()) };
            let sum = (0..s.k as isize).map(term).fold(T::default(), |sum, (a, b)| sum.add_product(a, b));
            // SAFETY: as above.
            unsafe { to.offset(i * s.to.0 + j * s.to.1).write(sum) };
        }
    }
}
