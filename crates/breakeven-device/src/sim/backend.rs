//! Simulated devices that are found and opened, again and again, as a driver's are.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Fault, SimClock, SimDevice, SimOptions};
use crate::{Backend, Device, DeviceError, DeviceInfo, Result};

/// A driver of simulated devices. Its time is that of their clock, which pauses move on.
#[derive(Debug)]
pub struct SimBackend {
    clock: SimClock,
    plugs: Vec<Plug>,
}

/// Where a device is plugged in.
#[derive(Debug)]
struct Plug {
    /// How the device is at each opening; the last holds for all further ones.
    openings: Vec<SimOptions>,
    opened: Mutex<Vec<Arc<SimDevice>>>,
    tried: Mutex<usize>,
}

impl SimBackend {
    /// For each device, how it is at each of its openings; the last holds for all further ones.
    ///
    /// # Panics
    /// When a device has no opening at all.
    pub fn new(clock: &SimClock, devices: Vec<Vec<SimOptions>>) -> SimBackend {
        let plug = |openings: Vec<SimOptions>| {
            assert!(!openings.is_empty(), "a device is described by its openings");
            Plug { openings, opened: Mutex::default(), tried: Mutex::default() }
        };
        SimBackend { clock: clock.clone(), plugs: devices.into_iter().map(plug).collect() }
    }

    /// The devices that were opened as number `index`, in order.
    pub fn opened(&self, index: usize) -> Vec<Arc<SimDevice>> {
        self.plugs[index].opened.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often number `index` was tried to be opened.
    pub fn tried(&self, index: usize) -> usize {
        *self.plugs[index].tried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for SimBackend {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn list(&self) -> Vec<DeviceInfo> {
        self.plugs.iter().map(|plug| plug.openings[0].info()).collect()
    }

    fn open(&self, index: usize) -> Result<Arc<dyn Device>> {
        let missing = || DeviceError::Driver(format!("there is no device {index}"));
        let plug = self.plugs.get(index).ok_or_else(missing)?;
        let mut tried = plug.tried.lock().unwrap_or_else(PoisonError::into_inner);
        let options = &plug.openings[(*tried).min(plug.openings.len() - 1)];
        *tried += 1;
        if options.faults.contains(&Fault::DoesNotOpen) {
            return Err(DeviceError::Driver("the test said so".to_owned()));
        }
        let device = Arc::new(SimDevice::new(options.clone(), &self.clock));
        plug.opened.lock().unwrap_or_else(PoisonError::into_inner).push(device.clone());
        Ok(device)
    }

    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn pause(&self, time: Duration) {
        self.clock.advance(time);
    }
}
