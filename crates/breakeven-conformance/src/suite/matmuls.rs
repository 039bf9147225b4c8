//! Matrix products.

use breakeven_ir::{DType, Expr, ExprBuilder, Kernel, Layout, MatMul, Operand, Precision, Scalar, Shape};

use super::{chain, dtypes, row};
use crate::{Bench, Case, Tier, data, views};

/// What is multiplied, and how exactly.
#[derive(Clone, Copy)]
struct Of {
    /// Of the left operand, the right one and the sums.
    types: [DType; 3],
    precision: Precision,
}

impl Of {
    fn exact(types: [DType; 3]) -> Of {
        Of { types, precision: Precision::Highest }
    }
}

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
    [129, 5, 131],
];

/// Every number type the device has: sizes, every view of either side, batches, special values, and epilogues.
pub fn matmuls(bench: &mut Bench<'_>, tier: Tier) {
    for dtype in dtypes(bench).into_iter().filter(|&d| d != DType::Bool) {
        sizes_and_views(bench, Of::exact([dtype; 3]));
    }
    let of = Of::exact([DType::F32; 3]);
    for sizes in [[1, 5, 3], [13, 37, 7], [33, 17, 65]] {
        last_places(bench, of, sizes);
        epilogues(bench, of, sizes);
    }
    if tier == Tier::Full {
        for sizes in [[257, 129, 131], [1, 4099, 257], [257, 4099, 1]] {
            bench.add(case(&plain(of, &Shape::scalar(), sizes), ""));
        }
    }
}

/// The same at the lower precisions of every type that has them: all that, more terms than one block has, and operands whose
/// products need their exponents.
pub fn lower_matmuls(bench: &mut Bench<'_>, tier: Tier) {
    let pairs = [
        (DType::F32, Precision::High),
        (DType::F32, Precision::Medium),
        (DType::BF16, Precision::High),
        (DType::F16, Precision::High),
    ];
    let has = dtypes(bench);
    for (dtype, precision) in pairs.into_iter().filter(|(dtype, _)| has.contains(dtype)) {
        let of = Of { types: [dtype; 3], precision };
        sizes_and_views(bench, of);
        for sizes in [[1, 5, 3], [13, 37, 7], [33, 17, 65], [37, 66, 70]] {
            last_places(bench, of, sizes);
        }
        bench.add(case(&plain(of, &Shape::scalar(), [5, 2_300, 35]), "long"));
        if dtype.is_half() {
            in_blocks(bench, of, tier);
        }
        if tier == Tier::Full {
            bench.add(case(&plain(of, &Shape::scalar(), [257, 1_129, 131]), "large"));
        }
    }
    epilogues(bench, Of { types: [DType::F32; 3], precision: Precision::Medium }, [33, 17, 65]);
}

/// Operands in aligned blocks of eight, as units ask that multiply whole matrices: each side either way round, edges of tiles,
/// special values, sums that are split, and enough products for the larger tiles.
fn in_blocks(bench: &mut Bench<'_>, of: Of, tier: Tier) {
    let [left, right, _] = of.types;
    let sizes = [72, 40, 136];
    let dense = plain(of, &Shape::from(2), sizes);
    let [m, k, n] = sizes;
    let turned = |dtype, rows, columns| Operand::new(dtype, Layout::dense([2, columns, rows]).permute(&[0, 2, 1]));
    bench.add(case(&dense, "in blocks"));
    bench.add(case(&MatMul { a: turned(left, m, k), ..dense.clone() }, "left turned"));
    bench.add(case(&MatMul { b: turned(right, k, n), ..dense.clone() }, "right turned"));
    bench.add(case(&MatMul { a: turned(left, m, k), b: turned(right, k, n), ..dense.clone() }, "both turned"));
    last_places(bench, of, sizes);
    bench.add(case(&plain(of, &Shape::scalar(), [72, 1_032, 136]), "split"));
    // As many as make the tiles of large products pay, of which each has two steps.
    if left == DType::F16 || tier == Tier::Full {
        bench.add(case(&plain(of, &Shape::from(96), [72, 24, 136]), "many"));
        bench.add(case(&plain(of, &Shape::from(128), [72, 40, 72]), "many"));
    }
}

/// The same for 8-bit integers that are summed in i32: signed and unsigned on either side, with the largest products, sums
/// that wrap, more terms than one block has, and epilogues that go on as floats.
pub fn byte_matmuls(bench: &mut Bench<'_>, _: Tier) {
    for [a, b] in [[DType::U8, DType::I8], [DType::I8, DType::U8], [DType::I8; 2], [DType::U8; 2]] {
        let of = Of::exact([a, b, DType::I32]);
        sizes_and_views(bench, of);
        for sizes in [[1, 1, 1], [9, 67, 35], [2, 1027, 3], [3, 2052, 33], [2, 33_100, 3]] {
            extremes(bench, of, sizes);
        }
        for sizes in [[1, 5, 3], [13, 37, 7], [33, 17, 65]] {
            dequantised(bench, of, sizes);
        }
    }
}

fn sizes_and_views(bench: &mut Bench<'_>, of: Of) {
    for &sizes in SIZES {
        bench.add(case(&plain(of, &Shape::scalar(), sizes), ""));
    }
    looked_at(bench, of);
    batches(bench, of);
}

/// Every element at either end of its type.
fn extremes(bench: &mut Bench<'_>, of: Of, sizes: [usize; 3]) {
    let ends = |dtype| if dtype == DType::I8 { [-128, 127] } else { [0, 255] };
    let kernel = plain(of, &Shape::scalar(), sizes);
    for left in ends(of.types[0]) {
        for right in ends(of.types[1]) {
            let all = |o: &Operand, x: i128| vec![Scalar::I(x); o.layout.shape.elements()];
            let values = [all(&kernel.a, left), all(&kernel.b, right)];
            let name = format!("matmul of {left} and {right}, {sizes:?}");
            bench.add(Case::with(name, Kernel::MatMul(kernel.clone()), &values));
        }
    }
}

/// Sums as floats, times a scale, plus a bias.
fn dequantised(bench: &mut Bench<'_>, of: Of, [m, k, n]: [usize; 3]) {
    let mut b = ExprBuilder::default();
    let sum = b.arg(DType::I32);
    let x = b.cast(sum, DType::F32);
    let (scale, bias) = (b.param(DType::F32), b.arg(DType::F32));
    let scaled = b.row(row("mul"), DType::F32, &[x, scale]);
    let result = b.row(row("add"), DType::F32, &[scaled, bias]);
    let dense = plain(of, &Shape::from(2), [m, k, n]);
    let out = with(&dense.batch, m, n);
    let kernel = MatMul {
        post: b.finish(result),
        params: vec![0.0125],
        inputs: vec![Operand::new(DType::F32, views::repeated(&out, &[0, 1]))],
        out: Operand::new(DType::F32, Layout::dense(out)),
        ..dense
    };
    bench.add(case(&kernel, "then a scale and a bias"));
}

fn with(batch: &Shape, m: usize, n: usize) -> Shape {
    batch.iter().copied().chain([m, n]).collect()
}

/// Dense operands.
fn plain(Of { types: [a, b, sums], precision }: Of, batch: &Shape, [m, k, n]: [usize; 3]) -> MatMul {
    let operand = |dtype, m, n| Operand::new(dtype, Layout::dense(with(batch, m, n)));
    MatMul {
        batch: batch.clone(),
        m,
        n,
        k,
        a: operand(a, m, k),
        b: operand(b, k, n),
        precision,
        post: Expr::identity(sums),
        params: vec![],
        inputs: vec![],
        out: operand(sums, m, n),
    }
}

/// A product of dense matrices.
pub(super) fn kernel(types: [DType; 3], sizes: [usize; 3]) -> Kernel {
    Kernel::MatMul(plain(Of::exact(types), &Shape::scalar(), sizes))
}

fn case(k: &MatMul, view: &str) -> Case {
    let (left, right) = (k.a.dtype, k.b.dtype);
    let types = if left == right { left.to_string() } else { format!("{left} by {right}") };
    let at = if k.precision == Precision::Highest { String::new() } else { format!(" at {}", k.precision) };
    Case::new(format!("matmul{at} {types} {} x {}x{}x{} {view}", k.batch, k.m, k.k, k.n), Kernel::MatMul(k.clone()))
}

/// Narrow operands that are read often are copied where words do not hold whole ones of a row.
const READ_OFTEN: [usize; 3] = [129, 19, 131];

fn looked_at(bench: &mut Bench<'_>, of: Of) {
    let narrow = (of.types[0].bytes() < 4).then_some(READ_OFTEN);
    for [m, k, n] in [[13, 37, 7], [1, 37, 19], [19, 37, 1], [33, 65, 17]].into_iter().chain(narrow) {
        let dense = plain(of, &Shape::scalar(), [m, k, n]);
        for (view, layout) in views::all([m, k]) {
            let kernel = MatMul { a: Operand::new(of.types[0], layout), ..dense.clone() };
            bench.add(case(&kernel, &format!("left {view}")));
        }
        for (view, layout) in views::all([k, n]) {
            let kernel = MatMul { b: Operand::new(of.types[1], layout), ..dense.clone() };
            bench.add(case(&kernel, &format!("right {view}")));
        }
        for (view, layout) in views::distinct([m, n]) {
            let kernel = MatMul { out: Operand::new(of.types[2], layout), ..dense.clone() };
            bench.add(case(&kernel, &format!("output {view}")));
        }
        if m == n || k == n {
            bench.add(case(&dense, "").aliased());
        }
    }
    let square = plain(of, &Shape::scalar(), [16, 16, 16]);
    bench.add(case(&square, "square").aliased());
    let across = MatMul { b: Operand::new(of.types[1], square.b.layout.permute(&[1, 0])), ..square };
    bench.add(case(&across, "times its transpose").aliased());
}

/// Batches of one and two axes, one side repeated, heads inside rows as attention has them.
fn batches(bench: &mut Bench<'_>, of: Of) {
    let narrow = (of.types[0].bytes() < 4).then_some((Shape::from([2, 3]), READ_OFTEN));
    let small = [(Shape::from(3), [5, 7, 11]), (Shape::from([2, 3]), [4, 17, 5]), (Shape::from([5, 1]), [1, 33, 9])];
    for (batch, sizes) in small.into_iter().chain(narrow) {
        let dense = plain(of, &batch, sizes);
        bench.add(case(&dense, ""));
        let axes: Vec<usize> = (0..batch.rank()).collect();
        let left = Operand::new(of.types[0], views::repeated(&dense.a.layout.shape, &axes));
        let right = Operand::new(of.types[1], views::repeated(&dense.b.layout.shape, &axes));
        bench.add(case(&MatMul { a: left.clone(), ..dense.clone() }, "left repeated"));
        bench.add(case(&MatMul { b: right.clone(), ..dense.clone() }, "right repeated"));
        bench.add(case(&MatMul { a: left, b: right, ..dense.clone() }, "both repeated"));
        for (view, layout) in views::all(dense.a.layout.shape.clone()) {
            bench.add(case(&MatMul { a: Operand::new(of.types[0], layout), ..dense.clone() }, &format!("left {view}")));
        }
    }
    heads(bench, of);
}

/// `q k^T` with q and k lying as [batch, position, head, feature], the result as well.
fn heads(bench: &mut Bench<'_>, of: Of) {
    let (b, h, t, d) = (2, 3, 5, 4);
    let stored = Layout::dense([b, t, h, d]);
    let mut kernel = plain(of, &Shape::from([b, h]), [t, d, t]);
    kernel.a.layout = stored.permute(&[0, 2, 1, 3]);
    kernel.b.layout = stored.permute(&[0, 2, 3, 1]);
    bench.add(case(&kernel, "heads"));
    let mut back = plain(of, &Shape::from([b, h]), [t, t, d]);
    back.b.layout = stored.permute(&[0, 2, 1, 3]);
    back.out.layout = stored.permute(&[0, 2, 1, 3]);
    bench.add(case(&back, "heads, joined again"));
}

fn last_places(bench: &mut Bench<'_>, of: Of, sizes: [usize; 3]) {
    for &special in data::special(of.types[0]) {
        for side in 0..2 {
            let name = format!("with {special} last on side {side}");
            bench.add(case(&plain(of, &Shape::scalar(), sizes), &name).last(side, special));
        }
    }
}

/// Bias and gelu, bias alone, bias and residual, with the bias repeated along rows.
fn epilogues(bench: &mut Bench<'_>, of: Of, [m, k, n]: [usize; 3]) {
    for batch in [Shape::scalar(), Shape::from(3)] {
        let dense = plain(of, &batch, [m, k, n]);
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
            bench.add(case(&kernel, &format!("then {names:?}")));
        }
    }
}
