//! Attention: as one kernel, and as the products and the softmax that it is made of.

use breakeven_ir::{
    AttentionKernel, DType, Expr, ExprBuilder, Kernel, Launch, Layout, MatMul, Operand, Precision, Row, RowWise,
    RowWiseKernel, Shape,
};

use crate::stand::{Stand, f32s, show};

pub fn all(stand: &Stand) {
    let scale = if stand.shrink > 1 { 8 } else { 1 };
    for [heads, length, width] in [[8, 1024, 64], [384, 128, 32]] {
        attention(stand, [heads / scale, length, width]);
    }
}

fn attention(stand: &Stand, [heads, length, width]: [usize; 3]) {
    let name = format!("attention {heads}x{length}x{width}");
    if !stand.wants(&name) && !stand.wants(&composed_name(&name)) {
        return;
    }
    let elements = heads * length * width;
    let [(q, x), (k, y), (v, z)] = [0; 3].map(|_| stand.filled(elements));
    // Scores that differ by several units, as those of a model do.
    let (over, scale) = (|| f32s([heads, length, width]), 4.0);
    let fused = AttentionKernel { scale, seen: None, q: over(), k: over(), v: over(), bias: None, out: over() };
    let flops = 4.0 * (elements * length) as f64;
    let right = |got: &[f32]| is_right(got, [&x, &y, &z], [length, width], scale);
    let (times, out) = stand.kernel(Kernel::Attention(fused), &[&q, &k, &v]);
    show(&name, times, flops, "TFLOP/s", right(&stand.read(&out)));
    let out = stand.buffer(elements);
    let scores = [0; 2].map(|_| stand.buffer(heads * length * length));
    let [first, second] = scores;
    let times = stand.launches(composed([heads, length, width], scale), vec![q, k, v, first, second, out.clone()]);
    show(&composed_name(&name), times, flops, "TFLOP/s", right(&stand.read(&out)));
}

fn composed_name(name: &str) -> String {
    name.replace("attention", "attention composed")
}

/// Whether some rows of the result are right.
fn is_right(got: &[f32], [q, k, v]: [&[f32]; 3], [length, width]: [usize; 2], scale: f64) -> bool {
    let rows = got.len() / width;
    [0, 1, rows / 3, rows / 2 + 7, rows - 1].iter().all(|&row| {
        let first = row / length * length;
        let of = |all: &[f32], row: usize, i: usize| f64::from(all[row * width + i]);
        let score = |j: usize| scale * (0..width).map(|p| of(q, row, p) * of(k, first + j, p)).sum::<f64>();
        let scores: Vec<f64> = (0..length).map(score).collect();
        let most = scores.iter().copied().fold(f64::MIN, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
        let total: f64 = weights.iter().sum();
        (0..width).all(|i| {
            let terms = || weights.iter().enumerate().map(|(j, weight)| weight / total * of(v, first + j, i));
            let (want, size) = terms().fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
            (f64::from(got[row * width + i]) - want).abs() <= 1e-5 * size
        })
    })
}

/// Scaled scores, their softmax, and the products of that with the values.
fn composed([heads, length, width]: [usize; 3], scale: f64) -> Vec<Launch> {
    let (rows, scores) = (|| f32s([heads, length, width]), || f32s([heads, length, length]));
    let turned = Operand::new(DType::F32, Layout::dense([heads, length, width]).permute(&[0, 2, 1]));
    let mut e = ExprBuilder::default();
    let (product, factor) = (e.arg(DType::F32), e.param(DType::F32));
    let scaled = e.row(Row::named("mul").expect("a row"), DType::F32, &[product, factor]);
    let identity = || Expr::identity(DType::F32);
    let product = |[a, b]: [Operand; 2], (post, params): (Expr, Vec<f64>), out: Operand| {
        let [m, k] = [a.layout.shape[1], a.layout.shape[2]];
        let (n, batch, precision) = (b.layout.shape[2], Shape::from(heads), Precision::Highest);
        Kernel::MatMul(MatMul { batch, m, n, k, a, b, precision, post, params, inputs: vec![], out })
    };
    let softmax = Kernel::RowWise(RowWiseKernel {
        kind: RowWise::Softmax,
        outer: Shape::from([heads, length]),
        length,
        pre: identity(),
        post: identity(),
        params: vec![],
        inputs: vec![scores()],
        out: scores(),
    });
    let launch =
        |kernel, inputs: &[usize], out| Launch { kernel, inputs: inputs.to_vec(), outputs: vec![out], workspace: None };
    vec![
        launch(product([rows(), turned], (e.finish(scaled), vec![scale]), scores()), &[0, 1], 3),
        launch(softmax, &[3], 4),
        launch(product([scores(), rows()], (identity(), vec![]), rows()), &[4, 2], 5),
    ]
}
