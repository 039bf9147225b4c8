//! Rows: work on the trailing axes of operands, several invocations to a row.

use std::fmt::Write;

use breakeven_ir::DType;

use crate::wgsl::{Access, Shader, Tensor, Walk, Width, type_name};

/// How a quad of a row finds its elements in an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The row has one element.
    Splat,
    /// One aligned quad.
    Quad,
    /// Each has its own place.
    Each,
}

/// Operands over `outer ++ inner`, walked row by row.
#[derive(Debug)]
pub(super) struct Rows {
    outer: Walk,
    inner: Walk,
    tensors: Vec<Tensor>,
    reach: Vec<Reach>,
}

impl Rows {
    /// `outer` axes lead in every operand; those that have no further axes are read once for each row.
    pub fn new(outer: &[usize], inner: &[usize], tensors: Vec<Tensor>) -> Rows {
        let lead = outer.len();
        let tail = |t: &Tensor| -> Vec<isize> {
            if t.layout.shape.rank() == lead { vec![0; inner.len()] } else { t.layout.strides[lead..].to_vec() }
        };
        let tails: Vec<Vec<isize>> = tensors.iter().map(tail).collect();
        let heads: Vec<&[isize]> = tensors.iter().map(|t| &t.layout.strides[..lead]).collect();
        let outer = Walk::new(outer, &heads);
        let inner = Walk::new(inner, &tails.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let length: usize = inner.dims.iter().product();
        let reach = (0..tensors.len()).map(|t| reach(&outer, &inner, length, t, &tensors[t])).collect();
        Rows { outer, inner, tensors, reach }
    }

    /// The operands, in order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Writes `fn name(r: u32) -> u32`: where operand `t` has its element of row `r`.
    pub fn place(&self, shader: &mut Shader, name: &str, t: usize, offset: u64) {
        self.outer.function(shader, name, "end", t, offset);
    }

    /// What to bind: every operand, those from `first_out` on for writing.
    pub fn wants(&self, first_out: usize) -> Vec<(&Tensor, bool, bool)> {
        let want = |(t, tensor)| (tensor, t >= first_out, self.reach[t] == Reach::Quad);
        self.tensors.iter().enumerate().map(want).collect()
    }

    /// True when operand `t` is read or written by aligned quads alone.
    pub fn is_of_quads(&self, t: usize) -> bool {
        self.reach[t] == Reach::Quad
    }

    /// True when neighbouring rows lie nearer to each other than neighbouring elements of a row, in the first operand that
    /// has different elements for both.
    pub fn is_across(&self) -> bool {
        let step = |walk: &Walk, t: usize| walk.strides[t].last().map_or(0, |s| s.unsigned_abs());
        let steps = |t: usize| (step(&self.inner, t), step(&self.outer, t));
        (0..self.tensors.len()).map(steps).find(|&(along, across)| along * across != 0).is_some_and(|(a, b)| a > b)
    }

    /// Writes the functions that `fetch` and `keep` call for operand `t`.
    pub fn functions(&self, shader: &mut Shader, t: usize, access: &Access, written: bool) {
        self.outer.function(shader, &format!("outer{t}"), "row", t, access.offset);
        self.inner.function(shader, &format!("inner{t}"), "in", t, 0);
        match (written, self.reach[t]) {
            (true, Reach::Quad) => access.store_quad(shader, &format!("store{t}")),
            (true, _) => access.store(shader, &format!("store{t}")),
            (false, Reach::Quad) => {
                access.load_quad(shader, &format!("quad{t}"));
                access.load(shader, &format!("load{t}"));
            }
            (false, _) => access.load(shader, &format!("load{t}")),
        }
    }

    /// The value of operand `t` at row `o`, element `i`.
    pub fn value(t: usize) -> String {
        format!("load{t}(outer{t}(o) + inner{t}(i))")
    }

    /// Writes the loads of the quad from element `i` on of row `o` as `x{t}_0` to `x{t}_3`; elements past the row's end
    /// repeat its last.
    pub fn fetch(&self, main: &mut String, t: usize) {
        let stored = self.tensors[t].stored;
        let kind = type_name(stored.dtype);
        match self.reach[t] {
            Reach::Splat => writeln!(main, "let q{t} = load{t}(outer{t}(o));"),
            Reach::Quad => writeln!(main, "let q{t} = quad{t}(outer{t}(o) + i);"),
            Reach::Each => writeln!(main, "let q{t} = outer{t}(o);"),
        }
        .expect("strings take text");
        for l in 0..4 {
            let value = match self.reach[t] {
                Reach::Splat => format!("q{t}"),
                Reach::Quad => stored.of_word(&format!("q{t}[{l}]")),
                Reach::Each => format!("load{t}(q{t} + inner{t}(min(i + {l}u, args.length - 1u)))"),
            };
            writeln!(main, "let x{t}_{l}: {kind} = {value};").expect("strings take text");
        }
    }

    /// Writes the stores of `y0` to `y3` as the quad from element `i` on of row `o`, as far as the row goes.
    pub fn keep(&self, main: &mut String, t: usize) {
        if self.reach[t] == Reach::Quad {
            let words: Vec<String> = (0..4).map(|l| self.tensors[t].stored.as_word(&format!("y{l}"))).collect();
            writeln!(main, "store{t}(outer{t}(o) + i, vec4<u32>({}), 4u);", words.join(", "))
                .expect("strings take text");
            return;
        }
        writeln!(main, "let kept = outer{t}(o);").expect("strings take text");
        for l in 0..4 {
            writeln!(main, "if i + {l}u < args.length {{ store{t}(kept + inner{t}(i + {l}u), y{l}); }}")
                .expect("strings take text");
        }
    }
}

fn reach(outer: &Walk, inner: &Walk, length: usize, t: usize, tensor: &Tensor) -> Reach {
    if inner.strides[t].iter().all(|&s| s == 0) {
        return Reach::Splat;
    }
    let quads = inner.is_dense(t)
        && tensor.is_of_whole_quads(length)
        && tensor.stored.width() != Width::Pair
        && tensor.is_aligned()
        && outer.strides[t].iter().all(|s| s % 4 == 0);
    if quads { Reach::Quad } else { Reach::Each }
}

/// Types of operands, in order.
pub(super) fn types(tensors: &[Tensor]) -> Vec<DType> {
    tensors.iter().map(|t| t.stored.dtype).collect()
}
