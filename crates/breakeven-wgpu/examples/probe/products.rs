//! Matrix products and convolutions, which arithmetic sets the pace of.

use breakeven_device::Device;
use breakeven_ir::{ConvKernel, DType, Expr, Kernel, Layout, MatMul, Operand, Precision, Shape, Sliding};

use crate::stand::{Stand, f32s, show};

/// Sides that are not multiples of what a load brings: all of them, or one.
const ODD: [[usize; 3]; 12] = [
    [65, 4097, 67],
    [129, 129, 129],
    [257, 255, 257],
    [513, 511, 515],
    [1023, 1025, 1027],
    [2047, 2049, 2051],
    [4095, 4097, 2049],
    [4095, 4097, 4099],
    [4095, 4096, 4096],
    [4096, 4097, 4096],
    [4096, 4096, 4099],
    [2048, 385, 1537],
];

pub fn all(stand: &Stand) {
    let shapes = [
        [1000; 3],
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
        [16, 1024, 4096],
        [1023, 1025, 1027],
        [4095, 4097, 2049],
    ];
    let scale = if stand.shrink > 1 { 16 } else { 1 };
    for [m, k, n] in shapes.map(|s| s.map(|d: usize| d.div_ceil(scale))) {
        product(stand, 1, [m, k, n]);
    }
    for sizes in
        [[1024; 3], [2048; 3], [4096; 3], [2048, 384, 1536], [4096, 384, 384], [4096, 1536, 384], [1024, 8192, 256]]
    {
        half_product(stand, sizes.map(|d: usize| d.div_ceil(scale).next_multiple_of(8)), false);
    }
    half_product(stand, [4096usize.div_ceil(scale); 3], true);
    for sizes in ODD {
        half_product(stand, sizes.map(|d: usize| d.div_ceil(scale)), false);
    }
    half_product(stand, [4096, 4096, 4099].map(|d: usize| d.div_ceil(scale)), true);
    for batch in [96, 768] {
        product(stand, batch / scale, [128, 32, 128]);
        product(stand, batch / scale, [128, 128, 32]);
    }
    convolution(stand, [1, 64, 64], 56, (3, 1));
    convolution(stand, [32 / scale, 3, 64], 224, (7, 2));
    convolution(stand, [1, 3, 16], 512usize.div_ceil(scale), (3, 1));
    convolution(stand, [8, 3, 32], 224usize.div_ceil(scale), (3, 2));
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

/// A product of f16 that may be made by tensor cores, then one that may not; the right operand lies turned, or not.
fn half_product(stand: &Stand, sizes: [usize; 3], is_turned: bool) {
    let turned = if is_turned { " turned" } else { "" };
    let name = format!("matmul f16 {}x{}x{}{turned}", sizes[0], sizes[1], sizes[2]);
    if stand.wants(&name) {
        half_product_of(stand, &name, sizes, (is_turned, Precision::High));
        half_product_of(stand, &name, sizes, (is_turned, Precision::Highest));
    }
}

fn half_product_of(stand: &Stand, name: &str, [m, k, n]: [usize; 3], (is_turned, precision): (bool, Precision)) {
    let ((a, x), (b, y)) = (stand.filled_f16(m * k), stand.filled_f16(k * n));
    let half = |layout: Layout| Operand::new(DType::F16, layout);
    let right = if is_turned { Layout::dense([n, k]).permute(&[1, 0]) } else { Layout::dense([k, n]) };
    let at = |p: usize, column: usize| if is_turned { column * k + p } else { p * n + column };
    let kernel = Kernel::MatMul(MatMul {
        batch: Shape::scalar(),
        m,
        n,
        k,
        a: half(Layout::dense([m, k])),
        b: half(right),
        precision,
        post: Expr::identity(DType::F16),
        params: vec![],
        inputs: vec![],
        out: half(Layout::dense([m, n])),
    });
    print!("  {:<34}", stand.device.lowers(&kernel).unwrap_or("as at the highest precision"));
    let (times, out) = stand.kernel(kernel, &[&a, &b]);
    // The result is rounded to f16 once.
    let right = (0..64).map(|i| i * 104_729 % (m * n)).zip(stand.read_f16(&out, m * n, 104_729)).all(|(i, got)| {
        let (want, size) = sum((0..k).map(|p| f64::from(x[i / n * k + p]) * f64::from(y[at(p, i % n)])));
        (f64::from(got) - want).abs() <= want.abs() / 2048.0 + 1e-6 * size + 1e-7
    });
    show(name, times, 2.0 * (m * n * k) as f64, "TFLOP/s", right);
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
