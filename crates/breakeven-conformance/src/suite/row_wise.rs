//! Softmax and norms.

use breakeven_ir::{DType, Expr, Kernel, Layout, Operand, RowWise, RowWiseKernel, Scalar, Shape};

use super::{chain, dtypes};
use crate::{Bench, Case, Tier, data, views};

pub(super) const KINDS: [RowWise; 4] =
    [RowWise::Softmax, RowWise::LogSoftmax, RowWise::LayerNorm { epsilon: 1e-5 }, RowWise::RmsNorm { epsilon: 1e-6 }];

/// Every kind: lengths, views, special values in the last place, rows before and after.
pub fn row_wise(bench: &mut Bench<'_>, tier: Tier) {
    for dtype in dtypes(bench).into_iter().filter(|d| d.is_float()) {
        for kind in KINDS {
            for n in tier.lengths() {
                for outer in [Shape::scalar(), Shape::from(3)] {
                    bench.add(Case::new(
                        format!("{} {dtype} {outer} of {n}", kind.name()),
                        plain(kind, dtype, &outer, n),
                    ));
                }
            }
            looked_at(bench, kind, dtype);
            last_places(bench, kind, dtype);
            far_from_zero(bench, kind, dtype);
        }
    }
    for kind in KINDS {
        with_rows(bench, kind);
    }
}

fn whole(outer: &Shape, length: usize) -> Shape {
    outer.iter().copied().chain([length]).collect()
}

pub(super) fn plain(kind: RowWise, dtype: DType, outer: &Shape, length: usize) -> Kernel {
    let operand = Operand::new(dtype, Layout::dense(whole(outer, length)));
    Kernel::RowWise(RowWiseKernel {
        kind,
        outer: outer.clone(),
        length,
        pre: Expr::identity(dtype),
        post: Expr::identity(dtype),
        params: vec![],
        inputs: vec![operand.clone()],
        out: operand,
    })
}

fn looked_at(bench: &mut Bench<'_>, kind: RowWise, dtype: DType) {
    for (outer, length) in
        [(Shape::from([2, 3]), 37), (Shape::from(67), 5), (Shape::from([1, 1]), 257), (Shape::from(0), 4)]
    {
        let Kernel::RowWise(k) = plain(kind, dtype, &outer, length) else { unreachable!("made so") };
        for (view, layout) in views::all(whole(&outer, length)) {
            let kernel = RowWiseKernel { inputs: vec![Operand::new(dtype, layout)], ..k.clone() };
            let name = format!("{} {dtype} {outer} of {length} {view}", kind.name());
            bench.add(Case::new(name, Kernel::RowWise(kernel)));
        }
        for (view, layout) in views::distinct(whole(&outer, length)) {
            let kernel = RowWiseKernel { out: Operand::new(dtype, layout), ..k.clone() };
            let name = format!("{} {dtype} {outer} of {length} output {view}", kind.name());
            bench.add(Case::new(name, Kernel::RowWise(kernel)));
        }
    }
}

fn last_places(bench: &mut Bench<'_>, kind: RowWise, dtype: DType) {
    for n in [1, 2, 17, 65, 257, 1025] {
        for &special in data::special(dtype).iter().filter(|x| !(x.abs() > 1e38 && x.is_finite())) {
            let name = format!("{} {dtype} of {n} with {special} last", kind.name());
            bench.add(Case::new(name, plain(kind, dtype, &Shape::from(2), n)).last(0, special));
        }
    }
}

/// As in attention and in a transformer's norm: scaled and masked before, gain and bias after, both broadcast.
fn with_rows(bench: &mut Bench<'_>, kind: RowWise) {
    let f32s = |layout: Layout| Operand::new(DType::F32, layout);
    for (outer, length) in [([2, 3], 17), ([1, 7], 65), ([4, 1], 257)] {
        let outer = Shape::from(outer);
        let all = whole(&outer, length);
        let per_column = || f32s(views::repeated(&all, &[0, 1]));
        for (view, layout) in views::all(all.clone()) {
            let kernel = Kernel::RowWise(RowWiseKernel {
                kind,
                outer: outer.clone(),
                length,
                pre: chain(&["leaky_relu", "add"]),
                post: chain(&["mul", "add"]),
                params: vec![0.125],
                inputs: vec![f32s(layout), f32s(views::repeated(&all, &[1])), per_column(), per_column()],
                out: f32s(Layout::dense(all.clone())),
            });
            bench.add(Case::new(
                format!("{} of leaky_relu(x) + mask, times gain plus bias, {all} {view}", kind.name()),
                kernel,
            ));
        }
    }
}

/// Rows whose values are huge, tiny, equal, or far from zero and close together.
fn far_from_zero(bench: &mut Bench<'_>, kind: RowWise, dtype: DType) {
    let row = |n: usize, f: &dyn Fn(f64) -> f64| -> Vec<Scalar> { (0..n).map(|i| Scalar::F(f(i as f64))).collect() };
    let rows: [(&str, Vec<Scalar>); 7] = [
        ("40000 and up", row(4, &|i| 40000.0 + i)),
        ("all 1234", row(256, &|_| 1234.0)),
        ("10000 and a little", row(16, &|i| 10000.0 + i * 1e-3)),
        ("1e30 and up", row(4, &|i| (i + 1.0) * 1e30)),
        ("a step at the end", row(1025, &|i| if i == 1024.0 { 80.0 } else { -80.0 })),
        ("tiny", row(33, &|i| (i + 1.0) * 1e-20)),
        ("all -inf but one", row(65, &|i| if i == 13.0 { 0.0 } else { f64::NEG_INFINITY })),
    ];
    for (name, values) in rows {
        let kernel = plain(kind, dtype, &Shape::from(1), values.len());
        bench.add(Case::with(format!("{} of {name} in {dtype}", kind.name()), kernel, &[values]));
    }
}
