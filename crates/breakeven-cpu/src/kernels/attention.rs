//! Attention: the scores of some queries at a time, which stay in the cache until they are weights and have been used.

use std::ops::{Add, Range};

use breakeven_ir::{AttentionKernel, DType, Operand, RowWise, Unsupported};

use super::products::{Product, Shapes, Types, float_tile};
use super::{Bound, Machine, views};
use crate::domain::{Axes, Domain, Order};
use crate::folds::Element;
use crate::gemm::{Gemm, Lines, Right};
use crate::spare::Lent;
use crate::sweeps::{Sweep, Task};

/// Queries at a time: the fewest that pay for packed keys, and the most, from which on nothing is gained.
const LEAST: usize = 16;
const MOST: usize = 128;
/// Bytes by which lines of scores are longer, so that they do not all fall on one set of the first-level cache.
const APART: usize = 64;

/// Attention of tiles of queries.
#[derive(Debug)]
pub(crate) struct CpuAttention {
    kernel: AttentionKernel,
    scores: Product,
    sums: Product,
    softmax: Sweep,
    fns: RowFns,
    batch: Domain,
    /// How queries, keys, values, the output and the bias step through the batch.
    across: Vec<Axes>,
    /// Queries at a time.
    tile: usize,
    /// Elements from line to line of the scores.
    pitch: usize,
    width: usize,
    nanoseconds: f64,
}

/// Some queries of one batch, where its operands begin, and how many keys the last of them sees.
struct Unit {
    batch: usize,
    queries: Range<usize>,
    keys: usize,
    q: *const u8,
    k: *const u8,
    v: *const u8,
    bias: Option<*const u8>,
    out: *mut u8,
}

/// What one thread needs.
struct Room<'a> {
    queries: Lent<'a>,
    scores: Lent<'a>,
    keys: Lent<'a>,
    packed: Lent<'a>,
    /// The batch whose keys were packed.
    batch: Option<usize>,
}

impl CpuAttention {
    /// # Errors
    /// When it is not of f32 or f64.
    pub fn new(machine: &Machine, k: &AttentionKernel, nanoseconds: f64) -> Result<CpuAttention, Unsupported> {
        let dtype = k.q.dtype;
        let fns = match dtype {
            DType::F32 => RowFns::of::<f32>(),
            DType::F64 => RowFns::of::<f64>(),
            _ => return Err(Unsupported(format!("the CPU makes attention of {dtype} of products and a softmax"))),
        };
        let operands = [&k.q, &k.k, &k.v, &k.out].into_iter().chain(&k.bias);
        let (batch, across) = Domain::new(&views(operands), 0..k.batch().len(), Order::Kept);
        let width = dtype.bytes();
        let pitch = (k.keys() * width).next_multiple_of(APART) / width + APART / width;
        // Half of the cache is left to keys and values.
        let tile = (machine.caches.second / 2 / (pitch * width)).clamp(LEAST, MOST).min(k.queries());
        let types = Types { a: dtype, b: dtype, sums: dtype };
        let missing = || Unsupported(format!("the CPU has no attention of {dtype}"));
        let product = |shapes: &Shapes| Product::new(machine, types, shapes).ok_or_else(missing);
        Ok(CpuAttention {
            scores: product(&scores(k, pitch, tile, k.keys()))?,
            sums: product(&sums(k, pitch, tile, k.keys()))?,
            softmax: machine.natives.sweeps.get(RowWise::Softmax, dtype).ok_or_else(missing)?.0.rows,
            kernel: k.clone(),
            fns,
            batch,
            across,
            tile,
            pitch,
            width,
            nanoseconds,
        })
    }

    /// # Safety
    /// As [`super::Compiled::run`].
    pub unsafe fn run(&self, machine: &Machine, bound: Bound<'_>) {
        let tiles = self.kernel.queries().div_ceil(self.tile);
        machine.split(self.batch.elements() * tiles, self.nanoseconds, |units| {
            let lend = |elements: usize| machine.spare.lend(elements * self.width);
            let mut room = Room {
                queries: lend(self.tile * self.kernel.width()),
                scores: lend(self.tile * self.pitch),
                keys: lend(0),
                packed: lend(0),
                batch: None,
            };
            for unit in units {
                let unit = self.unit(unit / tiles, unit % tiles, bound);
                // SAFETY: units write different rows of the output.
                unsafe { self.one(&unit, &mut room) };
            }
        });
    }

    fn unit(&self, batch: usize, tile: usize, bound: Bound<'_>) -> Unit {
        let at = self.batch.run(batch, 1);
        let place = |operand: usize| self.batch.place(&self.across[operand], &at) * self.width as isize;
        let input = |index: usize, operand: usize| bound.input(index).wrapping_offset(place(operand));
        let start = tile * self.tile;
        let queries = start..(start + self.tile).min(self.kernel.queries());
        Unit {
            batch,
            keys: self.kernel.seen_by(queries.end - 1),
            queries,
            q: input(0, 0),
            k: input(1, 1),
            v: input(2, 2),
            bias: self.kernel.bias.as_ref().map(|_| input(3, 4)),
            out: bound.output(0).wrapping_offset(place(3)),
        }
    }

    /// # Safety
    /// The operands must hold the unit, whose rows of the output nobody else writes.
    unsafe fn one(&self, unit: &Unit, room: &mut Room<'_>) {
        // SAFETY: the caller's contract; the room holds the queries and scores of a tile.
        unsafe {
            if unit.keys > 0 {
                self.score(unit, room);
            }
            let unseen = self.hide(unit, room);
            if unit.keys > 0 {
                self.weigh(unit, &unseen, room);
            }
            let shapes = sums(&self.kernel, self.pitch, unit.queries.len(), unit.keys);
            let out = self.at(unit.out.cast_const(), &self.kernel.out, unit.queries.start).cast_mut();
            if unit.keys > 0 {
                self.sums.run(&shapes, (room.scores.start(), unit.v), out, &mut room.packed);
            } else {
                for row in 0..shapes.m as isize {
                    for column in 0..shapes.n as isize {
                        let place = (row * shapes.to.0 + column * shapes.to.1) * self.width as isize;
                        (self.fns.fill)(out.wrapping_offset(place), 1, 0.0);
                    }
                }
            }
        }
    }

    /// Row `row` of a matrix at `from`.
    fn at(&self, from: *const u8, operand: &Operand, row: usize) -> *const u8 {
        from.wrapping_offset(row as isize * steps(operand).0 * self.width as isize)
    }

    fn line(&self, room: &mut Room<'_>, row: usize) -> *mut u8 {
        room.scores.start().wrapping_add(row * self.pitch * self.width)
    }

    /// Products of the queries, which are scaled first, and the keys.
    unsafe fn score(&self, unit: &Unit, room: &mut Room<'_>) {
        let (k, width) = (&self.kernel, self.kernel.width());
        for (row, query) in unit.queries.clone().enumerate() {
            let to = room.queries.start().wrapping_add(row * width * self.width);
            // SAFETY: the operand holds the row, and there is room for it.
            unsafe { (self.fns.scaled)(self.at(unit.q, &k.q, query), steps(&k.q).1, to, width, k.scale) };
        }
        let (shapes, q) = (scores(k, self.pitch, unit.queries.len(), unit.keys), room.queries.start().cast_const());
        let to = room.scores.start();
        // SAFETY: the operands hold the tile, and there is room for the scores.
        unsafe {
            if let Product::Floats(gemm) = &self.scores {
                let right = self.packed(gemm, unit, room);
                gemm.run(&float_tile(&shapes, q, right, to), &mut room.packed);
            } else {
                self.scores.run(&shapes, (q, unit.k), to, &mut room.packed);
            }
        }
    }

    /// The keys of a batch, which all its tiles share.
    unsafe fn packed(&self, gemm: &Gemm, unit: &Unit, room: &mut Room<'_>) -> Right {
        let (columns, terms) = (self.kernel.keys(), self.kernel.width());
        let (across, along) = steps(&self.kernel.k);
        if room.batch != Some(unit.batch) {
            room.keys.reserve(gemm.packed_bytes(columns, terms));
            let lines = Lines { from: unit.k, lines: columns, terms, across, along };
            for panel in 0..columns.div_ceil(gemm.panel()) {
                // SAFETY: the operand holds the keys, and the room all panels.
                unsafe { gemm.pack_columns(&lines, panel, room.keys.start()) };
            }
            room.batch = Some(unit.batch);
        }
        Right::Packed { from: room.keys.start(), columns, panel: 0 }
    }

    /// Adds the bias, hides keys that are not seen, and says which queries see nothing.
    unsafe fn hide(&self, unit: &Unit, room: &mut Room<'_>) -> Vec<usize> {
        let k = &self.kernel;
        let mut unseen = Vec::new();
        for (row, query) in unit.queries.clone().enumerate() {
            let (line, seen) = (self.line(room, row), k.seen_by(query));
            // SAFETY: the line holds scores of all keys of the unit, the bias one for each.
            unsafe {
                if let (Some(from), Some(bias)) = (unit.bias, &k.bias) {
                    (self.fns.add)(self.at(from, bias, query), steps(bias).1, line, seen);
                }
                (self.fns.fill)(line.wrapping_add(seen * self.width), unit.keys - seen, f64::NEG_INFINITY);
                if (self.fns.is_unseen)(line, unit.keys) {
                    unseen.push(row);
                }
            }
        }
        unseen
    }

    /// Scores become weights.
    unsafe fn weigh(&self, unit: &Unit, unseen: &[usize], room: &mut Room<'_>) {
        let (from, step) = (room.scores.start(), (self.pitch * self.width) as isize);
        let (rows, steps) = (unit.queries.len(), (step, step));
        // SAFETY: the room holds the scores.
        unsafe {
            (self.softmax)(&Task { from, to: from, rows, steps, length: unit.keys, epsilon: 0.0 });
            for &row in unseen {
                (self.fns.fill)(self.line(room, row), unit.keys, 0.0);
            }
        }
    }
}

/// Elements from row to row and from column to column of a matrix.
fn steps(operand: &Operand) -> (isize, isize) {
    let (_, &[row, column]) = operand.layout.strides.split_last_chunk().expect("a matrix has two axes");
    (row, column)
}

/// Queries that lie without gaps times some keys.
fn scores(k: &AttentionKernel, pitch: usize, queries: usize, keys: usize) -> Shapes {
    let ((row, term), width) = (steps(&k.k), k.q.dtype.bytes());
    Shapes {
        m: queries,
        n: keys,
        k: k.width(),
        a: (k.width() as isize, 1),
        b: (term, row),
        to: (pitch as isize, 1),
        widths: (width, width),
    }
}

/// Weights times the values.
fn sums(k: &AttentionKernel, pitch: usize, queries: usize, keys: usize) -> Shapes {
    let width = k.q.dtype.bytes();
    Shapes {
        m: queries,
        n: k.value_width(),
        k: keys,
        a: (pitch as isize, 1),
        b: steps(&k.v),
        to: steps(&k.out),
        widths: (width, width),
    }
}

/// Loops over elements of one type.
#[derive(Clone, Copy, Debug)]
struct RowFns {
    /// Writes elements that lie apart, times a factor.
    scaled: unsafe fn(*const u8, isize, *mut u8, usize, f64),
    /// Adds elements that lie apart to others.
    add: unsafe fn(*const u8, isize, *mut u8, usize),
    /// Fills elements with a number.
    fill: unsafe fn(*mut u8, usize, f64),
    /// Whether all elements are -inf.
    is_unseen: unsafe fn(*const u8, usize) -> bool,
}

impl RowFns {
    fn of<T: Element + Add<Output = T>>() -> RowFns {
        RowFns { scaled: scaled::<T>, add: add::<T>, fill: fill::<T>, is_unseen: is_unseen::<T> }
    }
}

unsafe fn scaled<T: Element>(from: *const u8, step: isize, to: *mut u8, n: usize, factor: f64) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    for i in 0..n {
        // SAFETY: the caller vouches for `n` elements on both sides.
        unsafe { to.add(i).write(T::from_f(from.offset(i as isize * step).read().f() * factor)) };
    }
}

unsafe fn add<T: Element + Add<Output = T>>(from: *const u8, step: isize, to: *mut u8, n: usize) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    // SAFETY: the caller vouches for `n` elements on both sides. Neighbours are a loop of their own, which becomes SIMD.
    unsafe {
        if step == 1 {
            (0..n).for_each(|i| to.add(i).write(to.add(i).read() + from.add(i).read()));
        } else {
            (0..n).for_each(|i| to.add(i).write(to.add(i).read() + from.offset(i as isize * step).read()));
        }
    }
}

unsafe fn fill<T: Element>(to: *mut u8, n: usize, number: f64) {
    // SAFETY: the caller vouches for `n` elements.
    (0..n).for_each(|i| unsafe { to.cast::<T>().add(i).write(T::from_f(number)) });
}

unsafe fn is_unseen<T: Element>(from: *const u8, n: usize) -> bool {
    // SAFETY: the caller vouches for `n` elements.
    (0..n).all(|i| unsafe { from.cast::<T>().add(i).read() }.f() == f64::NEG_INFINITY)
}
