//! What becomes of a device that failed: it is waited for, opened again in the background, or left alone.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use breakeven_device::{Backend, Deadline, Device, DeviceError, DeviceKind};
use breakeven_ir::Kernel;
use breakeven_plan::DeviceId;
use breakeven_wgpu::pass_self_test;

use crate::devices::{DeviceState, Devices, Entry};
use crate::inside::Stay;
use crate::search::is_wanted;
use crate::{Engine, Error, Result};

/// How long after an opening that failed the next one is tried: a driver that resets itself takes some seconds.
const PAUSE: Duration = Duration::from_secs(2);

/// How a device is opened again.
#[derive(Clone)]
pub(crate) struct Opener {
    pub backend: Arc<dyn Backend>,
    pub index: usize,
}

impl Opener {
    /// A device that may stand in the place of a lost one. What it answered before that says nothing of how its driver is now, so it has to
    /// pass its self-test; software adapters are asked by the tests, and simulated devices compute by what kernels mean.
    fn open(&self, devices: &Weak<Devices>) -> std::result::Result<Arc<dyn Device>, DeviceError> {
        let inside = devices.upgrade().ok_or(DeviceError::Cancelled)?.inside.clone();
        let _stay = inside.enter();
        if !is_wanted(devices) {
            return Err(DeviceError::Cancelled);
        }
        let device = self.backend.open(self.index)?;
        if !matches!(device.info().kind, DeviceKind::Software | DeviceKind::Simulated) {
            pass_self_test(&*device, &|| is_wanted(devices))?;
        }
        Ok(device)
    }
}

/// A device that failed, and at what.
pub(crate) struct Failed<'a> {
    pub id: DeviceId,
    /// The very device: another one may be open in its place by now.
    pub device: &'a Arc<dyn Device>,
    pub error: &'a DeviceError,
    /// What it was computing, where that is known.
    pub kernels: &'a [Kernel],
    /// How long unfinished work may still take.
    pub patience: Duration,
}

/// What is to be done in the background.
enum Task {
    /// Wait for the work of a device that did not answer in time.
    Await {
        device: Arc<dyn Device>,
        patience: Duration,
        kernels: Vec<Kernel>,
    },
    Open(Opener),
}

impl Devices {
    /// A device failed. The work of the call that met it goes elsewhere; this is about all calls to come.
    pub fn fail(self: &Arc<Devices>, failed: &Failed<'_>) {
        // Nothing failed, and a change of the devices would cost all plans.
        if matches!(failed.error, DeviceError::Cancelled) {
            return;
        }
        let task = self.amend(failed.id, Some(failed.device), |entry| entry.fail(failed));
        if let Some(task) = task.flatten() {
            self.begin(failed.id, task);
        }
    }

    /// Kernels ran on a device, each doubted one in a submission of its own; and the device answers.
    pub fn ran(&self, id: DeviceId, device: &Arc<dyn Device>, kernels: &[&Kernel]) {
        self.amend(id, Some(device), |entry| {
            entry.record.ran(kernels);
            (entry.trust(), ())
        });
    }

    /// On a thread of its own, which does not keep the engine alive.
    fn begin(self: &Arc<Devices>, id: DeviceId, task: Task) {
        self.recovering(true);
        let held = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name("breakeven-reopen".to_owned());
        // Whoever ends the engine may come before the thread begins.
        let stay = matches!(task, Task::Await { .. }).then(|| self.inside.expect());
        let work = move || {
            let stay = stay.map(Stay::arrive);
            // A driver may panic on a thread of ours.
            let done = catch_unwind(AssertUnwindSafe(|| task.run(&held, id, stay)));
            if let Some(devices) = held.upgrade() {
                if done.is_err() {
                    devices.lose(id, "the driver panicked when it was opened again");
                }
                devices.recovering(false);
            }
        };
        if let Err(error) = thread.spawn(work) {
            self.lose(id, &format!("the system refused a thread to open it again ({error})"));
            self.recovering(false);
        }
    }

    fn lose(&self, id: DeviceId, why: &str) {
        self.amend(id, None, |entry| {
            entry.close(DeviceState::Lost(why.to_owned()));
            (Some(why.to_owned()), ())
        });
    }

    /// Another device stands in the place of a lost one.
    fn reopened(&self, id: DeviceId, device: Arc<dyn Device>) {
        self.amend(id, None, |entry| {
            entry.device = Some(device);
            entry.state = DeviceState::Ready;
            entry.record.is_reopened();
            (Some("it was opened again; what was there alone is computed again when it is needed".to_owned()), ())
        });
    }
}

impl Task {
    fn run(self, devices: &Weak<Devices>, id: DeviceId, stay: Option<Stay>) {
        let mut opener = match self {
            Task::Open(opener) => Some(opener),
            Task::Await { device, patience, kernels } => await_work(devices, id, &device, patience, &kernels),
        };
        // The thread has left the driver, also where it was the last that had the device.
        drop(stay);
        while let Some(way) = opener {
            let opened = way.open(devices);
            // Nobody waits for it any more when the engine is gone.
            let Some(all) = devices.upgrade() else { return };
            opener = match opened {
                Ok(device) => {
                    all.reopened(id, device);
                    None
                }
                Err(DeviceError::Cancelled) => return,
                Err(error) => all.amend(id, None, |entry| entry.retire(&error)).flatten(),
            };
            drop(all);
            if opener.is_some() {
                way.backend.pause(PAUSE);
            }
        }
    }
}

/// Waits for unfinished work; how to open the device anew where that does not end.
fn await_work(
    devices: &Weak<Devices>,
    id: DeviceId,
    device: &Arc<dyn Device>,
    patience: Duration,
    kernels: &[Kernel],
) -> Option<Opener> {
    let ended = device.drain_while(Deadline::after(patience), &|| is_wanted(devices));
    if matches!(ended, Err(DeviceError::Cancelled)) {
        return None;
    }
    let amend = |entry: &mut Entry| match ended {
        Ok(()) => (entry.trust(), None),
        // It has answered somebody else meanwhile.
        Err(_) if !matches!(entry.state, DeviceState::Suspect(_)) => (None, None),
        // Without an opener it can only be left alone: its memory may still be written.
        Err(_) if entry.opener.is_none() => (None, None),
        Err(error) => {
            entry.record.lost_during(kernels);
            entry.retire(&error)
        }
    };
    devices.upgrade()?.amend(id, Some(device), amend).flatten()
}

impl Entry {
    /// A note, and what is to be done about it.
    fn fail(&mut self, failed: &Failed<'_>) -> (Option<String>, Option<Task>) {
        let error = failed.error;
        match error {
            DeviceError::Timeout { .. } if matches!(self.state, DeviceState::Suspect(_)) => (None, None),
            DeviceError::Timeout { .. } => {
                self.state = DeviceState::Suspect(error.to_string());
                let note = format!("{error}; its work goes to the other devices until it answers");
                let (device, kernels) = (failed.device.clone(), failed.kernels.to_vec());
                (Some(note), Some(Task::Await { device, patience: failed.patience, kernels }))
            }
            DeviceError::Lost { .. } => {
                self.record.lost_during(failed.kernels);
                let (note, opener) = self.retire(error);
                (note, opener.map(Task::Open))
            }
            DeviceError::Driver(_) if self.record.may_refuse(failed.device.now()) => {
                (Some(format!("{error}; what it refused goes to the other devices")), None)
            }
            DeviceError::Driver(_) => {
                self.close(DeviceState::Quarantined(format!("it refused too often within a minute: {error}")));
                (Some(format!("{error}; it is left alone, because it refuses too often")), None)
            }
            // Nothing failed.
            DeviceError::Cancelled => (None, None),
            // There is too much of it at once, and nothing wrong with the device.
            DeviceError::OutOfMemory { .. } => {
                self.record.ran_short(failed.device.now());
                (Some(format!("{error}; what did not fit goes to the other devices")), None)
            }
            _ => (Some(format!("{error}; what did not fit goes to the other devices")), None),
        }
    }

    /// It is gone: a note, and how it is opened again, if it may be.
    fn retire(&mut self, error: &DeviceError) -> (Option<String>, Option<Opener>) {
        let Some(opener) = self.opener.clone() else {
            self.close(DeviceState::Lost(error.to_string()));
            return (Some(format!("{error}; its work goes to the other devices")), None);
        };
        if self.record.may_open(opener.backend.now()) {
            self.close(DeviceState::Reopening(error.to_string()));
            return (Some(format!("{error}; it is being opened again")), Some(opener));
        }
        self.close(DeviceState::Quarantined(format!("it was lost too often within a minute, at last so: {error}")));
        (Some(format!("{error}; it is left alone, because it was opened again too often within a minute")), None)
    }

    /// It answers: a note where that was in doubt.
    fn trust(&mut self) -> Option<String> {
        let was_suspect = matches!(self.state, DeviceState::Suspect(_));
        was_suspect.then(|| {
            self.state = DeviceState::Ready;
            "its work has ended; it is used again".to_owned()
        })
    }

    fn close(&mut self, state: DeviceState) {
        (self.device, self.state) = (None, state);
    }
}

impl Engine {
    /// Lifts the quarantine of a device, and of kernels on it, and begins to open it again where it is closed;
    /// [`Engine::ready`] waits for that. An error where nobody knows how to open it.
    pub fn readmit(&self, id: DeviceId) -> Result<()> {
        let devices = &self.0.devices;
        let missing = || Error::Placement(format!("there is no device {}", id.0));
        let name = devices.names().get(id.0).ok_or_else(missing)?.clone();
        let task = devices.amend(id, None, |entry| {
            entry.record.forgive();
            match (&entry.state, entry.opener.clone()) {
                (DeviceState::Ready | DeviceState::Suspect(_) | DeviceState::Reopening(_), _) => (None, Ok(None)),
                (_, None) => (None, Err(())),
                (_, Some(opener)) => {
                    entry.record.may_open(opener.backend.now());
                    entry.close(DeviceState::Reopening("it is admitted again".to_owned()));
                    (None, Ok(Some(opener)))
                }
            }
        });
        let closed = |()| Error::Placement(format!("{name} cannot be opened again: it was not found by this engine"));
        if let Some(opener) = task.unwrap_or(Ok(None)).map_err(closed)? {
            devices.begin(id, Task::Open(opener));
        }
        Ok(())
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.backend.name(), self.index)
    }
}
