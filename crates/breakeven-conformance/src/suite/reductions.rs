//! Reductions.

use breakeven_ir::{DType, Expr, Fold, Kernel, Layout, Operand, ReduceRows, Scalar, Shape};

use super::{chain, dtypes};
use crate::{Bench, Case, Tier, data, views};

pub(super) const FOLDS: [Fold; 10] = [
    Fold::Sum,
    Fold::Mean,
    Fold::Prod,
    Fold::Max,
    Fold::Min,
    Fold::ArgMax,
    Fold::ArgMin,
    Fold::All,
    Fold::Any,
    Fold::Moments,
];

/// Every fold at every type: lengths, shapes, views, special values in the last place, ties, nothing to fold, and rows
/// before and after.
pub fn reductions(bench: &mut Bench<'_>, tier: Tier) {
    for fold in FOLDS {
        for dtype in dtypes(bench).into_iter().filter(|&d| fold.dtype(d).is_some()) {
            lengths(bench, fold, dtype, tier);
            shapes(bench, fold, dtype);
            if dtype.is_float() {
                last_places(bench, fold, dtype);
                ties(bench, fold, dtype);
            }
        }
    }
    with_rows(bench);
}

/// A fold of a tensor over `outer ++ inner` that lies as `layout`.
pub(super) fn kernel(fold: Fold, dtype: DType, outer: &Shape, inner: &Shape, layout: Layout) -> Kernel {
    let out = fold.dtype(dtype).expect("the fold is defined for the type");
    let post = if fold == Fold::Moments { dtype } else { out };
    Kernel::Reduce(ReduceRows {
        fold,
        outer: outer.clone(),
        inner: inner.clone(),
        pre: Expr::identity(dtype),
        post: Expr::identity(post),
        params: vec![],
        inputs: vec![Operand::new(dtype, layout)],
        outs: vec![Operand::new(out, Layout::dense(outer.clone())); fold.outputs()],
    })
}

fn joined(outer: &Shape, inner: &Shape) -> Shape {
    outer.iter().chain(inner.iter()).copied().collect()
}

/// Values that the fold can bear: a product of many stays near 1.
fn case(name: String, fold: Fold, kernel: Kernel) -> Case {
    let operand = kernel.inputs()[0].clone();
    if fold == Fold::Prod && operand.dtype.is_float() {
        let values = data::between(0.9, 1.1, operand.layout.shape.elements(), 5);
        return Case::with(name, kernel, &[values]);
    }
    Case::new(name, kernel)
}

fn lengths(bench: &mut Bench<'_>, fold: Fold, dtype: DType, tier: Tier) {
    let undefined = matches!(fold, Fold::Max | Fold::Min | Fold::ArgMax | Fold::ArgMin);
    for n in tier.lengths().into_iter().filter(|&n| n > 0 || !undefined) {
        for outer in [Shape::scalar(), Shape::from(3)] {
            let inner = Shape::from(n);
            let layout = Layout::dense(joined(&outer, &inner));
            let name = format!("{} {dtype} {outer} of {n}", fold.name());
            bench.add(case(name, fold, kernel(fold, dtype, &outer, &inner, layout)));
        }
    }
}

fn shapes(bench: &mut Bench<'_>, fold: Fold, dtype: DType) {
    let shapes: [(&[usize], &[usize]); 8] = [
        (&[2, 3], &[5, 7]),
        (&[257], &[3]),
        (&[1], &[13, 17]),
        (&[13], &[1]),
        (&[4], &[]),
        (&[0], &[3]),
        (&[2, 1, 3], &[2, 1, 3, 2]),
        (&[67], &[131]),
    ];
    for (outer, inner) in shapes.map(|(o, i)| (Shape::from(o), Shape::from(i))) {
        for (view, layout) in views::all(joined(&outer, &inner)) {
            let name = format!("{} {dtype} {outer} of {inner} {view}", fold.name());
            bench.add(case(name, fold, kernel(fold, dtype, &outer, &inner, layout)));
        }
        for (view, layout) in views::distinct(outer.clone()) {
            let Kernel::Reduce(mut k) = kernel(fold, dtype, &outer, &inner, Layout::dense(joined(&outer, &inner)))
            else {
                unreachable!("a fold is a reduction")
            };
            k.outs.iter_mut().for_each(|o| o.layout = layout.clone());
            bench.add(case(format!("{} {dtype} {outer} output {view}", fold.name()), fold, Kernel::Reduce(k)));
        }
    }
}

fn last_places(bench: &mut Bench<'_>, fold: Fold, dtype: DType) {
    for n in [1, 2, 17, 65, 257, 1025] {
        for &special in data::special(dtype).iter().filter(|x| !(x.abs() > 1e38 && x.is_finite())) {
            let (outer, inner) = (Shape::from(2), Shape::from(n));
            let kernel = kernel(fold, dtype, &outer, &inner, Layout::dense([2, n]));
            bench.add(
                case(format!("{} {dtype} of {n} with {special} last", fold.name()), fold, kernel).last(0, special),
            );
        }
    }
}

/// Few different values, so that the largest comes many times; NaN twice in some rows.
fn ties(bench: &mut Bench<'_>, fold: Fold, dtype: DType) {
    for (n, nan) in [(5, false), (16, false), (257, false), (257, true), (4099, false), (4099, true)] {
        let mut values: Vec<Scalar> = (0..3 * n).map(|i| Scalar::F([0.0, -1.0, 1.0, 1.0][i * 7 % 4])).collect();
        if nan {
            values[n / 2] = Scalar::F(f64::NAN);
            values[n / 3] = Scalar::F(f64::NAN);
        }
        let across = Layout::dense([n, 3]).permute(&[1, 0]);
        for (lie, layout) in [("along", Layout::dense([3, n])), ("across", across)] {
            let kernel = kernel(fold, dtype, &Shape::from(3), &Shape::from(n), layout);
            let name = format!("{} {dtype} of {n} {lie} with ties, nan {nan}", fold.name());
            bench.add(Case::with(name, kernel, &[values.clone()]));
        }
    }
}

/// `sqrt(sum(a * b) ... )` and others: rows before with two inputs, rows after with a further one.
fn with_rows(bench: &mut Bench<'_>) {
    let f32s = |layout: Layout| Operand::new(DType::F32, layout);
    for fold in [Fold::Sum, Fold::Mean, Fold::Max, Fold::Moments] {
        for (outer, inner) in [([3, 5], [7, 11]), ([1, 2], [33, 65])] {
            let (outer, inner) = (Shape::from(outer), Shape::from(inner));
            let whole = joined(&outer, &inner);
            for (view, layout) in views::all(whole.clone()) {
                let moments = fold == Fold::Moments;
                let post = if moments { Expr::identity(DType::F32) } else { chain(&["add", "relu"]) };
                let mut inputs = vec![f32s(layout), f32s(Layout::dense(whole.clone()))];
                inputs.extend((!moments).then(|| f32s(Layout::dense(outer.clone()))));
                let kernel = Kernel::Reduce(ReduceRows {
                    fold,
                    outer: outer.clone(),
                    inner: inner.clone(),
                    pre: chain(&["mul", "abs"]),
                    post,
                    params: vec![],
                    inputs,
                    outs: vec![f32s(Layout::dense(outer.clone())); fold.outputs()],
                });
                bench.add(Case::new(format!("{} of |a * b|, then relu(x + c), {whole} {view}", fold.name()), kernel));
            }
        }
    }
}
