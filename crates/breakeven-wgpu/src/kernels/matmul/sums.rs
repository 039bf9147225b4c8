//! The shader of a product: sums of products in registers, then the epilogue.

use std::fmt::Write;

use breakeven_ir::{Body, DType};

use super::super::Dispatch;
use super::super::conv::Windows;
use super::super::rows::Rows;
use super::operand::Operand;
use super::{Factors, Plan, Tile, place, sum_dtype};
use crate::wgsl::{GROUP, Shader, Tensor, Walk, bind, function, type_name, wrapped};

/// Appends the product over parts of `part` terms each; part `p` of the sum goes to rows `p * batch * m` and on of the
/// output.
pub(super) fn push(
    plan: &mut Plan,
    Factors { k, windows, tile, inputs, .. }: Factors<'_>,
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
    let (rows, columns) = (k.m.div_ceil(tile.sides[0]), k.n.div_ceil(tile.sides[1]));
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
    let main = main(tile, sum_dtype(k), k.k > 0, !plan.is_terse && tile.micro[0] >= WRITTEN_OUT);
    let groups = (rows * columns * k.batch.elements() * parts) as u64;
    shader.arg("groups", groups as u32);
    let (text, args) = shader.finish(&main);
    plan.dispatches.push(Dispatch { text, args, bound, groups, members: 1 });
}

/// Where the right operand comes from.
enum Right<'a> {
    Matrix(Operand),
    Windows(Windows<'a>),
}

/// Writes `fn finish(o, i, c)`: the epilogue of a quad of row `o` from column `i` on.
pub(in super::super) fn finish(shader: &mut Shader, ends: &Rows, dtype: DType) {
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

fn main(tile: Tile, dtype: DType, has_terms: bool, is_written_out: bool) -> String {
    let [height, width] = tile.sides;
    // Neighbouring invocations in blocks of 8 by 4, which read few different quads of workgroup memory at a time.
    let across = width / tile.micro[1];
    let mut main = place(tile.sides);
    writeln!(
        main,
        "let tx = (lid / 32u) % {0}u * 8u + lid % 8u;\nlet ty = lid / 32u / {0}u * 4u + lid % 32u / 8u;",
        across / 8
    )
    .expect("strings take text");
    let kind = type_name(dtype);
    for (r, c) in micro_tiles(tile) {
        writeln!(main, "var c{r}_{c} = vec4<{kind}>();").expect("strings take text");
    }
    if has_terms {
        sum(&mut main, tile, kind, is_written_out);
    }
    for (r, c) in micro_tiles(tile) {
        let row = if tile.micro[0] < 4 {
            format!("i0 + ty * {}u + {r}u", tile.micro[0])
        } else {
            format!("i0 + ty * 4u + {}u", r / 4 * height / (tile.micro[0] / 4) + r % 4)
        };
        let column = format!("j0 + tx * 4u + {}u", c * width / (tile.micro[1] / 4));
        writeln!(
            main,
            "{{ let row = {row}; let column = {column};\nif row < args.m && column < args.length && group < args.groups {{ \
             finish((slice * args.batches + batch) * args.m + row, column, c{r}_{c}); }} }}"
        )
        .expect("strings take text");
    }
    main
}

/// Rows and quads of columns of one invocation.
fn micro_tiles(tile: Tile) -> impl Iterator<Item = (usize, usize)> {
    (0..tile.micro[0]).flat_map(move |r| (0..tile.micro[1] / 4).map(move |c| (r, c)))
}

/// Writes the loop over the steps of the sum. Workgroup memory has two halves, of which one is read while the other is written.
/// Where terms are written out, two steps are, so that each half has its place in the text: a product of 4096^3 takes 3.02 ms
/// instead of 3.42 on an H200. A step too many adds zeros.
fn sum(main: &mut String, tile: Tile, kind: &str, is_written_out: bool) {
    let turns = if is_written_out { 2 } else { 1 };
    *main += "let a0 = base0(batch);\nlet b0 = base1(batch);\nvar half = 0u;\n";
    fetch(main, tile, kind, "first");
    put(main, tile, "half");
    writeln!(main, "workgroupBarrier();\nfor (var p = first; p < stop; p += {}u) {{", turns * tile.step)
        .expect("strings take text");
    for turn in 0..turns {
        step(main, tile, kind, (turn, is_written_out));
    }
    *main += "}\n";
}

/// Writes one step: the next one is loaded, this one is added, the next one is stored.
fn step(main: &mut String, tile: Tile, kind: &str, (turn, is_written_out): (usize, bool)) {
    let half = if is_written_out { format!("{turn}u") } else { "half".to_owned() };
    write!(
        main,
        "{{\nlet next = p + {}u;\nlet left = {half} * {}u;\nlet right = {half} * {}u;\n",
        (turn + 1) * tile.step,
        tile.quads(0),
        tile.quads(1)
    )
    .expect("strings take text");
    fetch(main, tile, kind, "next");
    if is_written_out {
        (0..tile.step).for_each(|s| term(main, tile, &format!("{s}u")));
        put(main, tile, &format!("{}u", 1 - turn));
    } else {
        writeln!(main, "for (var s = 0u; s < {}u; s += 1u) {{", tile.step).expect("strings take text");
        term(main, tile, "s");
        *main += "}\nhalf = 1u - half;\n";
        put(main, tile, "half");
    }
    *main += "workgroupBarrier();\n}\n";
}

/// Writes the loads of the step from term `at` on, as `va0`, `vb0`, and so on.
fn fetch(main: &mut String, tile: Tile, kind: &str, at: &str) {
    for (t, (name, base, from)) in [("va", "a0", "i0"), ("vb", "b0", "j0")].into_iter().enumerate() {
        for l in 0..tile.loads(t) {
            let fetch = format!("fetch{t}({base}, {from}, {at}, stop, lid + {}u)", l * GROUP as usize);
            match tile.guard(t) {
                Some(guard) => {
                    writeln!(main, "var {name}{l} = vec4<{kind}>();\nif {guard} {{ {name}{l} = {fetch}; }}")
                }
                None => writeln!(main, "let {name}{l} = {fetch};"),
            }
            .expect("strings take text");
        }
    }
}

/// Writes the stores of what was loaded to a half of workgroup memory.
fn put(main: &mut String, tile: Tile, half: &str) {
    for (t, name) in ["va", "vb"].into_iter().enumerate() {
        for l in 0..tile.loads(t) {
            let put = format!("put{t}({half} * {}u, lid + {}u, {name}{l});", tile.quads(t), l * GROUP as usize);
            match tile.guard(t) {
                Some(guard) => writeln!(main, "if {guard} {{ {put} }}"),
                None => writeln!(main, "{put}"),
            }
            .expect("strings take text");
        }
    }
}

/// Rows of an invocation from which on the terms of a step are written out, so that the operands of one are loaded while the
/// one before it is added: large products gain an eighth. Drivers take longer to compile that.
const WRITTEN_OUT: usize = 8;

/// Writes the products of term `s` of a step.
fn term(main: &mut String, tile: Tile, s: &str) {
    let [rows, columns] = tile.micro;
    let [high, wide] = tile.sides.map(|side| side / 4);
    *main += "{\n";
    // Rows of an invocation that do not fill a quad lie within one.
    for r in (0..rows).filter(|_| rows < 4) {
        writeln!(
            main,
            "let a{r} = tile0[left + {s} * {high}u + ((ty * {rows}u) >> 2u)][((ty * {rows}u) & 3u) + {r}u];"
        )
        .expect("strings take text");
    }
    for r in 0..rows / 4 {
        writeln!(main, "let a{r} = tile0[left + ty + {s} * {high}u + {}u];", r * high / (rows / 4))
            .expect("strings take text");
    }
    for c in 0..columns / 4 {
        writeln!(main, "let b{c} = tile1[right + tx + {s} * {wide}u + {}u];", c * wide / (columns / 4))
            .expect("strings take text");
    }
    for (r, c) in micro_tiles(tile) {
        let a = if rows < 4 { format!("a{r}") } else { format!("a{}[{}]", r / 4, r % 4) };
        writeln!(main, "c{r}_{c} += {a} * b{c};").expect("strings take text");
    }
    *main += "}\n";
}
