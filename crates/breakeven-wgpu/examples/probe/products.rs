//! Matrix products and convolutions, which arithmetic sets the pace of.

use breakeven_ir::{ConvKernel, DType, Expr, Kernel, MatMul, Operand, Precision, Shape, Sliding};

use crate::stand::{Stand, f32s, show};

pub fn all(stand: &Stand) {
    let shapes = [
        [1024; 3],
        [2048; 3],
        [4096; 3],
        [1, 4096, 4096],
        [32, 1024, 4096],
        [128, 384, 384],
        [2048, 384, 1536],
        [2048, 1536, 384],
        [4096, 384, 384],
        [4096, 1536, 384],
        [16, 384, 1536],
        [1023, 1025, 1027],
        [4095, 4097, 2049],
    ];
    let scale = if stand.shrink > 1 { 16 } else { 1 };
    for [m, k, n] in shapes.map(|s| s.map(|d: usize| d.div_ceil(scale))) {
        product(stand, 1, [m, k, n]);
    }
    for batch in [96, 768] {
        product(stand, batch / scale, [128, 32, 128]);
        product(stand, batch / scale, [128, 128, 32]);
    }
    convolution(stand, [1, 64, 64], 56, (3, 1));
    convolution(stand, [32 / scale, 3, 64], 224, (7, 2));
}

/// Value `i` of the result, to be compared in f64, and the sum of its terms' magnitudes.
type Sum<'a> = &'a dyn Fn(usize) -> (f64, f64);

/// Whether 64 values spread over the result are right.
fn is_right(got: &[f32], want: Sum<'_>) -> bool {
    (0..64).map(|i| i * 104_729 % got.len()).all(|i| {
        let (sum, size) = want(i);
        (f64::from(got[i]) - sum).abs() <= 1e-6 * size
    })
}

fn sum(terms: impl Iterator<Item = f64>) -> (f64, f64) {
    terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
}

fn product(stand: &Stand, batch: usize, [m, k, n]: [usize; 3]) {
    let name = if batch == 1 { format!("matmul {m}x{k}x{n}") } else { format!("matmul {batch} of {m}x{k}x{n}") };
    if !stand.wants(&name) {
        return;
    }
    let ((a, x), (b, y)) = (stand.filled(batch * m * k), stand.filled(batch * k * n));
    let kernel = Kernel::MatMul(MatMul {
        batch: Shape::from(batch),
        m,
        n,
        k,
        a: f32s([batch, m, k]),
        b: f32s([batch, k, n]),
        precision: Precision::Highest,
        post: Expr::identity(DType::F32),
        params: vec![],
        inputs: vec![],
        out: f32s([batch, m, n]),
    });
    let (times, out) = stand.kernel(kernel, &[&a, &b]);
    let right = is_right(&stand.read(&out), &|i| {
        let (o, row, column) = (i / (m * n), i / n % m, i % n);
        sum((0..k).map(|p| f64::from(x[(o * m + row) * k + p]) * f64::from(y[(o * k + p) * n + column])))
    });
    show(&name, times, 2.0 * (batch * m * n * k) as f64, "TFLOP/s", right);
}

/// A square filter over `images` of `channels`, padded so that stride 1 keeps the extents.
fn convolution(stand: &Stand, [images, channels, outs]: [usize; 3], side: usize, (filter, stride): (usize, usize)) {
    let name = format!("conv {images}x{channels}x{side}x{side} {filter}x{filter}/{stride} to {outs}");
    if !stand.wants(&name) {
        return;
    }
    let (before, count) = (filter / 2, side.div_ceil(stride));
    let ((a, x), (b, y)) =
        (stand.filled(images * channels * side * side), stand.filled(outs * channels * filter * filter));
    let operand = |shape: [usize; 5]| -> Operand { f32s(shape) };
    let kernel = Kernel::Conv(ConvKernel {
        along: [Sliding { stride, dilation: 1, before, count }; 2].into_iter().collect(),
        x: operand([images, 1, channels, side, side]),
        weight: operand([1, outs, channels, filter, filter]),
        post: Expr::identity(DType::F32),
        params: vec![],
        inputs: vec![],
        out: operand([images, 1, outs, count, count]),
    });
    let (times, out) = stand.kernel(kernel, &[&a, &b]);
    let right = is_right(&stand.read(&out), &|i| {
        let (image, o, row, column) =
            (i / (outs * count * count), i / (count * count) % outs, i / count % count, i % count);
        let terms = (0..channels * filter * filter).filter_map(|t| {
            let (c, u, v) = (t / (filter * filter), t / filter % filter, t % filter);
            let (h, w) = ((row * stride + u).checked_sub(before)?, (column * stride + v).checked_sub(before)?);
            let seen = h < side && w < side;
            let weight = f64::from(y[o * channels * filter * filter + t]);
            seen.then(|| f64::from(x[((image * channels + c) * side + h) * side + w]) * weight)
        });
        sum(terms)
    });
    let terms = channels * filter * filter;
    show(&name, times, 2.0 * (images * outs * count * count * terms) as f64, "TFLOP/s", right);
}
