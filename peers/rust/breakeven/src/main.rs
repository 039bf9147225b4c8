//! Breakeven through its public API: written, placed and computed on the CPU. The result stays a tensor, as with torch, or with
//! `read` as the second argument is read into the caller's memory.
#![forbid(unsafe_code)]

use std::error::Error;
use std::time::Duration;

use breakeven::{Conv, Deadline, Element, Engine, Padding, Shape, Tensor};
use race_protocol::{Case, Work, f32s, f64s, serve, threads};

/// An operation on tensors, written anew for each run.
struct Written<T> {
    engine: Engine,
    is_read: bool,
    inputs: Vec<Tensor>,
    write: fn(&[Tensor], &[usize]) -> Tensor,
    params: Vec<usize>,
    out: Vec<T>,
}

impl<T: Element> Work for Written<T> {
    fn run(&mut self) {
        let y = (self.write)(&self.inputs, &self.params);
        if self.is_read {
            y.read_into(&mut self.out, Deadline::after(Duration::from_mins(1))).expect("a right call");
        } else {
            self.engine.run(&[&y]).expect("a right call");
        }
    }

    fn result(&mut self) -> Vec<u8> {
        let y = (self.write)(&self.inputs, &self.params);
        y.read_into(&mut self.out, Deadline::after(Duration::from_mins(1))).expect("a right call");
        bytemuck::cast_slice(&self.out).to_vec()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::builder().gpus(false).no_cache().threads(threads()).build()?;
    engine.ready(Deadline::after(Duration::from_mins(1)))?;
    let is_read = std::env::args().nth(2).is_some_and(|word| word == "read");
    serve(|case, inputs| {
        let engine = engine.clone();
        let tensor = |(bytes, shape): (&Vec<u8>, &Vec<usize>)| {
            let shape = Shape::new(shape).expect("few axes");
            match &*case.dtype {
                "f64" => engine.from_vec(f64s(bytes), shape),
                _ => engine.from_vec(f32s(bytes), shape),
            }
        };
        let inputs: Vec<Tensor> = inputs.iter().zip(&case.shapes).map(tensor).collect();
        let (write, params) = (writer(case)?, case.params.clone());
        let elements = write(&inputs, &params).shape().elements();
        Some(match &*case.dtype {
            "f64" => Box::new(Written { engine, is_read, inputs, write, params, out: vec![0f64; elements] }),
            _ => Box::new(Written { engine, is_read, inputs, write, params, out: vec![0f32; elements] }),
        })
    })
}

fn writer(case: &Case) -> Option<fn(&[Tensor], &[usize]) -> Tensor> {
    Some(match &*case.op {
        "add" => |x, _| &x[0] + &x[1],
        "mul" => |x, _| &x[0] * &x[1],
        "relu" => |x, _| x[0].relu(),
        "leaky_relu" => |x, _| x[0].leaky_relu(0.01),
        "elu" => |x, _| x[0].elu(1.0),
        "clip" => |x, _| x[0].clip(-1.0, 1.0),
        "sigmoid" => |x, _| x[0].sigmoid(),
        "tanh" => |x, _| x[0].tanh(),
        "swish" => |x, _| x[0].silu(),
        "gelu" => |x, _| x[0].gelu(),
        "gelu_tanh" => |x, _| x[0].gelu_tanh(),
        "exp" => |x, _| x[0].exp(),
        "softmax" => |x, _| x[0].softmax(-1),
        "log_softmax" => |x, _| x[0].log_softmax(-1),
        "layer_norm" => |x, _| x[0].layer_norm(None, None, 1e-5),
        "sum" => |x, _| x[0].sum(..),
        "mean" => |x, _| x[0].mean(..),
        "max" => |x, _| x[0].max(..),
        "dot" => |x, _| x[0].dot(&x[1]),
        "matmul" => |x, _| x[0].matmul(&x[1]),
        "conv2d" => |x, p| {
            let (stride, padding, groups) = (vec![p[0]; 2], Padding::Explicit(vec![(p[1], p[1]); 2]), p[2]);
            x[0].conv(&x[1], None, &Conv { stride, padding, groups, ..Conv::default() })
        },
        _ => return None,
    })
}
