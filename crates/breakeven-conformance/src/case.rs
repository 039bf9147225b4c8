//! One kernel, its buffers, and how they are bound: what a device is asked to run.

use breakeven_ir::{Kernel, Layout, Operand, Scalar};

use crate::data;

/// Bytes behind the last element that must stay as they were.
const GUARD: usize = 16;

/// A kernel with the bytes of everything it reads and writes.
#[derive(Clone, Debug)]
pub struct Case {
    /// Kernel, shape and view, in words.
    pub name: String,
    /// What is run.
    pub kernel: Kernel,
    /// Buffers of the inputs. Gaps between elements and the guard behind them hold NaN.
    pub buffers: Vec<Vec<u8>>,
    /// For each input its buffer: one may serve several.
    pub bound: Vec<usize>,
    /// The output is written over this input.
    pub in_place: Option<usize>,
    /// What the outputs' buffers hold before the run, where that is not poison.
    pub before: Option<Vec<Vec<u8>>>,
}

impl Case {
    /// Inputs get reproducible values that suit the kernel.
    pub fn new(name: impl Into<String>, kernel: Kernel) -> Case {
        let operands = kernel.inputs();
        let value = |(i, o): (usize, &&Operand)| data::values(o.dtype, o.layout.shape.elements(), i as u64);
        let values: Vec<Vec<Scalar>> = operands.iter().enumerate().map(value).collect();
        Case::with(name, kernel, &values)
    }

    /// With these elements of each input, in row-major order.
    pub fn with(name: impl Into<String>, kernel: Kernel, values: &[Vec<Scalar>]) -> Case {
        let buffers: Vec<Vec<u8>> = kernel.inputs().iter().zip(values).map(|(o, v)| buffer(o, v)).collect();
        let bound = (0..buffers.len()).collect();
        Case { name: name.into(), kernel, buffers, bound, in_place: None, before: None }
    }

    /// The last element of input `index` becomes `value`.
    pub fn last(mut self, index: usize, value: f64) -> Case {
        let inputs = self.kernel.inputs();
        let operand = inputs[index];
        if let Some(at) = operand.layout.positions().last() {
            Scalar::F(value).store(operand.dtype, &mut self.buffers[self.bound[index]], at);
        }
        self
    }

    /// All inputs read the buffer of the first, which must be as large as any.
    pub fn aliased(mut self) -> Case {
        self.name.push_str(" aliased");
        self.bound.fill(0);
        self
    }

    /// The output goes where input `index` lies.
    pub fn in_place(mut self, index: usize) -> Case {
        self.name.push_str(" in place");
        self.in_place = Some(index);
        self
    }

    /// The bytes each input reads.
    pub fn inputs(&self) -> Vec<&[u8]> {
        self.bound.iter().map(|&b| self.buffers[b].as_slice()).collect()
    }

    /// What lies in each output's buffer before the run.
    pub fn outputs(&self) -> Vec<Vec<u8>> {
        match (&self.before, self.in_place) {
            (Some(before), _) => before.clone(),
            (_, Some(input)) => vec![self.buffers[self.bound[input]].clone()],
            _ => self.kernel.outputs().into_iter().map(poison).collect(),
        }
    }

    /// Bytes that the run moves.
    pub fn bytes(&self) -> usize {
        let out: u64 = self.kernel.outputs().iter().map(|o| o.span_bytes()).sum();
        self.buffers.iter().map(Vec::len).sum::<usize>() + out as usize
    }
}

/// Every byte 0xFF: NaN as a float, -1 or the largest as an integer, and no truth value at all.
fn poison(operand: &Operand) -> Vec<u8> {
    vec![0xFF; (operand.span_bytes() as usize).next_multiple_of(GUARD) + GUARD]
}

fn buffer(operand: &Operand, values: &[Scalar]) -> Vec<u8> {
    let mut bytes = poison(operand);
    for (at, &value) in operand.layout.positions().zip(values) {
        value.store(operand.dtype, &mut bytes, at);
    }
    bytes
}

/// A layout in words, for the name of a case.
pub fn describe(layout: &Layout) -> String {
    if layout.is_dense() {
        return layout.shape.to_string();
    }
    format!("{} from {} by {:?}", layout.shape, layout.offset, layout.strides.as_slice())
}
