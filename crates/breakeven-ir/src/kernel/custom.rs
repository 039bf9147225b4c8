//! An operation of the user's own, over operands of any layout.

use super::Operand;
use crate::{CustomInputs, CustomOp, CustomOutputs, Spec};

/// A custom operation. Devices bring operands into the dense order that its code sees: the CPU copies those that are not
/// dense, WGSL finds each element where it lies.
#[derive(Clone, Debug, PartialEq)]
pub struct Custom {
    /// What runs.
    pub op: CustomOp,
    /// Its parameters.
    pub params: Vec<f64>,
    /// What it reads.
    pub inputs: Vec<Operand>,
    /// What it writes.
    pub outs: Vec<Operand>,
}

impl Custom {
    pub(super) fn flops(&self) -> u64 {
        let (inputs, outputs) = (specs(&self.inputs), specs(&self.outs));
        self.op.count_flops(&inputs.iter().collect::<Vec<_>>(), &outputs.iter().collect::<Vec<_>>())
    }

    /// Runs the closure for the CPU over whole buffers.
    ///
    /// # Errors
    /// What it panicked with, or that there is none.
    pub fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), String> {
        let read: Vec<Vec<u64>> = self.inputs.iter().zip(inputs).map(|(o, bytes)| gathered(o, bytes)).collect();
        let mut written: Vec<Vec<u64>> = self.outs.iter().map(words).collect();
        let given = specs(&self.inputs).into_iter().zip(&read);
        let given = given.map(|(spec, words)| (spec.clone(), &bytemuck::cast_slice(words)[..spec.bytes() as usize]));
        let given = CustomInputs::new(given.collect(), &self.params, self.op.param_types());
        let taken = specs(&self.outs).into_iter().zip(&mut written);
        let taken = taken.map(|(spec, words)| {
            let bytes = spec.bytes() as usize;
            (spec, &mut bytemuck::cast_slice_mut(words)[..bytes])
        });
        self.op.run(&given, &mut CustomOutputs::new(taken.collect()))?;
        for ((operand, words), out) in self.outs.iter().zip(&written).zip(outputs) {
            scatter(operand, bytemuck::cast_slice(words), out);
        }
        Ok(())
    }

    pub(super) fn reference(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
        if let Err(why) = self.run(inputs, outputs) {
            panic!("the custom operation `{}` has no result: {why}", self.op.name());
        }
    }
}

fn specs(operands: &[Operand]) -> Vec<Spec> {
    operands.iter().map(|o| Spec::new(o.dtype, o.layout.shape.clone())).collect()
}

/// Zeros for the elements of an operand, aligned to any element.
fn words(operand: &Operand) -> Vec<u64> {
    vec![0; (operand.layout.shape.elements() * operand.dtype.bytes()).div_ceil(size_of::<u64>())]
}

fn gathered(operand: &Operand, bytes: &[u8]) -> Vec<u64> {
    let (width, mut all) = (operand.dtype.bytes(), words(operand));
    let dense: &mut [u8] = bytemuck::cast_slice_mut(&mut all);
    for (to, at) in dense.chunks_exact_mut(width).zip(operand.layout.positions()) {
        to.copy_from_slice(&bytes[at * width..][..width]);
    }
    all
}

fn scatter(operand: &Operand, dense: &[u8], out: &mut [u8]) {
    let width = operand.dtype.bytes();
    for (from, at) in dense.chunks_exact(width).zip(operand.layout.positions()) {
        out[at * width..][..width].copy_from_slice(from);
    }
}
