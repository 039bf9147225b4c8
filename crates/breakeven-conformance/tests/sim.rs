//! The suite on the simulated device.

use breakeven_conformance::Tier;
use breakeven_device::sim::{SimClock, SimDevice, SimOptions, SimSpeed};
use std::time::Duration;

fn sim() -> Box<SimDevice> {
    let speed = SimSpeed {
        per_submit: Duration::ZERO,
        per_launch: Duration::ZERO,
        per_wait: Duration::ZERO,
        flops_per_second: f64::INFINITY,
        bytes_per_second: f64::INFINITY,
        link_latency: Duration::ZERO,
        link_bytes_per_second: f64::INFINITY,
    };
    Box::new(SimDevice::new(SimOptions::new("sim", speed), &SimClock::new()))
}

breakeven_conformance::suite!(sim(), Tier::Quick);
