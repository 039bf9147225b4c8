//! Matrix products: tiles of the result, operands passed through workgroup memory, a tile of micro-tiles in registers. A
//! vector times a matrix is a reduction.

mod operand;
mod sums;
mod tile;
mod vector;

use breakeven_ir::{DType, Expr, Fold, MatMul, ReduceRows, Shape, Unsupported};

use super::conv::Windows;
use super::{Plan, body_of, pack, reduce, word_output};
use crate::wgsl::Tensor;
pub(super) use sums::finish;
use sums::push;
pub(super) use tile::Tile;

/// With fewer tiles than this, long sums are split.
const SPLIT_BELOW: usize = 256;
/// Shortest part of a sum that is split.
const LEAST_PART: usize = 128;
/// Longest part of a sum: some drivers stop loops after 65,535 iterations.
const LONGEST_PART: usize = 1 << 17;

pub(super) fn plan(plan: &mut Plan, k: &MatMul, inputs: Vec<Tensor>, outs: Vec<Tensor>) -> Result<(), Unsupported> {
    plan_from(plan, k, None, inputs, outs)
}

/// The same where the right operand may be windows: the columns of the result are then the places along the axes of the
/// output after the rows.
pub(super) fn plan_from(
    plan: &mut Plan,
    k: &MatMul,
    windows: Option<Windows<'_>>,
    mut inputs: Vec<Tensor>,
    mut outs: Vec<Tensor>,
) -> Result<(), Unsupported> {
    let dtype = sum_dtype(k);
    if dtype.bytes() == 8 {
        return Err(Unsupported(format!("WGSL has no 64-bit types, so there is no matrix product of {dtype}")));
    }
    if windows.is_none() && vector::has_one(k) {
        return vector::plan(plan, k, inputs, outs);
    }
    let out = outs.remove(0);
    let post = body_of(&k.post)?;
    let words = word_output(plan, &out);
    let extras = inputs.split_off(2);
    let tile = Tile::of(k);
    let part = part_of(k, tile);
    let factors = Factors { k, windows, tile, inputs: &inputs };
    if part >= k.k {
        push(plan, factors, (extras, words.clone()), (&post, &k.params), k.k);
    } else {
        split(plan, factors, extras, words.clone(), part)?;
    }
    pack(plan, words, out);
    Ok(())
}

/// Type of the sums: that of the operands, or f32 for 16-bit floats.
fn sum_dtype(k: &MatMul) -> DType {
    k.post.args()[0]
}

/// How much of a sum one workgroup takes.
fn part_of(k: &MatMul, tile: Tile) -> usize {
    let has_room = k.batch.rank() + 3 <= breakeven_ir::MAX_RANK;
    let wanted = SPLIT_BELOW.div_ceil(tile.count(k)).min(k.k / LEAST_PART);
    let parts = if has_room { wanted.max(k.k.div_ceil(LONGEST_PART)).max(1) } else { 1 };
    k.k.div_ceil(parts).next_multiple_of(32)
}

/// What is multiplied, and in which tiles.
#[derive(Clone, Copy)]
struct Factors<'a> {
    k: &'a MatMul,
    windows: Option<Windows<'a>>,
    tile: Tile,
    inputs: &'a [Tensor],
}

/// Parts of sums in scratch memory, then their sum with the epilogue.
fn split(
    plan: &mut Plan,
    factors: Factors<'_>,
    extras: Vec<Tensor>,
    out: Tensor,
    part: usize,
) -> Result<(), Unsupported> {
    let k = factors.k;
    let parts = k.k.div_ceil(part);
    let outer = k.out.layout.shape.clone();
    let all = Shape::from([parts * k.batch.elements() * k.m, k.n]);
    let start = plan.take_scratch(4 * all.elements() as u64);
    let scratch = Tensor::scratch(sum_dtype(k), &all, start);
    let identity = Expr::identity(sum_dtype(k));
    push(plan, factors, (vec![], scratch.clone()), (&identity.lower(), &[]), part);
    let sums = ReduceRows {
        fold: Fold::Sum,
        inner: Shape::from(parts),
        pre: identity,
        post: k.post.clone(),
        params: k.params.clone(),
        inputs: vec![],
        outs: vec![],
        outer: outer.clone(),
    };
    let mut terms = Tensor::scratch(sum_dtype(k), &outer, start);
    terms.layout.strides.push(outer.elements() as isize);
    terms.layout.shape = outer.iter().copied().chain([parts]).collect();
    reduce::plan(plan, &sums, [terms].into_iter().chain(extras).collect(), vec![out])
}
