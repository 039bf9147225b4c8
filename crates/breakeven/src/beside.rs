//! What an engine compiles for its devices beside the calls, each on a thread of its own.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use breakeven_device::Deadline;
use breakeven_plan::DeviceId;

use crate::devices::Devices;

/// Threads for each device that nobody needs to have: a compiler uses several itself, and one that hangs should not gather them.
const MOST: usize = 4;

/// Whether anybody still wants what is compiled.
pub(crate) type IsWanted<'a> = &'a (dyn Fn() -> bool + Sync);

/// Something to compile, for as long as it is wanted.
pub(crate) type Task = Box<dyn FnOnce(IsWanted<'_>) + Send>;

/// The devices that are compiled for now, each as often as there are threads at it.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    running: Mutex<Vec<DeviceId>>,
    ended: Condvar,
}

/// Room for a thread at a device, until this is dropped. It does not keep the engine alive.
pub(crate) struct Room(Weak<Devices>, DeviceId);

impl Devices {
    /// Room for one more thread that compiles for `device`, which the end of the engine waits for. None where enough are at that device
    /// and it is not `needed`, and once the engine is gone.
    pub fn room_beside(self: &Arc<Devices>, device: DeviceId, needed: bool) -> Option<Room> {
        let has_room = self.is_wanted() && self.beside.enter(device, needed);
        has_room.then(|| Room(Arc::downgrade(self), device))
    }
}

impl Room {
    /// Does `task` on a thread of the engine's own; it is given back where the system refuses one, or the engine is gone.
    pub fn begin(self, task: Task) -> Result<(), Task> {
        let Some(devices) = self.0.upgrade() else { return Err(task) };
        // A thread that is refused takes what it was to do with it.
        let task = Arc::new(Mutex::new(Some(task)));
        let taken = task.clone();
        let work = move || {
            let is_wanted = || self.0.upgrade().is_some_and(|devices| devices.is_wanted());
            if let Some(task) = take(&taken).filter(|_| is_wanted()) {
                task(&is_wanted);
            }
            drop(self);
        };
        let begun = devices.inside.spawn("breakeven-compile", work);
        begun.is_err().then(|| take(&task)).flatten().map_or(Ok(()), Err)
    }
}

impl Beside {
    /// Whether there is room for one more thread, which counts from now on.
    fn enter(&self, device: DeviceId, needed: bool) -> bool {
        let mut running = self.lock();
        let has_room = needed || running.iter().filter(|at| **at == device).count() < MOST;
        running.extend(has_room.then_some(device));
        has_room
    }

    fn leave(&self, device: DeviceId) {
        let mut running = self.lock();
        if let Some(at) = running.iter().position(|at| *at == device) {
            running.swap_remove(at);
        }
        drop(running);
        self.ended.notify_all();
    }

    /// Waits until nothing is compiled; false when the deadline passes first.
    pub fn wait(&self, deadline: Deadline) -> bool {
        let mut running = self.lock();
        while !running.is_empty() {
            if deadline.has_passed() {
                return false;
            }
            let waited = self.ended.wait_timeout(running, deadline.remaining());
            running = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Vec<DeviceId>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take(task: &Mutex<Option<Task>>) -> Option<Task> {
    task.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(devices) = self.0.upgrade() {
            devices.beside.leave(self.1);
        }
    }
}
