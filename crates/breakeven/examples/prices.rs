//! What calibration says that work takes on each device, beside what it takes: at sizes and of shapes that are not among those measured.
//!
//! `cargo run --release -p breakeven --example prices -- [--gpus] [--software] [--threads=N] [--only=NAME,..]`

use std::env;
use std::time::{Duration, Instant};

use breakeven::calibrate::{Effort, measure};
use breakeven::{Conv, DType, Deadline, DeviceId, DeviceProfile, Engine, EngineBuilder, Precision, Tensor};

type Failure = Box<dyn std::error::Error>;

/// One kind of work: its name, shapes of what it reads at a size, what it computes, and the sizes.
struct Case {
    name: &'static str,
    shapes: fn(usize) -> Vec<Vec<usize>>,
    write: fn(&[Tensor]) -> Tensor,
    sizes: &'static [usize],
}

const ELEMENTS: &[usize] = &[1_000, 10_000, 56_000, 100_000, 316_228, 562_342, 1_000_000];

const fn row(name: &'static str, write: fn(&[Tensor]) -> Tensor) -> Case {
    Case { name, shapes: |n| vec![vec![n]], write, sizes: ELEMENTS }
}

const fn pair(name: &'static str, write: fn(&[Tensor]) -> Tensor) -> Case {
    Case { shapes: |n| vec![vec![n], vec![n]], ..row(name, write) }
}

const fn images(name: &'static str, shapes: fn(usize) -> Vec<Vec<usize>>) -> Case {
    Case { name, shapes, write: |x| x[0].conv(&x[1], None, &Conv::default()), sizes: &[14, 28, 55, 111, 222] }
}

/// Sixteen steps, each on what the one before gave.
fn chain(x: &[Tensor], step: fn(&Tensor, &[Tensor]) -> Tensor) -> Tensor {
    (1..16).fold(step(&x[0], x), |y, _| step(&y, x))
}

/// Additions of so many parts, put side by side.
fn in_parts(x: &[Tensor], parts: usize) -> Tensor {
    let n = x[0].shape()[0];
    let one = |i: usize| {
        x[0].slice(0, n * i / parts..n * (i + 1) / parts) + x[1].slice(0, n * i / parts..n * (i + 1) / parts)
    };
    let sums: Vec<Tensor> = (0..parts).map(one).collect();
    breakeven::concat(&sums.iter().collect::<Vec<_>>(), 0)
}

const CASES: &[Case] = &[
    pair("add", |x| &x[0] + &x[1]),
    row("relu", |x| x[0].relu()),
    row("exp", |x| x[0].exp()),
    row("tanh", |x| x[0].tanh()),
    row("sigmoid", |x| x[0].sigmoid()),
    row("silu", |x| x[0].silu()),
    row("gelu", |x| x[0].gelu()),
    row("ln", |x| x[0].abs().ln()),
    row("sin", |x| x[0].sin()),
    row("mish", |x| x[0].mish()),
    pair("16 add", |x| chain(x, |y, x| y + &x[1])),
    pair("16 mul", |x| chain(x, |y, x| y * &x[1])),
    row("16 clip", |x| chain(x, |y, _| y.clip(-0.2, 0.3))),
    row("16 tanh", |x| chain(x, |y, _| y.tanh())),
    row("16 gelu", |x| chain(x, |y, _| y.gelu())),
    row("softmax", |x| x[0].softmax(-1)),
    row("sum", |x| x[0].sum(0)),
    Case { sizes: &[5_120, 20_000, 200_000, 2_000_000], ..pair("20 adds", |x| in_parts(x, 20)) },
    Case { sizes: &[5_120, 20_000, 256_000, 2_000_000], ..pair("4 adds", |x| in_parts(x, 4)) },
    images("conv 3 to 16", |n| vec![vec![1, 3, n, n], vec![16, 3, 3, 3]]),
    images("conv 16 to 32", |n| vec![vec![1, 16, n, n], vec![32, 16, 3, 3]]),
    images("conv 64 to 64", |n| vec![vec![1, 64, n, n], vec![64, 64, 3, 3]]),
    Case {
        name: "matmul",
        shapes: |n| vec![vec![n, n]; 2],
        write: |x| x[0].matmul(&x[1]),
        sizes: &[50, 100, 200, 500],
    },
    Case {
        name: "f16 matmul",
        shapes: |n| vec![vec![n, n]; 2],
        write: |x| x[0].cast(DType::F16).matmul_with(&x[1].cast(DType::F16), Precision::High),
        sizes: &[50, 200, 500, 1_000, 2_000],
    },
    Case {
        name: "16 matmul",
        shapes: |n| vec![vec![n, n]; 2],
        write: |x| chain(x, |y, x| y.matmul(&x[1])),
        sizes: &[50, 100, 200],
    },
];

fn main() -> Result<(), Failure> {
    let args: Vec<String> = env::args().skip(1).collect();
    let has = |name: &str| args.iter().any(|arg| arg == name);
    let of = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name));
    let threads = of("--threads=").map(str::parse).transpose()?;
    let software = has("--software");
    let first = with_threads(Engine::builder().no_cache(), threads);
    let first = if software { first.software(true) } else { first }.gpus(software || has("--gpus")).build()?;
    first.ready(Deadline::after(Duration::from_mins(2)))?;
    for (i, report) in first.devices().iter().enumerate() {
        let Some(device) = first.device(DeviceId(i)) else { continue };
        let begun = Instant::now();
        let profile = measure(&device, Effort::QUICK)?;
        println!("{}: measured in {:.2} s", report.name, begun.elapsed().as_secs_f64());
        let [submit, dispatch, sync] = [profile.submit, profile.dispatch, profile.sync].map(|cost| cost.seconds * 1e6);
        println!("a call {submit:.1} us, each launch {dispatch:.2} us, waiting {sync:.1} us");
        let make = |profile: &DeviceProfile| -> Result<Engine, Failure> {
            let builder = with_threads(Engine::builder().gpus(false).no_cache().learn(false), threads);
            Ok(if i == 0 {
                builder.cpu_profile(profile.clone())
            } else {
                builder.measured_device(device.clone(), profile.clone())
            }
            .build()?)
        };
        compare([&make(&profile)?, &make(&without_between(&profile))?], DeviceId(i.min(1)), of("--only="))?;
    }
    Ok(())
}

fn with_threads(builder: EngineBuilder, threads: Option<usize>) -> EngineBuilder {
    match threads {
        Some(threads) => builder.threads(threads),
        None => builder,
    }
}

/// The same without families between those with much and with little arithmetic.
fn without_between(profile: &DeviceProfile) -> DeviceProfile {
    let mut profile = profile.clone();
    for curves in profile.classes.values_mut() {
        curves.between.clear();
    }
    profile
}

fn compare(engines: [&Engine; 2], device: DeviceId, only: Option<&str>) -> Result<(), Failure> {
    println!(
        "{:<14} {:>9} {:>10} {:>10} {:>10} {:>6} {:>6}",
        "", "size", "taken us", "foretold", "two ends", "ratio", "ratio"
    );
    let mut all = [Vec::new(), Vec::new()];
    for case in CASES.iter().filter(|case| only.is_none_or(|only| only.split(',').any(|name| name == case.name))) {
        for &size in case.sizes {
            let foretold = engines.map(|engine| foretell(engine, case, size, device));
            let taken = take(engines[0], case, size, device)?;
            let [now, ends] = foretold;
            let (now, ends) = (now?, ends?);
            println!(
                "{:<14} {size:>9} {taken:>10.1} {now:>10.1} {ends:>10.1} {:>6.2} {:>6.2}",
                case.name,
                now / taken,
                ends / taken
            );
            for (all, foretold) in all.iter_mut().zip([now, ends]) {
                all.push((foretold / taken).ln().abs());
            }
        }
    }
    for (name, mut all) in ["now", "two ends"].into_iter().zip(all) {
        all.sort_by(f64::total_cmp);
        let at = |share: f64| all[((all.len() - 1) as f64 * share) as usize].exp();
        println!("{name}: half are within {:.2}x, nine tenths within {:.2}x", at(0.5), at(0.9));
    }
    Ok(())
}

fn operands(engine: &Engine, case: &Case, size: usize) -> Vec<Tensor> {
    let one = |shape: &Vec<usize>| {
        let values: Vec<f32> = (0..shape.iter().product()).map(|i: usize| (i * 7 % 13) as f32 * 0.1 - 0.6).collect();
        engine.from_vec(values, &shape[..])
    };
    (case.shapes)(size).iter().map(one).collect()
}

fn foretell(engine: &Engine, case: &Case, size: usize, device: DeviceId) -> Result<f64, Failure> {
    let x = resident(engine, case, size, device)?;
    Ok(engine.explain(&[&(case.write)(&x).on(device)])?.predicted.seconds * 1e6)
}

fn resident(engine: &Engine, case: &Case, size: usize, device: DeviceId) -> Result<Vec<Tensor>, Failure> {
    let x: Vec<Tensor> = operands(engine, case, size);
    engine.run(&[&(case.write)(&x).on(device)])?;
    Ok(x)
}

/// Microseconds of a call whose operands stay where they are used.
fn take(engine: &Engine, case: &Case, size: usize, device: DeviceId) -> Result<f64, Failure> {
    let x = resident(engine, case, size, device)?;
    let mut times = Vec::new();
    let begun = Instant::now();
    while times.len() < 9 || (begun.elapsed() < Duration::from_millis(40) && times.len() < 400) {
        let result = (case.write)(&x);
        let result = if device == DeviceId::HOST { result } else { result.on(device) };
        let start = Instant::now();
        engine.run(&[&result])?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 4])
}
