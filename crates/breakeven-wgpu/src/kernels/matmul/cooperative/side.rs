//! How operands of f16 come into workgroup memory and from there into cooperative matrices.

use breakeven_ir::MatMul;

use super::{QUAD, Tile};
use crate::wgsl::{Access, GROUP, Shader, Tensor, Walk};

/// How one operand passes through workgroup memory: in lines along the axis of its neighbours.
#[derive(Clone, Debug)]
pub struct Side {
    /// Lines lie along the sum.
    is_along: bool,
    /// Elements from one line to the next.
    pitch: isize,
    /// The operand.
    pub tensor: Tensor,
}

/// Whether operand `t` lies in whole, aligned quads.
pub fn is_whole(k: &MatMul, tensor: &Tensor, t: usize) -> bool {
    Side::of(k, tensor, t).is_some()
}

impl Side {
    /// `None` where quads of it are not whole and aligned.
    pub fn of(k: &MatMul, tensor: &Tensor, t: usize) -> Option<Side> {
        let rank = k.batch.rank();
        let s = &tensor.layout.strides;
        let (along, across, width) = if t == 0 { (s[rank + 1], s[rank], k.m) } else { (s[rank], s[rank + 1], k.n) };
        let is_along = along == 1 && tensor.is_of_whole_quads(k.k);
        let is_across = across == 1 && tensor.is_of_whole_quads(width);
        let pitch = if is_along { across } else { along };
        let is_whole = |stride: isize| stride % QUAD as isize == 0;
        let fits = (is_along || is_across)
            && pitch > 0
            && tensor.is_aligned()
            && s[..rank].iter().chain([&pitch]).all(|&stride| is_whole(stride));
        fits.then(|| Side { is_along, pitch, tensor: Tensor { is_native: true, ..tensor.clone() } })
    }

    /// Quads of a line in workgroup memory that are used, and all of them: 16 bytes more spread lines over the banks.
    fn line(&self, tile: Tile, t: usize) -> (usize, usize) {
        let used = if self.is_along { tile.step } else { tile.sides[t] } / QUAD;
        (used, used + 2)
    }

    /// Lines of a step.
    fn lines(&self, tile: Tile, t: usize) -> usize {
        if self.is_along { tile.sides[t] } else { tile.step }
    }

    /// Quads of workgroup memory of one step.
    pub fn quads(&self, tile: Tile, t: usize) -> usize {
        self.lines(tile, t) * self.line(tile, t).1
    }

    /// Quads of a step that each invocation brings.
    pub fn loads(&self, tile: Tile, t: usize) -> usize {
        self.lines(tile, t) * self.line(tile, t).0 / GROUP as usize
    }

    /// Writes `fetch{t}` (a quad of the step from global memory) and `place{t}` (where it goes in workgroup memory).
    pub fn functions(&self, shader: &mut Shader, tile: Tile, batch: &Walk, t: usize, access: &Access) {
        let (used, pitch) = self.line(tile, t);
        batch.function(shader, &format!("base{t}"), "batch", t, access.offset);
        shader.arg(&format!("pitch{t}"), self.pitch as u32);
        access.load_native(shader, &format!("operand{t}"));
        let width = if t == 0 { "args.m" } else { "args.length" };
        let (x, p, near, far) = if self.is_along {
            (format!("lid / {used}u"), format!("(lid % {used}u) * {QUAD}u"), "p", "x")
        } else {
            (format!("(lid % {used}u) * {QUAD}u"), format!("lid / {used}u"), "x", "p")
        };
        shader.function(
            &format!("fetch{t}"),
            format!(
                "fn fetch{t}(base: u32, x0: u32, p0: u32, stop: u32, lid: u32) -> vec4<f16> {{\n    let x = x0 + {x};\n    \
                 let p = p0 + {p};\n    \
                 if x < {width} && p < stop {{ return operand{t}(base + {far} * args.pitch{t} + {near}); }}\n    \
                 return vec4<f16>();\n}}\n"
            ),
        );
        shader.function(
            &format!("place{t}"),
            format!("fn place{t}(lid: u32) -> u32 {{ return lid / {used}u * {pitch}u + lid % {used}u; }}\n"),
        );
    }

    /// The load of the cooperative matrix from `start` of the operand in workgroup memory on: `across` rows or columns of the
    /// tile after `first`, `along` terms after the step's first.
    pub fn load(&self, tile: Tile, t: usize, (start, first): (usize, &str), (across, along): (usize, usize)) -> String {
        let (role, pitch) = (["A", "B"][t], self.line(tile, t).1);
        let at = if self.is_along {
            format!("{first} * {pitch}u + {}u", start + across * pitch + along / QUAD)
        } else {
            format!("{first} / {QUAD}u + {}u", start + along * pitch + across / QUAD)
        };
        // Row-major is the left operand along the sum, and the right one across it.
        let load = if self.is_along == (t == 0) { "coopLoadT" } else { "coopLoad" };
        format!("{load}<coop_mat16x16<f16, {role}>>(&stage[{at}], {pitch}u)")
    }
}
