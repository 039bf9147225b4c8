//! Matrix products.

use breakeven_ir::{DType, MatMul, Row, Shape, Unsupported};

use super::cut::{Chunks, Cut};
use super::epilogue::Epilogue;
use super::products::{Product, Shapes, Types, float_tile, right, turned};
use super::{Bound, Machine, views};
use crate::domain::{Axes, BLOCK, Domain, Order};
use crate::gemm::{Gemm, Lines, Right};
use crate::natives::RowFn;
use crate::program::Scratch;
use crate::spare::Lent;

/// Bytes of a right operand that are packed at once for all rows.
const PACKED_BYTES: usize = 32 << 20;
/// Rows of a tile that are never made fewer for the sake of sharing: each tile reads the packed columns again.
const LEAST_SHARED: usize = 128;

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
        let product = Product::new(machine, types, &shapes).ok_or_else(missing)?;
        let cut = Cut { product, machine, batch: batch.elements(), waits: !post.is_identity() };
        let mut tile = cut.tile(&shapes);
        let chunks = cut.chunks(&shapes).zip(adding(machine, types.sums));
        let shared = shares(product, &shapes, tile.0).filter(|_| chunks.is_none());
        if let Some(gemm) = shared {
            tile.0 = rows_at_once(&cut, &shapes, tile, gemm);
        }
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
            if let Some(gemm) = self.shared {
                return self.run_shared(machine, bound, gemm);
            }
            if let Product::FewRows(gemm) = self.product {
                return self.run_few_rows(machine, bound, gemm);
            }
        }
        let (down, across) = self.tiles();
        let tiles = down * across;
        machine.split(self.batch.elements() * tiles, self.nanoseconds, |units| {
            let mut room = TileRoom::new(self, machine);
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
        let at_once = packed_at_once(s, self.tile.1, gemm);
        let rounds = self.batch.elements() * across.div_ceil(at_once);
        let mut lent = machine.spare.lend(gemm.packed_bytes(at_once * self.tile.1, s.k));
        for round in 0..rounds {
            let (batch, first) = (round / across.div_ceil(at_once), round % across.div_ceil(at_once) * at_once);
            let (start, tiles) = (first * self.tile.1, at_once.min(across - first));
            let columns = (tiles * self.tile.1).min(s.n - start);
            let lines = right(&Shapes { n: columns, ..*s }, self.corner(1, batch, (s.b.1, start), bound));
            let (packed, panels) = (Packed { lines, room: lent.start() }, columns.div_ceil(gemm.panel()));
            let bytes = gemm.packed_bytes(columns, s.k) as f64;
            machine.split(panels, 2.0 * bytes * machine.tuning.ns_per_byte, |panels| {
                // SAFETY: the room holds all panels.
                panels.for_each(|panel| unsafe { packed.pack(gemm, panel) });
            });
            machine.split(down * tiles, self.nanoseconds / rounds as f64, |units| {
                let mut room = TileRoom::new(self, machine);
                for unit in units {
                    let place = (unit % down, first + unit / down);
                    let panel = unit / down * self.tile.1 / gemm.panel();
                    let right = packed.right(panel);
                    // SAFETY: tiles do not overlap, and their columns were packed.
                    unsafe { self.tile(batch, place, Some((gemm, right)), bound, &mut room) };
                }
            });
        }
    }

    /// Packs the rows of all products, which fit a panel each, then makes all tiles.
    unsafe fn run_few_rows(&self, machine: &Machine, bound: Bound<'_>, gemm: Gemm) {
        let (s, (_, across), batches) = (turned(&self.shapes), self.tiles(), self.batch.elements());
        let bytes = gemm.packed_bytes(s.n, s.k);
        let mut lent = machine.spare.lend(batches * bytes);
        let rows = Sums(lent.start());
        machine.split(batches, (batches * bytes) as f64 * machine.tuning.ns_per_byte, |batches| {
            for batch in batches {
                let lines = right(&s, self.corner(0, batch, (0, 0), bound));
                // SAFETY: the room holds the rows of all products, and each of them is packed by one thread.
                unsafe { gemm.pack_columns(&lines, 0, rows.at(batch * bytes)) };
            }
        });
        machine.split(batches * across, self.nanoseconds, |units| {
            let mut room = TileRoom::new(self, machine);
            for unit in units {
                let batch = unit / across;
                let right = Right::Packed { from: rows.at(batch * bytes), columns: s.n, panel: 0 };
                // SAFETY: tiles do not overlap, and their rows were packed.
                unsafe { self.tile(batch, (0, unit % across), Some((gemm, right)), bound, &mut room) };
            }
        });
    }

    /// Makes the sums of some terms after the other, then adds them up in this order.
    unsafe fn run_chunks(&self, machine: &Machine, bound: Bound<'_>, chunks: Chunks, add: RowFn) {
        let s = &self.shapes;
        let (parts, bytes) = (chunks.count, s.m * s.n * self.sum_width);
        let mut lent = machine.spare.lend(self.batch.elements() * parts * bytes);
        let sums = Sums(lent.start());
        machine.split(self.batch.elements() * parts, self.nanoseconds, |units| {
            let mut room = machine.spare.lend(0);
            for unit in units {
                let (batch, first) = (unit / parts, unit % parts * chunks.terms);
                let shapes = Shapes { k: chunks.terms.min(s.k - first), to: (s.n as isize, 1), ..*s };
                let a = self.corner(0, batch, (s.a.1, first), bound);
                let b = self.corner(1, batch, (s.b.0, first), bound);
                // SAFETY: the operands hold these terms, and each unit has sums of its own.
                unsafe { self.product.run(&shapes, (a, b), sums.at(unit * bytes), &mut room) };
            }
        });
        let (blocks, moved) = (self.grid.blocks(), lent.bytes() as f64);
        machine.split(self.batch.elements() * blocks, moved * machine.tuning.ns_per_byte, |units| {
            let mut room = TileRoom::new(self, machine);
            for unit in units {
                let (batch, block) = (unit / blocks, self.grid.block(unit % blocks));
                let out = self.bind(batch, bound, &mut room);
                let place = |chunk: usize| sums.at((batch * parts + chunk) * bytes + block.start * self.sum_width);
                let total = place(0);
                // SAFETY: blocks do not overlap, and every chunk has sums for all of them.
                unsafe {
                    (1..parts).for_each(|chunk| add(&[total, place(chunk), total], total, block.n));
                    self.post.write(&self.grid, &block, total, &room.bases, out, &mut room.post);
                }
            }
        });
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
        let s = &self.shapes;
        let (a, b) = (self.corner(0, batch, (s.a.0, i), bound), self.corner(1, batch, (s.b.1, j), bound));
        let out = self.bind(batch, bound, room);
        let (m, n) = (self.tile.0.min(s.m - i), self.tile.1.min(s.n - j));
        if let Some((row, column)) = self.direct {
            let to = out.wrapping_offset((i as isize * row + j as isize * column) * self.out_width as isize);
            // SAFETY: the operands hold the tile.
            return unsafe { self.sums(&Shapes { m, n, ..*s }, (a, b), packed, to, &mut room.packed) };
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
                Some((gemm, rows)) if matches!(self.product, Product::FewRows(_)) => {
                    gemm.run(&float_tile(&turned(shapes), b, rows, to), room);
                }
                Some((gemm, right)) => gemm.run(&float_tile(shapes, a, right, to), room),
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

/// The loop that adds sums of `dtype`.
fn adding(machine: &Machine, dtype: DType) -> Option<RowFn> {
    Row::named("add").and_then(|add| machine.natives.row(add, dtype))
}

/// The way of a product whose right operand is better packed once for all rows.
fn shares(product: Product, shapes: &Shapes, rows: usize) -> Option<Gemm> {
    let Product::Floats(gemm) = product else { return None };
    let right = right(shapes, std::ptr::null());
    (rows < shapes.m && shapes.k > 0 && gemm.packs(shapes.m, &right)).then_some(gemm)
}

/// Tiles across of which the right operand is packed at once.
fn packed_at_once(s: &Shapes, columns: usize, gemm: Gemm) -> usize {
    (PACKED_BYTES / gemm.packed_bytes(columns, s.k)).clamp(1, s.n.div_ceil(columns).max(1))
}

/// Rows of a tile, fewer where the tiles of the columns that are packed at once are too few for all threads to end together.
fn rows_at_once(cut: &Cut<'_>, s: &Shapes, tile: (usize, usize), gemm: Gemm) -> usize {
    let (across, mut rows) = (packed_at_once(s, tile.1, gemm), tile.0);
    while s.m.div_ceil(rows) * across < cut.enough() && rows >= 2 * LEAST_SHARED {
        rows = rows.div_ceil(2).next_multiple_of(gemm.whole().0);
    }
    rows
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
    sums: Lent<'a>,
    packed: Lent<'a>,
}

impl<'a> TileRoom<'a> {
    fn new(of: &'a CpuMatMul, machine: &'a Machine) -> TileRoom<'a> {
        let elements = if of.direct.is_some() { 0 } else { of.tile.0 * of.tile.1 };
        TileRoom {
            post: of.post.room(),
            bases: vec![std::ptr::null(); 2 + of.extras],
            sums: machine.spare.lend(elements * of.sum_width),
            packed: machine.spare.lend(0),
        }
    }
}
