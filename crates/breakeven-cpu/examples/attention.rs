//! Attention as one kernel beside the products and the softmax that it is made of: lower quartiles of runs in turn, outputs
//! compared first.
//!
//! `cargo run --release -p breakeven-cpu --example attention [threads]`

use std::sync::Arc;
use std::time::Instant;

use breakeven_cpu::{CpuDevice, CpuOptions};
use breakeven_device::{
    Binding, Buffer, Device, HostBytes, Lane, MemoryKind, Prepared, ReadCell, Result, Segment, SegmentStep,
};
use breakeven_ir::{
    AttentionKernel, DType, Expr, ExprBuilder, Kernel, Launch, Layout, MatMul, Operand, Precision, Row, RowWise,
    RowWiseKernel, Shape,
};

/// Heads, queries, keys and width; heads inside rows, as a model has them, or one after the other.
const CASES: [([usize; 4], bool); 6] = [
    ([8, 1024, 1024, 64], false),
    ([12, 128, 128, 32], true),
    ([384, 128, 128, 32], true),
    ([12, 16, 16, 32], true),
    ([12, 1, 1024, 64], false),
    ([2, 4096, 4096, 64], false),
];
const RUNS: usize = 40;

fn main() -> Result<()> {
    let threads = std::env::args().nth(1).and_then(|word| word.parse().ok());
    let device = CpuDevice::new(CpuOptions { threads, ..CpuOptions::default() })?;
    println!(
        "{}\n{:32} {:>12} {:>12} {:>7} {:>9}",
        device.info().driver,
        "",
        "one kernel",
        "composed",
        "ratio",
        "GFLOP/s"
    );
    for (sizes, inside) in CASES {
        let [heads, queries, keys, width] = sizes;
        let bench = Bench::new(&device, sizes, inside)?;
        bench.check(&device)?;
        let [fused, composed] = bench.times(&device)?;
        let flops = 4.0 * (heads * queries * keys * width) as f64;
        let name = format!("{heads} x {queries} over {keys} x {width}{}", if inside { " in rows" } else { "" });
        let (ratio, rate) = (composed / fused, flops / fused / 1e9);
        println!("{name:32} {:>9.1} µs {:>9.1} µs {ratio:>7.2} {rate:>9.1}", fused * 1e6, composed * 1e6);
    }
    Ok(())
}

struct Bench {
    /// Queries, keys, values, scores, weights, and both results.
    buffers: Vec<Buffer>,
    /// One kernel, and those that it is made of.
    ways: [Arc<dyn Prepared>; 2],
    out_bytes: u64,
}

impl Bench {
    fn new(device: &CpuDevice, [heads, queries, keys, width]: [usize; 4], inside: bool) -> Result<Bench> {
        let over = |rows: usize| {
            let dense = if inside { Layout::dense([rows, heads, width]) } else { Layout::dense([heads, rows, width]) };
            let order = if inside { [1, 0, 2] } else { [0, 1, 2] };
            Operand::new(DType::F32, dense.permute(&order))
        };
        let scores = Operand::new(DType::F32, Layout::dense([heads, queries, keys]));
        let (rows, columns) = (over(queries), over(keys));
        let operands = [&rows, &columns, &columns, &scores, &scores, &rows, &rows];
        let alloc = |o: &&Operand| device.alloc(o.span_bytes(), MemoryKind::Resident);
        let buffers: Vec<Buffer> = operands.iter().map(alloc).collect::<Result<_>>()?;
        let value = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 23) as f32 - 1.0;
        let filled = |o: &&Operand| HostBytes::from_vec((0..o.span_bytes() as usize / 4).map(value).collect());
        let uploads = operands[..3].iter().map(filled).collect();
        let steps = (0..3).map(|slot| SegmentStep::Upload { upload: slot, slot }).collect();
        let binding = Binding { buffers: buffers.clone(), uploads, ..Binding::default() };
        device.submit(&device.prepare(&Segment { steps })?, binding, Lane::CopyIn, &[])?;
        let ways = [one(&rows, &columns), composed(&rows, &columns, &scores)];
        let prepare = |launches: Vec<Launch>| {
            let steps = launches.into_iter().map(|launch| SegmentStep::Launch(Box::new(launch))).collect();
            device.prepare(&Segment { steps })
        };
        let [one, composed] = ways.map(prepare);
        Ok(Bench { buffers, ways: [one?, composed?], out_bytes: rows.span_bytes() })
    }

    fn run(&self, device: &CpuDevice, way: usize) -> Result<()> {
        let binding = Binding { buffers: self.buffers.clone(), ..Binding::default() };
        device.submit(&self.ways[way], binding, Lane::Compute, &[]).map(drop)
    }

    fn check(&self, device: &CpuDevice) -> Result<()> {
        self.run(device, 0)?;
        self.run(device, 1)?;
        let cells = [ReadCell::new(), ReadCell::new()];
        let read = |(read, slot): (usize, usize)| SegmentStep::Download { slot, bytes: self.out_bytes, read };
        let prepared = device.prepare(&Segment { steps: [(0, 5), (1, 6)].map(read).to_vec() })?;
        let binding = Binding { buffers: self.buffers.clone(), reads: cells.to_vec(), ..Binding::default() };
        device.submit(&prepared, binding, Lane::CopyOut, &[])?;
        let [one, composed] = cells.map(|cell| cell.take().expect("it was read"));
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5;
        assert!(one.elements::<f32>().iter().zip(composed.elements::<f32>()).all(near), "both give the same");
        Ok(())
    }

    /// Seconds of each way.
    fn times(&self, device: &CpuDevice) -> Result<[f64; 2]> {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..RUNS {
            for (way, times) in times.iter_mut().enumerate() {
                let start = Instant::now();
                self.run(device, way)?;
                times.push(start.elapsed().as_secs_f64());
            }
        }
        Ok(times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 4]
        }))
    }
}

fn one(rows: &Operand, columns: &Operand) -> Vec<Launch> {
    let (q, k, v, out) = (rows.clone(), columns.clone(), columns.clone(), rows.clone());
    let kernel = AttentionKernel { scale: 0.25, seen: None, q, k, v, bias: None, out };
    vec![launch(Kernel::Attention(kernel), &[0, 1, 2], 5)]
}

fn composed(rows: &Operand, columns: &Operand, scores: &Operand) -> Vec<Launch> {
    let mut b = ExprBuilder::default();
    let (x, factor) = (b.arg(DType::F32), b.param(DType::F32));
    let scaled = b.row(Row::named("mul").expect("a row"), DType::F32, &[x, factor]);
    let (identity, shape) = (|| Expr::identity(DType::F32), &scores.layout.shape);
    let turned = Operand::new(DType::F32, columns.layout.permute(&[0, 2, 1]));
    let softmax = Kernel::RowWise(RowWiseKernel {
        kind: RowWise::Softmax,
        outer: Shape::from(&shape[..2]),
        length: shape[2],
        pre: identity(),
        post: identity(),
        params: Vec::new(),
        inputs: vec![scores.clone()],
        out: scores.clone(),
    });
    vec![
        launch(product([rows, &turned], (b.finish(scaled), vec![0.25]), scores), &[0, 1], 3),
        launch(softmax, &[3], 4),
        launch(product([scores, columns], (identity(), Vec::new()), rows), &[4, 2], 6),
    ]
}

fn launch(kernel: Kernel, inputs: &[usize], out: usize) -> Launch {
    Launch { kernel, inputs: inputs.to_vec(), outputs: vec![out], workspace: None }
}

fn product([a, b]: [&Operand; 2], (post, params): (Expr, Vec<f64>), out: &Operand) -> Kernel {
    let (batch, [m, k]) = (Shape::from(a.layout.shape[0]), [a.layout.shape[1], a.layout.shape[2]]);
    let (n, precision, inputs) = (b.layout.shape[2], Precision::Highest, Vec::new());
    let (a, b, out) = (a.clone(), b.clone(), out.clone());
    Kernel::MatMul(MatMul { batch, m, n, k, a, b, precision, post, params, inputs, out })
}
