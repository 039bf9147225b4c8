//! Picks by index.

use breakeven_ir::{DType, Gather, Kernel, Layout, Operand, Scalar, Shape};

use super::dtypes;
use crate::{Bench, Case, Tier, data, views};

/// Every type and both index types: every axis, views of source, index and output, negative and outside, nothing picked.
pub fn gathers(bench: &mut Bench<'_>, _: Tier) {
    let all = dtypes(bench);
    for &dtype in &all {
        for index in [DType::I64, DType::I32].into_iter().filter(|d| all.contains(d)) {
            for (source, axis, picks) in shapes() {
                bench.add(case(&Picked::new(dtype, index, &source, axis, &picks), "dense"));
            }
            looked_at(bench, dtype, index);
        }
    }
}

fn shapes() -> Vec<(Shape, usize, Shape)> {
    let s = |dims: &[usize]| Shape::from(dims);
    vec![
        (s(&[5]), 0, s(&[7])),
        (s(&[101, 3]), 0, s(&[17])),
        (s(&[11, 13]), 1, s(&[2, 5])),
        (s(&[3, 7, 5]), 1, s(&[])),
        (s(&[3, 7, 5]), 2, s(&[4])),
        (s(&[4, 5]), 0, s(&[0])),
        (s(&[4, 0]), 0, s(&[3])),
        (s(&[257, 33]), 0, s(&[65])),
    ]
}

/// Rows picked from a matrix.
pub(super) fn kernel(dtype: DType, index: DType) -> Kernel {
    Kernel::Gather(Picked::new(dtype, index, &Shape::from([5, 3]), 0, &Shape::from(4)).0)
}

struct Picked(Gather);

impl Picked {
    fn new(dtype: DType, index: DType, source: &Shape, axis: usize, picks: &Shape) -> Picked {
        let out: Shape = source[..axis].iter().chain(picks.iter()).chain(&source[axis + 1..]).copied().collect();
        Picked(Gather {
            axis,
            source: Operand::new(dtype, Layout::dense(source.clone())),
            index: Operand::new(index, Layout::dense(picks.clone())),
            out: Operand::new(dtype, Layout::dense(out)),
        })
    }
}

/// Every index inside, from either end; the last one far outside, the first one just outside.
fn case(picked: &Picked, view: &str) -> Case {
    let Gather { axis, source, index, .. } = &picked.0;
    let extent = source.layout.shape[*axis] as i128;
    let count = index.layout.shape.elements();
    let pick = |i: usize| match i {
        0 if count > 3 => extent,
        1 if count > 3 => -extent - 1,
        _ if i + 1 == count && count > 3 => 2_000_000_000,
        _ => (i as i128 * 7) % (2 * extent) - extent,
    };
    let values = [
        data::values(source.dtype, source.layout.shape.elements(), 3),
        (0..count).map(|i| Scalar::I(pick(i))).collect(),
    ];
    let name = format!(
        "gather {} {} along {axis} by {} {} {view}",
        source.dtype, source.layout.shape, index.dtype, index.layout.shape
    );
    Case::with(name, Kernel::Gather(picked.0.clone()), &values)
}

fn looked_at(bench: &mut Bench<'_>, dtype: DType, index: DType) {
    let dense = Picked::new(dtype, index, &Shape::from([11, 6]), 0, &Shape::from([3, 4]));
    for (view, layout) in views::all([11, 6]) {
        let gather = Gather { source: Operand::new(dtype, layout), ..dense.0.clone() };
        bench.add(case(&Picked(gather), &format!("source {view}")));
    }
    for (view, layout) in views::all([3, 4]) {
        let gather = Gather { index: Operand::new(index, layout), ..dense.0.clone() };
        bench.add(case(&Picked(gather), &format!("index {view}")));
    }
    for (view, layout) in views::distinct([3, 4, 6]) {
        let gather = Gather { out: Operand::new(dtype, layout), ..dense.0.clone() };
        bench.add(case(&Picked(gather), &format!("output {view}")));
    }
}
