//! The `gemm` crate, on rayon's threads; products of one matrix by another, or of a batch of them one after the other.

use std::error::Error;

use gemm::Parallelism;
use race_protocol::{Case, Work, f32s, f64s, serve, threads};

struct Product<T> {
    a: Vec<T>,
    b: Vec<T>,
    shape: [usize; 4],
    parallelism: Parallelism,
}

trait Number: Copy + Default + 'static {
    const ONE: Self;
    fn bytes(numbers: &[Self]) -> Vec<u8>;
}

impl Number for f32 {
    const ONE: f32 = 1.0;
    fn bytes(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
    }
}

impl Number for f64 {
    const ONE: f64 = 1.0;
    fn bytes(numbers: &[f64]) -> Vec<u8> {
        numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
    }
}

impl<T: Number> Product<T> {
    fn compute(&self) -> Vec<T> {
        let [batch, m, k, n] = self.shape;
        let mut out = vec![T::default(); batch * m * n];
        for i in 0..batch {
            let (a, b, to) = (&self.a[i * m * k..], &self.b[i * k * n..], &mut out[i * m * n..]);
            let (n_, m_, k_) = (n as isize, 1, k as isize);
            // SAFETY: the three matrices are dense, and as long as their extents say.
            unsafe {
                gemm::gemm(
                    m,
                    n,
                    k,
                    to.as_mut_ptr(),
                    m_,
                    n_,
                    false,
                    a.as_ptr(),
                    1,
                    k_,
                    b.as_ptr(),
                    1,
                    n_,
                    T::ONE,
                    T::ONE,
                    false,
                    false,
                    false,
                    self.parallelism,
                );
            }
        }
        out
    }
}

impl<T: Number> Work for Product<T> {
    fn run(&mut self) {
        std::hint::black_box(self.compute());
    }

    fn result(&mut self) -> Vec<u8> {
        T::bytes(&self.compute())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let threads = threads();
    let parallelism = if threads == 1 { Parallelism::None } else { Parallelism::Rayon(threads) };
    serve(|case, inputs| prepare(case, inputs, parallelism))
}

fn prepare(case: &Case, inputs: &[Vec<u8>], parallelism: Parallelism) -> Option<Box<dyn Work>> {
    if case.op != "matmul" {
        return None;
    }
    let (a, b) = (&case.shapes[0], &case.shapes[1]);
    let rank = a.len();
    let shape = [a[..rank - 2].iter().product(), a[rank - 2], a[rank - 1], b[rank - 1]];
    Some(match &*case.dtype {
        "f64" => Box::new(Product { a: f64s(&inputs[0]), b: f64s(&inputs[1]), shape, parallelism }),
        _ => Box::new(Product { a: f32s(&inputs[0]), b: f32s(&inputs[1]), shape, parallelism }),
    })
}
