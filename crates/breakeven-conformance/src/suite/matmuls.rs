//! Matrix products.

use breakeven_ir::{DType, Expr, Kernel, Layout, MatMul, Operand, Shape};

use super::{chain, dtypes};
use crate::{Bench, Case, Tier, data, views};

/// Extents around tiles, vectors and blocks: one, primes, vectors both ways, nothing to sum.
const SIZES: &[[usize; 3]] = &[
    [1, 1, 1],
    [1, 7, 1],
    [1, 101, 13],
    [13, 101, 1],
    [13, 101, 7],
    [3, 17, 5],
    [16, 16, 16],
    [17, 31, 33],
    [64, 64, 64],
    [65, 63, 67],
    [1, 1025, 3],
    [3, 1025, 1],
    [2, 0, 3],
    [0, 5, 3],
    [3, 5, 0],
    [129, 5, 7],
    [5, 7, 129],
    [1, 33, 257],
];

/// Every number type the device has: sizes, every view of either side, batches, special values, and epilogues.
pub fn matmuls(bench: &mut Bench<'_>, tier: Tier) {
    for dtype in dtypes(bench).into_iter().filter(|&d| d != DType::Bool) {
        for &[m, k, n] in SIZES {
            bench.add(case(dtype, &plain(dtype, &Shape::scalar(), [m, k, n]), ""));
        }
        looked_at(bench, dtype);
        batches(bench, dtype);
    }
    for sizes in [[1, 5, 3], [13, 37, 7], [33, 17, 65]] {
        last_places(bench, sizes);
        epilogues(bench, sizes);
    }
    if tier == Tier::Full {
        for sizes in [[257, 129, 131], [1, 4099, 257], [257, 4099, 1]] {
            bench.add(case(DType::F32, &plain(DType::F32, &Shape::scalar(), sizes), ""));
        }
    }
}

fn with(batch: &Shape, m: usize, n: usize) -> Shape {
    batch.iter().copied().chain([m, n]).collect()
}

fn plain(dtype: DType, batch: &Shape, [m, k, n]: [usize; 3]) -> MatMul {
    let operand = |m, n| Operand::new(dtype, Layout::dense(with(batch, m, n)));
    MatMul {
        batch: batch.clone(),
        m,
        n,
        k,
        a: operand(m, k),
        b: operand(k, n),
        post: Expr::identity(dtype),
        params: vec![],
        inputs: vec![],
        out: operand(m, n),
    }
}

/// A product of dense matrices.
pub(super) fn kernel(dtype: DType, sizes: [usize; 3]) -> Kernel {
    Kernel::MatMul(plain(dtype, &Shape::scalar(), sizes))
}

fn case(dtype: DType, k: &MatMul, view: &str) -> Case {
    Case::new(format!("matmul {dtype} {} x {}x{}x{} {view}", k.batch, k.m, k.k, k.n), Kernel::MatMul(k.clone()))
}

fn looked_at(bench: &mut Bench<'_>, dtype: DType) {
    for [m, k, n] in [[13, 37, 7], [1, 37, 19], [19, 37, 1], [33, 65, 17]] {
        let dense = plain(dtype, &Shape::scalar(), [m, k, n]);
        for (view, layout) in views::all([m, k]) {
            let kernel = MatMul { a: Operand::new(dtype, layout), ..dense.clone() };
            bench.add(case(dtype, &kernel, &format!("left {view}")));
        }
        for (view, layout) in views::all([k, n]) {
            let kernel = MatMul { b: Operand::new(dtype, layout), ..dense.clone() };
            bench.add(case(dtype, &kernel, &format!("right {view}")));
        }
        for (view, layout) in views::distinct([m, n]) {
            let kernel = MatMul { out: Operand::new(dtype, layout), ..dense.clone() };
            bench.add(case(dtype, &kernel, &format!("output {view}")));
        }
        if m == n || k == n {
            bench.add(case(dtype, &dense, "").aliased());
        }
    }
    let square = plain(dtype, &Shape::scalar(), [16, 16, 16]);
    bench.add(case(dtype, &square, "square").aliased());
    let across = MatMul { b: Operand::new(dtype, square.b.layout.permute(&[1, 0])), ..square };
    bench.add(case(dtype, &across, "times its transpose").aliased());
}

/// Batches of one and two axes, one side repeated, heads inside rows as attention has them.
fn batches(bench: &mut Bench<'_>, dtype: DType) {
    for (batch, sizes) in
        [(Shape::from(3), [5, 7, 11]), (Shape::from([2, 3]), [4, 17, 5]), (Shape::from([5, 1]), [1, 33, 9])]
    {
        let dense = plain(dtype, &batch, sizes);
        bench.add(case(dtype, &dense, ""));
        let axes: Vec<usize> = (0..batch.rank()).collect();
        let left = Operand::new(dtype, views::repeated(&dense.a.layout.shape, &axes));
        let right = Operand::new(dtype, views::repeated(&dense.b.layout.shape, &axes));
        bench.add(case(dtype, &MatMul { a: left.clone(), ..dense.clone() }, "left repeated"));
        bench.add(case(dtype, &MatMul { b: right.clone(), ..dense.clone() }, "right repeated"));
        bench.add(case(dtype, &MatMul { a: left, b: right, ..dense.clone() }, "both repeated"));
        for (view, layout) in views::all(dense.a.layout.shape.clone()) {
            bench.add(case(
                dtype,
                &MatMul { a: Operand::new(dtype, layout), ..dense.clone() },
                &format!("left {view}"),
            ));
        }
    }
    heads(bench, dtype);
}

/// `q k^T` with q and k lying as [batch, position, head, feature], the result as well.
fn heads(bench: &mut Bench<'_>, dtype: DType) {
    let (b, h, t, d) = (2, 3, 5, 4);
    let stored = Layout::dense([b, t, h, d]);
    let mut kernel = plain(dtype, &Shape::from([b, h]), [t, d, t]);
    kernel.a.layout = stored.permute(&[0, 2, 1, 3]);
    kernel.b.layout = stored.permute(&[0, 2, 3, 1]);
    bench.add(case(dtype, &kernel, "heads"));
    let mut back = plain(dtype, &Shape::from([b, h]), [t, t, d]);
    back.b.layout = stored.permute(&[0, 2, 1, 3]);
    back.out.layout = stored.permute(&[0, 2, 1, 3]);
    bench.add(case(dtype, &back, "heads, joined again"));
}

fn last_places(bench: &mut Bench<'_>, sizes: [usize; 3]) {
    for &special in data::special(DType::F32) {
        for side in 0..2 {
            let name = format!("with {special} last on side {side}");
            bench.add(case(DType::F32, &plain(DType::F32, &Shape::scalar(), sizes), &name).last(side, special));
        }
    }
}

/// Bias and gelu, bias alone, bias and residual, with the bias repeated along rows.
fn epilogues(bench: &mut Bench<'_>, [m, k, n]: [usize; 3]) {
    for batch in [Shape::scalar(), Shape::from(3)] {
        let dense = plain(DType::F32, &batch, [m, k, n]);
        let out = with(&batch, m, n);
        let rows: Vec<usize> = (0..out.rank() - 1).collect();
        let bias = Operand::new(DType::F32, views::repeated(&out, &rows));
        let residual = Operand::new(DType::F32, Layout::dense(out.clone()));
        let chains: [(&[&str], Vec<Operand>); 4] = [
            (&["add"], vec![bias.clone()]),
            (&["add", "gelu"], vec![bias.clone()]),
            (&["add", "add"], vec![bias.clone(), residual]),
            (&["leaky_relu", "tanh"], vec![]),
        ];
        for (names, inputs) in chains {
            let post = chain(names);
            let params = vec![0.25; post.params()];
            let kernel = MatMul { post, params, inputs, ..dense.clone() };
            bench.add(case(DType::F32, &kernel, &format!("then {names:?}")));
        }
    }
}
