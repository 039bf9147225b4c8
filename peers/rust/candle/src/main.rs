//! candle on the CPU, without a BLAS library: its kernels, the `gemm` crate and rayon's threads.
#![forbid(unsafe_code)]

use std::error::Error;

use candle_core::{D, Device, Result, Tensor};
use candle_nn::ops;
use race_protocol::{Case, Work, f32s, f64s, serve};

type Write = fn(&[Tensor], &[usize]) -> Result<Tensor>;

/// An operation on tensors.
struct Written {
    inputs: Vec<Tensor>,
    write: Write,
    params: Vec<usize>,
    is_double: bool,
}

impl Written {
    fn compute(&self) -> Tensor {
        (self.write)(&self.inputs, &self.params).expect("a right call")
    }
}

impl Work for Written {
    fn run(&mut self) {
        std::hint::black_box(self.compute());
    }

    fn result(&mut self) -> Vec<u8> {
        let flat = self.compute().flatten_all().expect("a right call");
        if self.is_double {
            flat.to_vec1::<f64>().expect("doubles").into_iter().flat_map(f64::to_le_bytes).collect()
        } else {
            flat.to_vec1::<f32>().expect("floats").into_iter().flat_map(f32::to_le_bytes).collect()
        }
    }
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    serve(|case, inputs| {
        let write = writer(case)?;
        let is_double = case.dtype == "f64";
        let tensor = |(bytes, shape): (&Vec<u8>, &Vec<usize>)| {
            let made = if is_double {
                Tensor::from_vec(f64s(bytes), shape.as_slice(), &Device::Cpu)
            } else {
                Tensor::from_vec(f32s(bytes), shape.as_slice(), &Device::Cpu)
            };
            made.expect("as many numbers as the shape says")
        };
        let mut inputs: Vec<Tensor> = inputs.iter().zip(&case.shapes).map(tensor).collect();
        if case.op == "layer_norm" {
            let (row, dtype) = (inputs[0].dim(D::Minus1).expect("it has rows"), inputs[0].dtype());
            inputs.push(Tensor::ones(row, dtype, &Device::Cpu).expect("memory"));
            inputs.push(Tensor::zeros(row, dtype, &Device::Cpu).expect("memory"));
        }
        Some(Box::new(Written { inputs, write, params: case.params.clone(), is_double }))
    })
}

fn writer(case: &Case) -> Option<Write> {
    Some(match &*case.op {
        "add" => |x, _| &x[0] + &x[1],
        "mul" => |x, _| &x[0] * &x[1],
        "relu" => |x, _| x[0].relu(),
        "leaky_relu" => |x, _| ops::leaky_relu(&x[0], 0.01),
        "elu" => |x, _| x[0].elu(1.0),
        "clip" => |x, _| x[0].clamp(-1f32, 1f32),
        "sigmoid" => |x, _| ops::sigmoid(&x[0]),
        "tanh" => |x, _| x[0].tanh(),
        "swish" => |x, _| x[0].silu(),
        "gelu" => |x, _| x[0].gelu_erf(),
        "gelu_tanh" => |x, _| x[0].gelu(),
        "exp" => |x, _| x[0].exp(),
        "softmax" => |x, _| ops::softmax_last_dim(&x[0]),
        "log_softmax" => |x, _| ops::log_softmax(&x[0], D::Minus1),
        "layer_norm" => |x, _| ops::layer_norm(&x[0], &x[1], &x[2], 1e-5),
        "sum" => |x, _| x[0].sum_all(),
        "mean" => |x, _| x[0].mean_all(),
        "max" => |x, _| x[0].max_all(),
        "dot" => |x, _| x[0].dot(&x[1]),
        "matmul" => |x, _| x[0].matmul(&x[1]),
        "conv2d" => |x, p| x[0].conv2d(&x[1], p[1], p[0], 1, p[2]),
        _ => return None,
    })
}
