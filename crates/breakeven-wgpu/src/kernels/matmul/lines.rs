//! Operands whose quads are not whole where they lie: copied to lines of whole quads in scratch memory, with zeros at their ends.
//! They are read many times, and each time by several loads and shifts otherwise.

use breakeven_ir::MatMul;

use super::super::{Dispatch, Plan, Shaping};
use crate::wgsl::{Access, GROUP, Shader, Tensor, Walk, bind};

/// Rows and columns of the result from which on each element is read often enough. By times on an H200.
const OFTEN: usize = 128;
/// Elements that lines begin at multiples of: what memory brings at once.
const GRAIN: usize = 16;

/// Whether the quads of operand `t` are whole, for those who read it.
type IsWhole = fn(&MatMul, &Tensor, usize) -> bool;

/// The operands of a product, of which some are copied.
pub(super) struct Operands<'a> {
    k: &'a MatMul,
    inputs: &'a [Tensor],
    is_whole: IsWhole,
}

impl<'a> Operands<'a> {
    pub fn new(k: &'a MatMul, inputs: &'a [Tensor], is_whole: IsWhole) -> Operands<'a> {
        Operands { k, inputs, is_whole }
    }

    /// Each operand, and the lines that it is copied to if it is.
    fn each(&self) -> impl Iterator<Item = (&'a Tensor, Option<Lines<'a>>)> {
        let one = |(t, tensor): (usize, &'a Tensor)| {
            (tensor, (!(self.is_whole)(self.k, tensor, t)).then(|| Lines::new(self.k, tensor, t)))
        };
        self.inputs.iter().enumerate().map(one)
    }

    /// Whether what is copied can be bound beside `other` bytes of scratch memory, and its elements counted.
    pub fn fit(&self, other: u64, shaping: &Shaping) -> bool {
        let copies: Vec<Lines<'a>> = self.each().filter_map(|(_, lines)| lines).collect();
        let bytes: u64 = copies.iter().map(|lines| lines.bytes().next_multiple_of(256)).sum();
        let are_counted = copies.iter().all(|lines| lines.elements() <= shaping.max_index);
        copies.is_empty() || are_counted && bytes + other <= shaping.binding_bytes
    }

    /// True where it is shorter to copy operands than to read parts of words often.
    pub fn are_read_often(&self) -> bool {
        self.inputs.iter().all(|input| input.stored.is_packed()) && self.k.m.min(self.k.n) >= OFTEN && self.k.k > 0
    }

    /// Appends the copies; gives all operands as they lie then.
    pub fn push(&self, plan: &mut Plan) -> Vec<Tensor> {
        self.each().map(|(tensor, lines)| lines.map_or_else(|| tensor.clone(), |lines| lines.push(plan))).collect()
    }
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
    fn new(k: &MatMul, tensor: &'a Tensor, t: usize) -> Lines<'a> {
        let (rank, strides) = (k.batch.rank(), &tensor.layout.strides);
        let is_turned = strides[rank].unsigned_abs() < strides[rank + 1].unsigned_abs();
        let [rows, columns] = [[k.m, k.k], [k.k, k.n]][t];
        let (lines, length) = if is_turned { (columns, rows) } else { (rows, columns) };
        let own = k.batch.iter().zip(strides).map(|(&extent, &stride)| if stride == 0 { 1 } else { extent });
        let outer = own.chain([lines]).collect();
        Lines { tensor, is_turned, outer, length, pitch: length.next_multiple_of(GRAIN) }
    }

    /// Bytes of the copy.
    fn bytes(&self) -> u64 {
        self.tensor.stored.bytes() * self.elements()
    }

    fn elements(&self) -> u64 {
        (self.count() * self.pitch) as u64
    }

    fn count(&self) -> usize {
        self.outer.iter().product()
    }

    /// Appends the copy; gives the operand as it lies then.
    fn push(&self, plan: &mut Plan) -> Tensor {
        let to = self.placed(plan.take_scratch(self.bytes()));
        let mut shader = Shader::default();
        let (bound, accesses) = bind(&mut shader, &[(self.tensor, false, false), (&to, true, true)]);
        self.functions(&mut shader, &accesses);
        let quads = self.pitch / 4;
        let sizes = [self.count(), quads, self.length, accesses[1].offset as usize];
        for (name, size) in ["lines", "quads", "length", "o"].into_iter().zip(sizes) {
            shader.arg(name, size as u32);
        }
        let (text, args) = shader.finish(COPY);
        let groups = (self.count() * quads).div_ceil(GROUP as usize) as u64;
        plan.dispatches.push(Dispatch { text, args, bound, groups, members: 1 });
        to
    }

    /// Writes `line` (where one begins), `part` (an element of it, or 0 past its end) and `store`.
    fn functions(&self, shader: &mut Shader, accesses: &[Access]) {
        let (from, to) = (&accesses[0], &accesses[1]);
        let rank = self.outer.len() - 1;
        let strides = &self.tensor.layout.strides;
        let [far, near] = if self.is_turned { [rank + 1, rank] } else { [rank, rank + 1] };
        let lines: Vec<isize> = strides[..rank].iter().copied().chain([strides[far]]).collect();
        Walk::new(&self.outer, &[&lines]).function(shader, "line", "lines", 0, from.offset);
        shader.arg("step", strides[near] as u32);
        from.load(shader, "load");
        to.store_quad(shader, "store");
        let value = self.tensor.stored.as_word("load(at)");
        shader.function(
            "part",
            format!(
                "fn part(at: u32, i: u32) -> u32 {{\n    if i < args.length {{ return {value}; }}\n    return 0u;\n}}\n"
            ),
        );
    }

    /// The copy, from byte `start` of scratch memory on. Where the operand is one for the whole batch, so is the copy.
    fn placed(&self, start: u64) -> Tensor {
        let shape = self.outer.iter().copied().chain([self.length]).collect();
        let rank = self.outer.len() - 1;
        let mut to = Tensor::padded(self.tensor.stored.dtype, (&shape, rank + 1), GRAIN, start);
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

#[cfg(test)]
mod tests {
    use breakeven_ir::{DType, Expr, Kernel, Layout, Operand, Precision, Shape};

    use super::super::super::{launch_of, plan};
    use super::*;

    fn shaping(binding_bytes: u64) -> Shaping {
        Shaping {
            bindings: 8,
            binding_bytes,
            max_index: 1 << 31,
            args_bytes: 1 << 16,
            row_groups: 65_535,
            is_terse: false,
            is_cooperative: false,
        }
    }

    fn dispatches([m, k, n]: [usize; 3], dtype: DType, binding_bytes: u64) -> usize {
        let dense = |shape: [usize; 2]| Operand::new(dtype, Layout::dense(shape));
        let kernel = Kernel::MatMul(MatMul {
            batch: Shape::scalar(),
            m,
            n,
            k,
            a: dense([m, k]),
            b: dense([k, n]),
            precision: Precision::Highest,
            post: Expr::identity(dtype),
            params: vec![],
            inputs: vec![],
            out: dense([m, n]),
        });
        plan(&launch_of(&kernel), &shaping(binding_bytes)).expect("it can be multiplied").dispatches.len()
    }

    #[test]
    fn narrow_operands_that_are_read_often_are_copied() {
        let ample = 1 << 31;
        assert_eq!(dispatches([512, 63, 512], DType::F16, ample), 2, "rows of the left one");
        assert_eq!(dispatches([511, 64, 511], DType::F16, ample), 3, "rows of the right one, and the result");
        assert_eq!(dispatches([512, 64, 512], DType::F16, ample), 1);
        assert_eq!(dispatches([511, 63, 511], DType::F32, ample), 1, "wide ones are words");
        assert_eq!(
            dispatches([100, 64, 510], DType::F16, ample),
            2,
            "few rows read the right one, and only the result is copied"
        );
    }

    /// As it is by WebGPU's defaults.
    #[test]
    fn copies_leave_room_for_what_the_product_leaves() {
        let small = 1 << 27;
        for k in [9_001, 12_001, 13_001, 30_001] {
            assert!(dispatches([1_920, k, 2_047], DType::F16, small) >= 3, "{k} terms");
        }
        assert_eq!(dispatches([4_095, 4_097, 4_099], DType::F16, small), 4);
        assert_eq!(dispatches([6_001, 6_003, 6_005], DType::F16, small), 2, "only the result is copied");
    }
}
