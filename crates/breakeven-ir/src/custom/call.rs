//! What the CPU closure of a custom operation is given: dense elements of its inputs and outputs.

use crate::{DType, Element, Scalar, Shape, Spec};

/// Inputs and parameters of one call, each input dense in row-major order.
#[derive(Debug)]
pub struct CustomInputs<'a> {
    tensors: Vec<(Spec, &'a [u8])>,
    params: Vec<f64>,
}

/// Outputs of one call, full of zeros, each dense in row-major order.
#[derive(Debug)]
pub struct CustomOutputs<'a> {
    tensors: Vec<(Spec, Option<&'a mut [u8]>)>,
}

impl<'a> CustomInputs<'a> {
    /// Bytes that are aligned to their elements, and parameters with their types.
    pub fn new(tensors: Vec<(Spec, &'a [u8])>, params: &[f64], types: &[DType]) -> CustomInputs<'a> {
        let held = |(&number, &dtype): (&f64, &DType)| Scalar::of(dtype, number).rounded(dtype).to_f64();
        CustomInputs { tensors, params: params.iter().zip(types).map(held).collect() }
    }

    /// How many inputs there are.
    pub fn count(&self) -> usize {
        self.tensors.len()
    }

    /// The elements of an input.
    ///
    /// # Panics
    /// When there is no such input, or it has another element type.
    pub fn get<T: Element>(&self, index: usize) -> &'a [T] {
        let (spec, bytes) = &self.tensors[index];
        check::<T>("input", index, spec);
        bytemuck::checked::cast_slice(bytes)
    }

    /// The extents of an input.
    ///
    /// # Panics
    /// When there is no such input.
    pub fn shape(&self, index: usize) -> &Shape {
        &self.tensors[index].0.shape
    }

    /// A parameter, rounded to its type.
    ///
    /// # Panics
    /// When there is no such parameter.
    pub fn param(&self, index: usize) -> f64 {
        self.params[index]
    }
}

impl<'a> CustomOutputs<'a> {
    /// Bytes that are aligned to their elements and 0.
    pub fn new(tensors: Vec<(Spec, &'a mut [u8])>) -> CustomOutputs<'a> {
        CustomOutputs { tensors: tensors.into_iter().map(|(spec, bytes)| (spec, Some(bytes))).collect() }
    }

    /// How many outputs there are.
    pub fn count(&self) -> usize {
        self.tensors.len()
    }

    /// The elements of an output, which are handed out once, so that several outputs can be written side by side.
    ///
    /// # Panics
    /// When there is no such output, it has another element type, or it was taken before.
    pub fn take<T: Element>(&mut self, index: usize) -> &'a mut [T] {
        let (spec, bytes) = &mut self.tensors[index];
        check::<T>("output", index, spec);
        let bytes = bytes.take().unwrap_or_else(|| panic!("output {index} was taken before"));
        bytemuck::checked::cast_slice_mut(bytes)
    }

    /// The extents of an output.
    ///
    /// # Panics
    /// When there is no such output.
    pub fn shape(&self, index: usize) -> &Shape {
        &self.tensors[index].0.shape
    }
}

fn check<T: Element>(what: &str, index: usize, spec: &Spec) {
    assert_eq!(spec.dtype, T::DTYPE, "{what} {index} is {spec}, and {} was asked for", T::DTYPE);
}
