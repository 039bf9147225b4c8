//! Breakeven through its public API: written, placed and computed on the CPU. The result stays a tensor, as with torch, or with
//! `read` as the second argument is read into the caller's memory.
#![forbid(unsafe_code)]

use std::error::Error;
use std::time::Duration;

use breakeven::{Conv, Deadline, Draft, Element, Engine, Padding, Program, Shape, Tensor};
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

/// An encoder, written down once and run for its tokens.
struct Recorded {
    engine: Engine,
    is_read: bool,
    program: Program,
    tokens: Tensor,
    out: Vec<f32>,
}

impl Recorded {
    /// Layers and heads are the parameters; the weights are constants.
    fn new(engine: Engine, is_read: bool, inputs: &[Tensor], params: &[usize]) -> Recorded {
        let tokens = inputs[0].clone();
        let draft = Draft::new(&[&tokens]).expect("its value is there");
        let out = encoder(&draft.stand_ins()[0], &inputs[1..], params[1]);
        let program = draft.finish(&[&out]).expect("a right call");
        Recorded { engine, is_read, program, out: vec![0.0; tokens.shape().elements()], tokens }
    }
}

impl Work for Recorded {
    fn run(&mut self) {
        if self.is_read {
            let deadline = Deadline::after(Duration::from_mins(1));
            self.program.run_into(&[&self.tokens], &mut [&mut self.out], deadline).expect("a right call");
        } else {
            let y = self.program.call(&[&self.tokens]).expect("a right call");
            self.engine.run(&[&y[0]]).expect("a right call");
        }
    }

    fn result(&mut self) -> Vec<u8> {
        let y = self.program.call(&[&self.tokens]).expect("a right call");
        bytemuck::cast_slice(&y[0].to_vec::<f32>().expect("a right call")).to_vec()
    }
}

/// Layers of attention and two linear maps with a gelu between, each added to what came in and normalized.
fn encoder(tokens: &Tensor, weights: &[Tensor], heads: usize) -> Tensor {
    let [texts, length, width] = tokens.shape()[..] else { panic!("tokens are [texts, length, width]") };
    let split = |x: Tensor| x.reshape([texts, length, heads, width / heads]).transpose(1, 2);
    weights.chunks_exact(16).fold(tokens.clone(), |x, w| {
        let linear = |x: &Tensor, at: usize| x.linear(&w[at], Some(&w[at + 1]));
        let norm = |x: Tensor, at: usize| x.layer_norm(Some(&w[at]), Some(&w[at + 1]), 1e-5);
        let [q, k, v] = [0, 2, 4].map(|at| split(linear(&x, at)));
        let seen = q.attention(&k, &v, None).transpose(1, 2).reshape([texts, length, width]);
        let x = norm(&x + linear(&seen, 6), 8);
        norm(&x + linear(&linear(&x, 10).gelu(), 12), 14)
    })
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
        if case.op == "encoder" {
            return Some(Box::new(Recorded::new(engine, is_read, &inputs, &case.params)));
        }
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
