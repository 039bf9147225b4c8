//! Matrix products: tiles of the result, operands passed through workgroup memory, a tile of micro-tiles in registers. A
//! vector times a matrix is a reduction. Tensor cores multiply f16, where less than the highest precision will do.

mod cooperative;
mod lines;
mod operand;
mod sums;
mod tile;
mod vector;

use breakeven_ir::{Body, DType, Expr, Fold, MatMul, ReduceRows, Shape, Unsupported};

use super::conv::Windows;
use super::{Plan, Shaping, body_of, pack, quad_output, reduce, word_output};
use crate::wgsl::Tensor;
use lines::Operands;
pub(super) use sums::finish;
use sums::push;
pub(super) use tile::Tile;

/// With fewer tiles than this, long sums are split.
const SPLIT_BELOW: usize = 256;
/// The same for the tiles of tensor cores, of which few keep a device busy.
const SPLIT_CORES_BELOW: usize = 96;
/// Shortest part of a sum that is split.
const LEAST_PART: usize = 128;
/// Longest part of a sum: some drivers stop loops after 65,535 iterations.
const LONGEST_PART: usize = 1 << 17;

pub(super) fn plan(
    plan: &mut Plan,
    k: &MatMul,
    inputs: Vec<Tensor>,
    outs: Vec<Tensor>,
    shaping: &Shaping,
) -> Result<(), Unsupported> {
    plan_from(plan, k, None, inputs, outs, shaping)
}

/// True where tensor cores multiply the operands of `k`, which lie as it says.
pub(super) fn is_cooperative(k: &MatMul, shaping: &Shaping) -> bool {
    let inputs = [Tensor::slot(&k.a, 0), Tensor::slot(&k.b, 1)];
    !vector::has_one(k) && cores_of(k, &inputs, shaping).is_some()
}

/// The tile for tensor cores, where they can and may multiply `inputs`, and what has to be copied for them fits.
fn cores_of(k: &MatMul, inputs: &[Tensor], shaping: &Shaping) -> Option<cooperative::Tile> {
    let tile = cooperative::Tile::of(k, inputs, shaping)?;
    let other = left_by(k, part_of(k, tile.count(k), SPLIT_CORES_BELOW));
    Operands::new(k, inputs, cooperative::is_whole).fit(other, shaping).then_some(tile)
}

/// The operands as they are read: narrow ones are copied where that pays and fits.
fn copied(
    plan: &mut Plan,
    k: &MatMul,
    inputs: Vec<Tensor>,
    (cores, part, shaping): (Option<cooperative::Tile>, usize, &Shaping),
) -> Vec<Tensor> {
    let is_whole = if cores.is_some() { cooperative::is_whole } else { operand::is_whole };
    let operands = Operands::new(k, &inputs, is_whole);
    let pays = || operands.are_read_often() && operands.fit(left_by(k, part), shaping);
    if cores.is_some() || pays() { operands.push(plan) } else { inputs }
}

/// Bytes of scratch memory beside copies of operands: for results that are no whole words, and for parts of sums.
fn left_by(k: &MatMul, part: usize) -> u64 {
    let mut alone = Plan::default();
    let out = Tensor::slot(&k.out, 2);
    if part >= k.k {
        quad_output(&mut alone, &out, k.batch.rank() + 1);
    } else {
        word_output(&mut alone, &out);
        alone.take_scratch(4 * (k.k.div_ceil(part) * k.batch.elements() * k.m * k.n) as u64);
    }
    alone.scratch
}

/// The same where the right operand may be windows: the columns of the result are then the places along the axes of the
/// output after the rows.
pub(super) fn plan_from(
    plan: &mut Plan,
    k: &MatMul,
    windows: Option<Windows<'_>>,
    mut inputs: Vec<Tensor>,
    mut outs: Vec<Tensor>,
    shaping: &Shaping,
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
    let extras = inputs.split_off(2);
    let is_apart = inputs.iter().all(|input| input.place != out.place);
    let cores = if windows.is_none() && is_apart { cores_of(k, &inputs, shaping) } else { None };
    let tile = Tile::of(k);
    let part = match cores {
        Some(tile) => part_of(k, tile.count(k), SPLIT_CORES_BELOW),
        None => part_of(k, tile.count(k), SPLIT_BELOW),
    };
    let inputs = if windows.is_none() { copied(plan, k, inputs, (cores, part, shaping)) } else { inputs };
    let words = if part >= k.k { quad_output(plan, &out, k.batch.rank() + 1) } else { word_output(plan, &out) };
    let factors = Factors { k, windows, tile, cores, inputs: &inputs };
    if part >= k.k {
        factors.push(plan, (extras, words.clone()), (&post, &k.params), k.k);
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

/// Writes which tile of which product a group computes, whose rows and columns begin at `i0` and `j0`, and which terms of its sums.
fn place([height, width]: [usize; 2]) -> String {
    format!(
        "let column_tile = group % args.column_tiles;\nlet rest = group / args.column_tiles;\n\
         let row_tile = rest % args.row_tiles;\nlet batch = (rest / args.row_tiles) % args.batches;\n\
         let slice = rest / args.row_tiles / args.batches;\n\
         let i0 = row_tile * {height}u;\nlet j0 = column_tile * {width}u;\n\
         let first = slice * args.part;\nlet stop = min(first + args.part, args.k);\n"
    )
}

/// How much of a sum one workgroup takes, of `tiles` where at least so many should be at work.
fn part_of(k: &MatMul, tiles: usize, least: usize) -> usize {
    let has_room = k.batch.rank() + 3 <= breakeven_ir::MAX_RANK;
    let wanted = least.div_ceil(tiles).min(k.k / LEAST_PART);
    let parts = if has_room { wanted.max(k.k.div_ceil(LONGEST_PART)).max(1) } else { 1 };
    k.k.div_ceil(parts).next_multiple_of(32)
}

/// What is multiplied, and in which tiles.
#[derive(Clone, Copy)]
struct Factors<'a> {
    k: &'a MatMul,
    windows: Option<Windows<'a>>,
    tile: Tile,
    /// By tensor cores, in these tiles.
    cores: Option<cooperative::Tile>,
    inputs: &'a [Tensor],
}

impl Factors<'_> {
    /// Appends the product over parts of `part` terms each; part `p` of the sum goes to rows `p * batch * m` and on of the
    /// output.
    fn push(self, plan: &mut Plan, ends: (Vec<Tensor>, Tensor), post: (&Body, &[f64]), part: usize) {
        match self.cores {
            Some(tile) => cooperative::push(plan, (self.k, tile, self.inputs), ends, post, part),
            None => push(plan, self, ends, post, part),
        }
    }
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
    factors.push(plan, (vec![], scratch.clone()), (&identity.lower(), &[]), part);
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
