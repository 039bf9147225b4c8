//! Reductions. Long rows are folded chunk by chunk into scratch memory, whose rows are then folded: which elements meet
//! when depends on lengths and on how the operands lie, never on the device.

pub(super) mod algebra;
mod columns;
mod lanes;
mod moments;

use std::fmt::Write;

use breakeven_ir::{Body, DType, Fold, ReduceRows, Shape, Unsupported};

use super::rows::Rows;
use super::{Plan, body_of, pack, word_output};
use crate::wgsl::{Access, Shader, Tensor, function};

/// Elements of a row that one workgroup folds.
const CHUNK: usize = 16_384;
/// Fewest and most elements of a row that one invocation folds where neighbours take neighbouring rows.
const COLUMN_CHUNK: (usize, usize) = (32, 1024);
/// Most invocations of a workgroup that share a row then: eight neighbours are what memory brings at once.
const MOST_SLICES: usize = 32;
/// Elements up to which one invocation folds more rather than leaving the rest to a second stage.
const LONGEST_SLICE: usize = 128;
/// Invocations to aim at where each folds a chunk by itself: enough of them for a large device to have its memory busy.
const INVOCATIONS: usize = 1 << 17;

/// A reduction being written: one stage of it.
struct Stage<'a> {
    k: &'a ReduceRows,
    pre: &'a Body,
    post: &'a Body,
    /// Operands of `pre` over `outer ++ inner`, or scratch memory over `outer ++ [chunks]`.
    rows: Rows,
    /// Operands of `post` and the outputs over `outer`, or scratch memory over `outer ++ [chunks]`.
    ends: Rows,
    /// How many of `ends` are read.
    extras: usize,
    length: usize,
    chunk: usize,
    /// Invocations that share a chunk where neighbours take neighbouring rows.
    slices: usize,
    /// Elements of each chunk of the stage before it.
    before: usize,
    /// It folds what an earlier stage left.
    is_second: bool,
    /// It leaves its results to a second stage.
    is_first: bool,
}

pub(super) fn plan(
    plan: &mut Plan,
    k: &ReduceRows,
    mut inputs: Vec<Tensor>,
    outs: Vec<Tensor>,
) -> Result<(), Unsupported> {
    if k.pre.dtype().bytes() == 8 {
        return Err(Unsupported(format!(
            "WGSL has no 64-bit types, so there is no {} of {}",
            k.fold.name(),
            k.pre.dtype()
        )));
    }
    let bodies = (&body_of(&k.pre)?, &body_of(&k.post)?);
    let words: Vec<Tensor> = outs.iter().map(|out| word_output(plan, out)).collect();
    let extras = inputs.split_off(k.pre.args().len());
    let length = k.inner.elements();
    if length == 0 {
        inputs.clear();
    }
    let rows = Rows::new(&k.outer, &k.inner, inputs);
    let across = length > 0 && (length <= 8 || rows.is_across());
    let (chunk, slices) = match across {
        true if k.fold == Fold::Moments => (column_chunk(length, k.outer.elements()).max(64), 1),
        true => slices(length, k.outer.elements()),
        false => (CHUNK, 1),
    };
    let ends = (extras.len(), extras.into_iter().chain(words.iter().cloned()).collect());
    if length <= chunk {
        Stage { slices, ..Stage::whole(k, bodies, rows, ends, length) }.push(plan, across);
    } else {
        in_chunks(plan, k, bodies, rows, ends, (chunk, slices, across));
    }
    words.into_iter().zip(outs).for_each(|(words, out)| pack(plan, words, out));
    Ok(())
}

/// Elements that one invocation folds of rows of `length`, of which there are `rows`.
fn column_chunk(length: usize, rows: usize) -> usize {
    let (least, most) = COLUMN_CHUNK;
    (length * rows).div_ceil(INVOCATIONS).next_multiple_of(32).clamp(least, most)
}

/// Elements of rows of `length`, of which there are `rows`, that one workgroup folds of each of its rows, and how many of its
/// invocations share them.
fn slices(length: usize, rows: usize) -> (usize, usize) {
    let least = if length <= MOST_SLICES * LONGEST_SLICE { length.div_ceil(MOST_SLICES) } else { 0 };
    let each = column_chunk(length, rows).max(least);
    let slices = length.div_ceil(each).next_power_of_two().min(MOST_SLICES);
    (each * slices, slices)
}

/// Bodies before and after.
type Bodies<'a> = (&'a Body, &'a Body);

/// Operands of `post`, of which so many are read, and outputs.
type Ends = (usize, Vec<Tensor>);

/// Folds chunks into scratch memory, then what lies there.
fn in_chunks(
    plan: &mut Plan,
    k: &ReduceRows,
    bodies: Bodies<'_>,
    rows: Rows,
    ends: Ends,
    (chunk, slices, across): (usize, usize, bool),
) {
    let length = k.inner.elements();
    let chunks = length.div_ceil(chunk);
    let partial: Shape = k.outer.iter().copied().chain([chunks]).collect();
    let mut scratch = |field| {
        let start = plan.take_scratch(4 * partial.elements() as u64);
        Tensor::scratch(field, &partial, start)
    };
    let left: Vec<Tensor> = algebra::fields(k.fold, k.pre.dtype()).into_iter().map(&mut scratch).collect();
    let first = Stage::whole(k, bodies, rows, (0, vec![]), length);
    let first = Stage { ends: Rows::new(&partial, &[], left.clone()), chunk, slices, is_first: true, ..first };
    first.push(plan, across);
    let second = Stage::whole(k, bodies, Rows::new(&k.outer, &[chunks], left), ends, chunks);
    Stage { before: chunk, is_second: true, ..second }.push(plan, false);
}

/// Folds each chunk of the rows of `input` into scratch memory over `outer ++ [chunks]`.
pub(super) fn chunks(plan: &mut Plan, k: &ReduceRows, input: Tensor, chunk: usize) -> Result<Tensor, Unsupported> {
    let length = k.inner.elements();
    let partial: Shape = k.outer.iter().copied().chain([length.div_ceil(chunk)]).collect();
    let left = Tensor::scratch(k.pre.dtype(), &partial, plan.take_scratch(4 * partial.elements() as u64));
    let (pre, post) = (body_of(&k.pre)?, body_of(&k.post)?);
    let rows = Rows::new(&k.outer, &k.inner, vec![input]);
    let across = rows.is_across();
    let stage = Stage::whole(k, (&pre, &post), rows, (0, vec![]), length);
    let ends = Rows::new(&partial, &[], vec![left.clone()]);
    Stage { ends, chunk, is_first: true, ..stage }.push(plan, across);
    Ok(left)
}

impl<'a> Stage<'a> {
    /// One stage that does everything: whole rows of `length` elements.
    fn whole(k: &'a ReduceRows, (pre, post): Bodies<'a>, rows: Rows, (extras, ends): Ends, length: usize) -> Stage<'a> {
        let ends = Rows::new(&k.outer, &[], ends);
        let (chunk, slices) = (length, 1);
        Stage { k, pre, post, rows, ends, extras, length, chunk, slices, before: 0, is_second: false, is_first: false }
    }
}

impl Stage<'_> {
    fn push(&self, plan: &mut Plan, across: bool) {
        let moments = self.k.fold == Fold::Moments && !self.is_second;
        let dispatch = match (across, moments) {
            (true, false) => columns::dispatch(self, plan.is_terse),
            (true, true) => moments::columns(self),
            (false, false) => lanes::dispatch(self, plan.is_terse),
            (false, true) => moments::lanes(self, plan.is_terse),
        };
        plan.dispatches.push(dispatch);
    }

    fn chunks(&self) -> usize {
        self.length.div_ceil(self.chunk.max(1)).max(1)
    }

    /// Rows of this stage: chunks of rows of the kernel.
    fn count(&self) -> u64 {
        (self.k.outer.elements() * self.chunks()) as u64
    }

    fn dtype(&self) -> DType {
        self.k.pre.dtype()
    }

    /// Binds everything and writes the functions that load, store, and compute.
    fn begin(&self, shader: &mut Shader) -> Vec<crate::wgsl::Bound> {
        shader.arg("rows", self.count() as u32);
        shader.arg("outer", self.k.outer.elements() as u32);
        shader.arg("chunks", self.chunks() as u32);
        shader.arg("chunk", self.chunk.max(1) as u32);
        shader.arg("length", self.length as u32);
        let ends = self.ends.tensors().len();
        let wants: Vec<_> = self.rows.wants(usize::MAX).into_iter().chain(self.ends.wants(self.extras)).collect();
        let (bound, accesses) = crate::wgsl::bind(shader, &wants);
        let (rows, last) = accesses.split_at(accesses.len() - ends);
        rows.iter().enumerate().for_each(|(t, access)| self.rows.functions(shader, t, access, false));
        last.iter().enumerate().for_each(|(t, access)| self.end_functions(shader, t, access));
        self.value_functions(shader);
        bound
    }

    fn end_functions(&self, shader: &mut Shader, t: usize, access: &Access) {
        let name = format!("end{t}");
        self.ends.place(shader, &name, t, access.offset);
        if t < self.extras {
            access.load(shader, &format!("{name}_load"));
        } else {
            access.store(shader, &format!("{name}_store"));
        }
    }

    fn value_functions(&self, shader: &mut Shader) {
        let (pre_params, post_params) = self.k.params.split_at(self.k.pre.params());
        if !self.is_second && self.length > 0 {
            function(shader, "pre", self.k.pre.args(), self.pre, pre_params);
        }
        if !self.is_first && self.has_post() {
            function(shader, "post", self.k.post.args(), self.post, post_params);
        }
    }

    /// Moments are written as they are, or rounded to a narrower float.
    fn has_post(&self) -> bool {
        self.k.fold != Fold::Moments || !self.k.post.is_identity()
    }

    /// The element `i` of row `o`, as a call.
    fn value(&self) -> String {
        let operands: Vec<String> = (0..self.rows.tensors().len()).map(Rows::value).collect();
        format!("pre({})", operands.join(", "))
    }

    /// Writes the stores of a stage's results: `fields` of the accumulator for a second stage, else `done` of it. `r` is
    /// the row of the stage.
    fn finish(&self, fields: &[String], done: &[String]) -> String {
        let mut text = String::new();
        let results = if self.is_first { fields } else { done };
        for (n, value) in results.iter().enumerate() {
            let t = self.extras + n;
            let value = if self.is_first || !self.has_post() {
                value.clone()
            } else {
                let extras: Vec<String> = (0..self.extras).map(|t| format!(", end{t}_load(end{t}(r))")).collect();
                format!("post({value}{})", extras.concat())
            };
            writeln!(text, "end{t}_store(end{t}(r), {value});").expect("strings take text");
        }
        text
    }
}
