//! Sends batches to devices beside whoever uses the results: filling the memory that a device reads takes the host as long as a copy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender as Channel, SyncSender, channel, sync_channel};
use std::time::Duration;

use breakeven_device::Deadline;

use crate::Engine;
use crate::patience::Patience;
use crate::pending::{Pending, Planned};

/// How long the end of a stream waits for a batch that is just being sent.
const LEAVING: Duration = Duration::from_secs(5);

/// A thread that sends what it is given, one after the other.
pub(super) struct Sender {
    jobs: Option<Channel<Job>>,
    is_left: Arc<AtomicBool>,
    /// Disconnected once the thread has let go of all that it was given.
    ended: Receiver<()>,
}

struct Job {
    planned: Planned,
    patience: Patience,
    answer: SyncSender<Option<Pending>>,
}

/// A batch that is being sent.
pub(super) struct Sending(Receiver<Option<Pending>>);

impl Sender {
    /// `None` where the system refuses a thread.
    pub fn new(engine: &Engine) -> Option<Sender> {
        let ((jobs, given), (ends, ended)) = (channel::<Job>(), channel());
        let is_left = Arc::new(AtomicBool::new(false));
        let is_stopped = is_left.clone();
        let work = move || {
            // It goes last: engines that only batches held end before it.
            let _ends = ends;
            for Job { planned, patience, answer } in given {
                let is_wanted = !is_stopped.load(Ordering::Relaxed);
                // Who does not wait any more is not told.
                let _ = answer.send(is_wanted.then(|| planned.start(patience)).flatten());
            }
        };
        engine.0.devices.inside.spawn("breakeven-stream", work).ok()?;
        Some(Sender { jobs: Some(jobs), is_left, ended })
    }

    /// Sends it after those before it.
    pub fn send(&self, planned: Planned, patience: Patience) -> Sending {
        let (answer, sent) = sync_channel(1);
        if let Some(jobs) = &self.jobs {
            // A thread that ended by a panic gives no answer, which is met by the read.
            let _ = jobs.send(Job { planned, patience, answer });
        }
        Sending(sent)
    }
}

impl Sending {
    /// What was begun; `None` where nothing was, and when the deadline passes first.
    pub fn wait(self, deadline: Deadline) -> Option<Pending> {
        self.0.recv_timeout(deadline.remaining()).unwrap_or_default()
    }
}

/// A batch that nobody waits for is not sent any more; one that is on its way is waited for, since a driver is not left in the middle.
impl Drop for Sender {
    fn drop(&mut self) {
        self.is_left.store(true, Ordering::Relaxed);
        self.jobs = None;
        let _ = self.ended.recv_timeout(LEAVING);
    }
}
