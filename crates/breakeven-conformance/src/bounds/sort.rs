//! Sorted rows: exactly the elements and their indices.

use std::cmp::Ordering;

use breakeven_ir::{Scalar, SortRows};

use super::Bound;

/// Values and indices in row-major order.
pub fn sort(kernel: &SortRows, inputs: &[&[u8]]) -> Vec<Vec<Bound>> {
    let (mut values, mut indices) = (Vec::new(), Vec::new());
    let load = |at| Scalar::load(kernel.input.dtype, inputs[0], at);
    let all: Vec<Scalar> = kernel.input.layout.positions().map(load).collect();
    for row in 0..kernel.outer.elements() {
        let row = &all[row * kernel.length..][..kernel.length];
        let mut order: Vec<usize> = (0..row.len()).collect();
        // Equal elements are told apart by their places, so that the order does not lean on a stable sort.
        order.sort_unstable_by(|&a, &b| {
            let (first, second) = if kernel.descending { (b, a) } else { (a, b) };
            place(row[first]).partial_cmp(&place(row[second])).unwrap_or(Ordering::Equal).then(a.cmp(&b))
        });
        for &index in &order[..kernel.keep] {
            values.push(Bound::exactly(row[index]));
            indices.push(Bound::exactly(Scalar::I(index as i128)));
        }
    }
    vec![values, indices]
}

/// Numbers by size, and NaN behind them.
fn place(x: Scalar) -> (bool, f64, i128) {
    match x {
        Scalar::I(x) => (false, 0.0, x),
        Scalar::F(x) if x.is_nan() => (true, 0.0, 0),
        other => (false, other.to_f64(), 0),
    }
}
