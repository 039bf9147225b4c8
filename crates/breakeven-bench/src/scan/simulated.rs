//! A machine without noise: a simulated device and its clock, on which the method of comparing says the same everywhere.

use std::sync::Arc;
use std::time::Duration;

use breakeven::{Device, DeviceProfile, Engine};
use breakeven_device::sim::{SimClock, SimDevice, SimOptions, SimSpeed};

use super::clock::Clock;
use super::preset::Group;
use super::{Result, operation};

/// The name of the device.
pub const DEVICE: &str = "sim:0";
/// It computes as slowly as a reference does, so cells are small.
const MOST_ELEMENTS: u64 = 10_000;

/// Leaves the sizes of a group that the device computes within milliseconds.
pub fn keep_small(group: &mut Group) {
    let elements = |size: usize| operation::find(group.operation).map_or(0, |operation| operation.elements(size));
    group.sizes.retain(|size| elements(*size) <= MOST_ELEMENTS);
}

/// Its clock, as the runner wants it: it goes on by what work takes, and by nothing else.
pub struct SimulatedClock(SimClock);

impl Clock for SimulatedClock {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn rest(&self, time: Duration) {
        self.0.advance(time);
    }

    fn work(&self, time: Duration) {
        self.0.advance(time);
    }
}

/// An engine whose only device beside the CPU is simulated, and the clock of that device.
pub fn machine() -> Result<(Engine, SimulatedClock)> {
    let clock = SimClock::new();
    let speed = SimSpeed {
        per_submit: Duration::from_micros(10),
        per_launch: Duration::from_micros(40),
        per_wait: Duration::from_micros(5),
        flops_per_second: 1e11,
        bytes_per_second: 1e11,
        link_latency: Duration::from_micros(5),
        link_bytes_per_second: 1e10,
    };
    let device: Arc<dyn Device> = Arc::new(SimDevice::new(SimOptions::new("sim", speed), &clock));
    let builder = Engine::builder().gpus(false).no_cache().measured_device(device, DeviceProfile::default());
    Ok((builder.build()?, SimulatedClock(clock)))
}
