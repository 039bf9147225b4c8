//! Copies of any view into any view.

use breakeven_ir::{DType, Expr, Kernel, Layout, Map, Operand, Shape};

use super::dtypes;
use crate::{Bench, Case, Tier, views};

/// Every type: every view into every view, then the parts of a concatenation.
pub fn copies(bench: &mut Bench<'_>, _: Tier) {
    for dtype in dtypes(bench) {
        let shape = Shape::from([5, 7]);
        for (from, input) in views::all(shape.clone()) {
            for (to, output) in views::distinct(shape.clone()) {
                let name = format!("copy {dtype}{shape} {from} to {to}");
                bench.add(Case::new(name, copy(dtype, input.clone(), output)));
            }
        }
        for axis in 0..3 {
            part(bench, dtype, axis);
        }
    }
}

pub(super) fn copy(dtype: DType, input: Layout, output: Layout) -> Kernel {
    Kernel::Map(Map {
        expr: Expr::identity(dtype),
        params: vec![],
        inputs: vec![Operand::new(dtype, input)],
        out: Operand::new(dtype, output),
    })
}

/// The middle part of a concatenation along `axis`.
fn part(bench: &mut Bench<'_>, dtype: DType, axis: usize) {
    let small = Shape::from([3, 5, 7]);
    let whole: Shape = small.iter().enumerate().map(|(a, &n)| if a == axis { n + 4 } else { n }).collect();
    let output = Layout::dense(whole).slice(axis, 1, small[axis], 1);
    bench.add(Case::new(format!("concat {dtype} along {axis}"), copy(dtype, Layout::dense(small), output)));
}
