//! Breakeven through its public API: written, placed and computed on the CPU; the result stays where it is, as with torch.
#![forbid(unsafe_code)]

use std::error::Error;
use std::time::Duration;

use breakeven::{Conv, DType, Deadline, Engine, Padding, Shape, Tensor};
use race_protocol::{Case, Work, f32s, f64s, serve, threads};

/// An operation on tensors, written anew for each run.
struct Written {
    engine: Engine,
    inputs: Vec<Tensor>,
    write: fn(&[Tensor], &[usize]) -> Tensor,
    params: Vec<usize>,
}

impl Work for Written {
    fn run(&mut self) {
        let y = (self.write)(&self.inputs, &self.params);
        self.engine.run(&[&y]).expect("it was computed before");
    }

    fn result(&mut self) -> Vec<u8> {
        let y = (self.write)(&self.inputs, &self.params);
        match y.dtype() {
            DType::F64 => y.to_vec::<f64>().expect("a right call").iter().flat_map(|x| x.to_le_bytes()).collect(),
            _ => y.to_vec::<f32>().expect("a right call").iter().flat_map(|x| x.to_le_bytes()).collect(),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::builder().gpus(false).no_cache().threads(threads()).build()?;
    engine.ready(Deadline::after(Duration::from_mins(1)))?;
    serve(|case, inputs| {
        let tensor = |(bytes, shape): (&Vec<u8>, &Vec<usize>)| {
            let shape = Shape::new(shape).expect("few axes");
            match &*case.dtype {
                "f64" => engine.from_vec(f64s(bytes), shape),
                _ => engine.from_vec(f32s(bytes), shape),
            }
        };
        let inputs = inputs.iter().zip(&case.shapes).map(tensor).collect();
        Some(Box::new(Written { engine: engine.clone(), inputs, write: writer(case)?, params: case.params.clone() }))
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
