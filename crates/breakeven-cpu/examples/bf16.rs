//! Square products at every precision, by every instruction that this machine has for it: GFLOP/s, results checked.
//!
//! `cargo run --release -p breakeven-cpu --example bf16 [threads] [largest side]`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use breakeven_cpu::{Bf16Isa, CpuDevice, CpuOptions, Isa};
use breakeven_device::{
    Binding, Buffer, Device, HostBytes, Lane, MemoryKind, Prepared, ReadCell, Result, Segment, SegmentStep,
};
use breakeven_ir::{DType, Expr, ExprBuilder, Kernel, Launch, Layout, MatMul, Operand, Precision, Scalar};

const SIDES: [usize; 6] = [64, 256, 512, 1024, 2048, 4096];

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let threads = words.next().and_then(|w| w.parse().ok());
    let largest = words.next().and_then(|w| w.parse().ok()).unwrap_or(4096);
    let kinds = [
        (DType::F32, Precision::Highest),
        (DType::F16, Precision::Highest),
        (DType::BF16, Precision::Highest),
        (DType::BF16, Precision::High),
        (DType::F32, Precision::Medium),
    ];
    let has: Vec<Bf16Isa> = Bf16Isa::ALL.into_iter().filter(|each| each.is_available(Isa::best())).collect();
    for each in Bf16Isa::ALL.into_iter().filter(|each| !has.contains(each)) {
        println!("this machine has no {each}");
    }
    for side in SIDES.into_iter().filter(|side| *side <= largest) {
        let mut rows: Vec<(String, Work)> = Vec::new();
        for (dtype, precision) in kinds {
            let lower = |each: &&Bf16Isa| (**each == Bf16Isa::Never) == (precision == Precision::Highest);
            for &bf16 in has.iter().filter(lower) {
                let options = CpuOptions { threads, bf16: Some(bf16), ..CpuOptions::default() };
                let work = Work::new(CpuDevice::new(options)?, product(side, dtype, precision))?;
                rows.push((format!("{dtype} {precision}, {}", work.how()), work));
            }
        }
        // In turns, so that all meet the same weather.
        let mut times = vec![Vec::new(); rows.len()];
        let started = Instant::now();
        while started.elapsed() < Duration::from_millis(300 * rows.len() as u64) || times[0].len() < 4 {
            for ((_, work), times) in rows.iter().zip(&mut times) {
                work.run()?;
                let each = Instant::now();
                work.run()?;
                times.push(each.elapsed().as_secs_f64());
            }
        }
        for ((name, _), mut times) in rows.into_iter().zip(times) {
            times.sort_by(f64::total_cmp);
            let rate = |seconds: f64| 2.0 * (side as f64).powi(3) / seconds / 1e9;
            println!(
                "{side:5} {name:48} {:9.1} GFLOP/s, quartile {:9.1}",
                rate(times[0]),
                rate(times[times.len() / 4])
            );
        }
    }
    Ok(())
}

/// A product that is stored as f32.
fn product(side: usize, dtype: DType, precision: Precision) -> MatMul {
    let dense = |dtype| Operand::new(dtype, Layout::dense([side, side]));
    let mut post = ExprBuilder::default();
    let sum = post.arg(dtype);
    let post = if dtype == DType::F32 {
        Expr::identity(dtype)
    } else {
        let wide = post.cast(sum, DType::F32);
        post.finish(wide)
    };
    MatMul {
        batch: ().into(),
        m: side,
        n: side,
        k: side,
        a: dense(dtype),
        b: dense(dtype),
        precision,
        post,
        params: Vec::new(),
        inputs: Vec::new(),
        out: dense(DType::F32),
    }
}

/// A product on a device of its own, checked.
struct Work {
    device: CpuDevice,
    kernel: Kernel,
    prepared: Arc<dyn Prepared>,
    buffers: Vec<Buffer>,
}

impl Work {
    fn new(device: CpuDevice, product: MatMul) -> Result<Work> {
        let (side, dtype) = (product.m, product.a.dtype);
        let value = |i: usize| ((i * 37 + i / side * 11) % 61) as f64 / 32.0 - 0.9;
        let mut bytes = vec![0; side * side * dtype.bytes()];
        (0..side * side).for_each(|i| Scalar::of(dtype, value(i)).store(dtype, &mut bytes, i));
        let operand = device.alloc(bytes.len() as u64, MemoryKind::Resident)?;
        let out = device.alloc(4 * (side * side) as u64, MemoryKind::Resident)?;
        let upload = device.prepare(&Segment { steps: vec![SegmentStep::Upload { upload: 0, slot: 0 }] })?;
        let uploads = vec![HostBytes::from_vec(bytes.clone())];
        let binding = Binding { buffers: vec![operand.clone()], uploads, ..Binding::default() };
        device.submit(&upload, binding, Lane::CopyIn, &[])?;
        let kernel = Kernel::MatMul(product);
        let launch = Launch { kernel: kernel.clone(), inputs: vec![0, 0], outputs: vec![1], workspace: None };
        let prepared = device.prepare(&Segment { steps: vec![SegmentStep::Launch(Box::new(launch))] })?;
        let work = Work { device, kernel, prepared, buffers: vec![operand, out] };
        work.check(&|i| Scalar::load(dtype, &bytes, i).to_f64(), side)?;
        Ok(work)
    }

    fn how(&self) -> &'static str {
        self.device.lowers(&self.kernel).unwrap_or("as at the highest")
    }

    fn run(&self) -> Result<()> {
        let binding = Binding { buffers: self.buffers.clone(), ..Binding::default() };
        self.device.submit(&self.prepared, binding, Lane::Compute, &[]).map(drop)
    }

    /// Compares some elements with sums in f64.
    fn check(&self, value: &dyn Fn(usize) -> f64, side: usize) -> Result<()> {
        self.run()?;
        let cell = ReadCell::new();
        let read = SegmentStep::Download { slot: 0, bytes: self.buffers[1].bytes(), read: 0 };
        let binding =
            Binding { buffers: vec![self.buffers[1].clone()], reads: vec![cell.clone()], ..Binding::default() };
        self.device.submit(&self.device.prepare(&Segment { steps: vec![read] })?, binding, Lane::CopyOut, &[])?;
        let got = cell.take().expect("it was read");
        let error = self.kernel.precision().operand_error(self.kernel.inputs()[0].dtype);
        for place in (0..side * side).step_by(side * side / 512 + 1) {
            let terms = (0..side).map(|p| value(place / side * side + p) * value(p * side + place % side));
            let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
            let off = (Scalar::load(DType::F32, &got, place).to_f64() - sum).abs();
            let allowed = (2.0 * error + error * error + side as f64 * 6e-8) * size;
            assert!(off <= allowed, "{} of {side}: {off:e}, not within {allowed:e}", self.how());
        }
        Ok(())
    }
}
