//! Operands whose quads are not whole where they lie: copied to lines of whole quads in scratch memory, with zeros at their ends.
//! They are read many times, and each time by several loads and shifts otherwise.

use breakeven_ir::MatMul;

use super::super::{Dispatch, Plan, Shaping};
use super::SPLIT_BELOW;
use crate::wgsl::{GROUP, Shader, Tensor, Walk, bind};

/// Rows and columns of the result from which on each element is read often enough. By times on an H200.
const OFTEN: usize = 128;

/// Bytes that parts of split sums take at most: those of twice as many tiles as should be at work.
const SUMS: u64 = 4 * 2 * (SPLIT_BELOW * 128 * 128) as u64;

/// The operands of `k`, copied where `is_whole` says that the quads of one are not.
pub(super) fn whole(
    plan: &mut Plan,
    k: &MatMul,
    inputs: Vec<Tensor>,
    is_whole: impl Fn(&Tensor, usize) -> bool,
) -> Vec<Tensor> {
    let one = |(t, tensor)| if is_whole(&tensor, t) { tensor } else { Lines::new(k, &tensor, t).push(plan) };
    inputs.into_iter().enumerate().map(one).collect()
}

/// Whether copies of both operands, and what the product may leave in scratch memory, can be bound together, and their elements counted.
pub(super) fn has_room(k: &MatMul, inputs: &[Tensor], shaping: &Shaping) -> bool {
    let copies: u64 = inputs.iter().enumerate().map(|(t, tensor)| Lines::new(k, tensor, t).bytes()).sum();
    let words = 4 * (k.batch.elements() * k.m * Tensor::pitch(k.n)) as u64;
    copies + words.max(SUMS) <= shaping.binding_bytes.min(shaping.max_index)
}

/// True where it is shorter to copy operands than to read parts of words often.
pub(super) fn pays(k: &MatMul, inputs: &[Tensor], shaping: &Shaping) -> bool {
    let are_packed = inputs.iter().all(|input| input.stored.is_packed());
    are_packed && k.m.min(k.n) >= OFTEN && k.k > 0 && has_room(k, inputs, shaping)
}

/// An operand as it will lie.
struct Lines<'a> {
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
        self.tensor.stored.bytes() * (self.count() * self.pitch) as u64
    }

    fn count(&self) -> usize {
        self.outer.iter().product()
    }

    /// Appends the copy; gives the operand as it lies then.
    pub fn push(&self, plan: &mut Plan) -> Tensor {
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
        let value = self.tensor.stored.as_word("load(at)");
        shader.function(
            "part",
            format!(
                "fn part(at: u32, i: u32) -> u32 {{\n    if i < args.length {{ return {value}; }}\n    return 0u;\n}}\n"
            ),
        );
        let quads = self.pitch / 4;
        let sizes = [self.count(), quads, self.length, strides[near] as usize, accesses[1].offset as usize];
        for (name, size) in ["lines", "quads", "length", "step", "o"].into_iter().zip(sizes) {
            shader.arg(name, size as u32);
        }
        let (text, args) = shader.finish(COPY);
        let groups = (self.count() * quads).div_ceil(GROUP as usize) as u64;
        plan.dispatches.push(Dispatch { text, args, bound, groups, members: 1 });
        to
    }

    /// The copy, from byte `start` of scratch memory on. Where the operand is one for the whole batch, so is the copy.
    fn placed(&self, start: u64) -> Tensor {
        let shape = self.outer.iter().copied().chain([self.length]).collect();
        let rank = self.outer.len() - 1;
        let mut to = Tensor::padded(self.tensor.stored.dtype, &shape, rank + 1, start);
        (0..rank).filter(|&axis| self.outer[axis] == 1).for_each(|axis| to.layout.strides[axis] = 0);
        let last = if self.is_turned { [rank + 1, rank] } else { [rank, rank + 1] };
        Tensor { layout: to.layout.permute(&(0..rank).chain(last).collect::<Vec<_>>()), ..to }
    }
}

/// Each invocation copies a quad. What lies past the end of a line is 0.
const COPY: &str = "let e = group * 256u + lid;
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
