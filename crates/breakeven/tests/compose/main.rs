//! Operations made of others, against values reckoned by hand or by slow and obvious loops.

mod contract;
mod conv;
mod create;
mod normalise;
mod pool;
mod recurrent;
mod resize;
mod shape;

use breakeven::{Engine, Tensor};

fn engine() -> Engine {
    Engine::builder().gpus(false).no_cache().build().unwrap()
}

/// `[0, 1, 2, ..] * scale + offset`
fn count(engine: &Engine, shape: &[usize], scale: f64, offset: f64) -> Tensor {
    let n: usize = shape.iter().product();
    let values: Vec<f32> = (0..n).map(|i| ((i as f64 + offset) * scale) as f32).collect();
    engine.from_vec(values, shape)
}

fn check(tensor: &Tensor, shape: &[usize], want: &[f64]) {
    assert_eq!(&tensor.shape()[..], shape, "{tensor:?}");
    let got = tensor.cast(breakeven::DType::F64).to_vec::<f64>().unwrap();
    let most = want.iter().fold(0.0f64, |most, x| most.max(if x.is_finite() { x.abs() } else { 0.0 }));
    let close = |(g, w): (&f64, &f64)| g == w || (g - w).abs() <= 2e-6 * most.max(1.0) || (g.is_nan() && w.is_nan());
    let wrong = got.iter().zip(want).position(|pair| !close(pair));
    assert!(got.len() == want.len() && wrong.is_none(), "at {wrong:?}: got {got:?}, want {want:?}");
}

/// Every index of a shape, in row-major order.
fn places(shape: &[usize]) -> Vec<Vec<usize>> {
    shape
        .iter()
        .fold(vec![vec![]], |all, &n| all.iter().flat_map(|at| (0..n).map(move |i| [&at[..], &[i]].concat())).collect())
}

/// Where an index lies in row-major order.
fn flat(shape: &[usize], at: &[usize]) -> usize {
    shape.iter().zip(at).fold(0, |sum, (n, i)| sum * n + i)
}
