//! Operands whose quads are not whole where they lie: copied to lines of whole quads in scratch memory, with zeros at their ends.

use breakeven_ir::{DType, MatMul};

use super::super::super::{Dispatch, Plan};
use super::{QUAD, Side};
use crate::wgsl::{GROUP, Shader, Tensor, Walk, bind};

/// An operand as it will lie.
pub(super) struct Lines<'a> {
    tensor: &'a Tensor,
    /// Lines lie along the axis of its rows.
    is_turned: bool,
    /// Extents of the batch that it has of its own, then of lines.
    outer: Vec<usize>,
    /// Elements of a line, and from one to the next.
    length: usize,
    pitch: usize,
}

impl<'a> Lines<'a> {
    pub fn new(k: &MatMul, tensor: &'a Tensor, t: usize) -> Lines<'a> {
        let (rank, strides) = (k.batch.rank(), &tensor.layout.strides);
        let is_turned = strides[rank].unsigned_abs() < strides[rank + 1].unsigned_abs();
        let [rows, columns] = [[k.m, k.k], [k.k, k.n]][t];
        let (lines, length) = if is_turned { (columns, rows) } else { (rows, columns) };
        let own = k.batch.iter().zip(strides).map(|(&extent, &stride)| if stride == 0 { 1 } else { extent });
        let outer = own.chain([lines]).collect();
        Lines { tensor, is_turned, outer, length, pitch: Tensor::pitch(length) }
    }

    /// Bytes of the copy.
    pub fn bytes(&self) -> u64 {
        2 * (self.count() * self.pitch) as u64
    }

    fn count(&self) -> usize {
        self.outer.iter().product()
    }

    /// Appends the copy; gives operand `t` as it lies then.
    pub fn push(&self, plan: &mut Plan, t: usize) -> Side {
        let start = plan.take_scratch(self.bytes());
        let to = self.placed(start);
        let mut shader = Shader::default();
        let (bound, accesses) = bind(&mut shader, &[(self.tensor, false, false), (&to, true, true)]);
        let rank = self.outer.len() - 1;
        let strides = &self.tensor.layout.strides;
        let [far, near] = if self.is_turned { [rank + 1, rank] } else { [rank, rank + 1] };
        let lines: Vec<isize> = strides[..rank].iter().copied().chain([strides[far]]).collect();
        Walk::new(&self.outer, &[&lines]).function(&mut shader, "line", "lines", 0, accesses[0].offset);
        accesses[0].load(&mut shader, "load");
        accesses[1].store_quad(&mut shader, "store");
        shader.function("part", PART);
        let quads = self.pitch / QUAD;
        let sizes = [self.count(), quads, self.length, strides[near] as usize, accesses[1].offset as usize];
        for (name, size) in ["lines", "quads", "length", "step", "o"].into_iter().zip(sizes) {
            shader.arg(name, size as u32);
        }
        let (text, args) = shader.finish(MAIN);
        let groups = (self.count() * quads).div_ceil(GROUP as usize) as u64;
        plan.dispatches.push(Dispatch { text, args, bound, groups, members: 1 });
        Side::of_lines(self.is_turned == (t == 1), self.pitch, to)
    }

    /// The copy, from byte `start` of scratch memory on. Where the operand is one for the whole batch, so is the copy.
    fn placed(&self, start: u64) -> Tensor {
        let shape = self.outer.iter().copied().chain([self.length]).collect();
        let rank = self.outer.len() - 1;
        let mut to = Tensor::padded(DType::F16, &shape, rank + 1, start);
        (0..rank).filter(|&axis| self.outer[axis] == 1).for_each(|axis| to.layout.strides[axis] = 0);
        let last = if self.is_turned { [rank + 1, rank] } else { [rank, rank + 1] };
        Tensor { layout: to.layout.permute(&(0..rank).chain(last).collect::<Vec<_>>()), ..to }
    }
}

/// An element of a line, or what lies past its end.
const PART: &str = "fn part(at: u32, i: u32) -> u32 {
    if i < args.length { return load(at); }
    return 0u;
}
";

/// Each invocation copies a quad.
const MAIN: &str = "let e = group * 256u + lid;
let number = e / args.quads;
let i = e % args.quads * 4u;
if number < args.lines {
    let at = line(number) + i * args.step;
    let two = 2u * args.step;
    let v = vec4<u32>(
        part(at, i), part(at + args.step, i + 1u), part(at + two, i + 2u), part(at + two + args.step, i + 3u));
    store(args.o + e * 4u, v, 4u);
}
";
