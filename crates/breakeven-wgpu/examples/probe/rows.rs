//! Work on whole rows: softmax and norms, alone and after a chain.

use breakeven_device::Buffer;
use breakeven_ir::{DType, Expr, Kernel, RowWise, RowWiseKernel, Shape};

use crate::stand::{Stand, f32s, show};
use crate::streams::{scaled_gelu, scaled_gelu_of};

pub fn all(stand: &Stand) {
    let rows = 16_384 / stand.shrink;
    for kind in [RowWise::Softmax, RowWise::LogSoftmax, RowWise::LayerNorm { epsilon: 1e-5 }] {
        for (rows, length) in [(rows, 1024), (rows * 8, 128), (rows / 16, 16_384)] {
            alone(stand, kind, rows, length);
        }
    }
    chain(stand, rows, 1024);
}

fn kernel(kind: RowWise, rows: usize, length: usize, pre: Expr) -> Kernel {
    let inputs = vec![f32s([rows, length]); pre.args().len()];
    let post = Expr::identity(DType::F32);
    let (outer, out) = (Shape::from(rows), f32s([rows, length]));
    Kernel::RowWise(RowWiseKernel { kind, outer, length, pre, post, params: vec![], inputs, out })
}

/// What `kind` makes of a row.
fn wanted(kind: RowWise, row: &[f64]) -> Vec<f64> {
    let count = row.len() as f64;
    let total: f64 = row.iter().map(|v| v.exp()).sum();
    let mean = row.iter().sum::<f64>() / count;
    let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
    let one = |v: &f64| match kind {
        RowWise::Softmax => v.exp() / total,
        RowWise::LogSoftmax => v - total.ln(),
        RowWise::LayerNorm { epsilon } => (v - mean) / (variance + epsilon).sqrt(),
        RowWise::RmsNorm { .. } => unreachable!("it is not measured"),
    };
    row.iter().map(one).collect()
}

fn is_right(kind: RowWise, got: &[f32], of: impl Fn(usize) -> f64, rows: usize, length: usize) -> bool {
    [0, rows / 2, rows - 1].iter().all(|&r| {
        let row: Vec<f64> = (r * length..(r + 1) * length).map(&of).collect();
        // Elements near the mean are as far off as others, which are about 1.
        let least = if matches!(kind, RowWise::LayerNorm { .. }) { 1.0 } else { 1e-6 };
        let near = |(got, want): (&f32, f64)| (f64::from(*got) - want).abs() < 2e-6 * want.abs().max(least);
        got[r * length..].iter().zip(wanted(kind, &row)).all(near)
    })
}

fn alone(stand: &Stand, kind: RowWise, rows: usize, length: usize) {
    let name = format!("{} {rows}x{length}", kind.name());
    if !stand.wants(&name) {
        return;
    }
    let (a, x) = stand.filled(rows * length);
    let (times, out) = stand.kernel(kernel(kind, rows, length, Expr::identity(DType::F32)), &[&a]);
    let right = is_right(kind, &stand.read(&out), |i| f64::from(x[i]), rows, length);
    show(&name, times, 8.0 * (rows * length) as f64, "TB/s", right);
}

/// `softmax(gelu(a * b + c) * d)` in one kernel: five arrays pass through memory.
fn chain(stand: &Stand, rows: usize, length: usize) {
    let name = format!("a*b+c, gelu, *d, softmax {rows}x{length}");
    if !stand.wants(&name) {
        return;
    }
    let operands: Vec<(Buffer, Vec<f32>)> = (0..4).map(|_| stand.filled(rows * length)).collect();
    let buffers: Vec<&Buffer> = operands.iter().map(|(buffer, _)| buffer).collect();
    let (times, out) = stand.kernel(kernel(RowWise::Softmax, rows, length, scaled_gelu()), &buffers);
    let of = |i: usize| scaled_gelu_of([0, 1, 2, 3].map(|t: usize| operands[t].1[i]));
    let right = is_right(RowWise::Softmax, &stand.read(&out), of, rows, length);
    show(&name, times, 20.0 * (rows * length) as f64, "TB/s", right);
}
