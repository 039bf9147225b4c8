//! Times single kernels on the CPU device: best and lower quartile, outputs checked first, buffers reused.
//!
//! `cargo run --release -p breakeven-cpu --example bench [threads] [filter | tuned] [instruction set]`, or `cargo bench`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use breakeven_cpu::{CpuDevice, CpuOptions, Isa};
use breakeven_device::{
    Binding, Buffer, Device, HostBytes, Lane, MemoryKind, Prepared, ReadCell, Result, Segment, SegmentStep,
};
use breakeven_ir::{
    ConvKernel, DType, Expr, ExprBuilder, Fold, Kernel, Launch, Layout, Map, MatMul, Operand, Precision, ReduceRows,
    Row, RowWise, RowWiseKernel, Scalar, Shape, Sliding,
};

pub(crate) fn main() -> Result<()> {
    // Cargo tells a benchmark that it is one.
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let threads = words.next().and_then(|w| w.parse().ok());
    let filter = words.next().unwrap_or_default();
    let isa = words.next().and_then(|word| Isa::ALL.into_iter().find(|isa| isa.name() == word));
    let device = CpuDevice::new(CpuOptions { threads, isa, ..CpuOptions::default() })?;
    if filter == "tuned" {
        device.tune(16 << 20)?.iter().for_each(|(name, number)| println!("{name:24} {number:>11.4}"));
        return Ok(());
    }
    println!("{}; inputs and outputs are pooled buffers that were touched before", device.info().driver);
    println!("{:24} {:>11} {:>11} {:>9} {:>9}", "kernel", "best", "quartile", "GFLOP/s", "GB/s");
    for (name, kernel) in cases().into_iter().filter(|(name, _)| name.contains(&filter)) {
        let bench = Bench::new(&device, kernel)?;
        bench.check(&device);
        bench.report(&device, &name)?;
    }
    Ok(())
}

struct Bench {
    kernel: Kernel,
    prepared: Arc<dyn Prepared>,
    buffers: Vec<Buffer>,
    inputs: Vec<Vec<u8>>,
}

impl Bench {
    fn new(device: &CpuDevice, kernel: Kernel) -> Result<Bench> {
        let bytes = |o: &&Operand| -> Vec<u8> {
            let value = |i: u32| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 23) as f32 - 1.0;
            if o.dtype == DType::F64 {
                return (0..o.span_bytes() as u32 / 8).flat_map(|i| f64::from(value(i)).to_le_bytes()).collect();
            }
            (0..o.span_bytes() as u32 / 4).flat_map(|i| value(i).to_le_bytes()).collect()
        };
        let inputs: Vec<Vec<u8>> = kernel.inputs().iter().map(bytes).collect();
        let sizes = inputs.iter().map(|b| b.len() as u64).chain(kernel.outputs().into_iter().map(Operand::span_bytes));
        let buffers: Vec<Buffer> = sizes.map(|n| device.alloc(n, MemoryKind::Resident)).collect::<Result<_>>()?;
        let upload = |i: usize| SegmentStep::Upload { upload: i, slot: i };
        let uploads = inputs.iter().map(|b| HostBytes::from_vec(b.clone())).collect();
        let segment = Segment { steps: (0..inputs.len()).map(upload).collect() };
        let binding = Binding { buffers: buffers.clone(), uploads, reads: Vec::new(), ..Binding::default() };
        device.submit(&device.prepare(&segment)?, binding, Lane::CopyIn, &[])?;
        let launch = Launch {
            kernel: kernel.clone(),
            inputs: (0..inputs.len()).collect(),
            outputs: (inputs.len()..buffers.len()).collect(),
            workspace: None,
        };
        let prepared = device.prepare(&Segment { steps: vec![SegmentStep::Launch(Box::new(launch))] })?;
        Ok(Bench { kernel, prepared, buffers, inputs })
    }

    fn run(&self, device: &CpuDevice) -> Result<()> {
        let binding = Binding { buffers: self.buffers.clone(), ..Binding::default() };
        device.submit(&self.prepared, binding, Lane::Compute, &[]).map(drop)
    }

    /// Compares with the reference where that takes less than a few seconds.
    fn check(&self, device: &CpuDevice) {
        self.run(device).expect("it runs");
        if self.kernel.work().flops > 100_000_000 {
            return;
        }
        let out = self.kernel.outputs()[0];
        let mut want = vec![0; out.span_bytes() as usize];
        let inputs: Vec<&[u8]> = self.inputs.iter().map(Vec::as_slice).collect();
        self.kernel.reference(&inputs, &mut [&mut want]);
        let slot = self.inputs.len();
        let read = SegmentStep::Download { slot, bytes: out.span_bytes(), read: 0 };
        let cell = ReadCell::new();
        let binding = Binding { buffers: self.buffers.clone(), reads: vec![cell.clone()], ..Binding::default() };
        let prepared = device.prepare(&Segment { steps: vec![read] }).expect("a download");
        device.submit(&prepared, binding, Lane::CopyOut, &[]).expect("it downloads");
        let got = cell.take().expect("it is filled");
        for at in 0..out.span_bytes() as usize / out.dtype.bytes() {
            let value = |bytes: &[u8]| Scalar::load(out.dtype, bytes, at).to_f64();
            let (g, w) = (value(&got), value(&want));
            assert!((g - w).abs() <= 1e-4 * w.abs().max(1.0), "{at}: {g}, not {w}");
        }
    }

    fn report(&self, device: &CpuDevice, name: &str) -> Result<()> {
        let start = Instant::now();
        let mut times = Vec::new();
        while start.elapsed() < Duration::from_millis(300) || times.len() < 5 {
            let each = Instant::now();
            self.run(device)?;
            black_box(&self.buffers);
            times.push(each.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        let (best, quartile) = (times[0], times[times.len() / 4]);
        let work = self.kernel.work();
        let rate = |amount: u64| amount as f64 / best / 1e9;
        println!(
            "{name:24} {:>8.2} µs {:>8.2} µs {:>9.1} {:>9.1}",
            best * 1e6,
            quartile * 1e6,
            rate(work.flops),
            rate(work.bytes)
        );
        Ok(())
    }
}

fn row(name: &str) -> Expr {
    Expr::row(Row::named(name).expect("a row of the table"), DType::F32)
}

fn dense(shape: impl Into<Shape>) -> Operand {
    Operand::new(DType::F32, Layout::dense(shape))
}

fn cases() -> Vec<(String, Kernel)> {
    let mut all = Vec::new();
    for n in [1_000, 10_000, 100_000, 1_000_000, 16_000_000] {
        for name in ["add", "mul", "relu", "exp", "gelu", "tanh", "sin"] {
            all.push((format!("{name} {n}"), Kernel::Map(Map::dense(row(name), Vec::new(), [n]))));
        }
        all.push((format!("chain of 8 light {n}"), Kernel::Map(Map::dense(light_chain(), Vec::new(), [n]))));
        all.push((format!("sum {n}"), reduce(Fold::Sum, (), [n])));
        all.push((format!("max {n}"), reduce(Fold::Max, (), [n])));
        all.push((format!("dot {n}"), dot(n)));
    }
    for kind in [RowWise::Softmax, RowWise::LogSoftmax, RowWise::LayerNorm { epsilon: 1e-12 }] {
        for (rows, length) in [(1_000, 1_000), (4_096, 384), (12 * 32 * 128, 128)] {
            all.push((format!("{} {rows}x{length}", kind.name()), row_wise(kind, rows, length)));
        }
    }
    all.push(("sum rows 1000x1000".to_owned(), reduce(Fold::Sum, [1_000], [1_000])));
    all.push(("sum columns 1000x1000".to_owned(), columns(Fold::Sum, 1_000, 1_000)));
    all.push(("max rows 1000x1000".to_owned(), reduce(Fold::Max, [1_000], [1_000])));
    all.push(("argmax rows 1000x1000".to_owned(), reduce(Fold::ArgMax, [1_000], [1_000])));
    all.push(("bias 4096x384".to_owned(), bias(4_096, 384)));
    all.push(("transpose 1024x1024".to_owned(), transpose(1_024)));
    for n in [32, 64, 128, 256, 512, 1_024] {
        all.push((format!("gemm {n}"), product(1, n, n, n, Expr::identity(DType::F32))));
        all.push((format!("gemm f64 {n}"), doubles(n)));
    }
    for [a, b, sums] in [[DType::U8, DType::I8, DType::I32], [DType::I32; 3], [DType::I64; 3]] {
        for n in [256, 1_024] {
            all.push((format!("{a} by {b} {n}"), integers([n; 3], [a, b, sums])));
        }
    }
    all.push(("u8 by i8 4096x384x384".to_owned(), integers([4_096, 384, 384], [DType::U8, DType::I8, DType::I32])));
    all.push(("u8 by i8 1x2048x2048".to_owned(), integers([1, 2_048, 2_048], [DType::U8, DType::I8, DType::I32])));
    all.push(("gemm 4096x384x384 +gelu".to_owned(), product(1, 4_096, 384, 384, row("gelu"))));
    all.push(("gemm 48x 128x32x128".to_owned(), product(48, 128, 128, 32, Expr::identity(DType::F32))));
    all.push(("gemm 16x1536x384".to_owned(), product(1, 16, 1_536, 384, Expr::identity(DType::F32))));
    all.extend(products());
    for (name, shape) in CONVS {
        all.push((format!("conv {name}"), conv(*shape)));
    }
    // One row or one column, which a path for square products would take ten times as long for.
    for [m, k, n] in [[1, 12_544, 1_029], [1, 10_000, 10], [4_096, 4_096, 1], [1, 1 << 25, 1], [256, 65_536, 256]] {
        all.push((format!("gemm {m}x{k}x{n}"), product(1, m, n, k, Expr::identity(DType::F32))));
    }
    for n in [384, 2_048] {
        all.push((format!("matvec {n}"), product(1, n, 1, n, Expr::identity(DType::F32))));
        all.push((format!("vecmat {n}"), product(1, 1, n, n, Expr::identity(DType::F32))));
    }
    all
}

/// Many small ones, few rows, few columns, and long sums.
fn products() -> Vec<(String, Kernel)> {
    let shapes = [
        [384, 128, 128, 32],
        [128, 64, 64, 64],
        [12, 16, 16, 32],
        [1, 16, 384, 384],
        [1, 17, 4_095, 1_023],
        [1, 10_000, 10, 64],
        [1, 1, 1_029, 12_544],
        [1, 1, 10, 10_000],
        [1, 256, 256, 65_536],
        [1, 2_048, 2_048, 2_048],
    ];
    let one = |[count, m, n, k]: [usize; 4]| {
        (format!("gemm {count}x {m}x{n}x{k}"), product(count, m, n, k, Expr::identity(DType::F32)))
    };
    shapes.map(one).into()
}

fn light_chain() -> Expr {
    let mut b = ExprBuilder::default();
    let mut x = b.arg(DType::F32);
    for name in ["square", "neg", "abs", "relu", "square", "neg", "abs", "relu"] {
        x = b.row(Row::named(name).expect("a row of the table"), DType::F32, &[x]);
    }
    b.finish(x)
}

fn reduce(fold: Fold, outer: impl Into<Shape>, inner: impl Into<Shape>) -> Kernel {
    let (outer, inner) = (outer.into(), inner.into());
    let result = fold.dtype(DType::F32).expect("a fold of floats");
    let both: Shape = outer.iter().chain(inner.iter()).copied().collect();
    Kernel::Reduce(ReduceRows {
        fold,
        inputs: vec![dense(both)],
        post: Expr::identity(result),
        outs: vec![Operand::new(result, Layout::dense(outer.clone()))],
        outer,
        inner,
        pre: Expr::identity(DType::F32),
        params: Vec::new(),
    })
}

fn dot(n: usize) -> Kernel {
    let Kernel::Reduce(kernel) = reduce(Fold::Sum, (), [n]) else { unreachable!("a reduction") };
    Kernel::Reduce(ReduceRows { inputs: vec![dense([n]); 2], pre: row("mul"), ..kernel })
}

fn columns(fold: Fold, rows: usize, columns: usize) -> Kernel {
    let Kernel::Reduce(mut kernel) = reduce(fold, [columns], [rows]) else { unreachable!("a reduction") };
    kernel.inputs[0].layout = Layout::dense([rows, columns]).permute(&[1, 0]);
    Kernel::Reduce(kernel)
}

fn row_wise(kind: RowWise, rows: usize, length: usize) -> Kernel {
    Kernel::RowWise(RowWiseKernel {
        kind,
        outer: [rows].into(),
        length,
        pre: Expr::identity(DType::F32),
        post: Expr::identity(DType::F32),
        params: Vec::new(),
        inputs: vec![dense([rows, length])],
        out: dense([rows, length]),
    })
}

fn bias(rows: usize, length: usize) -> Kernel {
    let mut kernel = Map::dense(row("add"), Vec::new(), [rows, length]);
    kernel.inputs[1].layout = Layout::dense([length]).broadcast(&[rows, length].into()).expect("it broadcasts");
    Kernel::Map(kernel)
}

fn transpose(n: usize) -> Kernel {
    let mut kernel = Map::dense(Expr::identity(DType::F32), Vec::new(), [n, n]);
    kernel.inputs[0].layout = Layout::dense([n, n]).permute(&[1, 0]);
    Kernel::Map(kernel)
}

fn integers([m, n, k]: [usize; 3], [a, b, sums]: [DType; 3]) -> Kernel {
    let Kernel::MatMul(mut kernel) = product(1, m, n, k, Expr::identity(sums)) else { unreachable!("a product") };
    (kernel.a.dtype, kernel.b.dtype, kernel.out.dtype) = (a, b, sums);
    Kernel::MatMul(kernel)
}

/// Images, groups, output and input channels of each, side, side of a window, stride, zeros around.
const CONVS: &[(&str, [usize; 8])] = &[
    ("16x64x64 to 32, 3x3", [1, 1, 32, 16, 64, 3, 1, 1]),
    ("64x56x56 to 64, 3x3", [1, 1, 64, 64, 56, 3, 1, 1]),
    ("32x3x224x224, 7x7/2", [32, 1, 64, 3, 224, 7, 2, 3]),
    ("dw 64x56x56, 3x3", [1, 64, 1, 1, 56, 3, 1, 1]),
    ("dw 128x28x28, 3x3", [1, 128, 1, 1, 28, 3, 1, 1]),
    ("dw 128x28x28, 3x3/2", [1, 128, 1, 1, 28, 3, 2, 1]),
    ("dw 96x56x56, 5x5", [1, 96, 1, 1, 56, 5, 1, 2]),
    ("64x56x56 to 64, 1x1", [1, 1, 64, 64, 56, 1, 1, 0]),
    ("256x14x14 to 256, 1x1", [1, 1, 256, 256, 14, 1, 1, 0]),
    ("512x7x7 to 512, 3x3", [1, 1, 512, 512, 7, 3, 1, 1]),
    ("128x28x28 to 128, 3x3/2", [1, 1, 128, 128, 28, 3, 2, 1]),
    ("8x64x56x56 to 64, 3x3", [8, 1, 64, 64, 56, 3, 1, 1]),
    ("58x28x28 to 58, 1x1", [1, 1, 58, 58, 28, 1, 1, 0]),
    ("3x224x224 to 24, 3x3/2", [1, 1, 24, 3, 224, 3, 2, 1]),
    ("464x7x7 to 1024, 1x1", [1, 1, 1024, 464, 7, 1, 1, 0]),
];

fn conv([n, groups, outs, channels, side, window, stride, zeros]: [usize; 8]) -> Kernel {
    let count = (side + 2 * zeros - window) / stride + 1;
    let along = Sliding { stride, dilation: 1, before: zeros, count };
    Kernel::Conv(ConvKernel {
        along: [along; 2].into_iter().collect(),
        x: dense([n, groups, channels, side, side]),
        weight: dense([groups, outs, channels, window, window]),
        post: Expr::identity(DType::F32),
        params: Vec::new(),
        inputs: Vec::new(),
        out: dense([n, groups, outs, count, count]),
    })
}

/// A square product of f64.
fn doubles(n: usize) -> Kernel {
    let Kernel::MatMul(mut kernel) = product(1, n, n, n, Expr::identity(DType::F64)) else { unreachable!("a product") };
    (kernel.a.dtype, kernel.b.dtype, kernel.out.dtype) = (DType::F64, DType::F64, DType::F64);
    Kernel::MatMul(kernel)
}

fn product(batch: usize, m: usize, n: usize, k: usize, post: Expr) -> Kernel {
    Kernel::MatMul(MatMul {
        batch: [batch].into(),
        m,
        n,
        k,
        a: dense([batch, m, k]),
        b: dense([batch, k, n]),
        precision: Precision::Highest,
        post,
        params: Vec::new(),
        inputs: Vec::new(),
        out: dense([batch, m, n]),
    })
}
