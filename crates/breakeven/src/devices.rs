//! The devices of one engine: which there are, how they stand, and what was measured of them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breakeven_device::{Buffer, Deadline, Device, DeviceInfo, DeviceKind, HostBytes};
use breakeven_exec::ExecError;
use breakeven_plan::{DeviceId, DeviceProfile, Profile};

use crate::beside::Beside;
use crate::inside::Inside;
use crate::record::Record;
use crate::recovery::Opener;
use crate::search::{self, Search};
use crate::stale::Keepers;
use crate::subscription::Subscribers;
use crate::{Error, calibrate};

/// How a device stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// Open, tested and measured.
    Ready,
    /// A wait ran out. Nothing is placed on it that does not name it, and its memory stays reserved until its work ends. When that
    /// ends in time, it is ready again; else it is opened anew.
    Suspect(String),
    /// It is gone, and its buffers with it; it is being opened again in the background.
    Reopening(String),
    /// It is gone, and its buffers with it, and nobody knows how to open it again.
    Lost(String),
    /// It failed too often within a minute. It is left alone until [`Engine::readmit`](crate::Engine::readmit).
    Quarantined(String),
    /// It cannot be used, and why.
    Unusable(String),
}

impl DeviceState {
    /// Why it is not used, unless it is ready.
    pub fn problem(&self) -> Option<&str> {
        match self {
            DeviceState::Ready => None,
            DeviceState::Suspect(why)
            | DeviceState::Reopening(why)
            | DeviceState::Lost(why)
            | DeviceState::Quarantined(why)
            | DeviceState::Unusable(why) => Some(why),
        }
    }

    /// Its memory is there, and work that names it is tried.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, DeviceState::Ready | DeviceState::Suspect(_))
    }
}

/// How long an engine that goes waits at most for its threads to leave a driver: what cannot be broken off there takes a moment, and
/// a driver that hangs is given up.
const LEAVING: Duration = Duration::from_secs(5);

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
    /// How it is opened again.
    pub opener: Option<Opener>,
    /// Why it was trusted less, by and by.
    pub record: Record,
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
    /// Who keeps plans for the devices as they were.
    pub keepers: Keepers,
    /// Who is told how they do.
    pub subscribers: Subscribers,
    /// Threads that look for devices, open them again, or compile for them beside the work of the callers.
    pub inside: Inside,
    /// What is to be compiled so.
    pub beside: Beside,
    /// The engine is gone.
    is_left: AtomicBool,
}

#[derive(Debug)]
struct Registry {
    entries: Arc<Vec<Entry>>,
    names: Arc<[String]>,
    looking: Looking,
    notes: BTreeSet<String>,
    /// Threads that wait for a device or open it again.
    recovering: usize,
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
    without: Without,
}

/// What one call does without, because it failed there: a bit for each device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Without {
    /// Nothing is placed there.
    unused: u16,
    /// What is there does not count either.
    gone: u16,
}

impl Without {
    /// It refused: nothing more is placed there. At the second time, it is gone.
    pub fn place_on(&mut self, id: DeviceId) {
        if self.unused & bit(id) != 0 {
            self.gone |= bit(id);
        }
        self.unused |= bit(id);
    }

    /// It is as if it were not there.
    pub fn use_of(&mut self, id: DeviceId) {
        self.unused |= bit(id);
        self.gone |= bit(id);
    }
}

/// The few devices past the sixteenth share a bit.
fn bit(id: DeviceId) -> u16 {
    1 << id.0.min(15)
}

impl Devices {
    /// Starts with the CPU and whatever else was given.
    pub fn new(entries: Vec<Entry>, search: Option<Search>, notes: Vec<String>) -> Devices {
        let notes = notes.into_iter().collect();
        let names = names(&entries);
        let is_waiting = AtomicBool::new(search.is_some());
        let looking = search.map_or(Looking::Ended, Looking::Waits);
        let registry =
            Mutex::new(Registry { entries: Arc::new(entries), names, looking, notes, recovering: 0, version: 0 });
        Devices {
            registry,
            version: AtomicU64::new(0),
            is_waiting,
            changed: Condvar::new(),
            keepers: Keepers::default(),
            subscribers: Subscribers::default(),
            inside: Inside::default(),
            beside: Beside::default(),
            is_left: AtomicBool::new(false),
        }
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

    /// The engine goes: what it does by itself stops, and has left whatever driver it was in when this returns; false when that took
    /// too long.
    pub fn leave(&self) -> bool {
        self.is_left.store(true, Ordering::Release);
        self.inside.wait(Deadline::after(LEAVING))
    }

    /// False once the engine is gone.
    pub fn is_wanted(&self) -> bool {
        !self.is_left.load(Ordering::Acquire)
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
        self.version.load(Ordering::SeqCst)
    }

    pub fn snapshot(&self) -> Snapshot {
        let registry = self.lock();
        Snapshot { entries: registry.entries.clone(), version: registry.version, without: Without::default() }
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

    /// Changes one device, unless another one was opened in its place since; with what is to be noted.
    pub fn amend<T>(
        &self,
        id: DeviceId,
        device: Option<&Arc<dyn Device>>,
        amend: impl FnOnce(&mut Entry) -> (Option<String>, T),
    ) -> Option<T> {
        self.change(|registry| {
            let entry = &mut Arc::make_mut(&mut registry.entries)[id.0];
            if device.is_some_and(|device| !entry.is(device)) {
                return None;
            }
            let (note, answer) = amend(entry);
            registry.notes.extend(note.map(|note| format!("{}: {note}", entry.name)));
            Some(answer)
        })
    }

    /// One more thread waits for a device or opens it, or one fewer.
    pub fn recovering(&self, begins: bool) {
        self.change(|registry| if begins { registry.recovering += 1 } else { registry.recovering -= 1 });
    }

    /// Begin the search and block until it has ended, no device is being opened again and nothing is being compiled; gives the time
    /// waited when the deadline passes first.
    pub fn wait(self: &Arc<Devices>, deadline: Deadline) -> Result<(), Duration> {
        self.look();
        let mut registry = self.lock();
        while matches!(registry.looking, Looking::Runs) || registry.recovering > 0 {
            if deadline.has_passed() {
                return Err(deadline.waited());
            }
            let waited = self.changed.wait_timeout(registry, deadline.remaining());
            registry = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(registry);
        if self.beside.wait(deadline) { Ok(()) } else { Err(deadline.waited()) }
    }

    pub fn profile(&self) -> Profile {
        let devices = self.snapshot().entries.iter().map(|e| e.profile.clone()).collect();
        Profile { devices, ..Profile::new("") }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Registry) -> T) -> T {
        let mut registry = self.lock();
        let answer = change(&mut registry);
        registry.names = names(&registry.entries);
        registry.version += 1;
        let version = registry.version;
        // Whoever keeps a plan looks at it afterwards, or is found below.
        self.version.store(version, Ordering::SeqCst);
        drop(registry);
        self.changed.notify_all();
        self.keepers.drop_stale(version);
        self.tell_change();
        answer
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

    /// The same, for a call that does without some.
    pub fn without(self, without: Without) -> Snapshot {
        // Plans made so are known by a number that no other state of the devices has.
        let version = self.version | u64::from(without.unused) << 32 | u64::from(without.gone) << 48;
        Snapshot { version, without, ..self }
    }

    /// The device, if it is there and can be used.
    pub fn device(&self, id: DeviceId) -> Option<Arc<dyn Device>> {
        self.usable(id).cloned()
    }

    fn usable(&self, id: DeviceId) -> Option<&Arc<dyn Device>> {
        let entry = self.entries.get(id.0)?;
        let is_there = entry.state.is_open() && self.without.gone & bit(id) == 0;
        entry.device.as_ref().filter(|_| is_there)
    }

    /// Whether the buffer can be used on the device: it was not lost meanwhile.
    pub fn has(&self, id: DeviceId, buffer: &Buffer) -> bool {
        self.usable(id).is_some_and(|device| device.owns(buffer))
    }

    /// Whether the buffer is lost for good.
    pub fn has_lost(&self, id: DeviceId, buffer: &Buffer) -> bool {
        let device =
            self.entries.get(id.0).filter(|entry| entry.state.is_open()).and_then(|entry| entry.device.as_ref());
        !device.is_some_and(|device| device.owns(buffer))
    }

    /// It may be chosen without being named.
    pub fn is_automatic(&self, id: DeviceId) -> bool {
        self.without.unused & bit(id) == 0 && self.entry(id).is_automatic()
    }

    /// The device that is the same piece of hardware, found through another driver.
    pub fn twin(&self, info: &DeviceInfo) -> Option<String> {
        let address = info.address.as_ref()?;
        let is_same = |e: &&Entry| e.device.is_some() && e.info.address.as_ref() == Some(address);
        self.entries.iter().find(is_same).map(|entry| entry.name.clone())
    }

    /// Host bytes of a value that a device keeps in the host's memory.
    pub fn export(&self, resident: &[(DeviceId, Buffer)]) -> Option<HostBytes> {
        resident.iter().find_map(|(id, buffer)| self.device(*id)?.export(buffer))
    }

    /// The user's error for a failed run.
    pub fn name(&self, error: ExecError) -> Error {
        match error {
            ExecError::Device { device, source, .. } => {
                Error::Device { device: self.entry(device).name.clone(), source }
            }
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
        Entry::of(name, info, Some(device), profile, DeviceState::Ready)
    }

    /// A device that was found and cannot be used.
    pub fn unusable(name: String, info: DeviceInfo, why: String) -> Entry {
        let profile = calibrate::unmeasured(&info);
        Entry::of(name, info, None, profile, DeviceState::Unusable(why))
    }

    fn of(
        name: String,
        info: DeviceInfo,
        device: Option<Arc<dyn Device>>,
        profile: DeviceProfile,
        state: DeviceState,
    ) -> Entry {
        Entry { name, info, device, profile, state, opener: None, record: Record::default() }
    }

    /// The same, which can be opened again.
    pub fn opened_by(self, opener: Opener) -> Entry {
        Entry { opener: Some(opener), ..self }
    }

    /// Its next success changes what is thought of it.
    pub fn is_in_doubt(&self) -> bool {
        self.state != DeviceState::Ready || self.record.has_doubts()
    }

    /// It is this very device.
    pub fn is(&self, device: &Arc<dyn Device>) -> bool {
        self.device.as_ref().is_some_and(|own| Arc::ptr_eq(own, device))
    }

    fn is_automatic(&self) -> bool {
        self.state == DeviceState::Ready && self.info.kind != DeviceKind::Software
    }
}
