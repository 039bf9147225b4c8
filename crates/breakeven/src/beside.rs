//! What an engine does beside the calls, on threads of its own that live as long as there is some: compiling for devices.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use breakeven_device::Deadline;

use crate::devices::Devices;

/// Threads at most: what they do takes several each in a driver.
const THREADS: usize = 2;
/// Tasks that wait for them at most. More are there only where a driver hangs, and are dropped.
const WAITING: usize = 1024;

/// Something to do.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// What waits to be done, and how many threads do it.
#[derive(Default)]
pub(crate) struct Beside {
    queue: Mutex<Queue>,
    ended: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Task>,
    threads: usize,
}

impl Devices {
    /// Does `task` on a thread of the engine's own, which the end of the engine waits for, once its turn comes. It is given back where the
    /// system refuses a thread and once the engine is gone, and is dropped undone where the engine goes before its turn.
    pub fn beside(self: &Arc<Devices>, task: Task) -> Result<(), Task> {
        if !self.is_wanted() {
            return Err(task);
        }
        if !self.beside.put(task) {
            return Ok(());
        }
        let held = Arc::downgrade(self);
        match self.inside.spawn("breakeven-compile", move || work(&held)) {
            Ok(()) => Ok(()),
            Err(_) => self.beside.withdraw().map_or(Ok(()), Err),
        }
    }
}

impl Beside {
    /// Whether a thread is missing for it, which counts as begun then.
    fn put(&self, task: Task) -> bool {
        let mut queue = self.lock();
        if queue.waiting.len() < WAITING {
            queue.waiting.push_back(task);
        }
        let is_missing = queue.threads < THREADS;
        queue.threads += usize::from(is_missing);
        is_missing
    }

    /// A thread was refused: the task that it was for, unless another thread sees to that.
    fn withdraw(&self) -> Option<Task> {
        let mut queue = self.lock();
        queue.threads -= 1;
        self.ended.notify_all();
        if queue.threads > 0 { None } else { queue.waiting.pop_back() }
    }

    /// The next task; with the last one, a thread ends.
    fn next(&self) -> Option<Task> {
        let mut queue = self.lock();
        let next = queue.waiting.pop_front();
        if next.is_none() {
            queue.threads -= 1;
            self.ended.notify_all();
        }
        next
    }

    /// Waits until nothing is left to do; false when the deadline passes first.
    pub fn wait(&self, deadline: Deadline) -> bool {
        let mut queue = self.lock();
        while queue.threads > 0 {
            if deadline.has_passed() {
                return false;
            }
            let waited = self.ended.wait_timeout(queue, deadline.remaining());
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thread. The engine is not kept alive by it.
fn work(held: &Weak<Devices>) {
    while let Some(devices) = held.upgrade() {
        let Some(task) = devices.beside.next() else { return };
        if !devices.is_wanted() {
            continue;
        }
        drop(devices);
        // A driver may panic on a thread of ours. Whoever waits for a task is told so by what the task leaves when it is dropped.
        drop(catch_unwind(AssertUnwindSafe(task)));
    }
}

impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.lock();
        write!(f, "Beside({} waiting, {} threads)", queue.waiting.len(), queue.threads)
    }
}
