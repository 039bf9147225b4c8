//! A device made of arithmetic: right answers, a virtual clock, speeds set by the test, and faults on demand.
//!
//! Plans, recovery, deadlines and reports are tested on it, so no such test needs a GPU, a clock or a sleep. It also
//! finds missing `after` edges: reading what another lane has not finished writing is an error here, not a race.

mod backend;
mod clock;
mod compiler;
mod device;
mod memory;
mod queue;

pub use backend::SimBackend;
pub use clock::SimClock;
pub use compiler::SimCompiler;
pub use device::SimDevice;

use std::time::Duration;

use breakeven_ir::{Caps, Class};

use crate::{DeviceInfo, DeviceKind};

/// What the virtual clock charges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimSpeed {
    /// Host time of one submit.
    pub per_submit: Duration,
    /// Device time of one launch, before its work.
    pub per_launch: Duration,
    /// Host time of one wait that finds the work done.
    pub per_wait: Duration,
    /// Arithmetic per second.
    pub flops_per_second: f64,
    /// Bytes moved by kernels per second.
    pub bytes_per_second: f64,
    /// Time of one copy over the link, before its bytes.
    pub link_latency: Duration,
    /// Bytes over the link per second.
    pub link_bytes_per_second: f64,
}

/// Something that goes wrong. Submissions are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device is lost at this submission.
    LostAt(u64),
    /// This submission never ends.
    HangAt(u64),
    /// This submission is refused once.
    BusyAt(u64),
    /// This submission is called done before it is: its reads stay empty.
    EarlyDoneAt(u64),
    /// From this submission on, the device says that it is out of memory or refuses for another reason of its own.
    RefusesFrom(u64),
    /// The same of every second submission from this one on.
    RefusesEverySecondFrom(u64),
    /// It sleeps until it was roused so often.
    WakesAfter(u64),
    /// Whichever submission has a kernel of this class loses the device.
    LosesOn(Class),
    /// NaN is lost on the way to the host.
    LosesNan,
    /// This opening fails.
    DoesNotOpen,
    /// Its clock, a nanosecond a tick, says these before and after the kernels of each submission.
    Marks(u64, u64),
}

/// How to build a simulated device.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// Its name.
    pub name: String,
    /// What sort of machine it says it is.
    pub kind: DeviceKind,
    /// The physical device that it says it is.
    pub address: Option<String>,
    /// What the clock charges.
    pub speed: SimSpeed,
    /// What it can hold and bind; `memory_bytes` is a hard limit.
    pub caps: Caps,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// Memory that is let go stays with the device until it is trimmed, and counts.
    pub keeps: bool,
    /// What stays so is none of its pool's, as memory for copies: only the driver counts it.
    pub hides_kept: bool,
    /// What kernels are compiled by; none where that takes no time.
    pub compiler: Option<SimCompiler>,
}

impl SimOptions {
    /// A device with the limits of a host and no faults.
    pub fn new(name: &str, speed: SimSpeed) -> SimOptions {
        SimOptions {
            name: name.to_owned(),
            kind: DeviceKind::Simulated,
            address: None,
            speed,
            caps: Caps { host_memory: false, ..Caps::host() },
            faults: Vec::new(),
            keeps: false,
            hides_kept: false,
            compiler: None,
        }
    }

    /// What such a device is.
    pub(super) fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: self.name.clone(),
            kind: self.kind,
            backend: "sim".to_owned(),
            driver: "virtual clock".to_owned(),
            address: self.address.clone(),
            unusable: None,
        }
    }
}

#[cfg(test)]
mod tests;
