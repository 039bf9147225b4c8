//! Operations of the user's own: their closures see dense elements, wherever those lie.

use breakeven_device::DeviceError;
use breakeven_ir::{Custom, CustomInputs, CustomOp, CustomOutputs, Operand, Spec, Unsupported};

use super::{Bound, views};
use crate::domain::{Axes, Block, Domain, Order};
use crate::program::Scratch;

/// A closure over its operands.
#[derive(Debug)]
pub(crate) struct CpuCustom {
    op: CustomOp,
    params: Vec<f64>,
    inputs: Vec<Side>,
    outputs: Vec<Side>,
}

/// One operand in row-major order: where its elements lie, or the copy of them.
#[derive(Debug)]
struct Side {
    spec: Spec,
    domain: Domain,
    axes: Axes,
    whole: Block,
}

impl CpuCustom {
    pub fn new(kernel: &Custom) -> Result<CpuCustom, Unsupported> {
        if !kernel.op.has_cpu() {
            return Err(Unsupported("no CPU closure was given".to_owned()));
        }
        let sides = |operands: &[Operand]| operands.iter().map(Side::new).collect();
        let (op, params) = (kernel.op.clone(), kernel.params.clone());
        Ok(CpuCustom { op, params, inputs: sides(&kernel.inputs), outputs: sides(&kernel.outs) })
    }

    /// # Errors
    /// What the closure panicked with.
    ///
    /// # Safety
    /// As [`super::Compiled::run`].
    pub unsafe fn run(&self, bound: Bound<'_>) -> Result<(), DeviceError> {
        let mut copies: Vec<Scratch> = self.inputs.iter().map(Side::room).collect();
        let mut results: Vec<Scratch> = self.outputs.iter().map(Side::room).collect();
        let (read, write) = (self.inputs.iter().zip(&mut copies), self.outputs.iter().zip(&mut results));
        // SAFETY: operands hold their elements, and outputs do not overlap anything.
        let read = read.enumerate().map(|(k, (side, copy))| unsafe { side.read(bound.input(k), copy) });
        let given = read.collect();
        // SAFETY: as above.
        let write = write.enumerate().map(|(k, (side, copy))| unsafe { side.write(bound.output(k), copy) });
        let taken = write.collect();
        let given = CustomInputs::new(given, &self.params, self.op.param_types());
        let named = |message| DeviceError::Custom { name: self.op.name().to_owned(), message };
        self.op.run(&given, &mut CustomOutputs::new(taken)).map_err(named)?;
        for (k, (side, result)) in self.outputs.iter().zip(&mut results).enumerate() {
            if side.place().is_none() {
                // SAFETY: the output holds its elements, and the result has as many.
                unsafe { side.domain.scatter(&side.axes, bound.output(k), &side.whole, result.start()) };
            }
        }
        Ok(())
    }
}

impl Side {
    fn new(operand: &Operand) -> Side {
        let spec = Spec::new(operand.dtype, operand.layout.shape.clone());
        let (domain, mut axes) = Domain::new(&views([operand]), 0..spec.shape.rank(), Order::Kept);
        let whole = domain.run(0, domain.elements());
        Side { spec, domain, axes: axes.remove(0), whole }
    }

    /// Bytes to where the elements lie densely, if they do.
    fn place(&self) -> Option<isize> {
        self.domain.direct(&self.axes, &self.whole).map(|place| place * self.axes.width as isize)
    }

    /// Memory for a copy, where one is needed.
    fn room(&self) -> Scratch {
        Scratch::of_bytes(if self.place().is_some() { 0 } else { self.spec.bytes() as usize })
    }

    /// # Safety
    /// `base` must hold the operand for as long as the copy lives, and nobody may write it meanwhile.
    unsafe fn read<'a>(&self, base: *const u8, copy: &'a mut Scratch) -> (Spec, &'a [u8]) {
        // SAFETY: the caller's contract; the copy has room for all elements where it is needed.
        unsafe {
            let start = self.domain.fetch(&self.axes, base, &self.whole, copy.start());
            (self.spec.clone(), std::slice::from_raw_parts(start, self.spec.bytes() as usize))
        }
    }

    /// Zeros to be written.
    ///
    /// # Safety
    /// `base` must hold the operand for as long as the copy lives, and nobody else may touch it meanwhile.
    unsafe fn write<'a>(&self, base: *mut u8, copy: &'a mut Scratch) -> (Spec, &'a mut [u8]) {
        let (start, bytes) = (self.place().map(|place| base.wrapping_offset(place)), self.spec.bytes() as usize);
        let start = start.unwrap_or_else(|| copy.start());
        // SAFETY: the caller's contract; the copy has room for all elements where it is needed.
        unsafe {
            start.write_bytes(0, bytes);
            (self.spec.clone(), std::slice::from_raw_parts_mut(start, bytes))
        }
    }
}
