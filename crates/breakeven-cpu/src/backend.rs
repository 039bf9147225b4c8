//! The CPU as a backend: one device, always there.

use std::sync::Arc;
use std::time::Duration;

use breakeven_device::{Backend, Device, DeviceError, DeviceInfo, Result};

use crate::device::info;
use crate::{CpuDevice, CpuOptions};

/// Opens the host's processor.
#[derive(Clone, Debug, Default)]
pub struct CpuBackend {
    /// How its device is opened.
    pub options: CpuOptions,
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn list(&self) -> Vec<DeviceInfo> {
        vec![info(&self.options)]
    }

    fn open(&self, index: usize) -> Result<Arc<dyn Device>> {
        if index > 0 {
            return Err(DeviceError::Driver(format!("there is one CPU device, number 0, and no number {index}")));
        }
        Ok(Arc::new(CpuDevice::new(self.options.clone())?))
    }

    /// It is never lost, so no time passes between its openings.
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}
