//! How matrices come into workgroup memory, a step of their terms at a time.

use std::fmt::Write;

use breakeven_ir::{DType, MatMul};

use super::{Tile, sum_dtype};
use crate::wgsl::{Access, Shader, Stored, Tensor, Walk, cast, type_name};

/// How a step of one operand is loaded. `across` is the axis that is not summed: rows of `a`, columns of `b`.
pub(super) struct Operand {
    along: isize,
    across: isize,
    /// Quads lie along the sum.
    is_along: bool,
    /// Quads are aligned.
    pub is_quad: bool,
    stored: Stored,
    /// Type of the sums.
    sum: DType,
}

/// Whether operand `t` is read by aligned quads.
pub(super) fn is_whole(k: &MatMul, tensor: &Tensor, t: usize) -> bool {
    Operand::new(k, tensor, t).is_quad
}

impl Operand {
    pub fn new(k: &MatMul, tensor: &Tensor, t: usize) -> Operand {
        let rank = k.batch.rank();
        let s = &tensor.layout.strides;
        let ((along, across), width) =
            if t == 0 { ((s[rank + 1], s[rank]), k.m) } else { ((s[rank], s[rank + 1]), k.n) };
        let is_along = along != 0 && (across == 0 || along.abs() < across.abs());
        let (near, far, length) = if is_along { (along, across, k.k) } else { (across, along, width) };
        let is_quad = near == 1
            && tensor.is_of_whole_quads(length)
            && tensor.is_aligned()
            && s[..rank].iter().chain([&far]).all(|stride| stride % 4 == 0);
        Operand { along, across, is_along, is_quad, stored: tensor.stored, sum: sum_dtype(k) }
    }

    /// Writes `fetch{t}` (a quad of the step from global memory) and `put{t}` (into workgroup memory).
    pub fn functions(&self, shader: &mut Shader, tile: Tile, batch: &Walk, t: usize, access: &Access) {
        let kind = type_name(self.sum);
        batch.function(shader, &format!("base{t}"), "batch", t, access.offset);
        shader.arg(&format!("along{t}"), self.along as u32);
        shader.arg(&format!("across{t}"), self.across as u32);
        shader.shared(&format!("tile{t}"), &format!("array<vec4<{kind}>, {}>", 2 * tile.quads(t)));
        let side = tile.sides[t];
        let quads = if self.is_along { tile.step / 4 } else { side / 4 };
        let (x, p) = if self.is_along {
            (format!("lid / {quads}u"), format!("(lid % {quads}u) * 4u"))
        } else {
            (format!("(lid % {quads}u) * 4u"), format!("lid / {quads}u"))
        };
        self.fetch(shader, t, kind, access, (&x, &p));
        let put = if self.is_along {
            let mut text = format!("    let x = {x};\n    let p = {p};\n");
            for l in 0..4 {
                writeln!(text, "    tile{t}[half + (p + {l}u) * {}u + (x >> 2u)][x & 3u] = v[{l}];", side / 4)
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
