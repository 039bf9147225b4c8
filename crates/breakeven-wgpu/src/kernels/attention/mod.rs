//! Attention without the scores: a tile of queries meets the keys a tile at a time. Scores lie in registers, weights pass through
//! workgroup memory, and what was summed shrinks when a larger score is met.

mod join;
mod matrix;
mod text;
mod tile;

use breakeven_ir::{AttentionKernel, Body, DType, Expr, ExprBuilder, Shape, Unsupported};

use super::matmul::finish;
use super::rows::Rows;
use super::{Dispatch, Plan, pack, quad_output, word_output};
use crate::wgsl::{Shader, Tensor, Walk, bind, function};
use matrix::Matrix;
use tile::{KEYS, Tile};

/// With fewer groups than this, keys are divided among several.
const SPLIT_BELOW: usize = 256;
/// Fewest keys that are divided among several groups.
const LEAST_PART: usize = 2 * KEYS;
/// Most keys of one group: some drivers stop loops after 65,535 iterations.
const LONGEST_PART: usize = KEYS << 15;

pub(super) fn plan(
    plan: &mut Plan,
    k: &AttentionKernel,
    inputs: &[Tensor],
    mut outs: Vec<Tensor>,
) -> Result<(), Unsupported> {
    if k.accumulator() != DType::F32 {
        return Err(Unsupported("WGSL has no 64-bit floats, so there is no attention of f64".to_owned()));
    }
    let (Some(tile), false) = (Tile::of(k), k.keys() == 0) else {
        let (columns, most) = (k.value_width(), tile::WIDEST);
        return Err(Unsupported(format!("a group sums values of 1 to {most} columns for some key, not {columns}")));
    };
    let out = outs.remove(0);
    let part = part_of(k, tile);
    let parts = k.keys().div_ceil(part);
    let words = if parts == 1 { quad_output(plan, &out, k.batch().len() + 1) } else { word_output(plan, &out) };
    let sums = Sums { k, tile, part, inputs };
    if parts == 1 {
        let (outer, inner) = words.layout.shape.split_at(k.batch().len() + 1);
        let ends = Rows::new(outer, inner, vec![words.clone()]);
        sums.push(plan, &ends, &stored(&out), None);
    } else {
        let (rows, columns) = (parts * rows_of(k), tile.columns());
        let mut scratch = |width: usize| {
            let shape = Shape::from([rows, width]);
            let start = plan.take_scratch(4 * shape.elements() as u64);
            Tensor::scratch(DType::F32, &shape, start)
        };
        let (all, tops) = (scratch(columns), scratch(4));
        let ends = Rows::new(&[rows], &[columns], vec![all.clone()]);
        sums.push(plan, &ends, &Expr::identity(DType::F32).lower(), Some(&tops));
        join::push(plan, k, [&all, &tops], words.clone(), &stored(&out));
    }
    pack(plan, words, out);
    Ok(())
}

/// Rows of the result, of all batches.
fn rows_of(k: &AttentionKernel) -> usize {
    k.batch().iter().product::<usize>() * k.queries()
}

/// How many keys one group takes: by shapes alone, so that the order of sums is the same on every device.
fn part_of(k: &AttentionKernel, tile: Tile) -> usize {
    let groups = k.batch().iter().product::<usize>() * k.queries().div_ceil(tile.rows);
    let wanted = SPLIT_BELOW.div_ceil(groups).min(k.keys() / LEAST_PART);
    let parts = wanted.max(k.keys().div_ceil(LONGEST_PART)).max(1);
    k.keys().div_ceil(parts).next_multiple_of(KEYS)
}

/// A sum as an element of the output.
fn stored(out: &Tensor) -> Body {
    let mut b = ExprBuilder::default();
    let x = b.arg(DType::F32);
    let y = if out.stored.dtype == DType::F32 { x } else { b.cast(x, out.stored.dtype) };
    b.finish(y).lower()
}

/// Sums over parts of the keys.
struct Sums<'a> {
    k: &'a AttentionKernel,
    tile: Tile,
    part: usize,
    inputs: &'a [Tensor],
}

impl Sums<'_> {
    /// Appends the sums over all keys, or, with `tops`, those over parts of them with the largest scores and the sums of weights.
    fn push(&self, plan: &mut Plan, ends: &Rows, post: &Body, tops: Option<&Tensor>) {
        let (k, tile) = (self.k, self.tile);
        let mut shader = Shader::default();
        let (tiles, batches) = (k.queries().div_ceil(tile.rows), k.batch().iter().product::<usize>());
        let length = if tops.is_some() { tile.columns() } else { k.value_width() };
        for (name, size) in [
            ("queries", k.queries()),
            ("keys", k.keys()),
            ("width", k.width()),
            ("columns", k.value_width()),
            ("length", length),
            ("row_tiles", tiles),
            ("batches", batches),
            ("part", self.part),
            ("seen", k.seen.map_or(k.keys(), |seen| seen.min(k.keys()))),
        ] {
            shader.arg(name, size as u32);
        }
        shader.arg("scale", (k.scale as f32).to_bits());
        let matrices: Vec<Matrix> =
            ["q", "k", "v", "bias"].iter().zip(self.inputs).map(|(n, t)| Matrix::new(n, t)).collect();
        let reads = self.inputs.iter().zip(&matrices).map(|(tensor, matrix)| (tensor, false, matrix.is_quad));
        let wants: Vec<_> = reads.chain(ends.wants(0)).chain(tops.map(|tops| (tops, true, true))).collect();
        let (bound, accesses) = bind(&mut shader, &wants);
        let heads: Vec<&[isize]> = self.inputs.iter().map(|t| &t.layout.strides[..k.batch().len()]).collect();
        let batch = Walk::new(k.batch(), &heads);
        for (t, matrix) in matrices.iter().enumerate() {
            matrix.functions(&mut shader, &batch, t, &accesses[t]);
        }
        ends.functions(&mut shader, 0, &accesses[matrices.len()], true);
        if tops.is_some() {
            let access = &accesses[matrices.len() + 1];
            access.store_quad(&mut shader, "keep_tops");
            shader.arg("tops", access.offset as u32);
        }
        function(&mut shader, "post", &[DType::F32], post, &[]);
        finish(&mut shader, ends, DType::F32);
        tile.declare(&mut shader);
        let main = text::Text { tile, has_bias: k.bias.is_some(), is_part: tops.is_some(), is_terse: plan.is_terse };
        text::functions(&mut shader);
        let groups = (tiles * batches * k.keys().div_ceil(self.part)) as u64;
        shader.arg("groups", groups as u32);
        let (text, args) = shader.finish(&main.main());
        plan.dispatches.push(Dispatch { text, args, bound, groups, members: 1 });
    }
}
