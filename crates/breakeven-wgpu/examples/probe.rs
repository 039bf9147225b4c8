//! Lists adapters, asks them the self-test, and measures what decides whether a GPU pays.
//!
//! `cargo run --release -p breakeven-wgpu --example probe -- [--adapter N] [--small] [--webgpu]`

use std::sync::Arc;
use std::time::{Duration, Instant};

use breakeven_device::{
    Backend, Binding, Buffer, Deadline, Device, HostBytes, Lane, MemoryKind, Prepared, ReadCell, Segment, SegmentStep,
};
use breakeven_ir::{
    DType, Expr, Fold, Kernel, Launch, Layout, Map, MatMul, Operand, Precision, ReduceRows, Row, RowWise,
    RowWiseKernel, Shape,
};
use breakeven_wgpu::{Limits, WgpuBackend, WgpuDevice, WgpuOptions, self_test};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let flag = |name: &str| args.iter().any(|a| a == name);
    let chosen = args.iter().position(|a| a == "--adapter").and_then(|i| args.get(i + 1)?.parse::<usize>().ok());
    let limits = if flag("--webgpu") { Limits::WebGpuDefault } else { Limits::Adapter };
    let start = Instant::now();
    let backend = WgpuBackend::new(WgpuOptions { limits, ..WgpuOptions::default() });
    println!("found in {:?}", start.elapsed());
    for (i, info) in backend.list().iter().enumerate() {
        println!(
            "{i}: {} ({:?}, {}, {}, {:?}) {:?}",
            info.name, info.kind, info.backend, info.driver, info.address, info.unusable
        );
    }
    let Some(index) = chosen else { return };
    let start = Instant::now();
    let device = match backend.open_device(index) {
        Ok(device) => device,
        Err(e) => return println!("{e}"),
    };
    println!("opened in {:?}\n{:?}", start.elapsed(), device.caps());
    for verdict in self_test(&device) {
        println!("{}: {}", verdict.failure.as_deref().unwrap_or("ok"), verdict.name);
    }
    let probe = Probe { device, shrink: if flag("--small") { 64 } else { 1 } };
    probe.elementwise();
    probe.sums();
    probe.rows();
    probe.products();
    probe.batches();
    probe.link();
    println!("{:?}\n{:?}", probe.device.counters(), probe.device.memory());
}

struct Probe {
    device: WgpuDevice,
    shrink: usize,
}

fn f32s(shape: impl Into<Shape>) -> Operand {
    Operand::new(DType::F32, Layout::dense(shape))
}

fn long() -> Deadline {
    Deadline::after(Duration::from_mins(2))
}

fn value(i: usize) -> f32 {
    ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32 - 0.5
}

fn show(name: &str, (wall, kernel): (f64, f64), work: f64, unit: &str, right: bool) {
    println!(
        "  {name:<28} wall {:>10.1} us  kernel {:>10.1} us  {:>8.2} {unit}  {}",
        wall * 1e6,
        kernel * 1e6,
        work / kernel / 1e12,
        if right { "right" } else { "WRONG" }
    );
}

impl Probe {
    fn buffer(&self, elements: usize) -> Buffer {
        self.device.alloc(4 * elements as u64, MemoryKind::Resident).expect("there is memory")
    }

    fn filled(&self, elements: usize) -> (Buffer, Vec<f32>) {
        let values: Vec<f32> = (0..elements).map(value).collect();
        let buffer = self.buffer(elements);
        let work = self.prepare(vec![SegmentStep::Upload { upload: 0, slot: 0 }]);
        let uploads = vec![HostBytes::from_vec(values.clone())];
        self.submit(&work, Binding { buffers: vec![buffer.clone()], uploads, reads: vec![] });
        (buffer, values)
    }

    fn read(&self, buffer: &Buffer) -> Vec<f32> {
        let work = self.prepare(vec![SegmentStep::Download { slot: 0, bytes: buffer.bytes(), read: 0 }]);
        let read = ReadCell::new();
        self.submit(&work, Binding { buffers: vec![buffer.clone()], uploads: vec![], reads: vec![read.clone()] });
        read.take().expect("it was read").elements::<f32>().to_vec()
    }

    fn prepare(&self, steps: Vec<SegmentStep>) -> Arc<dyn Prepared> {
        self.device.prepare(&Segment { steps }).expect("it compiles")
    }

    /// Wall and kernel time of one submission.
    fn submit(&self, work: &Arc<dyn Prepared>, binding: Binding) -> (f64, f64) {
        let start = Instant::now();
        let ticket = self.device.submit(work, binding, Lane::Compute, &[]).expect("it is submitted");
        let timing = self.device.wait(ticket, long()).expect("it ends");
        (start.elapsed().as_secs_f64(), timing.kernel.unwrap_or_default().as_secs_f64())
    }

    /// Best wall and kernel time of several submissions.
    fn best(&self, work: &Arc<dyn Prepared>, binding: &Binding) -> (f64, f64) {
        let runs: Vec<(f64, f64)> = (0..12).map(|_| self.submit(work, binding.clone())).collect();
        let least = |f: fn(&(f64, f64)) -> f64| runs.iter().map(f).filter(|t| *t > 0.0).fold(f64::INFINITY, f64::min);
        (least(|r| r.0), least(|r| r.1))
    }

    /// Runs `kernel`; gives its times and its first output.
    fn kernel(&self, kernel: Kernel, inputs: &[&Buffer]) -> ((f64, f64), Buffer) {
        let out = self.buffer(kernel.outputs()[0].layout.shape.elements());
        let launch =
            Launch { kernel, inputs: (0..inputs.len()).collect(), outputs: vec![inputs.len()], workspace: None };
        let start = Instant::now();
        let work = self.prepare(vec![SegmentStep::Launch(Box::new(launch))]);
        let compiled = start.elapsed();
        let buffers = inputs.iter().map(|&b| b.clone()).chain([out.clone()]).collect();
        let times = self.best(&work, &Binding { buffers, ..Binding::default() });
        print!("  compiled in {:>7.1} ms", compiled.as_secs_f64() * 1e3);
        (times, out)
    }

    fn elementwise(&self) {
        let row = |name| Expr::row(Row::named(name).expect("a row"), DType::F32);
        for n in [1 << 10, 1 << 20, 1 << 24, 1 << 26].map(|n: usize| n / self.shrink) {
            let ((a, x), (b, y)) = (self.filled(n), self.filled(n));
            let (times, out) = self.kernel(Kernel::Map(Map::dense(row("add"), vec![], n)), &[&a, &b]);
            let right = self.read(&out).iter().zip(x.iter().zip(&y)).all(|(r, (x, y))| *r == x + y);
            show(&format!("add {n}"), times, 12.0 * n as f64, "TB/s", right);
            let (times, _) = self.kernel(Kernel::Map(Map::dense(row("gelu"), vec![], n)), &[&a]);
            show(&format!("gelu {n}"), times, 8.0 * n as f64, "TB/s", true);
        }
        let side = 8192 / (self.shrink as f64).sqrt() as usize;
        let (a, x) = self.filled(side * side);
        let kernel = Kernel::Map(Map {
            expr: Expr::identity(DType::F32),
            params: vec![],
            inputs: vec![Operand::new(DType::F32, Layout::dense([side, side]).permute(&[1, 0]))],
            out: f32s([side, side]),
        });
        let (times, out) = self.kernel(kernel, &[&a]);
        let right = self.read(&out).iter().enumerate().all(|(i, v)| *v == x[i % side * side + i / side]);
        show(&format!("transpose {side}"), times, 8.0 * (side * side) as f64, "TB/s", right);
    }

    fn reduction(&self, fold: Fold, outer: usize, inner: usize, operand: Operand, a: &Buffer) -> ((f64, f64), Buffer) {
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
        self.kernel(kernel, &[a])
    }

    fn sums(&self) {
        let n = (1 << 26) / self.shrink;
        let (a, x) = self.filled(n);
        let want: f64 = x.iter().map(|v| f64::from(*v)).sum();
        let size: f64 = x.iter().map(|v| f64::from(*v).abs()).sum();
        let (times, out) = self.reduction(Fold::Sum, 1, n, f32s([1, n]), &a);
        let right = (f64::from(self.read(&out)[0]) - want).abs() < 1e-6 * size;
        show(&format!("sum {n}"), times, 4.0 * n as f64, "TB/s", right);
        let rows = n / 1024;
        let (times, _) = self.reduction(Fold::Max, rows, 1024, f32s([rows, 1024]), &a);
        show(&format!("max of rows {rows}x1024"), times, 4.0 * n as f64, "TB/s", true);
        let across = Operand::new(DType::F32, Layout::dense([rows, 1024]).permute(&[1, 0]));
        let (times, _) = self.reduction(Fold::Sum, 1024, rows, across, &a);
        show(&format!("sum of columns {rows}x1024"), times, 4.0 * n as f64, "TB/s", true);
    }

    fn rows(&self) {
        let (rows, length) = (16_384 / self.shrink, 1024);
        let (a, x) = self.filled(rows * length);
        for kind in [RowWise::Softmax, RowWise::LayerNorm { epsilon: 1e-5 }] {
            let kernel = Kernel::RowWise(RowWiseKernel {
                kind,
                outer: Shape::from(rows),
                length,
                pre: Expr::identity(DType::F32),
                post: Expr::identity(DType::F32),
                params: vec![],
                inputs: vec![f32s([rows, length])],
                out: f32s([rows, length]),
            });
            let (times, out) = self.kernel(kernel, &[&a]);
            let total: f64 = x[..length].iter().map(|v| f64::from(*v).exp()).sum();
            let first = self.read(&out)[0];
            let right = kind != RowWise::Softmax || (f64::from(first) - f64::from(x[0]).exp() / total).abs() < 1e-7;
            show(&format!("{} {rows}x{length}", kind.name()), times, 8.0 * (rows * length) as f64, "TB/s", right);
        }
    }

    fn products(&self) {
        let shapes =
            [[1024; 3], [2048; 3], [4096; 3], [1, 4096, 4096], [32, 1024, 4096], [128, 384, 384], [2048, 384, 1536]];
        let scale = if self.shrink > 1 { 16 } else { 1 };
        for [m, k, n] in shapes.map(|s| s.map(|d: usize| d.div_ceil(scale))) {
            let ((a, x), (b, y)) = (self.filled(m * k), self.filled(k * n));
            let kernel = Kernel::MatMul(MatMul {
                batch: Shape::scalar(),
                m,
                n,
                k,
                a: f32s([m, k]),
                b: f32s([k, n]),
                precision: Precision::Highest,
                post: Expr::identity(DType::F32),
                params: vec![],
                inputs: vec![],
                out: f32s([m, n]),
            });
            let (times, out) = self.kernel(kernel, &[&a, &b]);
            let got = self.read(&out);
            let right = (0..64).all(|i| {
                let (row, column) = (i * 7919 % m, i * 104_729 % n);
                let want: f64 = (0..k).map(|p| f64::from(x[row * k + p]) * f64::from(y[p * n + column])).sum();
                (f64::from(got[row * n + column]) - want).abs() < 1e-6 * k as f64
            });
            show(&format!("matmul {m}x{k}x{n}"), times, 2.0 * (m * n * k) as f64, "TFLOP/s", right);
        }
    }

    fn batches(&self) {
        let n = 256;
        let (a, b) = (self.buffer(n), self.buffer(n));
        let kernel = || Kernel::Map(Map::dense(Expr::row(Row::named("relu").expect("a row"), DType::F32), vec![], n));
        for count in [1, 10, 20, 100] {
            let launch =
                |i: usize| Launch { kernel: kernel(), inputs: vec![i % 2], outputs: vec![1 - i % 2], workspace: None };
            let work = self.prepare((0..count).map(|i| SegmentStep::Launch(Box::new(launch(i)))).collect());
            let (wall, kernel) =
                self.best(&work, &Binding { buffers: vec![a.clone(), b.clone()], ..Binding::default() });
            println!(
                "  {count:>3} dispatches in a submit: wall {:>8.1} us, kernels {:>8.1} us",
                wall * 1e6,
                kernel * 1e6
            );
        }
    }

    fn link(&self) {
        for mib in [1usize, 4, 16, 64, 256].map(|m| m.div_ceil(self.shrink)) {
            let elements = mib << 18;
            let buffer = self.buffer(elements);
            let bytes = HostBytes::from_vec(vec![1.0f32; elements]);
            let up = self.prepare(vec![SegmentStep::Upload { upload: 0, slot: 0 }]);
            let down = self.prepare(vec![SegmentStep::Download { slot: 0, bytes: 4 * elements as u64, read: 0 }]);
            let given = Binding { buffers: vec![buffer.clone()], uploads: vec![bytes], reads: vec![] };
            let (upload, _) = self.best(&up, &given);
            let wanted = Binding { buffers: vec![buffer], uploads: vec![], reads: vec![ReadCell::new()] };
            let (read, _) = self.best(&down, &wanted);
            let rate = |t: f64| (mib << 20) as f64 / t / 1e9;
            println!("  {mib:>3} MiB: upload {:>6.2} GB/s, read {:>6.2} GB/s", rate(upload), rate(read));
        }
    }
}
