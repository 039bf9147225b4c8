//! The devices of one engine: which there are, how they stand, and what was measured of them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breakeven_device::{Buffer, Deadline, Device, DeviceError, DeviceInfo, DeviceKind, HostBytes};
use breakeven_exec::ExecError;
use breakeven_plan::{DeviceId, DeviceProfile, Profile};

use crate::search::{self, Search};
use crate::{DeviceReport, Error, calibrate};

/// How a device stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// Open, tested and measured.
    Ready,
    /// A wait ran out. It is left alone; its memory stays reserved until the driver ends the work.
    Suspect(String),
    /// It is gone, and its buffers with it.
    Lost(String),
    /// It cannot be used, and why.
    Unusable(String),
}

impl DeviceState {
    /// Why it is not used, unless it is ready.
    pub fn problem(&self) -> Option<&str> {
        match self {
            DeviceState::Ready => None,
            DeviceState::Suspect(why) | DeviceState::Lost(why) | DeviceState::Unusable(why) => Some(why),
        }
    }
}

/// Said until the search begins.
const NOT_LOOKED_FOR: &str = "GPUs were not looked for yet: no work was large enough to gain by one, and nobody asked for one (`Engine::ready` does)";

/// One device.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub name: String,
    pub info: DeviceInfo,
    pub device: Option<Arc<dyn Device>>,
    pub profile: DeviceProfile,
    pub state: DeviceState,
}

/// All devices, shared with the thread that looks for more.
#[derive(Debug)]
pub(crate) struct Devices {
    registry: Mutex<Registry>,
    /// As in the registry, to be looked at without its lock.
    version: AtomicU64,
    /// The search waits for a reason to begin: as in the registry.
    is_waiting: AtomicBool,
    changed: Condvar,
}

#[derive(Debug)]
struct Registry {
    entries: Arc<Vec<Entry>>,
    names: Arc<[String]>,
    looking: Looking,
    notes: BTreeSet<String>,
    /// Counts changes, so that plans know for which devices they were made.
    version: u64,
}

/// How far looking for GPUs has come.
#[derive(Debug)]
enum Looking {
    /// Nobody needed one yet.
    Waits(Search),
    Runs,
    /// Or there is none.
    Ended,
}

/// The devices at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    entries: Arc<Vec<Entry>>,
    pub version: u64,
}

impl Devices {
    /// Starts with the CPU and whatever else was given.
    pub fn new(entries: Vec<Entry>, search: Option<Search>, notes: Vec<String>) -> Devices {
        let notes = notes.into_iter().collect();
        let names = names(&entries);
        let is_waiting = AtomicBool::new(search.is_some());
        let looking = search.map_or(Looking::Ended, Looking::Waits);
        let registry = Mutex::new(Registry { entries: Arc::new(entries), names, looking, notes, version: 0 });
        Devices { registry, version: AtomicU64::new(0), is_waiting, changed: Condvar::new() }
    }

    /// True until something begins the search.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Acquire)
    }

    /// Begins the search, once.
    pub fn look(self: &Arc<Devices>) {
        if !self.is_waiting() {
            return;
        }
        let mut registry = self.lock();
        self.is_waiting.store(false, Ordering::Release);
        match std::mem::replace(&mut registry.looking, Looking::Runs) {
            Looking::Waits(search) => {
                drop(registry);
                search::spawn(search, self);
            }
            other => registry.looking = other,
        }
    }

    /// What a reader of plans should know of the search, unless it has ended.
    pub fn remark(&self) -> Option<&'static str> {
        match self.lock().looking {
            Looking::Waits(_) => Some(NOT_LOOKED_FOR),
            Looking::Runs => {
                Some("GPUs are being looked for; until they are measured, only the other devices are used")
            }
            Looking::Ended => None,
        }
    }

    /// Which devices there are: it grows with every change.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub fn snapshot(&self) -> Snapshot {
        let registry = self.lock();
        Snapshot { entries: registry.entries.clone(), version: registry.version }
    }

    /// Their names, by [`DeviceId`].
    pub fn names(&self) -> Arc<[String]> {
        self.lock().names.clone()
    }

    /// One more device.
    pub fn add(&self, entry: Entry) {
        self.change(|registry| Arc::make_mut(&mut registry.entries).push(entry));
    }

    /// A better profile for a device.
    pub fn measured(&self, id: DeviceId, profile: DeviceProfile) {
        self.change(|registry| Arc::make_mut(&mut registry.entries)[id.0].profile = profile);
    }

    /// The search has ended.
    pub fn search_ended(&self) {
        self.change(|registry| registry.looking = Looking::Ended);
    }

    pub fn note(&self, note: String) {
        self.lock().notes.insert(note);
    }

    pub fn notes(&self) -> Vec<String> {
        let notes: Vec<String> = self.lock().notes.iter().cloned().collect();
        let waiting = self.is_waiting().then(|| NOT_LOOKED_FOR.to_owned());
        notes.into_iter().chain(waiting).collect()
    }

    /// A device failed: no plan uses it from now on.
    pub fn fail(&self, id: DeviceId, error: &DeviceError) {
        let state = match error {
            DeviceError::Timeout { .. } => DeviceState::Suspect(error.to_string()),
            _ => DeviceState::Lost(error.to_string()),
        };
        self.change(|registry| {
            let entry = &mut Arc::make_mut(&mut registry.entries)[id.0];
            registry.notes.insert(format!("{}: {error}; its work goes to the other devices", entry.name));
            entry.state = state;
        });
    }

    /// Begin the search and block until it has ended; gives the time waited when the deadline passes first.
    pub fn wait(self: &Arc<Devices>, deadline: Deadline) -> Result<(), Duration> {
        self.look();
        let mut registry = self.lock();
        while matches!(registry.looking, Looking::Runs) {
            if deadline.has_passed() {
                return Err(deadline.waited());
            }
            let waited = self.changed.wait_timeout(registry, deadline.remaining());
            registry = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    pub fn report(&self) -> Vec<DeviceReport> {
        let one = |(id, e): (usize, &Entry)| DeviceReport {
            id: DeviceId(id),
            name: e.name.clone(),
            info: e.info.clone(),
            state: e.state.clone(),
            memory: e.device.as_ref().map(|d| d.memory()),
        };
        self.snapshot().entries.iter().enumerate().map(one).collect()
    }

    pub fn profile(&self) -> Profile {
        let devices = self.snapshot().entries.iter().map(|e| e.profile.clone()).collect();
        Profile { devices, ..Profile::new("") }
    }

    fn change(&self, change: impl FnOnce(&mut Registry)) {
        let mut registry = self.lock();
        change(&mut registry);
        registry.names = names(&registry.entries);
        registry.version += 1;
        self.version.store(registry.version, Ordering::Release);
        drop(registry);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Snapshot {
    pub fn ids(&self) -> impl Iterator<Item = DeviceId> + use<> {
        (0..self.entries.len()).map(DeviceId)
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn entry(&self, id: DeviceId) -> &Entry {
        &self.entries[id.0]
    }

    /// The device, if it is there and can be used.
    pub fn device(&self, id: DeviceId) -> Option<Arc<dyn Device>> {
        let entry = self.entries.get(id.0)?;
        (entry.state == DeviceState::Ready).then(|| entry.device.clone()).flatten()
    }

    /// Host bytes of a value that a device keeps in the host's memory.
    pub fn export(&self, resident: &[(DeviceId, Buffer)]) -> Option<HostBytes> {
        resident.iter().find_map(|(id, buffer)| self.device(*id)?.export(buffer))
    }

    /// The user's error for a failed run.
    pub fn name(&self, error: ExecError) -> Error {
        match error {
            ExecError::Device { device, source } => Error::Device { device: self.entry(device).name.clone(), source },
            other => Error::Placement(other.to_string()),
        }
    }
}

fn names(entries: &[Entry]) -> Arc<[String]> {
    entries.iter().map(|e| e.name.clone()).collect()
}

impl Entry {
    /// A device that can be used, with what is known of its speed.
    pub fn ready(name: String, device: Arc<dyn Device>, profile: DeviceProfile) -> Entry {
        let info = device.info().clone();
        Entry { name, info, device: Some(device), profile, state: DeviceState::Ready }
    }

    /// A device that was found and cannot be used.
    pub fn unusable(name: String, info: DeviceInfo, why: String) -> Entry {
        let profile = calibrate::unmeasured(&info);
        Entry { name, info, device: None, profile, state: DeviceState::Unusable(why) }
    }

    /// It may be chosen without being named.
    pub fn is_automatic(&self) -> bool {
        self.state == DeviceState::Ready && self.info.kind != DeviceKind::Software
    }
}
