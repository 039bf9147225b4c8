//! Picks by index: exactly the element, NaN or 0 outside the axis.

use breakeven_ir::{Gather, Scalar};

use super::Bound;

/// The output in row-major order.
pub fn gather(kernel: &Gather, inputs: &[&[u8]]) -> Vec<Bound> {
    let source = &kernel.source.layout;
    let extent = source.shape[kernel.axis] as i128;
    let index: Vec<i128> = kernel
        .index
        .layout
        .positions()
        .map(|at| match Scalar::load(kernel.index.dtype, inputs[1], at) {
            Scalar::I(x) if x < 0 => x + extent,
            Scalar::I(x) => x,
            other => unreachable!("{other:?} is not an index"),
        })
        .collect();
    let places: Vec<usize> = source.positions().collect();
    let before: usize = source.shape[..kernel.axis].iter().product();
    let after: usize = source.shape[kernel.axis + 1..].iter().product();
    let outside = if kernel.source.dtype.is_float() { f64::NAN } else { 0.0 };
    let mut out = Vec::with_capacity(before * index.len() * after);
    for outer in 0..before {
        for &pick in &index {
            for inner in 0..after {
                let inside = (0..extent).contains(&pick);
                let element = || (outer * extent as usize + pick as usize) * after + inner;
                let value = if inside {
                    Scalar::load(kernel.source.dtype, inputs[0], places[element()])
                } else {
                    Scalar::of(kernel.source.dtype, outside)
                };
                out.push(Bound::exactly(value));
            }
        }
    }
    out
}
