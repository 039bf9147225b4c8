//! Why an attempt at a call failed, and what others should know of it.

use std::time::Duration;

use breakeven_device::DeviceError;
use breakeven_exec::{ExecError, Executable};
use breakeven_ir::Kernel;
use breakeven_plan::DeviceId;

use crate::devices::Snapshot;
use crate::patience;
use crate::recovery::Failed;
use crate::{Engine, Error};

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Device(Box<Breakdown>),
    /// The driver of a device has not compiled in time what was to run there. That says nothing of the device.
    Late(DeviceId, Error),
    /// Less memory is left there than a plan has to take. That says nothing of the device either.
    Short(DeviceId, DeviceError),
    Other(Error),
}

/// A device that failed in the course of an attempt.
#[derive(Debug)]
pub(crate) struct Breakdown {
    pub error: ExecError,
    /// What it was computing, where that is known.
    pub kernels: Vec<Kernel>,
    /// How long its unfinished work may still take.
    pub patience: Duration,
    /// Another plan can do the same: this one was tried, or had been seen to be faster.
    pub is_optional: bool,
}

impl Failure {
    /// A device failed before it was given anything to compute.
    pub fn before_running(error: ExecError) -> Failure {
        Failure::Device(Box::new(Breakdown {
            error,
            kernels: Vec::new(),
            patience: patience::limit(None),
            is_optional: false,
        }))
    }

    /// A device failed while it carried out a plan, which should have taken so long at most and may be left for another one.
    pub fn while_running(
        executable: &Executable,
        patience: Duration,
        is_optional: bool,
    ) -> impl Fn(ExecError) -> Failure {
        move |error| {
            let kernels = match &error {
                ExecError::Device { device, during, .. } => {
                    executable.kernels(*device, during.clone()).cloned().collect()
                }
                _ => Vec::new(),
            };
            Failure::Device(Box::new(Breakdown { error, kernels, patience, is_optional }))
        }
    }

    /// As the user sees it.
    pub fn named(self, devices: &Snapshot) -> Error {
        match self {
            Failure::Device(breakdown) => devices.name(breakdown.error),
            Failure::Short(id, source) => Error::Device { device: devices.entry(id).name.clone(), source },
            Failure::Late(_, error) | Failure::Other(error) => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Other(error)
    }
}

impl Engine {
    /// All calls to come should know of a device that failed at something whose result is computed again where it is read.
    pub(crate) fn note_failure(&self, devices: &Snapshot, failure: Failure) {
        let Failure::Device(breakdown) = failure else { return };
        let Breakdown { error: ExecError::Device { device: id, source, .. }, kernels, patience, .. } = &*breakdown
        else {
            return;
        };
        if *id == DeviceId::HOST || matches!(source, DeviceError::Custom { .. }) {
            return;
        }
        if let Some(device) = &devices.entry(*id).device {
            self.report_failure(&Failed { id: *id, device, error: source, kernels, patience: *patience });
        }
    }

    /// All calls to come should know that a device failed.
    pub(crate) fn report_failure(&self, failed: &Failed<'_>) {
        self.0.devices.fail(failed);
        if matches!(failed.error, DeviceError::Lost { .. }) {
            self.0.plans.forget();
        }
    }

    /// A plan was carried out: the devices that did so answer, and so do kernels that were in doubt.
    pub(crate) fn report_success(&self, devices: &Snapshot, executable: &Executable) {
        for (id, entry) in devices.ids().zip(devices.entries()) {
            let Some(device) = entry.device.as_ref().filter(|_| entry.is_in_doubt()) else { continue };
            let kernels: Vec<&Kernel> = executable.kernels(id, 0..executable.plan().steps.len()).collect();
            let answers = !kernels.is_empty() && entry.state.problem().is_some();
            if answers || entry.record.is_changed_by(&kernels) {
                self.0.devices.ran(id, device, &kernels);
            }
        }
    }
}

/// A device that failed at something else than a plan.
pub(crate) fn of_device(id: DeviceId, source: DeviceError) -> Failure {
    Failure::before_running(ExecError::of(id)(source))
}
