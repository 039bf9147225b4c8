//! Engines on simulated devices, for tests of what happens when these fail.
#![allow(dead_code, reason = "each test file takes what it needs")]

use std::sync::Arc;
use std::time::Duration;

use breakeven::{Deadline, Device, DeviceId, DeviceProfile, DeviceReport, Engine, EngineBuilder, Profile, Tensor};
use breakeven_device::sim::{Fault, SimBackend, SimClock, SimDevice, SimOptions, SimSpeed};
use breakeven_plan::{ClassCurves, Cost, Curve, Trust};

pub const GPU: DeviceId = DeviceId(1);

pub fn speed() -> SimSpeed {
    SimSpeed {
        per_submit: Duration::from_micros(10),
        per_launch: Duration::from_micros(2),
        per_wait: Duration::from_micros(10),
        flops_per_second: 1e13,
        bytes_per_second: 1e12,
        link_latency: Duration::from_micros(5),
        link_bytes_per_second: 2e10,
    }
}

/// Numbers so good that everything is placed on the device.
pub fn unbeatable() -> DeviceProfile {
    rates(1e18)
}

/// Numbers of a CPU that never pays.
pub fn hopeless() -> DeviceProfile {
    rates(1.0)
}

/// Everything at `rate` a second.
pub fn rates(rate: f64) -> DeviceProfile {
    let fast = || ClassCurves { math: Curve::rate(rate), memory: Curve::rate(rate), ..ClassCurves::default() };
    let classes = [
        "map",
        "reduce",
        "scan",
        "row_wise",
        "sort",
        "matmul",
        "matmul_bf16",
        "matmul_f16",
        "matmul_int",
        "attention",
        "conv",
        "gather",
        "scatter",
    ]
    .map(|name| (name.to_owned(), fast()));
    let tiny = Cost { seconds: 1e-12, spread: 0.0 };
    DeviceProfile {
        name: "sim".into(),
        driver: "virtual clock".into(),
        trust: Trust::Full,
        submit: tiny,
        dispatch: tiny,
        sync: tiny,
        upload: Curve::rate(rate),
        download: Curve::rate(rate),
        classes: classes.into(),
        ..DeviceProfile::default()
    }
}

/// A device called `sim`.
pub fn options(faults: &[Fault]) -> SimOptions {
    SimOptions { faults: faults.to_vec(), ..SimOptions::new("sim", speed()) }
}

fn builder() -> EngineBuilder {
    Engine::builder().gpus(false).no_cache().cpu_profile(hopeless())
}

/// An engine with a device that nobody can open again.
pub fn engine(faults: &[Fault]) -> (Engine, Arc<SimDevice>) {
    engine_of(options(faults))
}

/// The same with such a device.
pub fn engine_of(options: SimOptions) -> (Engine, Arc<SimDevice>) {
    let sim = Arc::new(SimDevice::new(options, &SimClock::new()));
    let device: Arc<dyn Device> = sim.clone();
    (builder().measured_device(device, unbeatable()).build().unwrap(), sim)
}

/// An engine whose devices are found and opened by a driver.
pub struct Driven {
    pub engine: Engine,
    pub backend: Arc<SimBackend>,
    pub clock: SimClock,
}

impl Driven {
    /// One device with these faults at each of its openings.
    pub fn new(openings: &[&[Fault]]) -> Driven {
        Driven::with(openings, |builder| builder)
    }

    pub fn with(openings: &[&[Fault]], how: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Driven {
        let openings = openings.iter().map(|faults| options(faults)).collect();
        let known = Profile { devices: vec![unbeatable()], ..Profile::new("") };
        Driven::of(vec![openings], |builder| how(builder.profile(known)))
    }

    /// Devices by their openings.
    pub fn of(devices: Vec<Vec<SimOptions>>, how: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Driven {
        let clock = SimClock::new();
        let backend = Arc::new(SimBackend::new(&clock, devices));
        let engine = how(builder().backend(backend.clone())).build().unwrap();
        let driven = Driven { engine, backend, clock };
        driven.settle();
        driven
    }

    /// Waits until nothing goes on in the background.
    pub fn settle(&self) {
        self.engine.ready(Deadline::after(Duration::from_mins(1))).expect("what goes on in the background ends");
    }

    pub fn gpu(&self) -> DeviceReport {
        self.engine.devices().swap_remove(GPU.0)
    }
}

/// Ten steps, each read back or kept as the caller likes.
pub fn chain(engine: &Engine) -> Vec<Tensor> {
    let mut steps = vec![engine.tensor(&[1.0, 2.0, 3.0], [3])];
    for _ in 0..10 {
        let next = steps.last().unwrap() * 2.0 + 1.0;
        steps.push(next);
    }
    steps
}

/// What the last of them is.
pub fn want() -> Vec<f32> {
    [1.0f32, 2.0, 3.0].iter().map(|x| x * 1024.0 + 1023.0).collect()
}
