//! Engines with simulated devices and clocks, and what the runner finds on them.

#![allow(dead_code, reason = "each test file uses a part")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use breakeven::{Device, DeviceProfile, Engine};
use breakeven_bench::scan::child::Bench;
use breakeven_bench::scan::task::{Effort, Line, Measure, Setting};
use breakeven_bench::scan::{Clock, Operation, Sensors, child};
use breakeven_device::sim::{Fault, SimClock, SimDevice, SimOptions, SimSpeed};
use breakeven_study::folder::Facts;
use breakeven_study::{Cell, Mode, Sample};

/// The simulated clock as the runner wants it.
pub struct Simulated(pub SimClock);

impl Clock for Simulated {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn rest(&self, time: Duration) {
        self.0.advance(time);
    }
}

/// An engine with a device that takes 10 us to submit and 5 ms to finish.
pub fn engine() -> (Engine, Simulated) {
    let clock = SimClock::new();
    (engine_on(&clock, &[]), Simulated(clock))
}

/// The same by this clock, with a device that goes wrong.
pub fn engine_on(clock: &SimClock, faults: &[Fault]) -> Engine {
    let options = SimOptions { faults: faults.to_vec(), ..SimOptions::new("sim", speed()) };
    with(Arc::new(SimDevice::new(options, clock)))
}

/// With this device, of which nobody knows how fast it is.
pub fn with(device: Arc<SimDevice>) -> Engine {
    let device: Arc<dyn Device> = device;
    let builder = Engine::builder().gpus(false).no_cache().measured_device(device, DeviceProfile::default());
    builder.build().unwrap()
}

/// What its clock charges.
pub fn speed() -> SimSpeed {
    SimSpeed {
        per_submit: Duration::from_micros(10),
        per_launch: Duration::from_millis(5),
        per_wait: Duration::ZERO,
        flops_per_second: 1e18,
        bytes_per_second: 1e18,
        link_latency: Duration::ZERO,
        link_bytes_per_second: 1e18,
    }
}

/// One cell of `relu`.
pub fn task(mode: Mode, device: &str) -> Measure {
    Measure {
        operation: "relu".to_owned(),
        dtype: "f32".to_owned(),
        sizes: vec![1000],
        devices: vec![device.to_owned()],
        scalar: false,
        modes: vec![mode],
        without: vec![],
        seed: 1,
        effort: Effort {
            rounds: 5,
            block: 5,
            budget_ms: 0,
            warm_up_ms: 0,
            deadline_ms: 5000,
            silence_ms: 5000,
            slowed: 0.0,
            limit: None,
        },
        setting: Setting::default(),
    }
}

/// A machine without sensors.
pub fn no_sensors() -> Sensors {
    Sensors::under(Path::new("/nowhere/at/all"))
}

/// What is done of every cell of `operation`, or of the one that the task names.
pub fn all_measured(
    (engine, clock): (&Engine, &dyn Clock),
    operation: Option<&'static Operation>,
    task: &Measure,
) -> Vec<(Cell, Facts, Vec<Sample>)> {
    let (another, sensors) = (|| Ok(engine.clone()), no_sensors());
    with_bench(&Bench { engine, another: &another, clock, sensors: &sensors }, operation, task)
}

/// The same with all that a bench has.
pub fn with_bench(
    bench: &Bench<'_>,
    operation: Option<&'static Operation>,
    task: &Measure,
) -> Vec<(Cell, Facts, Vec<Sample>)> {
    let mut found = Vec::new();
    let mut say = |line: Line| {
        if let Line::Done { cell, facts, samples } = line {
            found.push((cell, *facts, samples));
        }
        Ok(())
    };
    match operation {
        Some(operation) => child::measure_this(bench, operation, task, &mut say).unwrap(),
        None => child::measure(bench, task, &mut say).unwrap(),
    }
    found
}

/// Submissions until the first cell of a device is done.
pub fn submissions_of_a_cell() -> u64 {
    let clock = Simulated(SimClock::new());
    let sim = Arc::new(SimDevice::new(SimOptions::new("sim", speed()), &clock.0));
    let engine = with(sim.clone());
    let name = engine.devices()[1].name.clone();
    let task = Measure { sizes: vec![1000], ..task(Mode::Host, &name) };
    all_measured((&engine, &clock), None, &task);
    sim.submits() as u64
}
