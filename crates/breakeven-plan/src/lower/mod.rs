//! The pass that makes kernels fit a device: fewer operands, smaller windows, shorter launches.

mod chunk;
mod compose;
mod divide;
mod index;
mod limit;

use breakeven_ir::{Caps, Kernel};

use crate::place::Refusal;
use crate::program::{Fused, Program, Value};
use crate::{DeviceId, Machine, Reason};
use chunk::{Stretch, axes, part, reaches};
pub(crate) use divide::{Bound, Piece};
use divide::{between, divide};
pub(crate) use index::{narrow_indices, widen_indices};
use limit::{Limit, Limits};

/// The longest that one launch may be, and how long a kernel is: in predicted seconds, or in elements.
#[derive(Clone, Copy)]
pub(crate) struct Longest<'a> {
    pub limit: f64,
    pub measure: &'a dyn Fn(&Kernel) -> Option<f64>,
}

/// What a device runs instead of a kernel that does not fit it as it is.
#[derive(Clone, Debug)]
pub(crate) struct Pieces {
    /// The values between them are numbered from 0.
    pub all: Vec<Piece>,
    pub because: String,
}

/// A kernel as launches that a device can take, or why there are none; `None` where it fits as it is.
pub(crate) fn split(
    fused: &Fused,
    values: &[Value],
    caps: &Caps,
    longest: Longest<'_>,
) -> Result<Option<Pieces>, Refusal> {
    check_types(&fused.kernel, caps)?;
    let touched = fused.inputs.iter().chain(&fused.outputs);
    if let Some(value) = touched.map(|&v| &values[v]).find(|value| value.bytes > caps.max_buffer_bytes) {
        let text = format!("a tensor takes {} bytes and the largest buffer {}", value.bytes, caps.max_buffer_bytes);
        return Err(Refusal::new(Reason::Memory, text));
    }
    let operands = fused.inputs.len() + fused.outputs.len();
    let many = (operands > caps.max_bindings).then_some(Limit::Operands { operands, most: caps.max_bindings });
    if many.is_none() && to_halve(&fused.kernel, caps, longest)?.is_none() {
        return Ok(None);
    }
    let bound = |ids: &[usize]| ids.iter().map(|&value| Bound::Value(value)).collect();
    let (inputs, outputs) = (bound(&fused.inputs), bound(&fused.outputs));
    let pieces = divide(Piece { kernel: fused.kernel.clone(), inputs, outputs }, caps.max_bindings)?;
    let limits = Limits(many.into_iter().collect());
    let mut done = Halved { all: Vec::with_capacity(pieces.len()), limits };
    for piece in pieces {
        done.halve(piece, caps, longest)?;
    }
    Ok(Some(Pieces { all: done.all, because: done.limits.to_string() }))
}

/// The same for a device that cannot run the kernel, for such a reason, but those it is made of; `None` where it is made of no others.
pub(crate) fn compose(
    fused: &Fused,
    caps: &Caps,
    longest: Longest<'_>,
    reason: &str,
) -> Result<Option<Pieces>, Refusal> {
    let bound = |ids: &[usize]| ids.iter().map(|&value| Bound::Value(value)).collect();
    let (inputs, outputs) = (bound(&fused.inputs), bound(&fused.outputs));
    let Some(pieces) = compose::compose(&Piece { kernel: fused.kernel.clone(), inputs, outputs }) else {
        return Ok(None);
    };
    if let Some((_, bytes)) = between(&pieces).into_values().find(|(_, bytes)| *bytes > caps.max_buffer_bytes) {
        let text =
            format!("it would store {bytes} bytes on the way and the largest buffer is {}", caps.max_buffer_bytes);
        return Err(Refusal::new(Reason::Memory, text));
    }
    let mut done = Halved { all: Vec::with_capacity(pieces.len()), limits: Limits::default() };
    for piece in pieces {
        done.halve(piece, caps, longest)?;
    }
    let limits = done.limits.to_string();
    let because = if limits.is_empty() { reason.to_owned() } else { format!("{reason}, and {limits}") };
    Ok(Some(Pieces { all: done.all, because }))
}

fn check_types(kernel: &Kernel, caps: &Caps) -> Result<(), Refusal> {
    let operands = kernel.inputs().into_iter().chain(kernel.outputs());
    match operands.map(|o| o.dtype).find(|dtype| !caps.dtypes.contains(dtype)) {
        Some(dtype) => Err(Refusal::new(Reason::Unsupported, format!("the device does not work on {dtype}"))),
        None => Ok(()),
    }
}

/// Parts that fit, and the limits that what they were halved from was past.
struct Halved {
    all: Vec<Piece>,
    limits: Limits,
}

impl Halved {
    /// Halves a kernel until its parts fit.
    fn halve(&mut self, piece: Piece, caps: &Caps, longest: Longest<'_>) -> Result<(), Refusal> {
        let mut todo = vec![piece];
        while let Some(piece) = todo.pop() {
            let Some((axis, limit)) = to_halve(&piece.kernel, caps, longest)? else {
                self.all.push(piece);
                continue;
            };
            self.limits.add(limit);
            let extent = axes(&piece.kernel)[axis];
            let (first, rest) = (extent / 2, extent - extent / 2);
            let half =
                |start, count| Piece { kernel: part(&piece.kernel, Stretch { axis, start, count }), ..piece.clone() };
            todo.push(half(first, rest));
            todo.push(half(0, first));
        }
        Ok(())
    }
}

/// Along which axis a kernel is halved that is past a limit of the device, and which limit that is.
fn to_halve(kernel: &Kernel, caps: &Caps, longest: Longest<'_>) -> Result<Option<(usize, Limit)>, Refusal> {
    let operands = kernel.inputs().into_iter().chain(kernel.outputs());
    for (at, operand) in operands.enumerate() {
        if let Some(limit) = Limit::of_operand(operand, caps) {
            let axis = widest(&reaches(kernel, at));
            let refusal = || Refusal::new(Reason::Memory, limit.to_string());
            return axis.map(|axis| Some((axis, limit))).ok_or_else(refusal);
        }
    }
    let is_long = (longest.measure)(kernel).is_some_and(|measured| measured > longest.limit);
    let extents: Vec<u64> = axes(kernel).iter().map(|&n| if n > 1 { n as u64 } else { 0 }).collect();
    Ok(widest(&extents).filter(|_| is_long).map(|axis| (axis, Limit::Time)))
}

/// The first axis with the largest reach, where any reaches at all.
fn widest(reaches: &[u64]) -> Option<usize> {
    let best = *reaches.iter().max()?;
    reaches.iter().position(|&reach| reach == best).filter(|_| best > 0)
}

/// The program with every kernel in pieces that fit its device, and the device and origin of each piece.
pub(crate) struct Lowered {
    pub program: Program,
    pub devices: Vec<DeviceId>,
    /// The kernel of the program before lowering that each kernel is a piece of.
    pub origins: Vec<usize>,
}

/// Replaces kernels by their pieces. Kernels without pieces fit as they are.
pub(crate) fn lower(program: Program, devices: &[DeviceId], mut pieces: Vec<Option<Vec<Piece>>>) -> Lowered {
    let Program { mut values, kernels, wanted } = program;
    let mut out = Lowered { program: Program::default(), devices: Vec::new(), origins: Vec::new() };
    for (origin, fused) in kernels.into_iter().enumerate() {
        let device = devices[origin];
        let parts = match pieces[origin].take() {
            None => vec![fused],
            Some(parts) => unpack(&fused, parts, &mut values),
        };
        out.devices.extend(parts.iter().map(|_| device));
        out.origins.extend(parts.iter().map(|_| origin));
        out.program.kernels.extend(parts);
    }
    out.program.values = values;
    out.program.wanted = wanted;
    out
}

fn unpack(fused: &Fused, pieces: Vec<Piece>, values: &mut Vec<Value>) -> Vec<Fused> {
    let first = values.len();
    for (dtype, bytes) in between(&pieces).into_values() {
        let node = *fused.nodes.last().expect("a kernel computes a node");
        values.push(Value { node, dtype, bytes, is_input: false });
    }
    let ids = |bound: &[Bound]| {
        let id = |bound: &Bound| match *bound {
            Bound::Value(value) => value,
            Bound::Between(number) => first + number,
        };
        bound.iter().map(id).collect()
    };
    let one = |piece: Piece| Fused {
        inputs: ids(&piece.inputs),
        outputs: ids(&piece.outputs),
        kernel: piece.kernel,
        ..fused.clone()
    };
    pieces.into_iter().map(one).collect()
}

/// Whether every device of the machine works on 64-bit integers.
fn lacks_wide_indices(machine: &Machine<'_>) -> bool {
    use breakeven_ir::DType::{I32, I64};
    machine.devices.iter().any(|d| d.caps.dtypes.contains(&I32) && !d.caps.dtypes.contains(&I64))
}
