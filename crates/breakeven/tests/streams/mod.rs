//! Streams over a simulated device, sent by either thread.
#![allow(dead_code, reason = "each test file takes what it needs")]

#[path = "../sim/mod.rs"]
mod sim;

use std::sync::Arc;
use std::time::Duration;

use breakeven::{Device, Engine, EngineBuilder, Tensor};
use breakeven_device::sim::{Fault, SimClock, SimDevice, SimOptions, SimSpeed};
use sim::{GPU, rates};

/// A device that takes 100 us to compute and 100 us for each copy of a batch.
pub fn speed() -> SimSpeed {
    SimSpeed {
        per_submit: Duration::from_micros(1),
        per_launch: Duration::from_micros(100),
        per_wait: Duration::ZERO,
        flops_per_second: 1e18,
        bytes_per_second: 1e18,
        link_latency: Duration::from_micros(100),
        link_bytes_per_second: 1e18,
    }
}

/// Who sends the batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The thread that reads the results.
    Reader,
    /// A thread beside it, since waking that takes less than any batch.
    Another,
}

pub const BOTH: [By; 2] = [By::Reader, By::Another];

pub fn engine(faults: &[Fault], by: By) -> (Engine, SimClock) {
    engine_by(faults, by, |builder| builder)
}

/// As [`engine`], with more settings.
pub fn engine_by(faults: &[Fault], by: By, more: fn(EngineBuilder) -> EngineBuilder) -> (Engine, SimClock) {
    let clock = SimClock::new();
    let options = SimOptions { faults: faults.to_vec(), ..SimOptions::new("sim", speed()) };
    let device: Arc<dyn Device> = Arc::new(SimDevice::new(options, &clock));
    let mut cpu = rates(1.0);
    if by == By::Another {
        cpu.tuning.insert("wake_ns".to_owned(), 1e-9);
    }
    let builder = more(Engine::builder().gpus(false).no_cache().cpu_profile(cpu));
    (builder.measured_device(device, rates(1e18)).build().unwrap(), clock)
}

pub fn batches(count: usize) -> impl Iterator<Item = Vec<f32>> {
    (0..count).map(|i| vec![i as f32, 1.0, -1.0])
}

/// `x + 1` of a batch on the device.
pub fn next(engine: &Engine, batch: Vec<f32>) -> Tensor {
    (engine.from_vec(batch, 3) + 1.0).on(GPU)
}
