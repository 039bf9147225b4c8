//! What a device may answer: for each element of a kernel's outputs an interval that follows from its inputs.
//!
//! Computed in double precision, independently of [`breakeven_ir::Kernel::reference`], which must lie inside too. All
//! error allowances are here: a single row gets the tolerance of its row, everything else those of `slack`.

mod attention;
mod bound;
mod conv;
mod custom;
mod expr;
mod fold;
mod gather;
mod matmul;
mod rounding;
mod row_wise;
mod scan;
mod scatter;
mod slack;
mod sort;

pub use bound::Bound;

use breakeven_device::{DeviceInfo, DeviceKind};
use breakeven_ir::{Body, Kernel, Operand, Prim, Scalar};

/// What is asked of a device beyond the arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// It may flush denormals, lose the sign of zero, and has the row's tolerance for GPUs.
    pub gpu: bool,
}

impl Rules {
    /// The rules for a device.
    pub fn of(device: &DeviceInfo) -> Rules {
        Rules { gpu: !matches!(device.kind, DeviceKind::Cpu | DeviceKind::Simulated) }
    }
}

/// For each output, and each of its elements in row-major order, what `kernel` may give for these inputs. 16-bit floats are
/// computed as f32, with the tolerances of f32, and rounded once: at most one unit in their last place more.
pub fn bounds(kernel: &Kernel, inputs: &[&[u8]], rules: Rules) -> Vec<Vec<Bound>> {
    match &*kernel.widened() {
        Kernel::Map(k) => vec![expr::map(k, inputs, rules)],
        Kernel::Reduce(k) => fold::reduce(k, inputs, rules),
        Kernel::Scan(k) => vec![scan::scan(k, inputs, rules)],
        Kernel::RowWise(k) => vec![row_wise::row_wise(k, inputs, rules)],
        Kernel::MatMul(k) => vec![matmul::matmul(k, inputs, rules)],
        Kernel::Conv(k) => vec![conv::conv(k, inputs, rules)],
        Kernel::Attention(k) => vec![attention::attention(k, inputs, rules)],
        Kernel::Scatter(k) => vec![scatter::scatter(k, inputs, rules)],
        Kernel::Sort(k) => sort::sort(k, inputs),
        Kernel::Gather(k) => vec![gather::gather(k, inputs)],
        Kernel::Custom(k) => custom::custom(k, inputs, rules),
    }
}

/// Whether -0 and 0 are told apart: on a CPU, for a copy or a single row whose result has one meaning.
pub fn zero_has_a_sign(kernel: &Kernel, rules: Rules) -> bool {
    let chooses = |body: &Body| {
        body.insts().iter().any(|(inst, _)| matches!(inst, breakeven_ir::Inst::Prim(Prim::Larger | Prim::Smaller, _)))
    };
    match kernel {
        Kernel::Map(k) => !rules.gpu && k.expr.rows() <= 1 && !chooses(&k.expr.lower()),
        Kernel::Sort(_) | Kernel::Gather(_) => !rules.gpu,
        _ => false,
    }
}

/// The elements of an operand in row-major order, as this device sees them.
fn load(operand: &Operand, buffer: &[u8], rules: Rules) -> Vec<Bound> {
    let one = |at| {
        let bound = Bound::exactly(Scalar::load(operand.dtype, buffer, at));
        if rules.gpu { bound.flushed(operand.dtype) } else { bound }
    };
    operand.layout.positions().map(one).collect()
}
