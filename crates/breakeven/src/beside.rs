//! What an engine compiles for its devices beside the calls, each on a thread of its own.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use breakeven_device::Deadline;
use breakeven_plan::DeviceId;

use crate::devices::Devices;

/// Threads for each device that nobody needs to have: a compiler uses several itself, and one that hangs should not gather them.
const MOST: usize = 4;

/// Something to compile.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// The devices that are compiled for now, each as often as there are threads at it.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    running: Mutex<Vec<DeviceId>>,
    ended: Condvar,
}

/// A thread at a device until this is dropped. It does not keep the engine alive.
struct Stay(Weak<Devices>, DeviceId);

impl Devices {
    /// Does `task` for a device on a thread of the engine's own, which the end of the engine waits for. It is given back where enough are
    /// at that device and it is not `needed`, where the system refuses a thread, and once the engine is gone.
    pub fn beside(self: &Arc<Devices>, device: DeviceId, needed: bool, task: Task) -> Result<(), Task> {
        if !self.is_wanted() || !self.beside.enter(device, needed) {
            return Err(task);
        }
        // A thread that is refused takes what it was to do with it.
        let task = Arc::new(Mutex::new(Some(task)));
        let (taken, stay) = (task.clone(), Stay(Arc::downgrade(self), device));
        let work = move || {
            let task = take(&taken).filter(|_| stay.0.upgrade().is_some_and(|devices| devices.is_wanted()));
            if let Some(task) = task {
                task();
            }
            drop(stay);
        };
        let begun = self.inside.spawn("breakeven-compile", work);
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

impl Drop for Stay {
    fn drop(&mut self) {
        if let Some(devices) = self.0.upgrade() {
            devices.beside.leave(self.1);
        }
    }
}
