//! `cargo run --release -p breakeven-bench`: what one eager operation costs, what many in one batch cost, and what
//! operations cost that begin and end in the host's memory, on each device and where the engine puts them. Names of parts after
//! `--` leave the others out (`PARTS`), and numbers are the sizes that `host` is to measure: `-- host 1000000`.
#![forbid(unsafe_code)]

mod bare;
mod host;
mod overlap;
mod steps;
mod stream;

use std::time::Duration;

use breakeven::{
    DType, Deadline, DeviceId, DeviceReport, DeviceState, Draft, Engine, HostBytes, Result, Spec, Tensor, concat,
};
use breakeven_bench::{Samples, WARM_UP, interleave, stretches};

const ROUNDS: usize = 2000;
const BATCH_ROUNDS: usize = 200;

type Part = (&'static str, fn(&Engine, &DeviceReport) -> Result<()>);

/// What it measures on each device, after one eager operation and in this order.
const PARTS: [Part; 5] = [
    ("bare", |engine, device| {
        round_trip(engine, device);
        Ok(())
    }),
    ("batches", |engine, device| relu_batches(engine, device.id)),
    ("steps", |engine, device| steps::all(engine, device.id)),
    ("stream", |engine, device| stream::all(engine, device.id)),
    ("overlap", |engine, device| overlap::all(engine, device.id)),
];
/// What it measures at last, on all of them.
const HOST: &str = "host";

/// Parts that were asked for, and sizes of `host`; all of them where there are none.
#[derive(Default)]
struct Wanted {
    parts: Vec<String>,
    sizes: Vec<usize>,
}

impl Wanted {
    fn parse(words: impl Iterator<Item = String>) -> std::result::Result<Wanted, String> {
        let mut wanted = Wanted::default();
        for word in words {
            match word.parse() {
                Ok(size) if host::sizes().any(|one| one == size) => wanted.sizes.push(size),
                _ if Wanted::known().any(|part| part == word) => wanted.parts.push(word),
                _ => {
                    let sizes: Vec<String> = host::sizes().map(|size| size.to_string()).collect();
                    let known = format!(
                        "parts are {}; sizes of host are {}",
                        Wanted::known().collect::<Vec<_>>().join(", "),
                        sizes.join(", ")
                    );
                    return Err(format!("'{word}' is neither a part nor a size: {known}"));
                }
            }
        }
        Ok(wanted)
    }

    fn known() -> impl Iterator<Item = &'static str> {
        PARTS.iter().map(|(part, _)| *part).chain([HOST])
    }

    fn has(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|wanted| wanted == part)
    }
}

fn main() -> Result<()> {
    let wanted = Wanted::parse(std::env::args().skip(1)).unwrap_or_else(|why| {
        eprintln!("{why}");
        std::process::exit(2)
    });
    let engine = Engine::builder().software(true).no_cache().build()?;
    eager_add(&engine)?;
    engine.ready(Deadline::after(Duration::from_mins(2)))?;
    let ready = |d: &DeviceReport| d.state == DeviceState::Ready;
    let devices: Vec<DeviceReport> = engine.devices().into_iter().filter(ready).collect();
    for device in devices.iter().filter(|d| d.id != DeviceId::HOST) {
        println!("{} ({})", device.name, device.info.name);
        PARTS.iter().filter(|(part, _)| wanted.has(part)).try_for_each(|(_, measure)| measure(&engine, device))?;
    }
    let named: Vec<(DeviceId, String)> = devices.into_iter().map(|d| (d.id, d.name)).collect();
    if wanted.has(HOST) {
        host::all(&engine, &named, &wanted.sizes)?;
    }
    engine.notes().iter().for_each(|note| println!("note: {note}"));
    Ok(())
}

/// `add` of 1,000 numbers: written, placed, computed and read.
fn eager_add(engine: &Engine) -> Result<()> {
    let (a, b) = (ramp(engine, 1000), ramp(engine, 1000));
    let sum = (&a + &b).to_vec::<f32>()?;
    assert!(sum.iter().enumerate().all(|(i, &s)| s == 2.0 * i as f32), "add is wrong, so its time means nothing");
    let mut out = vec![0.0f32; 1000];
    let mut run = || (&a + &b).read_into(&mut out, Deadline::after(Duration::from_secs(10))).expect("add was checked");
    let samples = interleave(ROUNDS, WARM_UP, &mut [&mut run]);
    println!("eager add of 1,000 f32 on the CPU, end to end: {}", line(&samples[0]));
    Ok(())
}

/// `relu` of 1,000 numbers from the host's memory to the host's memory, beside the least that wgpu takes for that.
fn round_trip(engine: &Engine, device: &DeviceReport) {
    let values: Vec<f32> = (0..1000).map(|i| i as f32 - 500.0).collect();
    let want: Vec<f32> = values.iter().map(|x| x.max(0.0)).collect();
    let Some(bare) = bare::Bare::new(device, values.len()) else {
        return println!("  wgpu does not list it for a bare call");
    };
    let given = HostBytes::from_vec(values.clone());
    let (mut ours, mut theirs) = (vec![0.0; 1000], vec![0.0; 1000]);
    let mut call = || {
        let x = engine.from_bytes(given.clone(), Spec::new(DType::F32, [1000]));
        x.relu().on(device.id).read_into(&mut ours, Deadline::after(Duration::from_mins(1))).expect("it is checked");
    };
    let mut least = || bare.relu(&values, &mut theirs);
    let samples = stretches(BATCH_ROUNDS, WARM_UP, &mut [&mut call, &mut least]);
    assert!(ours == want && theirs == want, "relu is wrong, so its time means nothing");
    let ratio = samples[0].lower_quartile().as_secs_f64() / samples[1].lower_quartile().as_secs_f64();
    println!("  relu(1000), host to host: {}", line(&samples[0]));
    println!("  the same by wgpu alone: {}, {ratio:.2}x", line(&samples[1]));
}

/// 20 x relu(256) in one batch beside one relu(5120), both read back; and the batch as a program, which is written down once.
fn relu_batches(engine: &Engine, device: DeviceId) -> Result<()> {
    let whole = ramp(engine, 5120) - 2560.0;
    let parts: Vec<Tensor> = (0..20).map(|i| ramp(engine, 256) - 100.0 - f64::from(i)).collect();
    engine.run(&[&whole])?;
    engine.run(&parts.iter().collect::<Vec<_>>())?;
    let want: Vec<f32> = parts.iter().flat_map(|p| p.relu().to_vec::<f32>().expect("the CPU computes relu")).collect();
    let one = || whole.relu().on(device);
    let many = || {
        let all: Vec<Tensor> = parts.iter().map(Tensor::relu).collect();
        concat(&all.iter().collect::<Vec<_>>(), 0).on(device)
    };
    assert_eq!(many().to_vec::<f32>()?, want, "relu is wrong, so its time means nothing");
    let read = |t: Tensor| drop(t.to_vec::<f32>().expect("relu was checked"));
    let given: Vec<&Tensor> = parts.iter().collect();
    let draft = Draft::new(&given).expect("their values are there");
    let all: Vec<Tensor> = draft.stand_ins().iter().map(Tensor::relu).collect();
    let program = draft.finish(&[&concat(&all.iter().collect::<Vec<_>>(), 0).on(device)])?;
    let called = || program.call(&given).expect("it takes them").swap_remove(0);
    assert_eq!(called().to_vec::<f32>()?, want, "relu is wrong, so its time means nothing");
    let calls: &mut [&mut dyn FnMut()] = &mut [&mut || read(one()), &mut || read(many()), &mut || read(called())];
    let samples = interleave(BATCH_ROUNDS, WARM_UP, calls);
    let ratio = |way: usize| samples[way].lower_quartile().as_secs_f64() / samples[0].lower_quartile().as_secs_f64();
    println!("  one relu(5120): {}", line(&samples[0]));
    println!("  20 x relu(256) in one batch: {}, {:.2}x", line(&samples[1]), ratio(1));
    println!("  the same as a program: {}, {:.2}x", line(&samples[2]), ratio(2));
    Ok(())
}

fn ramp(engine: &Engine, n: usize) -> Tensor {
    engine.from_vec((0..n).map(|i| i as f32).collect::<Vec<_>>(), n)
}

fn line(samples: &Samples) -> String {
    let us = |d: Duration| d.as_secs_f64() * 1e6;
    let (best, quartile, p95) = (us(samples.least()), us(samples.lower_quartile()), us(samples.p95()));
    format!("best {best:.2} us, lower quartile {quartile:.2} us, p95 {p95:.2} us")
}
