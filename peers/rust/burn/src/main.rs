//! Burn on the CPU: its backend over `ndarray`, or with `flex` as the second argument the one of its own; on rayon's threads.
#![forbid(unsafe_code)]

use std::error::Error;

use burn::tensor::activation;
use burn::tensor::{DType, Device, Tensor, TensorData, module, ops::ConvOptions};
use race_protocol::{Case, Work, f32s, f64s, serve};

type Write<const D: usize, const R: usize> = fn(&[Tensor<D>], &[usize]) -> Tensor<R>;

/// An operation on tensors of `D` axes that gives one of `R`. Burn takes its tensors by value: a handle is cloned for each run.
struct Written<const D: usize, const R: usize> {
    inputs: Vec<Tensor<D>>,
    write: Write<D, R>,
    params: Vec<usize>,
}

impl<const D: usize, const R: usize> Work for Written<D, R> {
    fn run(&mut self) {
        std::hint::black_box((self.write)(&self.inputs, &self.params));
    }

    fn result(&mut self) -> Vec<u8> {
        (self.write)(&self.inputs, &self.params).into_data().as_bytes().to_vec()
    }
}

/// Rows of f32, normalized; Burn always scales them.
struct Norm {
    rows: Tensor<2>,
    ones: Tensor<1>,
    zeros: Tensor<1>,
}

impl Norm {
    fn new(case: &Case, inputs: &[Vec<u8>], device: &Device) -> Norm {
        let shape = &case.shapes[0];
        let rows = Tensor::from_data(TensorData::new(f32s(&inputs[0]), shape.clone()), device);
        Norm { rows, ones: Tensor::ones([shape[1]], device), zeros: Tensor::zeros([shape[1]], device) }
    }

    fn compute(&self) -> Tensor<2> {
        module::layer_norm(self.rows.clone(), self.ones.clone(), Some(self.zeros.clone()), 1e-5)
    }
}

impl Work for Norm {
    fn run(&mut self) {
        std::hint::black_box(self.compute());
    }

    fn result(&mut self) -> Vec<u8> {
        self.compute().into_data().as_bytes().to_vec()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    #[expect(deprecated, reason = "what most of Burn's users on a CPU still run")]
    let device = match std::env::args().nth(2).as_deref() {
        None => Device::ndarray(),
        Some("flex") => Device::flex(),
        Some(other) => return Err(format!("{other} is none of Burn's backends here").into()),
    };
    serve(|case, inputs| match case.shapes[0].len() {
        1 => ready(flat(case).or_else(|| folded(case)), case, inputs, &device),
        2 if case.op == "layer_norm" => Some(Box::new(Norm::new(case, inputs, &device))),
        2 => ready(rows(case), case, inputs, &device),
        3 => ready(batches(case), case, inputs, &device),
        4 => ready(images(case), case, inputs, &device),
        _ => None,
    })
}

fn ready<const D: usize, const R: usize>(
    write: Option<Write<D, R>>,
    case: &Case,
    inputs: &[Vec<u8>],
    device: &Device,
) -> Option<Box<dyn Work>> {
    let write = write?;
    let tensor = |(bytes, shape): (&Vec<u8>, &Vec<usize>)| match &*case.dtype {
        "f64" => Tensor::from_data(TensorData::new(f64s(bytes), shape.clone()), (device, DType::F64)),
        _ => Tensor::from_data(TensorData::new(f32s(bytes), shape.clone()), (device, DType::F32)),
    };
    let inputs: Vec<Tensor<D>> = inputs.iter().zip(&case.shapes).map(tensor).collect();
    Some(Box::new(Written { inputs, write, params: case.params.clone() }))
}

fn flat(case: &Case) -> Option<Write<1, 1>> {
    Some(match &*case.op {
        "add" => |x, _| x[0].clone() + x[1].clone(),
        "mul" => |x, _| x[0].clone() * x[1].clone(),
        "relu" => |x, _| activation::relu(x[0].clone()),
        "leaky_relu" => |x, _| activation::leaky_relu(x[0].clone(), 0.01),
        "elu" => |x, _| activation::elu(x[0].clone(), 1.0),
        "clip" => |x, _| x[0].clone().clamp(-1.0, 1.0),
        "sigmoid" => |x, _| activation::sigmoid(x[0].clone()),
        "tanh" => |x, _| activation::tanh(x[0].clone()),
        "swish" => |x, _| activation::silu(x[0].clone()),
        "gelu" => |x, _| activation::gelu(x[0].clone()),
        "gelu_tanh" => |x, _| activation::gelu_approximate(x[0].clone()),
        "exp" => |x, _| x[0].clone().exp(),
        _ => return None,
    })
}

fn folded(case: &Case) -> Option<Write<1, 1>> {
    Some(match &*case.op {
        "sum" => |x, _| x[0].clone().sum(),
        "mean" => |x, _| x[0].clone().mean(),
        "max" => |x, _| x[0].clone().max(),
        "dot" => |x, _| x[0].clone().dot(x[1].clone()),
        _ => return None,
    })
}

fn rows(case: &Case) -> Option<Write<2, 2>> {
    Some(match &*case.op {
        "softmax" => |x, _| activation::softmax(x[0].clone(), 1),
        "log_softmax" => |x, _| activation::log_softmax(x[0].clone(), 1),
        "matmul" => |x, _| x[0].clone().matmul(x[1].clone()),
        _ => return None,
    })
}

fn batches(case: &Case) -> Option<Write<3, 3>> {
    (case.op == "matmul").then_some(|x, _| x[0].clone().matmul(x[1].clone()))
}

fn images(case: &Case) -> Option<Write<4, 4>> {
    (case.op == "conv2d").then_some(|x, p| {
        let options = ConvOptions::new([p[0]; 2], [p[1]; 2], [1; 2], p[2]);
        module::conv2d(x[0].clone(), x[1].clone(), None, options)
    })
}
