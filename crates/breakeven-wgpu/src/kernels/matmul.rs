//! Matrix products: square tiles of the result, operands passed through workgroup memory, a tile of micro-tiles in
//! registers.
//!
//! Every workgroup has 256 invocations, and each of them loads one quad of either operand for each step along `k`: a tile
//! of side 128 steps by 8, of 64 by 16, of 32 by 32. Workgroup memory holds two steps of both, 16 KiB, so that the next
//! step is loaded while this one is computed.

use std::fmt::Write;

use breakeven_ir::{Body, DType, Expr, Fold, MatMul, ReduceRows, Shape, Unsupported};

use super::conv::Windows;
use super::rows::Rows;
use super::{Dispatch, Plan, body_of, pack, reduce, word_output};
use crate::wgsl::{Access, GROUP, Shader, Stored, Tensor, Walk, bind, cast, function, type_name, wrapped};

/// Elements of one operand in one step: a quad for each invocation.
const STEP: usize = 4 * GROUP as usize;

/// Sides of tiles with the rows and columns that one invocation computes, the largest first, and the fewest tiles that
/// pay for the side: large tiles read less, small ones keep more of a device busy. Chosen by the shape of the product
/// alone, so that the order of its sums is the same on every device.
const TILES: [Tile; 3] = [
    Tile { side: 128, rows: 8, columns: 8, least: 128 },
    Tile { side: 64, rows: 4, columns: 4, least: 32 },
    Tile { side: 32, rows: 1, columns: 4, least: 0 },
];

/// With fewer tiles than this, long sums are split.
const SPLIT_BELOW: usize = 128;
/// Shortest part of a sum that is split.
const LEAST_PART: usize = 512;
/// Longest part of a sum: some drivers stop loops after 65,535 iterations.
const LONGEST_PART: usize = 1 << 17;

#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    pub side: usize,
    rows: usize,
    columns: usize,
    least: usize,
}

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
    let out = outs.remove(0);
    let post = body_of(&k.post)?;
    let words = word_output(plan, &out);
    let extras = inputs.split_off(2);
    let tile = tile_of(k);
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

fn tiles(k: &MatMul, side: usize) -> usize {
    k.batch.elements() * k.m.div_ceil(side) * k.n.div_ceil(side)
}

fn tile_of(k: &MatMul) -> Tile {
    let fits = |s: &&Tile| 2 * k.m.min(k.n) > s.side && tiles(k, s.side) >= s.least;
    TILES.iter().find(fits).copied().unwrap_or(TILES[2])
}

/// How much of a sum one workgroup takes.
fn part_of(k: &MatMul, tile: Tile) -> usize {
    let has_room = k.batch.rank() + 3 <= breakeven_ir::MAX_RANK;
    let wanted = SPLIT_BELOW.div_ceil(tiles(k, tile.side)).min(k.k / LEAST_PART);
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

/// Appends the product over parts of `part` terms each; part `p` of the sum goes to rows `p * batch * m` and on of the
/// output.
fn push(
    plan: &mut Plan,
    Factors { k, windows, tile, inputs }: Factors<'_>,
    (extras, out): (Vec<Tensor>, Tensor),
    (post, params): (&Body, &[f64]),
    part: usize,
) {
    let parts = k.k.div_ceil(part.max(1)).max(1);
    let rows = if parts == 1 { k.batch.rank() + 1 } else { 1 };
    let shape = out.layout.shape.clone();
    let (outer, inner) = shape.split_at(rows);
    let ends = Rows::new(outer, inner, extras.into_iter().chain([out]).collect());
    let mut shader = Shader::default();
    let (rows, columns) = (k.m.div_ceil(tile.side), k.n.div_ceil(tile.side));
    let sizes = [k.m, k.n, k.k, rows, columns, k.batch.elements(), part.max(1)];
    for (name, size) in ["m", "length", "k", "row_tiles", "column_tiles", "batches", "part"].iter().zip(sizes) {
        shader.arg(name, size as u32);
    }
    let left = Operand::new(k, &inputs[0], 0);
    let right = windows.map_or_else(|| Right::Matrix(Operand::new(k, &inputs[1], 1)), Right::Windows);
    let sources = if k.k == 0 { &[][..] } else { inputs };
    let last = ends.tensors().len() - 1;
    let quads = [left.is_quad, matches!(&right, Right::Matrix(matrix) if matrix.is_quad)];
    let wants: Vec<_> =
        sources.iter().zip(quads).map(|(tensor, quad)| (tensor, false, quad)).chain(ends.wants(last)).collect();
    let (bound, accesses) = bind(&mut shader, &wants);
    let (from, to) = accesses.split_at(sources.len());
    to.iter().enumerate().for_each(|(t, access)| ends.functions(&mut shader, t, access, t == last));
    let heads = [&inputs[0].layout.strides[..k.batch.rank()], &inputs[1].layout.strides[..k.batch.rank()]];
    let batch = Walk::new(&k.batch, &heads);
    if let [of_left, of_right] = from {
        left.functions(&mut shader, tile, &batch, 0, of_left);
        match right {
            Right::Matrix(matrix) => matrix.functions(&mut shader, tile, &batch, 1, of_right),
            Right::Windows(windows) => windows.functions(&mut shader, tile, &batch, 1, (&inputs[1], of_right)),
        }
    }
    let arguments: Vec<DType> =
        [sum_dtype(k)].into_iter().chain(ends.tensors()[..last].iter().map(|t| t.stored.dtype)).collect();
    function(&mut shader, "post", &arguments, post, params);
    finish(&mut shader, &ends, sum_dtype(k));
    let main = main(tile, sum_dtype(k), k.k > 0);
    let (text, args) = shader.finish(&main);
    let groups = (rows * columns * k.batch.elements() * parts) as u64;
    plan.dispatches.push(Dispatch { text, args, bound, groups, members: 1 });
}

/// Where the right operand comes from.
enum Right<'a> {
    Matrix(Operand),
    Windows(Windows<'a>),
}

/// How a step of one operand is loaded. `across` is the axis that is not summed: rows of `a`, columns of `b`.
struct Operand {
    along: isize,
    across: isize,
    /// Quads lie along the sum.
    is_along: bool,
    /// Quads are aligned.
    is_quad: bool,
    stored: Stored,
    /// Type of the sums.
    sum: DType,
}

impl Operand {
    fn new(k: &MatMul, tensor: &Tensor, t: usize) -> Operand {
        let rank = k.batch.rank();
        let s = &tensor.layout.strides;
        let ((along, across), width) =
            if t == 0 { ((s[rank + 1], s[rank]), k.m) } else { ((s[rank], s[rank + 1]), k.n) };
        let is_along = along != 0 && (across == 0 || along.abs() < across.abs());
        let (near, far, length) = if is_along { (along, across, k.k) } else { (across, along, width) };
        let is_quad = near == 1
            && length.is_multiple_of(4)
            && tensor.is_aligned()
            && s[..rank].iter().chain([&far]).all(|stride| stride % 4 == 0);
        Operand { along, across, is_along, is_quad, stored: tensor.stored, sum: sum_dtype(k) }
    }

    /// Writes `fetch{t}` (a quad of the step from global memory) and `put{t}` (into workgroup memory).
    fn functions(&self, shader: &mut Shader, tile: Tile, batch: &Walk, t: usize, access: &Access) {
        let kind = type_name(self.sum);
        batch.function(shader, &format!("base{t}"), "batch", t, access.offset);
        shader.arg(&format!("along{t}"), self.along as u32);
        shader.arg(&format!("across{t}"), self.across as u32);
        shader.shared(&format!("tile{t}"), &format!("array<vec4<{kind}>, {}>", 2 * GROUP));
        let quads = if self.is_along { STEP / tile.side / 4 } else { tile.side / 4 };
        let (x, p) = if self.is_along {
            (format!("lid / {quads}u"), format!("(lid % {quads}u) * 4u"))
        } else {
            (format!("(lid % {quads}u) * 4u"), format!("lid / {quads}u"))
        };
        self.fetch(shader, t, kind, access, (&x, &p));
        let put = if self.is_along {
            let mut text = format!("    let x = {x};\n    let p = {p};\n");
            for l in 0..4 {
                writeln!(text, "    tile{t}[half + (p + {l}u) * {}u + (x >> 2u)][x & 3u] = v[{l}];", tile.side / 4)
                    .expect("strings take text");
            }
            text
        } else {
            format!("    tile{t}[half + lid] = v;\n")
        };
        shader.function(&format!("put{t}"), format!("fn put{t}(half: u32, lid: u32, v: vec4<{kind}>) {{\n{put}}}\n"));
    }

    /// The element `x` in the type of the sums.
    fn widened(&self, shader: &mut Shader, x: &str) -> String {
        let text = cast(x, self.stored.dtype, self.sum).expect("sums are of the operands' type, or of f32");
        shader.need_called(&text);
        text
    }

    fn fetch(&self, shader: &mut Shader, t: usize, kind: &str, access: &Access, (x, p): (&str, &str)) {
        let width = if t == 0 { "args.m" } else { "args.length" };
        let mut text = format!(
            "fn fetch{t}(base: u32, x0: u32, p0: u32, stop: u32, lid: u32) -> vec4<{kind}> {{\n    \
             let x = x0 + {x};\n    let p = p0 + {p};\n    var v = vec4<{kind}>();\n    \
             let at = base + x * args.across{t} + p * args.along{t};\n    if x < {width} && p < stop {{\n"
        );
        let load = format!("operand{t}");
        if self.is_quad {
            access.load_quad(shader, &load);
            writeln!(text, "        let q = {load}(at);").expect("strings take text");
            for l in 0..4 {
                let value = self.widened(shader, &self.stored.of_word(&format!("q[{l}]")));
                writeln!(text, "        v[{l}] = {value};").expect("strings take text");
            }
        } else {
            access.load(shader, &load);
            let (name, limit, step) = if self.is_along {
                ("p", "stop", format!("args.along{t}"))
            } else {
                ("x", width, format!("args.across{t}"))
            };
            let first = self.widened(shader, &format!("{load}(at)"));
            writeln!(text, "        v.x = {first};").expect("strings take text");
            for l in 1..4 {
                let value = self.widened(shader, &format!("{load}(at + {l}u * {step})"));
                writeln!(text, "        if {name} + {l}u < {limit} {{ v[{l}] = {value}; }}")
                    .expect("strings take text");
            }
        }
        text += "    }\n    return v;\n}\n";
        shader.function(&format!("fetch{t}"), text);
    }
}

/// Writes `fn finish(o, i, c)`: the epilogue of a quad of row `o` from column `i` on.
pub(super) fn finish(shader: &mut Shader, ends: &Rows, dtype: DType) {
    let last = ends.tensors().len() - 1;
    let mut text = format!("fn finish(o: u32, i: u32, c: vec4<{}>) {{\n", type_name(dtype));
    (0..last).for_each(|t| ends.fetch(&mut text, t));
    for l in 0..4 {
        let extras: Vec<String> = (0..last).map(|t| format!(", x{t}_{l}")).collect();
        let sum = wrapped(dtype, &format!("c[{l}]"));
        writeln!(text, "let y{l} = post({sum}{});", extras.concat()).expect("strings take text");
    }
    ends.keep(&mut text, last);
    text += "}\n";
    shader.function("finish", text);
}

fn main(tile: Tile, dtype: DType, has_terms: bool) -> String {
    let across = tile.side / tile.columns;
    let mut main = format!(
        "let column_tile = group % args.column_tiles;\nlet rest = group / args.column_tiles;\n\
         let row_tile = rest % args.row_tiles;\nlet batch = (rest / args.row_tiles) % args.batches;\n\
         let slice = rest / args.row_tiles / args.batches;\n\
         let i0 = row_tile * {0}u;\nlet j0 = column_tile * {0}u;\n\
         let first = slice * args.part;\nlet stop = min(first + args.part, args.k);\n\
         let tx = lid % {across}u;\nlet ty = lid / {across}u;\n",
        tile.side
    );
    let kind = type_name(dtype);
    for (r, c) in micro_tiles(tile) {
        writeln!(main, "var c{r}_{c} = vec4<{kind}>();").expect("strings take text");
    }
    if has_terms {
        sum(&mut main, tile);
    }
    for (r, c) in micro_tiles(tile) {
        let row = if tile.rows == 1 {
            "i0 + ty".to_owned()
        } else {
            format!("i0 + ty * 4u + {}u", r / 4 * tile.side / (tile.rows / 4) + r % 4)
        };
        let column = format!("j0 + tx * 4u + {}u", c * tile.side / (tile.columns / 4));
        writeln!(
            main,
            "{{ let row = {row}; let column = {column};\nif row < args.m && column < args.length {{ \
             finish((slice * args.batches + batch) * args.m + row, column, c{r}_{c}); }} }}"
        )
        .expect("strings take text");
    }
    main
}

/// Rows and quads of columns of one invocation.
fn micro_tiles(tile: Tile) -> impl Iterator<Item = (usize, usize)> {
    (0..tile.rows).flat_map(move |r| (0..tile.columns / 4).map(move |c| (r, c)))
}

/// Writes the loop over the steps of the sum.
fn sum(main: &mut String, tile: Tile) {
    let step = STEP / tile.side;
    let quads = tile.side / 4;
    write!(
        main,
        "let a0 = base0(batch);\nlet b0 = base1(batch);\nput0(0u, lid, fetch0(a0, i0, first, stop, lid));\n\
         put1(0u, lid, fetch1(b0, j0, first, stop, lid));\nworkgroupBarrier();\nvar half = 0u;\n\
         for (var p = first; p < stop; p += {step}u) {{\nlet next = p + {step}u;\n\
         let va = fetch0(a0, i0, next, stop, lid);\nlet vb = fetch1(b0, j0, next, stop, lid);\n\
         for (var s = 0u; s < {step}u; s += 1u) {{\n"
    )
    .expect("strings take text");
    if tile.rows == 1 {
        writeln!(main, "let a = tile0[half + s * {quads}u + (ty >> 2u)][ty & 3u];").expect("strings take text");
    }
    for r in 0..tile.rows / 4 {
        writeln!(main, "let a{r} = tile0[half + s * {quads}u + ty + {}u];", r * quads / (tile.rows / 4))
            .expect("strings take text");
    }
    for c in 0..tile.columns / 4 {
        writeln!(main, "let b{c} = tile1[half + s * {quads}u + tx + {}u];", c * quads / (tile.columns / 4))
            .expect("strings take text");
    }
    for (r, c) in micro_tiles(tile) {
        let a = if tile.rows == 1 { "a".to_owned() } else { format!("a{}[{}]", r / 4, r % 4) };
        writeln!(main, "c{r}_{c} += {a} * b{c};").expect("strings take text");
    }
    write!(main, "}}\nhalf = {GROUP}u - half;\nput0(half, lid, va);\nput1(half, lid, vb);\nworkgroupBarrier();\n}}\n")
        .expect("strings take text");
}
