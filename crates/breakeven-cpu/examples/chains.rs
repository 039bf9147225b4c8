//! Times chains of light rows beside the same loops fused by hand and beside one launch for each row, interleaved in one
//! run, outputs checked first and touched before.
//!
//! `cargo run --release -p breakeven-cpu --example chains [threads] [rows,elements filter | functions] [instruction set]`
#![allow(clippy::inline_always, reason = "lanes must dissolve into the loop whose instructions they use")]

use std::hint::black_box;
use std::sync::Arc;
use std::thread::scope;
use std::time::Instant;

use breakeven_cpu::{CpuDevice, CpuOptions, Isa, Tuning};
use breakeven_device::{
    Binding, Buffer, Device, HostBytes, Lane, MemoryKind, Prepared, ReadCell, Result, Segment, SegmentStep,
};
use breakeven_ir::{DType, Expr, ExprBuilder, Kernel, Launch, MAPS, Map, Operand, Row};
use fearless_simd::{Level, Select, Simd, SimdBase, dispatch};

/// A chain: each row with its operands. 0 and 1 are the inputs, 2 the result of the first row, and so on.
type Chain = &'static [(&'static str, [usize; 2])];

const CHAINS: [Chain; 9] = [
    &[("add", [0, 1])],
    &[("relu", [0, 0])],
    &[("mul", [0, 1]), ("add", [2, 0]), ("relu", [3, 3])],
    &[("sub", [0, 1]), ("square", [2, 2]), ("add", [3, 0]), ("mul", [4, 1]), ("relu", [5, 5])],
    &[
        ("sub", [0, 1]),
        ("square", [2, 2]),
        ("add", [3, 0]),
        ("mul", [4, 1]),
        ("relu", [5, 5]),
        ("sub", [6, 0]),
        ("abs", [7, 7]),
        ("mul", [8, 0]),
    ],
    &[("mul", [0, 1]), ("exp", [2, 2])],
    &[("mul", [0, 1]), ("tanh", [2, 2])],
    &[("mul", [0, 1]), ("gelu", [2, 2])],
    &[("mul", [0, 1]), ("ln", [2, 2])],
];

/// Elements that take no time.
const TINY: usize = 16;

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let threads = words.next().and_then(|w| w.parse().ok()).unwrap_or(1);
    let filter = words.next().unwrap_or_default();
    let isa = words.next().and_then(|word| Isa::ALL.into_iter().find(|isa| isa.name() == word));
    let device = |tuning| CpuDevice::new(CpuOptions { threads: Some(threads), isa, tuning, ..CpuOptions::default() });
    let device = |code_ns| device(Tuning { code_ns, ..Tuning::default() });
    if filter == "functions" {
        return functions(&device(0.0)?, &device(f64::INFINITY)?);
    }
    let device = device(0.0)?;
    println!(
        "{}; nanoseconds of a launch: best, and lower quartile of ratios to the loop fused by hand",
        device.info().driver
    );
    println!(
        "{:>14} {:>12} {:>12} {:>12} {:>8} {:>8}",
        "rows,elements", "by hand", "chain", "row by row", "chain", "rows"
    );
    for chain in CHAINS {
        for n in [1_000, 1_008, 1_017, 10_000, 100_000, 1_000_000, 16_000_000] {
            let name = format!("{},{n}", chain.len());
            if name.starts_with(&filter) {
                Bench::new(&device, chain, n, threads)?.report(&name)?;
            }
        }
    }
    Ok(())
}

struct Bench<'a> {
    device: &'a CpuDevice,
    chain: Chain,
    level: Level,
    threads: usize,
    n: usize,
    inputs: [Vec<f32>; 2],
    out: Vec<f32>,
    buffers: Vec<Buffer>,
    /// The chain as one kernel, and as a kernel for each row; each many times where it is short.
    fused: Many,
    single: Many,
    /// The chain over [`TINY`] elements: the launch itself.
    tiny: Many,
    rounds: usize,
}

/// One submission that computes the chain many times.
struct Many {
    prepared: Arc<dyn Prepared>,
    times: usize,
    /// What it is bound to.
    slots: Vec<usize>,
}

impl<'a> Bench<'a> {
    fn new(device: &'a CpuDevice, chain: Chain, n: usize, threads: usize) -> Result<Bench<'a>> {
        let value = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 23) as f32 - 1.0;
        let inputs = [3, 7].map(|k| (0..n).map(|i| value(i * k)).collect::<Vec<f32>>());
        let places = 2 + chain.len();
        let buffers: Vec<Buffer> =
            (0..places).map(|_| device.alloc(4 * n as u64, MemoryKind::Resident)).collect::<Result<_>>()?;
        let bytes = |x: &Vec<f32>| HostBytes::from_vec(x.iter().flat_map(|v| v.to_le_bytes()).collect());
        let uploads = inputs.iter().map(bytes).collect();
        let steps = (0..2).map(|i| SegmentStep::Upload { upload: i, slot: i }).collect();
        let binding = Binding { buffers: buffers.clone(), uploads, reads: Vec::new(), ..Binding::default() };
        device.submit(&device.prepare(&Segment { steps })?, binding, Lane::CopyIn, &[])?;
        // Few enough that all stay in the first-level cache, many enough that a submission takes little of each.
        let (launches, rounds) = (32.min(400_000 / n).max(1), (50_000 / n).max(1));
        let many = |each: Vec<SegmentStep>, slots: Vec<usize>| -> Result<Many> {
            let times = (launches / each.len()).max(1);
            let steps = each.iter().cycle().take(each.len() * times).cloned().collect();
            Ok(Many { prepared: device.prepare(&Segment { steps })?, times, slots })
        };
        let ends = || vec![0, 1, places - 1];
        let fused = many(vec![launch(&whole(chain), n, &[0, 1], 2)], ends())?;
        let rows = chain.iter().enumerate().map(|(k, row)| launch(&one(row.0), n, &row.1, 2 + k)).collect();
        let single = many(rows, (0..places).collect())?;
        let tiny = many(vec![launch(&whole(chain), TINY, &[0, 1], 2)], ends())?;
        let level = match device.isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Level::new().as_avx2().map_or(Level::new(), Level::Avx2),
            _ => Level::new(),
        };
        let out = vec![0.0; n];
        Ok(Bench { device, chain, level, threads, n, inputs, out, buffers, fused, single, tiny, rounds })
    }

    fn run(&self, what: &Many) -> Result<f64> {
        let buffers: Vec<Buffer> = what.slots.iter().map(|&slot| self.buffers[slot].clone()).collect();
        let start = Instant::now();
        for _ in 0..self.rounds {
            let binding = Binding { buffers: buffers.clone(), ..Binding::default() };
            self.device.submit(&what.prepared, binding, Lane::Compute, &[])?;
        }
        Ok(start.elapsed().as_secs_f64() * 1e9 / (what.times * self.rounds) as f64)
    }

    /// The loop fused by hand, shared out by halves where there are two threads.
    fn hand(&mut self) -> f64 {
        let (level, chain, [a, b]) = (self.level, self.chain, &self.inputs);
        let start = Instant::now();
        if self.threads == 1 || self.n < 100_000 {
            for _ in 0..self.fused.times * self.rounds {
                by_hand(level, chain, a, b, &mut self.out);
                black_box(&mut self.out);
            }
        } else {
            let part = self.n.div_ceil(self.threads);
            scope(|s| {
                for ((a, b), out) in a.chunks(part).zip(b.chunks(part)).zip(self.out.chunks_mut(part)) {
                    s.spawn(move || by_hand(level, chain, a, b, out));
                }
            });
        }
        start.elapsed().as_secs_f64() * 1e9 / (self.fused.times * self.rounds) as f64
    }

    /// All ways give the same bits, before and after code is generated.
    fn check(&mut self) -> Result<()> {
        self.hand();
        for round in 0..3 {
            for (what, name) in [(&self.single, "rows"), (&self.fused, "chain")] {
                self.run(what)?;
                let cell = ReadCell::new();
                let slot = self.buffers.len() - 1;
                let read = SegmentStep::Download { slot, bytes: 4 * self.n as u64, read: 0 };
                let binding =
                    Binding { buffers: self.buffers.clone(), reads: vec![cell.clone()], ..Binding::default() };
                self.device.submit(
                    &self.device.prepare(&Segment { steps: vec![read] })?,
                    binding,
                    Lane::CopyOut,
                    &[],
                )?;
                let got = cell.take().expect("it is filled");
                for (i, (got, want)) in got.chunks(4).zip(&mut self.out).enumerate() {
                    let got = f32::from_le_bytes(got.try_into().expect("4 bytes"));
                    // Functions are not written by hand: their rows say what is right.
                    if !has_hand(self.chain) && name == "rows" {
                        *want = got;
                    }
                    assert!(got.to_bits() == want.to_bits(), "{name} round {round} at {i}: {got}, not {want}");
                }
            }
        }
        Ok(())
    }

    fn report(mut self, name: &str) -> Result<()> {
        self.check()?;
        let (mut times, start) = (Vec::new(), Instant::now());
        while times.len() < 7 || start.elapsed().as_millis() < 400 {
            times.push([self.hand(), self.run(&self.fused)?, self.run(&self.single)?, self.run(&self.tiny)?]);
        }
        let best = |k: usize| times.iter().map(|t| t[k]).fold(f64::INFINITY, f64::min);
        let ratio = |k: usize| {
            let mut all: Vec<f64> = times.iter().map(|t| t[k] / t[0]).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 4]
        };
        println!(
            "{name:>14} {:>12.1} {:>12.1} {:>12.1} {:>8.2} {:>8.2} {:>8.1}",
            best(0),
            best(1),
            best(2),
            ratio(1),
            ratio(2),
            best(3)
        );
        Ok(())
    }
}

/// False where the loop by hand leaves out a function.
fn has_hand(chain: Chain) -> bool {
    chain.len() != 2
}

/// Every row of f32 alone, by its loop and by its code, and what the first launch with code takes longer.
fn functions(code: &CpuDevice, rows: &CpuDevice) -> Result<()> {
    println!("{}; microseconds of a launch over 10,000 elements", code.info().driver);
    println!("{:>14} {:>10} {:>10} {:>8} {:>12}", "row", "loop", "code", "ratio", "generation");
    for row in MAPS.iter().map(Row).filter(|row| row.family.has(DType::F32)) {
        let kernel = Kernel::Map(Map::dense(Expr::row(row, DType::F32), vec![0.5; row.params()], [10_000]));
        let inputs = (0..kernel.inputs().len()).collect::<Vec<_>>();
        let bytes: Vec<u64> = kernel.inputs().into_iter().chain(kernel.outputs()).map(Operand::span_bytes).collect();
        let outputs = vec![inputs.len()];
        let launch = SegmentStep::Launch(Box::new(Launch { kernel, inputs, outputs, workspace: None }));
        let segment = Segment { steps: vec![launch] };
        let mut sides = Vec::new();
        for device in [rows, code] {
            let buffers: Vec<Buffer> =
                bytes.iter().map(|&n| device.alloc(n, MemoryKind::Resident)).collect::<Result<_>>()?;
            sides.push((device, device.prepare(&segment)?, buffers));
        }
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..400 {
            for ((device, prepared, buffers), times) in sides.iter().zip(&mut times) {
                let binding = Binding { buffers: buffers.clone(), ..Binding::default() };
                let start = Instant::now();
                device.submit(prepared, binding, Lane::Compute, &[])?;
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
        }
        let best = times.each_ref().map(|t| t.iter().copied().fold(f64::INFINITY, f64::min));
        let first = times[1][0] - times[0][0];
        println!("{:>14} {:>10.2} {:>10.2} {:>8.2} {first:>12.2}", row.name, best[0], best[1], best[1] / best[0]);
    }
    Ok(())
}

fn row(name: &str) -> Row {
    Row::named(name).expect("a row of the table")
}

fn one(name: &str) -> Expr {
    Expr::row(row(name), DType::F32)
}

fn whole(chain: Chain) -> Expr {
    let mut b = ExprBuilder::default();
    let mut at = vec![b.arg(DType::F32)];
    if chain.len() > 1 || row(chain[0].0).arity() > 1 {
        at.push(b.arg(DType::F32));
    } else {
        at.push(0);
    }
    for (name, from) in chain {
        let operands: Vec<u16> = from[..row(name).arity()].iter().map(|&i| at[i]).collect();
        at.push(b.row(row(name), DType::F32, &operands));
    }
    let result = at[at.len() - 1];
    b.finish(result)
}

fn launch(expr: &Expr, n: usize, inputs: &[usize], out: usize) -> SegmentStep {
    let kernel = Kernel::Map(Map::dense(expr.clone(), Vec::new(), [n]));
    let inputs = inputs[..kernel.inputs().len()].to_vec();
    SegmentStep::Launch(Box::new(Launch { kernel, inputs, outputs: vec![out], workspace: None }))
}

fn by_hand(level: Level, chain: Chain, a: &[f32], b: &[f32], out: &mut [f32]) {
    match chain.len() {
        1 if chain[0].0 == "add" => dispatch!(level, simd => zip(simd, a, b, out, #[inline(always)] |x, y| x + y)),
        1 => dispatch!(level, simd => zip(simd, a, a, out, #[inline(always)] |x, _| relu(simd, x))),
        3 => dispatch!(level, simd => zip(simd, a, b, out, #[inline(always)] |x, y| relu(simd, x * y + x))),
        2 => dispatch!(level, simd => zip(simd, a, b, out, #[inline(always)] |x, y| x * y)),
        5 => dispatch!(level, simd => zip(simd, a, b, out, #[inline(always)] |x, y| {
            let d = x - y;
            relu(simd, (d * d + x) * y)
        })),
        _ => dispatch!(level, simd => zip(simd, a, b, out, #[inline(always)] |x, y| {
            let d = x - y;
            (relu(simd, (d * d + x) * y) - x).abs() * x
        })),
    }
}

#[inline(always)]
fn relu<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    x.simd_ne(x).select(x, x.max(S::f32s::splat(simd, 0.0)))
}

/// One loop over registers, and the rest by a copy.
#[inline(always)]
fn zip<S: Simd>(simd: S, a: &[f32], b: &[f32], out: &mut [f32], f: impl Fn(S::f32s, S::f32s) -> S::f32s) {
    simd.vectorize(
        #[inline(always)]
        || {
            let length = S::f32s::LEN;
            let whole = out.len() - out.len() % length;
            let chunks = a[..whole].chunks_exact(length).zip(b[..whole].chunks_exact(length));
            for ((x, y), out) in chunks.zip(out[..whole].chunks_exact_mut(length)) {
                f(S::f32s::from_slice(simd, x), S::f32s::from_slice(simd, y)).store_slice(out);
            }
            let rest = |from: &[f32]| S::f32s::from_fn(simd, |i| from.get(whole + i).copied().unwrap_or(0.0));
            let last = f(rest(a), rest(b));
            for (to, value) in out[whole..].iter_mut().zip(last.as_slice()) {
                *to = *value;
            }
        },
    );
}
