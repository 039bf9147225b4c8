//! What a call does when a device fails: it goes on without it, or says why it cannot.

use std::time::Duration;

use breakeven_device::DeviceError;
use breakeven_exec::{ExecError, Executable};
use breakeven_ir::Kernel;
use breakeven_plan::DeviceId;

use crate::devices::{Snapshot, Without};
use crate::patience::{self, Patience};
use crate::planned::Turn;
use crate::recovery::Failed;
use crate::{Engine, Error, Result, Tensor};

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
    error: ExecError,
    /// What it was computing, where that is known.
    kernels: Vec<Kernel>,
    /// How long its unfinished work may still take.
    patience: Duration,
    /// Another plan can do the same: this one was tried, or had been seen to be faster.
    is_optional: bool,
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

/// One call, through all its attempts.
#[derive(Debug)]
pub(crate) struct Attempts {
    pub patience: Patience,
    /// Devices that the caller named, which are never left for others.
    forced: Vec<DeviceId>,
    without: Without,
    /// Which devices failed on the way, in words.
    pub replanned: Vec<String>,
    /// What ran well, and how long it has taken so far.
    ran: Option<(Turn, Duration)>,
    /// The CPU could not serve until another plan was compiled, which is waited for from now on.
    pub waits: bool,
}

/// Whoever reads what was computed may have had more to do for it.
impl Drop for Attempts {
    fn drop(&mut self) {
        self.ran.take().into_iter().for_each(|(turn, time)| turn.took(time));
    }
}

impl Attempts {
    /// For the value of these tensors.
    pub fn at(outputs: &[&Tensor], patience: Patience) -> Attempts {
        let forced = outputs.iter().filter_map(|tensor| tensor.0.pin).collect();
        Attempts { patience, forced, without: Without::default(), replanned: Vec::new(), ran: None, waits: false }
    }

    /// A plan was carried out.
    pub fn ran(&mut self, turn: Turn, time: Duration) {
        self.ran = Some((turn, time));
    }

    /// Reading what it gave took longer still.
    pub fn took(&mut self, more: Duration) {
        self.ran.iter_mut().for_each(|(_, time)| *time += more);
    }

    /// The devices of the next attempt. There are fewer of them after each failure, so the attempts end.
    pub fn devices(&self, engine: &Engine) -> Snapshot {
        engine.0.devices.snapshot().without(self.without)
    }

    /// An attempt on `devices` failed. An error when that is the end of it.
    pub fn failed(&mut self, engine: &Engine, devices: &Snapshot, failure: Failure) -> Result<()> {
        let breakdown = match failure {
            Failure::Device(breakdown) => breakdown,
            Failure::Late(id, error) => return self.is_late(engine, id, error),
            Failure::Short(id, error) => {
                self.is_short(engine, id, &error);
                return Ok(());
            }
            Failure::Other(error) => return Err(error),
        };
        let Breakdown { error, kernels, patience, is_optional } = *breakdown;
        let ExecError::Device { device: id, ref source, .. } = error else { return Err(devices.name(error)) };
        let is_timeout = matches!(source, DeviceError::Timeout { .. });
        let is_lost = matches!(source, DeviceError::Lost { .. });
        // What a device refuses that nobody asked it for does not count against it.
        if is_optional && (id == DeviceId::HOST || !is_timeout && !is_lost) {
            let name = &devices.entry(id).name;
            self.waits = true;
            self.replanned.push(format!("{name}: {source}; computed by another plan, and not tried there again"));
            return Ok(());
        }
        // The fault of a custom operation is the user's code's, and the CPU has nobody to take its place.
        if id == DeviceId::HOST || matches!(source, DeviceError::Custom { .. }) {
            return Err(devices.name(error));
        }
        if let Some(device) = &devices.entry(id).device {
            let failed = Failed { id, device, error: source, kernels: &kernels, patience };
            engine.report_failure(&failed);
        }
        let is_out_of_time = self.patience.is_callers() && (!is_optional || self.patience.is_spent());
        if self.forced.contains(&id) || is_timeout && is_out_of_time {
            return Err(devices.name(error));
        }
        if is_timeout || is_lost {
            self.without.use_of(id);
        } else {
            self.without.place_on(id);
        }
        self.replanned.push(format!("{}: {source}; planned again without it", devices.entry(id).name));
        Ok(())
    }

    /// A driver has not compiled in time. An error where the caller named the device or the deadline.
    fn is_late(&mut self, engine: &Engine, id: DeviceId, error: Error) -> Result<()> {
        let name = &engine.0.devices.names()[id.0];
        engine.0.devices.note(format!("{name}: its driver was still compiling when a call could not wait any longer"));
        if self.patience.is_callers() || self.forced.contains(&id) {
            return Err(error);
        }
        self.without.place_on(id);
        self.replanned.push(format!("{error}; planned again without it"));
        Ok(())
    }

    /// There is no room for a plan, which nobody insists on.
    fn is_short(&mut self, engine: &Engine, id: DeviceId, error: &DeviceError) {
        let name = &engine.0.devices.names()[id.0];
        engine.0.devices.note(format!("{name}: what there was no room for went to the other devices"));
        self.without.place_on(id);
        self.replanned.push(format!("{name}: {error}; planned again without it"));
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
    fn report_failure(&self, failed: &Failed<'_>) {
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
