//! What an engine tells of its devices at one moment.

use breakeven_device::Memory;
use breakeven_plan::DeviceId;

use crate::devices::{Entry, Snapshot};
use crate::health::{Facts, judge};
use crate::{DeviceReport, Engine, Health};

impl Engine {
    /// What [`Engine::devices`] tells, without beginning to look for GPUs: for who asks again and again. It waits for no device, and asks a
    /// driver for the memory of its card every tenth of a second at most, and after memory was given back.
    pub fn monitor(&self) -> Vec<DeviceReport> {
        self.0.devices.snapshot().reports()
    }
}

impl Snapshot {
    /// What is known of all devices.
    pub fn reports(&self) -> Vec<DeviceReport> {
        (0..self.entries().len()).map(|at| self.report(at)).collect()
    }

    /// What is known of one device.
    pub fn report(&self, at: usize) -> DeviceReport {
        let entry = &self.entries()[at];
        let memory = entry.memory();
        DeviceReport {
            id: DeviceId(at),
            name: entry.name.clone(),
            info: entry.info.clone(),
            state: entry.state.clone(),
            health: entry.health(memory),
            memory,
            counts: entry.device.as_ref().map(|device| device.counts()).unwrap_or_default(),
            reopened: entry.record.reopened,
            quarantined: entry.record.quarantined(),
        }
    }
}

impl Entry {
    fn memory(&self) -> Option<Memory> {
        self.device.as_ref().map(|device| device.memory())
    }

    fn health(&self, memory: Option<Memory>) -> Option<Health> {
        let backends = self.opener.as_ref().map(|opener| opener.backend.now());
        let signs = self.record.signs(backends, self.device.as_ref().map(|device| device.now()));
        judge(&Facts { state: &self.state, memory, signs })
    }
}
