//! What is run to measure each class of kernels: one shape that is bound by arithmetic, one that is bound by memory, and usual ones
//! between these.

use breakeven_ir::{
    AttentionKernel, Class, Combine, ConvKernel, DType, Expr, ExprBuilder, Fold, Gather, Kernel, Layout, Map, MatMul,
    Operand, Precision, ReduceRows, Row, RowWise, RowWiseKernel, ScanRows, Scatter, Shape, Sliding, SortRows,
};

/// A class and the kernels that measure it.
pub(super) struct Probe {
    pub class: Class,
    /// Sizes, x4 each.
    pub sizes: &'static [usize],
    pub usual: Families,
    /// Of one row that is as long as there are elements, for classes that work on rows.
    pub one_row: Option<Families>,
    /// What it takes as long as on devices that make no lower products of it.
    pub like: Option<Class>,
}

/// Kernels by size: those that do much arithmetic for their bytes, and those that do little.
#[derive(Clone, Copy)]
pub(super) struct Families {
    pub math: fn(usize) -> Kernel,
    /// None where there is but one way.
    pub memory: Option<fn(usize) -> Kernel>,
    /// Those that do more than the latter and less than the former.
    pub between: &'static [fn(usize) -> Kernel],
}

impl Families {
    /// All of them.
    pub fn all(self) -> impl Iterator<Item = fn(usize) -> Kernel> {
        [Some(self.math), self.memory].into_iter().flatten().chain(self.between.iter().copied())
    }
}

/// One that does much arithmetic and one that does little.
const fn two(math: fn(usize) -> Kernel, memory: fn(usize) -> Kernel) -> Families {
    Families { memory: Some(memory), ..one(math) }
}

const fn one(of: fn(usize) -> Kernel) -> Families {
    Families { math: of, memory: None, between: &[] }
}

/// Both, and others between them.
const fn several(between: &'static [fn(usize) -> Kernel], ends: Families) -> Families {
    Families { between, ..ends }
}

const ELEMENTS: &[usize] =
    &[1 << 4, 1 << 6, 1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26];

/// Sides of matrices, x8 in arithmetic each.
const SIDES: &[usize] = &[2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

/// Lengths of a single row: few, since kernels of their own are compiled for many of them.
pub(super) const LENGTHS: &[usize] = &[1 << 4, 1 << 8, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24];

const fn probe(class: Class, sizes: &'static [usize], usual: Families) -> Probe {
    Probe { class, sizes, usual, one_row: None, like: None }
}

const fn of_rows(class: Class, usual: Families, one_row: Families) -> Probe {
    Probe { one_row: Some(one_row), ..probe(class, ELEMENTS, usual) }
}

pub(super) const PROBES: &[Probe] = &[
    probe(Class::Map, ELEMENTS, several(&[light_steps, gelu], two(gelus, add))),
    of_rows(
        Class::Reduce,
        two(|n| reduce(sides(n), heavy()), |n| reduce(sides(n), light())),
        two(|n| reduce((1, n), heavy()), |n| reduce((1, n), light())),
    ),
    of_rows(Class::Scan, one(|n| running_sum(sides(n))), one(|n| running_sum((1, n)))),
    of_rows(
        Class::RowWise,
        two(|n| row_wise(sides(n), RowWise::Softmax), |n| row_wise(sides(n), NORM)),
        two(|n| row_wise((1, n), RowWise::Softmax), |n| row_wise((1, n), NORM)),
    ),
    probe(Class::MatMul, SIDES, two(square, thin)),
    probe(Class::MatMulBf16, SIDES, two(square_of_bf16, thin_of_bf16)),
    Probe { like: Some(Class::MatMul), ..probe(Class::MatMulF16, SIDES, two(square_of_f16, thin_of_f16)) },
    probe(Class::MatMulInt, SIDES, two(square_of_bytes, thin_of_bytes)),
    probe(Class::Conv, &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512], several(&[first_layer], two(images, depthwise))),
    probe(Class::Attention, &[16, 64, 256, 1024, 4096], two(heads, decoding)),
    // Rows of four are hardly more than copied.
    of_rows(Class::Sort, two(|n| sorted(sides(n)), |n| sorted((n / 4, 4))), one(|n| sorted((1, n)))),
    probe(Class::Gather, ELEMENTS, one(gather)),
    probe(Class::Scatter, ELEMENTS, one(scatter)),
];

/// The least a launch can do.
pub(super) fn smallest() -> Kernel {
    add(16)
}

fn dense(shape: &[usize]) -> Operand {
    Operand::new(DType::F32, Layout::dense(shape))
}

fn row(name: &str) -> Row {
    Row::named(name).expect("the table has the usual rows")
}

fn add(n: usize) -> Kernel {
    Kernel::Map(Map::dense(Expr::row(row("add"), DType::F32), vec![], n))
}

/// Four gelus in a row: much arithmetic for few bytes.
fn heavy() -> Expr {
    gelus_in_a_row(4)
}

fn gelus_in_a_row(times: usize) -> Expr {
    let mut b = ExprBuilder::default();
    let mut x = b.arg(DType::F32);
    for _ in 0..times {
        x = b.row(row("gelu"), DType::F32, &[x]);
    }
    b.finish(x)
}

fn gelus(n: usize) -> Kernel {
    Kernel::Map(Map::dense(heavy(), vec![], n))
}

/// A usual row with a transcendental.
fn gelu(n: usize) -> Kernel {
    Kernel::Map(Map::dense(gelus_in_a_row(1), vec![], n))
}

/// A chain of rows that are one instruction each, which is less arithmetic than one transcendental.
fn light_steps(n: usize) -> Kernel {
    let mut b = ExprBuilder::default();
    let (mut x, y) = (b.arg(DType::F32), b.arg(DType::F32));
    for name in ["add", "mul", "maximum", "sub"].repeat(4) {
        x = b.row(row(name), DType::F32, &[x, y]);
    }
    Kernel::Map(Map::dense(b.finish(x), vec![], n))
}

/// Rows as long as columns are many, as far as the size allows.
fn sides(n: usize) -> (usize, usize) {
    let rows = 1 << (n.ilog2() / 2);
    (rows, n / rows)
}

fn light() -> Expr {
    Expr::identity(DType::F32)
}

fn reduce((rows, columns): (usize, usize), pre: Expr) -> Kernel {
    Kernel::Reduce(ReduceRows {
        fold: Fold::Sum,
        outer: Shape::from(rows),
        inner: Shape::from(columns),
        pre,
        post: Expr::identity(DType::F32),
        params: vec![],
        inputs: vec![dense(&[rows, columns])],
        outs: vec![dense(&[rows])],
    })
}

fn running_sum((rows, length): (usize, usize)) -> Kernel {
    let input = dense(&[rows, length]);
    Kernel::Scan(ScanRows {
        fold: Fold::Sum,
        outer: Shape::from(rows),
        length,
        exclusive: false,
        out: input.clone(),
        input,
    })
}

const NORM: RowWise = RowWise::LayerNorm { epsilon: 1e-5 };

fn row_wise((rows, length): (usize, usize), kind: RowWise) -> Kernel {
    Kernel::RowWise(RowWiseKernel {
        kind,
        outer: Shape::from(rows),
        length,
        pre: Expr::identity(DType::F32),
        post: Expr::identity(DType::F32),
        params: vec![],
        inputs: vec![dense(&[rows, length])],
        out: dense(&[rows, length]),
    })
}

fn sorted((rows, length): (usize, usize)) -> Kernel {
    let indices = Operand::new(DType::I64, Layout::dense([rows, length]));
    Kernel::Sort(SortRows {
        outer: Shape::from(rows),
        length,
        keep: length,
        descending: false,
        input: dense(&[rows, length]),
        outs: [dense(&[rows, length]), indices],
    })
}

fn matmul([m, k, n]: [usize; 3], (dtype, precision): (DType, Precision), sums: DType) -> Kernel {
    let dense = |dtype: DType, shape: [usize; 2]| Operand::new(dtype, Layout::dense(shape));
    Kernel::MatMul(MatMul {
        batch: Shape::scalar(),
        m,
        n,
        k,
        a: dense(dtype, [m, k]),
        b: dense(dtype, [k, n]),
        precision,
        post: Expr::identity(sums),
        params: vec![],
        inputs: vec![],
        out: dense(sums, [m, n]),
    })
}

pub(super) fn square(n: usize) -> Kernel {
    matmul([n, n, n], (DType::F32, Precision::Highest), DType::F32)
}

/// A vector times a matrix: every element of the matrix is used once.
fn thin(n: usize) -> Kernel {
    matmul([1, n, n], (DType::F32, Precision::Highest), DType::F32)
}

fn square_of_bf16(n: usize) -> Kernel {
    matmul([n, n, n], (DType::F32, Precision::Medium), DType::F32)
}

fn thin_of_bf16(n: usize) -> Kernel {
    matmul([1, n, n], (DType::F32, Precision::Medium), DType::F32)
}

fn square_of_f16(n: usize) -> Kernel {
    matmul([n, n, n], (DType::F16, Precision::High), DType::F16)
}

fn thin_of_f16(n: usize) -> Kernel {
    matmul([1, n, n], (DType::F16, Precision::High), DType::F16)
}

fn square_of_bytes(n: usize) -> Kernel {
    matmul([n, n, n], (DType::U8, Precision::Highest), DType::I32)
}

fn thin_of_bytes(n: usize) -> Kernel {
    matmul([1, n, n], (DType::U8, Precision::Highest), DType::I32)
}

/// Windows of 3 x 3, zeros around images of `side` by `side`: groups, output channels and input channels of each.
pub(super) fn conv([groups, outs, channels]: [usize; 3], side: usize) -> Kernel {
    let along = Sliding { stride: 1, dilation: 1, before: 1, count: side };
    Kernel::Conv(ConvKernel {
        along: [along; 2].into_iter().collect(),
        x: dense(&[1, groups, channels, side, side]),
        weight: dense(&[groups, outs, channels, 3, 3]),
        post: Expr::identity(DType::F32),
        params: vec![],
        inputs: vec![],
        out: dense(&[1, groups, outs, side, side]),
    })
}

fn images(n: usize) -> Kernel {
    conv([1, n, n], 16)
}

/// Eight heads over a sequence of `n`.
fn heads(n: usize) -> Kernel {
    attention([8, n, n])
}

/// One query over `n` keys in each of eight heads: every key is used once.
fn decoding(n: usize) -> Kernel {
    attention([8, 1, n])
}

fn attention([batch, queries, keys]: [usize; 3]) -> Kernel {
    let width = 64;
    let (q, k) = (dense(&[batch, queries, width]), dense(&[batch, keys, width]));
    let (v, out) = (k.clone(), q.clone());
    Kernel::Attention(AttentionKernel { scale: 0.125, seen: None, q, k, v, bias: None, out })
}

/// Pictures of three colours to 16 channels: sums of few terms, whatever the size.
fn first_layer(n: usize) -> Kernel {
    conv([1, 16, 3], 4 * n)
}

/// Every channel for itself: hardly more arithmetic than bytes. From 8 KiB on, and soon as many bytes as `images` have at most.
fn depthwise(n: usize) -> Kernel {
    conv([n.max(n * n / 8), 1, 1], 32)
}

/// Rows of 16, all from one table.
fn gather(n: usize) -> Kernel {
    let rows = n / 16;
    Kernel::Gather(Gather {
        axis: 0,
        source: dense(&[rows, 16]),
        index: Operand::new(DType::I64, Layout::dense(rows)),
        out: dense(&[rows, 16]),
    })
}

/// Rows of 16 added to one table.
fn scatter(n: usize) -> Kernel {
    let rows = n / 16;
    let turned = || Operand::new(DType::F32, Layout::dense([rows, 16]).permute(&[1, 0]));
    let index = Layout::dense([1, rows]).broadcast(&[16, rows].into()).expect("extents of 1 broadcast");
    Kernel::Scatter(Scatter {
        combine: Combine::Add,
        outer: Shape::from(16),
        source: turned(),
        index: Operand::new(DType::I32, index),
        updates: turned(),
        out: turned(),
    })
}
