//! Kernels as dispatches: one file for each shape of work.

mod attention;
mod batch;
mod conv;
mod custom;
mod gather;
mod long_rows;
mod map;
mod matmul;
mod reduce;
mod row_wise;
mod rows;
mod scan;
mod scatter;
mod share;
mod sort;
mod tiled;

pub use batch::{Planned, plan_all};

use breakeven_ir::{Body, Custom, Expr, Kernel, Launch, Shape, Unsupported};

use crate::wgsl::{Bound, Tensor, check, compile, is_foreign};
use rows::Rows;

/// Limits of a device that shape its dispatches.
#[derive(Clone, Copy, Debug)]
pub struct Shaping {
    /// Storage buffers that one dispatch can bind.
    pub bindings: usize,
    /// Largest part of a buffer that can be bound, in bytes.
    pub binding_bytes: u64,
    /// Highest number of elements, and of any element.
    pub max_index: u64,
    /// Largest block of arguments, in bytes.
    pub args_bytes: u64,
    /// Workgroups in one row of a grid.
    pub row_groups: u64,
    /// Loops are left loops: a driver that compiles for the processor takes long over what is written out, and gains nothing.
    pub is_terse: bool,
    /// Cooperative matrices of f16, 16 by 16, are summed in f32 by 8 subgroups of a workgroup, and their tiles fit its memory.
    pub is_cooperative: bool,
}

/// One dispatch: its text, its arguments, what it binds, how many groups it has.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// The WGSL module.
    pub text: String,
    /// Words of the argument block.
    pub args: Vec<u32>,
    /// Storage buffers, in the order of their bindings.
    pub bound: Vec<Bound>,
    /// Workgroups of each member; those of a lone one are folded into a grid.
    pub groups: u64,
    /// Launches that it carries out, each in a row of the grid.
    pub members: u32,
}

/// What a launch becomes.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Dispatches in order, each seeing what the ones before it wrote.
    pub dispatches: Vec<Dispatch>,
    /// Scratch memory they need, in bytes.
    pub scratch: u64,
    is_terse: bool,
}

impl Plan {
    /// Takes `bytes` of scratch memory; gives its start.
    pub(crate) fn take_scratch(&mut self, bytes: u64) -> u64 {
        let start = self.scratch;
        self.scratch = (start + bytes).next_multiple_of(256);
        start
    }
}

/// Compiles a launch of a widened kernel to text.
pub fn plan(launch: &Launch, shaping: &Shaping) -> Result<Plan, Unsupported> {
    check_operands(&launch.kernel, shaping)?;
    let tensors = |operands: Vec<&breakeven_ir::Operand>, slots: &[usize]| -> Vec<Tensor> {
        operands.into_iter().zip(slots).map(|(o, &slot)| Tensor::slot(o, slot)).collect()
    };
    let inputs = tensors(launch.kernel.inputs(), &launch.inputs);
    let outputs = tensors(launch.kernel.outputs(), &launch.outputs);
    let mut plan = Plan { is_terse: shaping.is_terse, ..Plan::default() };
    if outputs.iter().all(|o| o.layout.shape.is_empty()) {
        return Ok(plan);
    }
    match &launch.kernel {
        Kernel::Map(k) => map::plan(&mut plan, k, inputs, outputs)?,
        Kernel::Reduce(k) => reduce::plan(&mut plan, k, inputs, outputs)?,
        Kernel::Scan(k) => scan::plan(&mut plan, k, inputs, outputs)?,
        Kernel::RowWise(k) => row_wise::plan(&mut plan, k, inputs, outputs)?,
        Kernel::Sort(k) => sort::plan(&mut plan, k, inputs, outputs, shaping)?,
        Kernel::MatMul(k) => matmul::plan(&mut plan, k, inputs, outputs, shaping)?,
        Kernel::Attention(k) => attention::plan(&mut plan, k, &inputs, outputs)?,
        Kernel::Conv(k) => conv::plan(&mut plan, k, inputs, outputs, shaping)?,
        Kernel::Scatter(k) => scatter::plan(&mut plan, k, inputs, outputs)?,
        Kernel::Gather(k) => gather::plan(&mut plan, k, &inputs, outputs),
        Kernel::Custom(k) => custom::plan(&mut plan, k, inputs, outputs)?,
    }
    check_bindings(&plan, shaping).map(|()| plan)
}

/// How the products of `kernel` are made that need not be of the highest precision, in words; `None` where they are all the same.
pub fn lowers(kernel: &Kernel, shaping: &Shaping) -> Option<&'static str> {
    let Kernel::MatMul(product) = kernel else { return None };
    matmul::is_cooperative(product, shaping).then_some("f16 products, cooperative matrices")
}

/// Compiles the code of a custom operation as far as that can be done without a device.
///
/// # Errors
/// Why it cannot be compiled.
pub fn compile_custom(kernel: &Custom) -> Result<(), Unsupported> {
    let unlimited = Shaping {
        bindings: usize::MAX,
        binding_bytes: u64::MAX,
        max_index: u64::from(u32::MAX),
        args_bytes: u64::MAX,
        row_groups: u64::MAX,
        is_terse: false,
        is_cooperative: false,
    };
    let plan = plan(&launch_of(&Kernel::Custom(kernel.clone())), &unlimited)?;
    plan.dispatches.iter().filter(|d| is_foreign(&d.text)).try_for_each(|d| compile(&d.text))
}

/// A launch of `kernel`, widened, with a slot of its own for each operand, to ask whether it can be compiled.
pub fn launch_of(kernel: &Kernel) -> Launch {
    let (inputs, outputs) = (kernel.inputs().len(), kernel.outputs().len());
    Launch {
        kernel: kernel.widened().into_owned(),
        inputs: (0..inputs).collect(),
        outputs: (inputs..inputs + outputs).collect(),
        workspace: None,
    }
}

fn check_operands(kernel: &Kernel, shaping: &Shaping) -> Result<(), Unsupported> {
    for operand in kernel.inputs().into_iter().chain(kernel.outputs()) {
        let highest = operand.layout.span().map_or(0, |(_, high)| high as u64);
        if operand.layout.shape.elements() as u64 > shaping.max_index || highest > shaping.max_index {
            return Err(Unsupported(format!("an index of {} elements needs more than 32 bits", operand.layout.shape)));
        }
    }
    Ok(())
}

fn check_bindings(plan: &Plan, shaping: &Shaping) -> Result<(), Unsupported> {
    for dispatch in &plan.dispatches {
        if dispatch.bound.len() > shaping.bindings {
            let (wanted, most) = (dispatch.bound.len(), shaping.bindings);
            return Err(Unsupported(format!("it binds {wanted} buffers and this device binds at most {most}")));
        }
        let bytes = dispatch.bound.iter().map(|b| b.range.end - b.range.start).max().unwrap_or(0);
        if bytes > shaping.binding_bytes {
            let most = shaping.binding_bytes;
            return Err(Unsupported(format!("it binds {bytes} bytes at once and this device binds at most {most}")));
        }
    }
    Ok(())
}

/// The body of an expression, if WGSL can spell it.
fn body_of(expr: &Expr) -> Result<Body, Unsupported> {
    let body = expr.lower();
    check(&body).map(|()| body)
}

/// Where a kernel writes that writes quads of rows, whose elements lie along the axes of `out` after the first `lead`: `out`
/// itself where quads are whole words of it, or else rows in scratch memory that begin and end with whole ones. Rows so short that
/// these take no less are words.
fn quad_output(plan: &mut Plan, out: &Tensor, lead: usize) -> Tensor {
    let (outer, inner) = out.layout.shape.split_at(lead);
    if !out.stored.is_packed() || Rows::new(outer, inner, vec![out.clone()]).is_of_quads(0) {
        return out.clone();
    }
    let length: usize = inner.iter().product();
    let row = length.next_multiple_of(4) as u64 * out.stored.bytes();
    if row >= 4 * length as u64 {
        return word_output(plan, out);
    }
    let start = plan.take_scratch(outer.iter().product::<usize>() as u64 * row);
    Tensor::padded(out.stored.dtype, (&out.layout.shape, lead), 4, start)
}

/// Where a kernel writes that cannot write parts of words: `out` itself, or words in scratch memory that `pack` puts
/// together.
fn word_output(plan: &mut Plan, out: &Tensor) -> Tensor {
    if !out.stored.is_packed() {
        return out.clone();
    }
    let shape: &Shape = &out.layout.shape;
    let start = plan.take_scratch(4 * shape.elements() as u64);
    Tensor::scratch(out.stored.dtype, shape, start)
}

/// Copies what was written to `words` into `out`, unless they are one.
fn pack(plan: &mut Plan, words: Tensor, out: Tensor) {
    if words.place != out.place {
        let body = Expr::identity(out.stored.dtype).lower();
        map::push(plan, &body, &[], vec![words], out);
    }
}

#[cfg(test)]
mod tests {
    use breakeven_ir::{DType, Layout, Operand};

    use super::*;

    /// Scratch memory that rows of `length` elements take.
    fn scratch(dtype: DType, length: usize) -> u64 {
        let mut plan = Plan::default();
        let out = Tensor::slot(&Operand::new(dtype, Layout::dense([1 << 20, length])), 0);
        quad_output(&mut plan, &out, 1);
        plan.scratch >> 20
    }

    #[test]
    fn rows_of_no_whole_quads_take_no_more_than_words() {
        for dtype in [DType::F16, DType::U8] {
            for length in 1..=19 {
                let words = if length % 4 == 0 { 0 } else { 4 * length as u64 };
                let taken = scratch(dtype, length);
                assert!(taken <= words && (taken == 0) == (words == 0), "{dtype} {length}: {taken} of {words}");
            }
        }
        assert_eq!(scratch(DType::F16, 5), 16);
        assert_eq!(scratch(DType::F32, 5), 0);
    }
}
