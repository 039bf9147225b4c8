//! Indices of 64 bits made 32 bits wide for devices that have no wider integers.

use std::collections::{BTreeMap, BTreeSet};

use breakeven_ir::{DType, ExprBuilder, Kernel, Layout, Map, Operand};

use super::lacks_wide_indices;
use crate::Machine;
use crate::program::{Fused, Program, Value};

/// Makes every gather read 32-bit indices, where some device needs that: they come from a cast, which saturates, so an
/// index that is out of range stays so.
pub(crate) fn narrow_indices(program: Program, machine: &Machine<'_>) -> Program {
    let is_wide = |fused: &Fused| matches!(&fused.kernel, Kernel::Gather(g) if g.index.dtype == DType::I64);
    if !lacks_wide_indices(machine) || !program.kernels.iter().any(is_wide) {
        return program;
    }
    let Program { mut values, kernels, wanted } = program;
    let mut known: BTreeMap<(usize, Vec<isize>, usize), usize> = BTreeMap::new();
    let mut out = Vec::with_capacity(kernels.len());
    for mut fused in kernels {
        if let Kernel::Gather(gather) = &mut fused.kernel
            && gather.index.dtype == DType::I64
            && i32::try_from(gather.source.layout.shape[gather.axis]).is_ok()
        {
            let narrow = dense(&gather.index.layout);
            let wide = std::mem::replace(&mut gather.index, narrow);
            let key = (fused.inputs[1], wide.layout.strides.to_vec(), wide.layout.offset);
            let from = fused.inputs[1];
            fused.inputs[1] = *known.entry(key).or_insert_with(|| {
                let bytes = wide.layout.shape.elements() as u64 * DType::I32.bytes() as u64;
                values.push(Value { node: values[from].node, dtype: DType::I32, bytes, is_input: false });
                out.push(cast(wide, from, values.len() - 1, &values));
                values.len() - 1
            });
        }
        out.push(fused);
    }
    Program { values, kernels: out, wanted }
}

fn dense(layout: &Layout) -> Operand {
    Operand::new(DType::I32, Layout::dense(layout.shape.clone()))
}

fn cast(wide: Operand, from: usize, to: usize, values: &[Value]) -> Fused {
    let mut builder = ExprBuilder::default();
    let x = builder.arg(wide.dtype);
    let narrow = builder.cast(x, DType::I32);
    let (expr, out) = (builder.finish(narrow), dense(&wide.layout));
    let kernel = Kernel::Map(Map { expr, params: Vec::new(), inputs: vec![wide], out });
    Fused { kernel, inputs: vec![from], outputs: vec![to], nodes: vec![values[from].node], is_layout_copy: false }
}

/// Undoes the narrowing for indices that only gathers read for which `may_widen` holds. Says which kernels are left.
pub(crate) fn widen_indices(program: &mut Program, may_widen: &dyn Fn(usize) -> bool) -> Vec<usize> {
    let narrowed: BTreeMap<usize, usize> = (0..program.kernels.len())
        .filter(|&kernel| is_narrowing(program, kernel))
        .map(|kernel| (program.kernels[kernel].outputs[0], kernel))
        .collect();
    let mut dropped = BTreeMap::new();
    if !narrowed.is_empty() {
        let readers = readers(program, &narrowed);
        dropped = narrowed.into_iter().filter(|(value, _)| readers[value].iter().all(|&k| may_widen(k))).collect();
        for (value, &cast) in &dropped {
            readers[value].iter().for_each(|&reader| widen(program, reader, cast));
        }
    }
    let is_dropped: BTreeSet<usize> = dropped.into_values().collect();
    let kept: Vec<usize> = (0..program.kernels.len()).filter(|kernel| !is_dropped.contains(kernel)).collect();
    let mut at = 0..;
    program.kernels.retain(|_| at.next().is_some_and(|kernel| !is_dropped.contains(&kernel)));
    kept
}

fn readers(program: &Program, narrowed: &BTreeMap<usize, usize>) -> BTreeMap<usize, Vec<usize>> {
    let mut readers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (kernel, fused) in program.kernels.iter().enumerate() {
        for value in fused.inputs.iter().filter(|value| narrowed.contains_key(value)) {
            readers.entry(*value).or_default().push(kernel);
        }
    }
    readers
}

fn widen(program: &mut Program, reader: usize, cast: usize) {
    let (from, wide) = (program.kernels[cast].inputs[0], program.kernels[cast].kernel.inputs()[0].clone());
    let reader = &mut program.kernels[reader];
    if let Kernel::Gather(gather) = &mut reader.kernel {
        gather.index = wide;
        reader.inputs[1] = from;
    }
}

/// A cast from an index to a narrower one, as only [`narrow_indices`] writes them: its value is no node's.
fn is_narrowing(program: &Program, kernel: usize) -> bool {
    let fused = &program.kernels[kernel];
    let Kernel::Map(map) = &fused.kernel else { return false };
    let from = &program.values[fused.inputs.first().copied().unwrap_or(fused.outputs[0])];
    let to = &program.values[fused.outputs[0]];
    map.inputs.len() == 1 && from.dtype == DType::I64 && to.dtype == DType::I32 && from.node == to.node
}
