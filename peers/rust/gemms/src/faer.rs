//! faer, on rayon's threads; products of one matrix by another, or of a batch of them one after the other.

use std::error::Error;

use faer::linalg::matmul::matmul;
use faer::traits::ComplexField;
use faer::{Accum, MatMut, MatRef, Par};
use race_protocol::{Case, Work, f32s, f64s, serve, threads};

struct Product<T> {
    a: Vec<T>,
    b: Vec<T>,
    shape: [usize; 4],
    par: Par,
    bytes: fn(&[T]) -> Vec<u8>,
}

impl<T: ComplexField + Copy + Default> Product<T> {
    fn compute(&self) -> Vec<T> {
        let [batch, m, k, n] = self.shape;
        let mut out = vec![T::default(); batch * m * n];
        for i in 0..batch {
            let a = MatRef::from_row_major_slice(&self.a[i * m * k..][..m * k], m, k);
            let b = MatRef::from_row_major_slice(&self.b[i * k * n..][..k * n], k, n);
            let to = MatMut::from_row_major_slice_mut(&mut out[i * m * n..][..m * n], m, n);
            matmul(to, Accum::Replace, a, b, T::one_impl(), self.par);
        }
        out
    }
}

impl<T: ComplexField + Copy + Default> Work for Product<T> {
    fn run(&mut self) {
        std::hint::black_box(self.compute());
    }

    fn result(&mut self) -> Vec<u8> {
        (self.bytes)(&self.compute())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let threads = threads();
    let par = if threads == 1 { Par::Seq } else { Par::rayon(threads) };
    serve(|case, inputs| prepare(case, inputs, par))
}

fn prepare(case: &Case, inputs: &[Vec<u8>], par: Par) -> Option<Box<dyn Work>> {
    if case.op != "matmul" {
        return None;
    }
    let (a, b) = (&case.shapes[0], &case.shapes[1]);
    let rank = a.len();
    let shape = [a[..rank - 2].iter().product(), a[rank - 2], a[rank - 1], b[rank - 1]];
    Some(match &*case.dtype {
        "f64" => {
            let bytes = |x: &[f64]| x.iter().flat_map(|x| x.to_le_bytes()).collect();
            Box::new(Product { a: f64s(&inputs[0]), b: f64s(&inputs[1]), shape, par, bytes })
        }
        _ => {
            let bytes = |x: &[f32]| x.iter().flat_map(|x| x.to_le_bytes()).collect();
            Box::new(Product { a: f32s(&inputs[0]), b: f32s(&inputs[1]), shape, par, bytes })
        }
    })
}
