//! Running folds. A workgroup folds a chunk of a row; of longer rows, chunks are folded into scratch memory first, and a
//! running fold of that, by the same means, gives what comes before each chunk. Nobody waits for another workgroup.

use std::fmt::Write;

use breakeven_ir::{DType, Expr, ExprBuilder, Fold, ReduceRows, ScanRows, Shape, Unsupported};

use super::reduce::{algebra::joining, chunks};
use super::rows::Rows;
use super::share::{Share, lanes};
use super::{Dispatch, Plan, pack, word_output};
use crate::wgsl::{GROUP, Shader, Tensor, bind, cast, wrapped};

/// Elements of a row that one workgroup folds: so many that a few levels do for any row, and so few that long rows have
/// work for many workgroups.
const CHUNK: usize = 4096;

pub(super) fn plan(
    plan: &mut Plan,
    k: &ScanRows,
    mut inputs: Vec<Tensor>,
    mut outs: Vec<Tensor>,
) -> Result<(), Unsupported> {
    if k.input.dtype.bytes() == 8 {
        return Err(Unsupported(format!(
            "WGSL has no 64-bit types, so there is no running {} of {}",
            k.fold.name(),
            k.input.dtype
        )));
    }
    let out = outs.remove(0);
    let words = word_output(plan, &out);
    let scan = Scan { fold: k.fold, outer: k.outer.clone(), length: k.length, exclusive: k.exclusive };
    scan.push(plan, inputs.remove(0), words.clone())?;
    pack(plan, words, out);
    Ok(())
}

/// A running fold of rows: those of the kernel, or what an earlier stage made of their chunks.
struct Scan {
    fold: Fold,
    outer: Shape,
    length: usize,
    exclusive: bool,
}

impl Scan {
    fn push(&self, plan: &mut Plan, input: Tensor, out: Tensor) -> Result<(), Unsupported> {
        if self.length <= CHUNK {
            plan.dispatches.push(self.dispatch(input, None, out));
            return Ok(());
        }
        let totals = chunks(plan, &self.whole(&input), input.clone(), CHUNK)?;
        let length = self.length.div_ceil(CHUNK);
        let start = plan.take_scratch(4 * totals.layout.shape.elements() as u64);
        let before = Tensor::scratch(totals.stored.dtype, &totals.layout.shape, start);
        let outer = self.outer.clone();
        Scan { fold: self.fold, outer, length, exclusive: true }.push(plan, totals, before.clone())?;
        plan.dispatches.push(self.dispatch(input, Some(&before), out));
        Ok(())
    }

    /// The same rows, folded to one element each.
    fn whole(&self, input: &Tensor) -> ReduceRows {
        let mut pre = ExprBuilder::default();
        let element = pre.arg(input.stored.dtype);
        let wide = pre.cast(element, computed(input.stored.dtype));
        ReduceRows {
            fold: self.fold,
            outer: self.outer.clone(),
            inner: Shape::from(self.length),
            pre: pre.finish(wide),
            post: Expr::identity(computed(input.stored.dtype)),
            params: vec![],
            inputs: vec![],
            outs: vec![],
        }
    }

    /// `before` holds what all chunks before each one fold to.
    fn dispatch(&self, input: Tensor, before: Option<&Tensor>, out: Tensor) -> Dispatch {
        let dtype = input.stored.dtype;
        let lanes = lanes(self.length, 1);
        let tile = 4 * lanes as usize;
        let chunk = CHUNK.min(self.length.next_multiple_of(tile));
        let chunks = self.length.div_ceil(chunk);
        let count = (self.outer.elements() * chunks) as u64;
        let rows = Rows::new(&self.outer, &[self.length], vec![input, out]);
        let mut shader = Shader::default();
        shader.arg("rows", count as u32);
        shader.arg("chunks", chunks as u32);
        shader.arg("chunk", chunk as u32);
        shader.arg("tiles", chunk.div_ceil(tile) as u32);
        shader.arg("length", self.length as u32);
        let is_group = before.is_some() && lanes == GROUP;
        let share = if is_group { Share::of_group() } else { Share::new(&mut shader, lanes, true) };
        let mut wants = rows.wants(1);
        wants.extend(before.map(|tensor| (tensor, false, false)));
        let (bound, accesses) = bind(&mut shader, &wants);
        rows.functions(&mut shader, 0, &accesses[0], false);
        rows.functions(&mut shader, 1, &accesses[1], true);
        if let Some(access) = accesses.get(2) {
            shader.arg("before", access.offset as u32);
            access.load(&mut shader, "before");
        }
        let main = self.main(&mut shader, (&rows, &share), dtype, before.is_some());
        let (text, args) = shader.finish(&main);
        Dispatch { text, args, bound, groups: count.div_ceil(u64::from(GROUP / lanes)), members: 1 }
    }

    /// The chunk tile by tile. A lane folds its quad; the lanes' totals are folded in shared memory; `so_far` is what comes
    /// before the tile. All of a workgroup go round as often, since they meet at barriers.
    fn main(&self, shader: &mut Shader, (rows, share): (&Rows, &Share), dtype: DType, goes_on: bool) -> String {
        let wide = computed(dtype);
        let kind = joining(shader, self.fold, wide);
        lane_totals(shader, share, kind);
        let lanes = &share.lanes;
        let start = if goes_on { "before(args.before + min(r, args.rows - 1u))" } else { "f_unit()" };
        let mut main = format!(
            "{}let o = min(r, args.rows - 1u) / args.chunks;\nlet first = (min(r, args.rows - 1u) % args.chunks) * args.chunk;\n\
             let stop = select(0u, min(first + args.chunk, args.length), is_row);\nvar so_far = {start};\n\
             for (var tile = 0u; tile < args.tiles; tile += 1u) {{\n\
             let at = first + (tile * {lanes} + lane) * 4u;\nlet i = select(first, at, at < stop);\n",
            share.place("r")
        );
        rows.fetch(&mut main, 0);
        for l in 0..4 {
            let element = converted(shader, &format!("x0_{l}"), dtype, wide);
            let own = format!("select(f_unit(), {element}, at + {l}u < stop)");
            let folded = if l == 0 { own } else { format!("f_join(p{}, {own})", l - 1) };
            writeln!(main, "let p{l} = {folded};").expect("strings take text");
        }
        main += "part_lanes[lid] = p3;\nlane_totals(lid, lane);\n";
        main += "var before_me = so_far;\nif lane > 0u { before_me = f_join(so_far, part_lanes[lid - 1u]); }\n";
        writeln!(main, "so_far = f_join(so_far, part_lanes[lid - lane + {lanes} - 1u]);").expect("strings take text");
        main += "workgroupBarrier();\nif at < stop {\n";
        for l in 0..4 {
            let seen = match (self.exclusive, l) {
                (true, 0) => "before_me".to_owned(),
                (true, _) => format!("f_join(before_me, p{})", l - 1),
                (false, _) => format!("f_join(before_me, p{l})"),
            };
            let stored = converted(shader, &wrapped(dtype, &seen), wide, rows.tensors()[1].stored.dtype);
            writeln!(main, "let y{l} = {stored};").expect("strings take text");
        }
        rows.keep(&mut main, 1);
        main += "}\n}\n";
        main
    }
}

/// The type that elements of `dtype` are folded in.
fn computed(dtype: DType) -> DType {
    if dtype.is_half() { DType::F32 } else { dtype }
}

fn converted(shader: &mut Shader, x: &str, from: DType, to: DType) -> String {
    let text = cast(x, from, to).expect("f32 and the 16-bit floats are cast to each other");
    shader.need_called(&text);
    text
}

/// Writes `lane_totals(lid, lane)`: each of `part_lanes` becomes the fold of itself and those before it in its row.
fn lane_totals(shader: &mut Shader, share: &Share, kind: &str) {
    shader.shared("part_lanes", &format!("array<{kind}, {GROUP}>"));
    let text = format!(
        "fn lane_totals(lid: u32, lane: u32) {{\n    workgroupBarrier();\n    \
         for (var d = 1u; d < {}; d = d * 2u) {{\n        var v = part_lanes[lid];\n        \
         if lane >= d {{ v = f_join(part_lanes[lid - d], v); }}\n        workgroupBarrier();\n        \
         part_lanes[lid] = v;\n        workgroupBarrier();\n    }}\n}}\n",
        share.lanes
    );
    shader.function("lane_totals", text);
}
