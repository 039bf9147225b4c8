//! Windows in WGSL: which elements of the input neighbouring places see, zeros outside; and the columns of a product that
//! are made of them while it runs.

use std::fmt::Write;

use breakeven_ir::{ConvKernel, DType};

use super::super::matmul::Tile;
use crate::wgsl::{Access, Shader, Tensor, Walk, cast, type_name};

/// Names what windows along each axis are made of among the arguments.
pub(super) fn axes(shader: &mut Shader, k: &ConvKernel) {
    for (axis, along) in k.along.iter().enumerate() {
        let at = axis + ConvKernel::LEAD;
        let all = [
            ("size", k.weight.layout.shape[at]),
            ("dilation", along.dilation),
            ("extent", k.x.layout.shape[at]),
            ("xs", k.x.layout.strides[at] as usize),
            ("count", along.count),
            ("stride", along.stride),
            ("before", along.before),
        ];
        for (name, value) in all {
            shader.arg(&format!("{name}{axis}"), value as u32);
        }
    }
}

/// Text of `start{axis}`: where the windows of four places from `first` on, which is one of them, begin, before the input as numbers
/// beyond any extent. Places behind the last are seen to begin anywhere.
pub(super) fn starts(k: &ConvKernel, first: &str) -> String {
    let mut text = format!("var spot = {first};\n");
    // Dividing is slow: once for four places, of which the later ones pass at most one end of a row that is not shorter.
    let is_narrow = k.along.last().is_some_and(|along| along.count < 4);
    let seen = if is_narrow { each_divided(k) } else { carried(k) };
    text += &seen;
    for axis in (0..k.along.len()).rev() {
        writeln!(text, "let start{axis} = seen{axis} * args.stride{axis} - vec4<u32>(args.before{axis});")
            .expect("strings take text");
    }
    text
}

/// Text of `seen{axis}`, the indices of four places from `spot` on, each divided by itself.
fn each_divided(k: &ConvKernel) -> String {
    let mut text = "var spots = vec4<u32>(spot) + vec4<u32>(0u, 1u, 2u, 3u);\n".to_owned();
    for axis in (0..k.along.len()).rev() {
        writeln!(
            text,
            "let seen{axis} = spots % vec4<u32>(args.count{axis});\nspots = spots / vec4<u32>(args.count{axis});"
        )
        .expect("strings take text");
    }
    text
}

/// The same by counting on from the first.
fn carried(k: &ConvKernel) -> String {
    let mut text = "var more = vec4<u32>(0u, 1u, 2u, 3u);\n".to_owned();
    for axis in (1..k.along.len()).rev() {
        writeln!(
            text,
            "let raw{axis} = vec4<u32>(spot % args.count{axis}) + more;\nspot = spot / args.count{axis};\n\
             let over{axis} = raw{axis} >= vec4<u32>(args.count{axis});\n\
             let seen{axis} = select(raw{axis}, raw{axis} - vec4<u32>(args.count{axis}), over{axis});\n\
             more = select(vec4<u32>(), vec4<u32>(1u), over{axis});"
        )
        .expect("strings take text");
    }
    if !k.along.is_empty() {
        text += "let seen0 = vec4<u32>(spot) + more;\n";
    }
    text
}

/// Whether lane `l` of the places `p{axis}` lies inside the input, and how far from its first element.
pub(super) fn inside(k: &ConvKernel, l: usize) -> (String, String) {
    let all =
        |of: &dyn Fn(usize) -> String, between: &str| (0..k.along.len()).map(of).collect::<Vec<_>>().join(between);
    (
        all(&|axis| format!("p{axis}[{l}] < args.extent{axis}"), " && "),
        all(&|axis| format!("p{axis}[{l}] * args.xs{axis}"), " + "),
    )
}

/// The element `x` in the type of the sums.
pub(super) fn widened(shader: &mut Shader, from: DType, to: DType, x: &str) -> String {
    let text = cast(x, from, to).expect("sums are of the operands' type, or of f32");
    shader.need_called(&text);
    text
}

/// Windows as the right operand of a product: a row for each channel and element of a window, a column for each place.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Windows<'a>(pub(super) &'a ConvKernel);

impl Windows<'_> {
    /// Writes `base{t}`, `fetch{t}` (a quad of places of one row) and `put{t}` (into workgroup memory).
    pub(in super::super) fn functions(
        self,
        shader: &mut Shader,
        tile: Tile,
        batch: &Walk,
        t: usize,
        (tensor, access): (&Tensor, &Access),
    ) {
        let k = self.0;
        let kind = type_name(k.accumulator());
        batch.function(shader, &format!("base{t}"), "batch", t, access.offset);
        access.load(shader, &format!("operand{t}"));
        axes(shader, k);
        shader.arg("xc", k.x.layout.strides[2] as u32);
        shader.shared(&format!("tile{t}"), &format!("array<vec4<{kind}>, {}>", 2 * tile.quads(t)));
        let quads = tile.sides[t] / 4;
        let mut text = format!(
            "fn fetch{t}(base: u32, column: u32, term: u32, stop: u32, lid: u32) -> vec4<{kind}> {{\n    \
             let x = column + (lid % {quads}u) * 4u;\n    let p = term + lid / {quads}u;\n    var v = vec4<{kind}>();\n    \
             if x >= args.length || p >= stop {{ return v; }}\n{}var rest = p;\n",
            starts(k, "x")
        );
        for axis in (0..k.along.len()).rev() {
            writeln!(
                text,
                "let p{axis} = start{axis} + vec4<u32>((rest % args.size{axis}) * args.dilation{axis});\n\
                 rest = rest / args.size{axis};"
            )
            .expect("strings take text");
        }
        text += "let channel = base + rest * args.xc;\n";
        for l in 0..4 {
            let (is_inside, at) = inside(k, l);
            let load = format!("operand{t}(channel + {at})");
            let value = widened(shader, tensor.stored.dtype, k.accumulator(), &load);
            writeln!(text, "if {is_inside} {{ v[{l}] = {value}; }}").expect("strings take text");
        }
        text += "return v;\n}\n";
        shader.function(&format!("fetch{t}"), text);
        let put = format!("fn put{t}(half: u32, lid: u32, v: vec4<{kind}>) {{\n    tile{t}[half + lid] = v;\n}}\n");
        shader.function(&format!("put{t}"), put);
    }
}
