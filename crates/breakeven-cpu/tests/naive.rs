//! No kernel is slower than the loop that one would write by hand, at any length: in turns, best times, outputs compared.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use breakeven_cpu::{CpuDevice, CpuOptions};
use breakeven_device::{Device, Lent, Prepared, Segment, SegmentStep};
use breakeven_ir::{DType, Expr, Fold, Kernel, Launch, Layout, Map, Operand, ReduceRows, Row};

/// What one would write by hand: `out` from the inputs.
type Plain = fn(&[f32], &[f32], &mut [f32]);

/// A kernel of `n` elements beside a plain loop.
struct Rival {
    name: &'static str,
    kernel: fn(usize) -> Kernel,
    plain: Plain,
    /// Elements of the output: all, or one.
    is_fold: bool,
}

const RIVALS: [Rival; 8] = [
    Rival { name: "add", kernel: |n| map("add", n), plain: |a, b, out| each(a, b, out, |x, y| x + y), is_fold: false },
    Rival { name: "mul", kernel: |n| map("mul", n), plain: |a, b, out| each(a, b, out, |x, y| x * y), is_fold: false },
    Rival {
        name: "relu",
        kernel: |n| map("relu", n),
        plain: |a, b, out| each(a, b, out, |x, _| x.max(0.0)),
        is_fold: false,
    },
    Rival {
        name: "sqrt",
        kernel: |n| map("sqrt", n),
        plain: |a, b, out| each(a, b, out, |x, _| x.sqrt()),
        is_fold: false,
    },
    Rival {
        name: "exp",
        kernel: |n| map("exp", n),
        plain: |a, b, out| each(a, b, out, |x, _| x.exp()),
        is_fold: false,
    },
    Rival { name: "sum", kernel: |n| fold(Fold::Sum, n), plain: |a, _, out| out[0] = a.iter().sum(), is_fold: true },
    Rival {
        name: "max",
        kernel: |n| fold(Fold::Max, n),
        plain: |a, _, out| out[0] = a.iter().copied().fold(f32::NEG_INFINITY, f32::max),
        is_fold: true,
    },
    Rival {
        name: "copy",
        kernel: |n| Kernel::Map(Map::dense(Expr::identity(DType::F32), Vec::new(), [n])),
        plain: |a, _, out| out.copy_from_slice(a),
        is_fold: false,
    },
];

fn each(a: &[f32], b: &[f32], out: &mut [f32], f: impl Fn(f32, f32) -> f32) {
    for ((out, &x), &y) in out.iter_mut().zip(a).zip(b) {
        *out = f(x, y);
    }
}

fn map(row: &str, n: usize) -> Kernel {
    Kernel::Map(Map::dense(Expr::row(Row::named(row).expect("a row"), DType::F32), Vec::new(), [n]))
}

fn fold(fold: Fold, n: usize) -> Kernel {
    Kernel::Reduce(ReduceRows {
        fold,
        inputs: vec![Operand::new(DType::F32, Layout::dense([n]))],
        post: Expr::identity(DType::F32),
        outs: vec![Operand::new(DType::F32, Layout::dense(()))],
        outer: ().into(),
        inner: [n].into(),
        pre: Expr::identity(DType::F32),
        params: Vec::new(),
    })
}

/// Seconds of the kernel and of the plain loop: the best of turns within `span`, at least five.
fn race(device: &CpuDevice, rival: &Rival, n: usize, span: Duration) -> (f64, f64) {
    let kernel = (rival.kernel)(n);
    let count = kernel.inputs().len();
    let launch = Launch { kernel, inputs: (0..count).collect(), outputs: vec![count], workspace: None };
    let work =
        device.prepare(&Segment { steps: vec![SegmentStep::Launch(Box::new(launch))] }).expect("it is supported");
    let (a, b): (Vec<f32>, Vec<f32>) = (0..n).map(|i| ((i % 13) as f32 * 0.25, (i % 7) as f32 * 0.5)).unzip();
    let mut ours = vec![0f32; if rival.is_fold { 1 } else { n }];
    let mut theirs = ours.clone();
    let (mut our_best, mut their_best) = (f64::INFINITY, f64::INFINITY);
    // Enough calls in one turn that the clock can tell, and so few that some turns are not interrupted.
    let calls = (4000 / n).clamp(1, 40);
    let started = Instant::now();
    let mut turns = 0;
    while turns < 5 || started.elapsed() < span {
        turns += 1;
        our_best = our_best.min(time(calls, || run(device, &work, &[&a, &b][..count], &mut ours)));
        their_best =
            their_best.min(time(calls, || (rival.plain)(black_box(&a), black_box(&b), black_box(&mut theirs))));
    }
    for (x, y) in ours.iter().zip(&theirs) {
        assert!((x - y).abs() <= 1e-3 * y.abs().max(1.0), "{} of {n}: {x}, not {y}", rival.name);
    }
    (our_best, their_best)
}

fn time(calls: usize, mut call: impl FnMut()) -> f64 {
    let started = Instant::now();
    (0..calls).for_each(|_| call());
    started.elapsed().as_secs_f64() / calls as f64
}

fn run(device: &CpuDevice, work: &Arc<dyn Prepared>, inputs: &[&Vec<f32>], out: &mut [f32]) {
    let mut slots: Vec<Lent<'_>> = inputs.iter().map(|x| Lent::Read(raw(x))).collect();
    slots.push(Lent::Write(raw_mut(out)));
    device.run_lent(work, &mut slots).expect("it works in the host's memory").expect("it runs");
}

fn raw(x: &[f32]) -> &[u8] {
    // SAFETY: floats are four bytes each, and any bytes may be read.
    unsafe { std::slice::from_raw_parts(x.as_ptr().cast(), 4 * x.len()) }
}

fn raw_mut(x: &mut [f32]) -> &mut [u8] {
    // SAFETY: as above, and any bytes are floats.
    unsafe { std::slice::from_raw_parts_mut(x.as_mut_ptr().cast(), 4 * x.len()) }
}

/// Every rival at `lengths`: ours may take `share` of the plain loop's time more, and `call` seconds for the call itself.
fn check(lengths: &[usize], share: f64, call: f64, span: Duration) {
    let device = CpuDevice::new(CpuOptions::default()).expect("the CPU opens");
    let mut slow = Vec::new();
    for rival in &RIVALS {
        for &n in lengths {
            let (ours, plain) = race(&device, rival, n, span);
            let line = format!("{} {n}: {:.2} us, plain {:.2} us", rival.name, ours * 1e6, plain * 1e6);
            println!("{line}, ratio {:.2}", plain / ours);
            if ours > plain * (1.0 + share) + call {
                slow.push(line);
            }
        }
    }
    assert!(slow.is_empty(), "slower than a plain loop: {slow:#?}");
}

/// Bounds for a machine that others use too: a kernel that lost its vector loop is past them.
#[test]
fn c09_no_kernel_is_far_slower_than_a_plain_loop() {
    check(&[1, 15, 100, 1000, 4097, 100_000, 1_000_000], 1.0, 5e-6, Duration::from_millis(40));
}

#[test]
#[ignore = "wants a quiet machine: cargo test --release -p breakeven-cpu --test naive -- --ignored --nocapture"]
fn c09_no_kernel_is_slower_than_a_plain_loop() {
    let lengths: Vec<usize> =
        (0..=20).flat_map(|i| [1 << i, (1 << i) * 3 / 2 + 1]).filter(|n| *n <= 1_000_000).collect();
    check(&lengths, 0.05, 0.3e-6, Duration::from_millis(200));
}
