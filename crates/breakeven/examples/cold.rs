//! What the first call of some work takes, for which a GPU's driver has to compile: left to choose, on the GPU by name, on the CPU by
//! name, each in an engine of its own that keeps nothing. Switch the driver's own cache off for it:
//!
//! `__GL_SHADER_DISK_CACHE=0 cargo run --release -p breakeven --example cold`

use std::time::{Duration, Instant};

use breakeven::{Conv, Deadline, DeviceId, DeviceState, Engine, Profile, Tensor};

type Failure = Box<dyn std::error::Error>;

/// What is computed, of operands of these shapes.
struct Work {
    name: &'static str,
    shapes: &'static [&'static [usize]],
    write: fn(&[Tensor]) -> Tensor,
}

/// Large enough for a GPU to gain by them from and to the host's memory.
const WORK: [Work; 4] = [
    Work {
        name: "gelu of a product, 1024",
        shapes: &[&[1024, 1024], &[1024, 1024]],
        write: |x| x[0].matmul(&x[1]).gelu(),
    },
    Work {
        name: "softmax of a product, 2048",
        shapes: &[&[2048, 2048], &[2048, 2048]],
        write: |x| x[0].matmul(&x[1]).softmax(-1),
    },
    Work {
        name: "convolution 32x3x224x224, 7x7 to 64",
        shapes: &[&[32, 3, 224, 224], &[64, 3, 7, 7]],
        write: |x| x[0].conv(&x[1], None, &Conv { stride: vec![2, 2], ..Conv::default() }).relu(),
    },
    Work {
        name: "three layers of 1024, batch 4096",
        shapes: &[&[4096, 1024], &[1024, 1024]],
        write: |x| (0..3).fold(x[0].clone(), |y, _| y.matmul(&x[1]).tanh()),
    },
];

/// Calls after which the GPU should have come.
const CALLS: usize = 200;

fn main() -> Result<(), Failure> {
    let engine = Engine::builder().no_cache().build()?;
    engine.ready(Deadline::after(Duration::from_mins(2)))?;
    let profile = engine.profile();
    let ready = |name: &str| engine.devices().iter().any(|d| d.name == name && d.state == DeviceState::Ready);
    let gpu = engine.devices().iter().map(|d| d.name.clone()).find(|name| name != "cpu" && ready(name));
    let gpu = gpu.ok_or("there is no GPU here, so there is nothing to compile")?;
    drop(engine);
    for work in &WORK {
        compare(work, &profile, &gpu)?;
    }
    Ok(())
}

fn compare(work: &Work, profile: &Profile, gpu: &str) -> Result<(), Failure> {
    println!("{}:", work.name);
    let want = once(work, profile, Some("cpu"))?;
    for way in [Some(gpu), None] {
        let got = once(work, profile, way)?;
        let difference = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let largest = want.iter().fold(0f32, |most, x| most.max(x.abs()));
        if difference > 1e-4 * largest {
            return Err(format!("{} differs by {difference} of {largest}", work.name).into());
        }
    }
    Ok(())
}

/// In an engine of its own: the first call, and those after it until the GPU serves.
fn once(work: &Work, profile: &Profile, way: Option<&str>) -> Result<Vec<f32>, Failure> {
    let engine = Engine::builder().no_cache().profile(profile.clone()).build()?;
    engine.ready(Deadline::after(Duration::from_mins(2)))?;
    let device = way.and_then(|name| engine.devices().iter().find(|d| d.name == name).map(|d| d.id));
    let operands: Vec<Tensor> = work.shapes.iter().map(|shape| operand(&engine, shape)).collect();
    let begun = Instant::now();
    let (first, place) = call(work, &operands, device)?;
    let took = begun.elapsed();
    let mut calls = 1;
    let mut last = (took, place);
    // Unpinned work alone may change its place.
    while way.is_none() && last.1 == DeviceId::HOST && calls < CALLS {
        let again = Instant::now();
        let (_, place) = call(work, &operands, device)?;
        (last, calls) = ((again.elapsed(), place), calls + 1);
    }
    let again = Instant::now();
    call(work, &operands, device)?;
    println!(
        "  {:14} first call {took:9.2?} on device {}; call {calls} on device {} after {:9.2?}; then {:9.2?}",
        way.unwrap_or("left to choose"),
        place.0,
        last.1.0,
        again - begun,
        again.elapsed(),
    );
    Ok(first)
}

/// From and to the host's memory; the result, and where it was computed.
fn call(work: &Work, operands: &[Tensor], device: Option<DeviceId>) -> Result<(Vec<f32>, DeviceId), Failure> {
    let result = (work.write)(operands);
    let result = device.map_or(result.clone(), |device| result.on(device));
    let report = result.engine().run(&[&result])?;
    let place = report.plan.decisions.last().map_or(DeviceId::HOST, |decision| decision.device);
    Ok((result.to_vec()?, place))
}

fn operand(engine: &Engine, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let data: Vec<f32> = (0..count).map(|i| ((i * 37 % 101) as f32 - 50.0) / 800.0).collect();
    engine.tensor(&data, shape)
}
