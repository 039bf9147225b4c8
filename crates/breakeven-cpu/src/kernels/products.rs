//! Products of two tiles: a blocked matrix product, own loops where one side is a vector, packed panels for integers.

use breakeven_ir::DType;

use super::Machine;
use crate::gemm::{Gemm, Lines, Right, Tile};
use crate::integers::{IntegerPanels, Side, Task};
use crate::program::Scratch;
use crate::vectors::{MatVec, MatVecFn};

/// Types of both operands and of the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Types {
    pub a: DType,
    pub b: DType,
    pub sums: DType,
}

/// One tile: its extents, and the strides of both operands by row and column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shapes {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: (isize, isize),
    pub b: (isize, isize),
    /// Of the sums: elements from row to row, and from column to column.
    pub to: (isize, isize),
    /// Bytes of an element of either operand.
    pub widths: (usize, usize),
}

/// How the sums of a tile are made.
#[derive(Clone, Copy, Debug)]
pub(super) enum Product {
    /// A loop over any strides.
    Loop(unsafe fn(&Shapes, *const u8, *const u8, *mut u8)),
    /// Strips and panels of floats.
    Floats(Gemm),
    /// The same with the sides changed: the columns of the right operand are the strips, read where they lie, and the few
    /// rows of the left one a panel.
    FewRows(Gemm),
    /// Dot products with a vector, which is copied where it has gaps.
    Dots(MatVecFn),
    /// A vector's elements times the lines of a matrix.
    Sums(MatVecFn),
    /// Panels of integers, with the sides changed where that is better.
    Integers(IntegerPanels, bool),
}

/// Terms that one running f32 sum may have: a bound on its rounding, not on its speed.
const LONGEST_RUN: usize = 1 << 16;

impl Product {
    /// The way for these types and strides; `None` where there is none.
    pub fn new(machine: &Machine, types: Types, shapes: &Shapes) -> Option<Product> {
        let all_are = |dtype| types == Types { a: dtype, b: dtype, sums: dtype };
        let is_float = all_are(DType::F32) || all_are(DType::F64);
        let has_vector = is_float && (shapes.m == 1 || shapes.n == 1) && shapes.k > 0;
        if let Some(product) = has_vector.then(|| with_vector(machine, types.sums, shapes)).flatten() {
            return Some(product);
        }
        let sums = if types.a.is_half() { DType::F32 } else { types.a };
        let has_gemm = types.a == types.b && types.sums == sums;
        if let Some(gemm) = has_gemm.then(|| machine.gemm(types.a)).flatten() {
            return Some(Product::of_floats(gemm, shapes));
        }
        let ways = &machine.natives.integers;
        let is_turned = ways.get(types.a, types.b, types.sums)?.is_turned(shapes.m, shapes.n);
        let (left, right) = if is_turned { (types.b, types.a) } else { (types.a, types.b) };
        ways.get(left, right, types.sums).map(|panels| Product::Integers(panels, is_turned))
    }

    /// That of strips and panels.
    pub fn of_floats(gemm: Gemm, shapes: &Shapes) -> Product {
        let turned = gemm.for_columns(shapes.m);
        let few = is_of_few_rows(shapes, turned.panel());
        if few { Product::FewRows(turned) } else { Product::Floats(gemm.for_columns(shapes.n)) }
    }

    /// Writes the sums of one tile.
    ///
    /// # Safety
    /// The operands must hold the tile, aligned to their elements; the output is not read before it is written.
    pub unsafe fn run(&self, shapes: &Shapes, (a, b): (*const u8, *const u8), to: *mut u8, room: &mut Scratch) {
        // SAFETY: the same contract.
        unsafe {
            match self {
                Product::Loop(run) => run(shapes, a, b, to),
                Product::Floats(gemm) => gemm.run(&float_tile(shapes, a, Right::Loose(right(shapes, b)), to), room),
                Product::FewRows(gemm) => {
                    let s = turned(shapes);
                    gemm.run(&float_tile(&s, b, Right::Loose(right(&s, a)), to), room);
                }
                Product::Sums(run) => run(&mat_vec(shapes, a, b, to)),
                Product::Integers(panels, is_turned) => {
                    let mut task = task(shapes, a, b, to);
                    if *is_turned {
                        task.sides.reverse();
                        task.steps = (task.steps.1, task.steps.0);
                    }
                    panels.run(&task, room);
                }
                Product::Dots(run) => {
                    let (mut p, width) = (mat_vec(shapes, a, b, to), shapes.widths.0);
                    if p.step != 1 {
                        room.reserve(width * p.terms);
                        crate::blocks::load_run(p.vector, p.step, room.start(), p.terms, width);
                        p.vector = room.start();
                    }
                    run(&p);
                }
            }
        }
    }
}

/// The way of a product of which one side is a vector; none where strides want it packed.
fn with_vector(machine: &Machine, dtype: DType, s: &Shapes) -> Option<Product> {
    let vectors = &machine.natives.vectors[usize::from(dtype == DType::F64)];
    let (rows, (row, term)) = if s.n == 1 { (s.m, s.a) } else { (s.n, (s.b.1, s.b.0)) };
    if term == 1 {
        return Some(Product::Dots(vectors.dots));
    }
    if row == 1 && s.k <= LONGEST_RUN {
        let loops = if rows <= vectors.most_of_few { vectors.few_sums } else { vectors.sums };
        return Some(Product::Sums(loops));
    }
    (dtype == DType::F32).then_some(Product::Loop(scattered))
}

/// The tile as a matrix times a vector.
fn mat_vec(s: &Shapes, a: *const u8, b: *const u8, out: *mut u8) -> MatVec {
    if s.n == 1 {
        let ((row, term), step) = (s.a, s.b.0);
        return MatVec { matrix: a, row, term, vector: b, step, out, out_step: s.to.0, rows: s.m, terms: s.k };
    }
    let ((term, row), step) = (s.b, s.a.1);
    MatVec { matrix: b, row, term, vector: a, step, out, out_step: s.to.1, rows: s.n, terms: s.k }
}

/// Columns to a row of the left operand, at least, for the sides to be changed: sums are then written one by one.
const WIDER: usize = 4;

/// True where all rows fit a panel and the terms of the right operand's columns are neighbours, as those of weights are: to
/// pack it would take longer than the product.
fn is_of_few_rows(s: &Shapes, panel: usize) -> bool {
    s.b.0 == 1 && s.b.1 != 1 && s.m <= panel && s.n >= WIDER * s.m
}

/// The product of the operands' transposes, in the other order.
pub(super) fn turned(s: &Shapes) -> Shapes {
    let swap = |(x, y): (isize, isize)| (y, x);
    let widths = (s.widths.1, s.widths.0);
    Shapes { m: s.n, n: s.m, k: s.k, a: swap(s.b), b: swap(s.a), to: swap(s.to), widths }
}

/// The columns of the right operand.
pub(super) fn right(s: &Shapes, b: *const u8) -> Lines {
    Lines { from: b, lines: s.n, terms: s.k, across: s.b.1, along: s.b.0 }
}

/// The tile as strips and panels.
pub(super) fn float_tile(s: &Shapes, a: *const u8, right: Right, to: *mut u8) -> Tile {
    let left = Lines { from: a, lines: s.m, terms: s.k, across: s.a.0, along: s.a.1 };
    Tile { left, right, columns: s.n, to, steps: s.to }
}

/// The tile as a product of panels.
fn task(s: &Shapes, a: *const u8, b: *const u8, to: *mut u8) -> Task {
    let side = |from, lines, (across, along): (isize, isize), width: usize| {
        let width = width as isize;
        Side { from, lines, across: across * width, along: along * width }
    };
    let left = side(a, s.m, s.a, s.widths.0);
    let right = side(b, s.n, (s.b.1, s.b.0), s.widths.1);
    Task { sides: [left, right], terms: s.k, to, steps: s.to }
}

/// Dot products of f32 whose terms are not neighbours, in double precision: memory sets the pace, and one running sum of f32
/// would stand still at 2^24.
unsafe fn scattered(s: &Shapes, a: *const u8, b: *const u8, to: *mut u8) {
    let (a, b, to) = (a.cast::<f32>(), b.cast::<f32>(), to.cast::<f32>());
    for i in 0..s.m as isize {
        for j in 0..s.n as isize {
            // SAFETY: the caller vouches for all three operands.
            let term =
                |p: isize| unsafe { (a.offset(i * s.a.0 + p * s.a.1).read(), b.offset(p * s.b.0 + j * s.b.1).read()) };
            let sum = (0..s.k as isize).map(term).fold(0.0, |sum, (a, b)| sum + f64::from(a) * f64::from(b));
            // SAFETY: as above.
            unsafe { to.offset(i * s.to.0 + j * s.to.1).write(sum as f32) };
        }
    }
}
