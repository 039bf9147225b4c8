//! Operands of attention as matrices, loaded by quads of their rows.

use std::fmt::Write;

use breakeven_ir::DType;

use crate::wgsl::{Access, Shader, Stored, Tensor, Walk, cast};

/// How quads of a row are loaded.
pub(super) struct Matrix {
    name: &'static str,
    across: isize,
    along: isize,
    /// Quads are aligned.
    pub is_quad: bool,
    stored: Stored,
}

impl Matrix {
    pub fn new(name: &'static str, tensor: &Tensor) -> Matrix {
        let (lead, &[across, along]) = tensor.layout.strides.split_last_chunk().expect("a matrix has two axes");
        let is_quad = along == 1
            && tensor.layout.shape.last().is_some_and(|length| length.is_multiple_of(4))
            && tensor.is_aligned()
            && lead.iter().chain([&across]).all(|stride| stride % 4 == 0);
        Matrix { name, across, along, is_quad, stored: tensor.stored }
    }

    /// Extents, as arguments name them.
    fn extents(&self) -> [&'static str; 2] {
        match self.name {
            "q" => ["queries", "width"],
            "k" => ["keys", "width"],
            "v" => ["keys", "columns"],
            _ => ["queries", "keys"],
        }
    }

    /// Writes `base_{name}` (where a batch begins) and `fetch_{name}` (the quad from `column` on of `row`, 0 outside).
    pub fn functions(&self, shader: &mut Shader, batch: &Walk, t: usize, access: &Access) {
        let (name, [rows, columns]) = (self.name, self.extents());
        batch.function(shader, &format!("base_{name}"), "batch", t, access.offset);
        shader.arg(&format!("across_{name}"), self.across as u32);
        shader.arg(&format!("along_{name}"), self.along as u32);
        let load = format!("load_{name}");
        let mut text = format!(
            "fn fetch_{name}(base: u32, row: u32, column: u32) -> vec4<f32> {{\n    var v = vec4<f32>();\n    \
             let at = base + row * args.across_{name} + column * args.along_{name};\n    \
             if row < args.{rows} && column < args.{columns} {{\n"
        );
        if self.is_quad {
            access.load_quad(shader, &load);
            writeln!(text, "        let q = {load}(at);").expect("strings take text");
        } else {
            access.load(shader, &load);
        }
        for l in 0..4 {
            if self.is_quad {
                let value = self.widened(shader, &self.stored.of_word(&format!("q[{l}]")));
                writeln!(text, "        v[{l}] = {value};")
            } else {
                let value = self.widened(shader, &format!("{load}(at + {l}u * args.along_{name})"));
                writeln!(text, "        if column + {l}u < args.{columns} {{ v[{l}] = {value}; }}")
            }
            .expect("strings take text");
        }
        text += "    }\n    return v;\n}\n";
        shader.function(&format!("fetch_{name}"), text);
    }

    fn widened(&self, shader: &mut Shader, x: &str) -> String {
        let text = cast(x, self.stored.dtype, DType::F32).expect("operands are floats of 32 bits or fewer");
        shader.need_called(&text);
        text
    }
}
