//! Work that memory sets the pace of: maps, transposes, reductions.

use breakeven_device::Buffer;
use breakeven_ir::{DType, Expr, ExprBuilder, Fold, Kernel, Layout, Map, Operand, ReduceRows, Row, Shape};

use crate::stand::{Stand, Times, f32s, row, show};

pub fn all(stand: &Stand) {
    for n in [1 << 10, 1 << 20, 1 << 24, 1 << 26].map(|n: usize| n / stand.shrink) {
        maps(stand, n);
        chain(stand, n);
    }
    transpose(stand, 8192 / stand.shrink.isqrt());
    sums(stand, (1 << 26) / stand.shrink);
    sums(stand, (1 << 24) / stand.shrink);
}

fn maps(stand: &Stand, n: usize) {
    if !stand.wants(&format!("add gelu {n}")) {
        return;
    }
    let ((a, x), (b, y)) = (stand.filled(n), stand.filled(n));
    let (times, out) = stand.kernel(Kernel::Map(Map::dense(row("add"), vec![], n)), &[&a, &b]);
    let is_right = stand.read(&out).iter().zip(x.iter().zip(&y)).all(|(r, (x, y))| *r == x + y);
    show(&format!("add {n}"), times, 12.0 * n as f64, "TB/s", is_right);
    let (times, out) = stand.kernel(Kernel::Map(Map::dense(row("gelu"), vec![], n)), &[&a]);
    let is_right = stand.read(&out).iter().zip(&x).all(|(r, &x)| (f64::from(*r) - gelu(f64::from(x))).abs() < 1e-6);
    show(&format!("gelu {n}"), times, 8.0 * n as f64, "TB/s", is_right);
}

/// `gelu(a * b + c) * d` in one kernel.
fn chain(stand: &Stand, n: usize) {
    let name = format!("a*b+c, gelu, *d {n}");
    if !stand.wants(&name) {
        return;
    }
    let operands: Vec<(Buffer, Vec<f32>)> = (0..4).map(|_| stand.filled(n)).collect();
    let buffers: Vec<&Buffer> = operands.iter().map(|(buffer, _)| buffer).collect();
    let (times, out) = stand.kernel(Kernel::Map(Map::dense(scaled_gelu(), vec![], n)), &buffers);
    let want = |i: usize| scaled_gelu_of([0, 1, 2, 3].map(|t: usize| operands[t].1[i]));
    let is_right = stand.read(&out).iter().enumerate().all(|(i, r)| (f64::from(*r) - want(i)).abs() < 1e-6);
    show(&name, times, 20.0 * n as f64, "TB/s", is_right);
}

/// `gelu(a * b + c) * d`.
pub fn scaled_gelu() -> Expr {
    let mut e = ExprBuilder::default();
    let [a, b, c, d] = [0; 4].map(|_| e.arg(DType::F32));
    let named = |name: &str| Row::named(name).expect("a row");
    let product = e.row(named("mul"), DType::F32, &[a, b]);
    let sum = e.row(named("add"), DType::F32, &[product, c]);
    let gelu = e.row(named("gelu"), DType::F32, &[sum]);
    let scaled = e.row(named("mul"), DType::F32, &[gelu, d]);
    e.finish(scaled)
}

/// What that is of four numbers.
pub fn scaled_gelu_of(operands: [f32; 4]) -> f64 {
    let [a, b, c, d] = operands.map(f64::from);
    gelu(a * b + c) * d
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2))
}

/// erf by its series, for arguments below 1.
fn erf(x: f64) -> f64 {
    let terms = (0..20).scan(x, |power, n| {
        let term = *power / f64::from(2 * n + 1);
        *power *= -x * x / f64::from(n + 1);
        Some(term)
    });
    terms.sum::<f64>() * std::f64::consts::FRAC_2_SQRT_PI
}

fn transpose(stand: &Stand, side: usize) {
    if !stand.wants("transpose") {
        return;
    }
    let (a, x) = stand.filled(side * side);
    let kernel = Kernel::Map(Map {
        expr: Expr::identity(DType::F32),
        params: vec![],
        inputs: vec![Operand::new(DType::F32, Layout::dense([side, side]).permute(&[1, 0]))],
        out: f32s([side, side]),
    });
    let (times, out) = stand.kernel(kernel, &[&a]);
    let is_right = stand.read(&out).iter().enumerate().all(|(i, v)| *v == x[i % side * side + i / side]);
    show(&format!("transpose {side}"), times, 8.0 * (side * side) as f64, "TB/s", is_right);
}

fn reduction(stand: &Stand, fold: Fold, outer: usize, inner: usize, operand: Operand, a: &Buffer) -> (Times, Vec<f32>) {
    let kernel = Kernel::Reduce(ReduceRows {
        fold,
        outer: Shape::from(outer),
        inner: Shape::from(inner),
        pre: Expr::identity(DType::F32),
        post: Expr::identity(DType::F32),
        params: vec![],
        inputs: vec![operand],
        outs: vec![f32s(outer)],
    });
    let (times, out) = stand.kernel(kernel, &[a]);
    (times, stand.read(&out))
}

fn sums(stand: &Stand, n: usize) {
    if !stand.wants(&format!("sum max {n}")) {
        return;
    }
    let (a, x) = stand.filled(n);
    let bytes = 4.0 * n as f64;
    let near = |got: f32, terms: &mut dyn Iterator<Item = f32>| {
        let (want, size) = terms.fold((0.0, 0.0), |(sum, size), v| (sum + f64::from(v), size + f64::from(v).abs()));
        (f64::from(got) - want).abs() < 1e-6 * size
    };
    let (times, got) = reduction(stand, Fold::Sum, 1, n, f32s([1, n]), &a);
    show(&format!("sum {n}"), times, bytes, "TB/s", near(got[0], &mut x.iter().copied()));
    let rows = n / 1024;
    let (times, got) = reduction(stand, Fold::Max, rows, 1024, f32s([rows, 1024]), &a);
    let is_right = x.chunks(1024).zip(got).all(|(row, got)| row.iter().copied().fold(f32::MIN, f32::max) == got);
    show(&format!("max of rows {rows}x1024"), times, bytes, "TB/s", is_right);
    let across = Operand::new(DType::F32, Layout::dense([rows, 1024]).permute(&[1, 0]));
    let (times, got) = reduction(stand, Fold::Sum, 1024, rows, across, &a);
    let is_right = [0, 1, 1023].iter().all(|&c| near(got[c], &mut x.iter().skip(c).step_by(1024).copied()));
    show(&format!("sum of columns {rows}x1024"), times, bytes, "TB/s", is_right);
}
