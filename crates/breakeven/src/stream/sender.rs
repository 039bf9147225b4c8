//! Sends batches to devices beside whoever uses the results: filling the memory that a device reads takes the host as long as a copy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender as Channel, SyncSender, channel, sync_channel};
use std::time::Duration;

use breakeven_plan::Cost;

use crate::Engine;
use crate::devices::Devices;
use crate::patience::Patience;
use crate::pending::{Pending, PlannedRead};

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
    planned: PlannedRead,
    patience: Patience,
    answer: SyncSender<Option<Pending>>,
}

/// A batch that is being sent.
pub(super) struct Sending {
    sent: Receiver<Option<Pending>>,
    /// How long all of it is predicted to take.
    predicted: Option<Cost>,
}

/// How often an idle thread looks whether the engine was closed, which waits for it.
const LOOK: Duration = Duration::from_millis(20);

impl Sender {
    /// `None` where the system refuses a thread, and once the engine is closed.
    pub fn new(engine: &Engine) -> Option<Sender> {
        let devices = engine.0.devices.clone();
        if !devices.is_wanted() {
            return None;
        }
        let inside = devices.inside.clone();
        let ((jobs, given), (ends, ended)) = (channel::<Job>(), channel());
        let is_left = Arc::new(AtomicBool::new(false));
        let is_stopped = is_left.clone();
        let work = move || {
            // It goes last: engines that only batches held end before it.
            let _ends = ends;
            while let Some(Job { planned, patience, answer }) = next(&given, &devices) {
                let is_wanted = !is_stopped.load(Ordering::Relaxed);
                // Who does not wait any more is not told.
                let _ = answer.send(is_wanted.then(|| planned.start(patience)).flatten());
            }
        };
        inside.spawn("breakeven-stream", work).ok()?;
        Some(Sender { jobs: Some(jobs), is_left, ended })
    }

    /// Sends it after those before it.
    pub fn send(&self, planned: PlannedRead, patience: Patience) -> Sending {
        let ((answer, sent), predicted) = (sync_channel(1), planned.predicted());
        if let Some(jobs) = &self.jobs {
            // A thread that ended by a panic gives no answer, which is met by the read.
            let _ = jobs.send(Job { planned, patience, answer });
        }
        Sending { sent, predicted }
    }
}

/// The next batch; `None` at the end of the stream, and once the engine is closed.
fn next(given: &Receiver<Job>, devices: &Devices) -> Option<Job> {
    loop {
        match given.recv_timeout(LOOK) {
            Ok(job) => return Some(job),
            Err(RecvTimeoutError::Timeout) if devices.is_wanted() => {}
            Err(_) => return None,
        }
    }
}

impl Sending {
    /// What was begun; `None` where nothing was, and when the time for it passes first.
    pub fn wait(self, patience: Patience) -> Option<Pending> {
        self.sent.recv_timeout(patience.deadline(self.predicted).remaining()).unwrap_or_default()
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
