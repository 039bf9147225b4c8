//! Products of two tiles: a blocked matrix product, own loops where one side is a vector, packed panels for integers.

use breakeven_ir::DType;

use super::Machine;
use super::panels::Panels;
use crate::integers::{IntegerPanels, Side, Task};
use crate::program::Scratch;
use crate::vectors::MatVec;

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
    /// Panels that are widened first.
    Halves(Panels),
    /// Dot products with a vector, which is copied where it has gaps.
    Dots(unsafe fn(&MatVec)),
    /// A vector's elements times the lines of a matrix.
    Sums(unsafe fn(&MatVec)),
    /// Panels of integers, with the sides changed where that is better.
    Integers(IntegerPanels, bool),
}

/// Terms that one running f32 sum may have: a bound on its rounding, not on its speed.
const LONGEST_RUN: usize = 1 << 16;

impl Product {
    /// The way for these types and strides; `None` where there is none.
    pub fn new(machine: &Machine, types: Types, shapes: &Shapes) -> Option<Product> {
        let all_are = |dtype| types == Types { a: dtype, b: dtype, sums: dtype };
        if types.a.is_half() {
            return Some(Product::Halves(Panels::new(machine, types.a)));
        }
        if all_are(DType::F32) && (shapes.m == 1 || shapes.n == 1) && shapes.k > 0 {
            let (row, term) = if shapes.n == 1 { shapes.a } else { (shapes.b.1, shapes.b.0) };
            if term == 1 {
                return Some(Product::Dots(machine.natives.vectors.dots));
            }
            if row == 1 && shapes.k <= LONGEST_RUN {
                return Some(Product::Sums(machine.natives.vectors.sums));
            }
            return Some(Product::Loop(scattered));
        }
        if all_are(DType::F32) {
            return Some(Product::Loop(floats::<f32>));
        }
        if all_are(DType::F64) {
            return Some(Product::Loop(floats::<f64>));
        }
        let ways = &machine.natives.integers;
        let is_turned = ways.get(types.a, types.b, types.sums)?.is_turned(shapes.m, shapes.n);
        let (left, right) = if is_turned { (types.b, types.a) } else { (types.a, types.b) };
        ways.get(left, right, types.sums).map(|panels| Product::Integers(panels, is_turned))
    }

    /// Writes the sums of one tile.
    ///
    /// # Safety
    /// The operands must hold the tile, aligned to their elements; the output is not read before it is written.
    pub unsafe fn run(self, shapes: &Shapes, (a, b): (*const u8, *const u8), to: *mut u8, room: &mut Scratch) {
        // SAFETY: the same contract.
        unsafe {
            match self {
                Product::Loop(run) => run(shapes, a, b, to),
                Product::Halves(panels) => panels.run(shapes, a, b, to),
                Product::Sums(run) => run(&mat_vec(shapes, a, b, to)),
                Product::Integers(panels, is_turned) => {
                    let mut task = task(shapes, a, b, to);
                    if is_turned {
                        task.sides.reverse();
                        task.steps = (task.steps.1, task.steps.0);
                    }
                    panels.run(&task, room);
                }
                Product::Dots(run) => {
                    let mut p = mat_vec(shapes, a, b, to);
                    let mut copy = Scratch::default();
                    if p.step != 1 {
                        copy = Scratch::of_bytes(4 * p.terms);
                        let from = p.vector.cast();
                        crate::blocks::load_run(from, p.step, copy.start(), p.terms, 4);
                        p.vector = copy.start().cast_const().cast();
                    }
                    run(&p);
                    drop(copy);
                }
            }
        }
    }
}

/// The tile as a matrix times a vector.
fn mat_vec(s: &Shapes, a: *const u8, b: *const u8, to: *mut u8) -> MatVec {
    let (a, b, out) = (a.cast(), b.cast(), to.cast());
    if s.n == 1 {
        let ((row, term), step) = (s.a, s.b.0);
        return MatVec { matrix: a, row, term, vector: b, step, out, out_step: s.to.0, rows: s.m, terms: s.k };
    }
    let ((term, row), step) = (s.b, s.a.1);
    MatVec { matrix: b, row, term, vector: a, step, out, out_step: s.to.1, rows: s.n, terms: s.k }
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

unsafe fn floats<T: From<u8> + Copy + 'static>(s: &Shapes, a: *const u8, b: *const u8, to: *mut u8) {
    // SAFETY: the same contract.
    unsafe { multiply::<T>(s, a, b, to, false) };
}

/// Writes the sums of one tile of f32, or adds them to what is there.
///
/// # Safety
/// As [`Product::run`]; where they are added, the output holds sums.
pub(super) unsafe fn add_floats(s: &Shapes, a: *const u8, b: *const u8, to: *mut u8, add: bool) {
    // SAFETY: the same contract.
    unsafe { multiply::<f32>(s, a, b, to, add) };
}

unsafe fn multiply<T: From<u8> + Copy + 'static>(s: &Shapes, a: *const u8, b: *const u8, to: *mut u8, add: bool) {
    let one = T::from(1);
    // SAFETY: the caller vouches for all three operands; the output is read only where it is added to.
    unsafe {
        gemm::gemm(
            s.m,
            s.n,
            s.k,
            to.cast::<T>(),
            s.to.1,
            s.to.0,
            add,
            a.cast::<T>(),
            s.a.1,
            s.a.0,
            b.cast::<T>(),
            s.b.1,
            s.b.0,
            T::from(u8::from(add)),
            one,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
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
