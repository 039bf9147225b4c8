//! Submissions in flight: what they hold, and what is done when they end.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use breakeven_device::{DeviceError, HostMemory, ReadCell, Status, Ticket, Timing};

use crate::failures::Failures;
use crate::hold::Held;
use crate::memory::Gpu;
use crate::staging::Clock;
use crate::tape::Tape;

/// Callbacks that a submission still waits for.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    left: AtomicUsize,
    failed: AtomicBool,
    /// Errors that no call had raised before it was begun.
    errors: u64,
    /// Those of the submission that this one is a part of, which waits for and fails with its parts.
    whole: Option<Arc<Marks>>,
}

/// One callback. Dropped without an answer, it counts as failed: a lost callback must not hang a wait.
#[derive(Debug)]
pub(crate) struct Mark {
    marks: Arc<Marks>,
    good: bool,
}

impl Marks {
    /// Those of a submission that is about to be begun.
    pub fn new(gpu: &Gpu) -> Arc<Marks> {
        Arc::new(Marks { errors: gpu.verdict.errors(), ..Marks::default() })
    }

    /// Those of a part of `whole`.
    pub fn of_part(whole: &Arc<Marks>) -> Arc<Marks> {
        Arc::new(Marks { whole: Some(whole.clone()), errors: whole.errors, ..Marks::default() })
    }

    /// An error that no call raised while it was on its way. Nobody is told by a part: its whole fails with it.
    fn uncaptured(&self, gpu: &Gpu) -> Option<DeviceError> {
        let said = gpu.verdict.since(self.errors);
        if said.is_some() && self.whole.is_none() {
            gpu.verdict.take_untold();
        }
        said
    }

    /// One more callback to wait for.
    pub fn add(self: &Arc<Marks>) -> Mark {
        self.with_whole(|marks| {
            marks.left.fetch_add(1, SeqCst);
        });
        Mark { marks: self.clone(), good: false }
    }

    fn with_whole(&self, act: impl Fn(&Marks)) {
        act(self);
        self.whole.iter().for_each(|whole| act(whole));
    }

    fn are_done(&self) -> bool {
        self.left.load(SeqCst) == 0
    }
}

impl Mark {
    /// The callback came.
    pub fn answer(mut self, good: bool) {
        self.good = good;
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.marks.with_whole(|marks| {
            if !self.good {
                marks.failed.store(true, SeqCst);
            }
            marks.left.fetch_sub(1, SeqCst);
        });
    }
}

/// What a submission holds until it ends.
#[derive(Debug)]
pub(crate) struct Submission {
    pub index: wgpu::SubmissionIndex,
    pub marks: Arc<Marks>,
    pub timing: Timing,
    /// Bytes it moves between host and device.
    pub bytes: u64,
    pub load: Load,
    /// Buffers it works on, which stay reserved until then.
    pub held: Held,
}

/// Host-visible memory of a submission.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub uploads: Vec<Staged>,
    pub reads: Vec<(ReadCell, u64, Option<wgpu::Buffer>)>,
    pub clock: Option<Clock>,
    pub tape: Option<Box<Tape>>,
}

/// Memory that bytes were written to on their way to a slot, where they begin `at` some byte.
#[derive(Debug)]
pub(crate) struct Staged {
    pub slot: usize,
    pub at: u64,
    pub bytes: u64,
    /// None where there are no bytes.
    pub buffer: Option<wgpu::Buffer>,
}

/// All submissions of a device.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    next: u64,
    pending: BTreeMap<u64, Submission>,
    ended: HashMap<u64, Result<Timing, DeviceError>>,
    /// Those in the order in which they ended.
    order: VecDeque<u64>,
    /// Those that are forgotten and had failed: any other that is forgotten counts as done.
    failures: Failures,
    bytes: u64,
}

/// Ended submissions whose timing or error is remembered.
const REMEMBERED: usize = 4096;

impl Flight {
    /// Submissions not ended.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Bytes between host and device that are in flight.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes a submission in.
    pub fn start(&mut self, submission: Submission) -> Ticket {
        let id = self.next;
        self.next += 1;
        self.bytes += submission.bytes;
        self.pending.insert(id, submission);
        Ticket(id)
    }

    /// Index of a submission in wgpu's count, while it is pending.
    pub fn index(&self, ticket: Ticket) -> Option<wgpu::SubmissionIndex> {
        self.pending.get(&ticket.0).map(|s| s.index.clone())
    }

    /// The newest submission that is pending.
    pub fn newest_ticket(&self) -> Option<Ticket> {
        self.pending.keys().next_back().map(|id| Ticket(*id))
    }

    /// Index of the newest submission that is pending.
    pub fn newest(&self) -> Option<wgpu::SubmissionIndex> {
        self.pending.values().next_back().map(|s| s.index.clone())
    }

    /// How a submission stands, by what was settled so far.
    pub fn status(&self, ticket: Ticket) -> Status {
        match self.ended.get(&ticket.0) {
            Some(Err(e)) => Status::Failed(e.clone()),
            Some(Ok(_)) => Status::Done,
            None if self.pending.contains_key(&ticket.0) => Status::Pending,
            None if self.failures.has(ticket.0) => {
                Status::Failed(DeviceError::Driver(format!("{ticket:?} failed too long ago to say why")))
            }
            None if ticket.0 < self.next => Status::Done,
            None => Status::Failed(DeviceError::Driver(format!("{ticket:?} was never given out"))),
        }
    }

    /// Whether a thread copies what was read by it, for as long as that takes.
    pub fn is_landing(&self, ticket: Ticket) -> bool {
        self.pending.get(&ticket.0).is_some_and(|submission| !submission.index_is_open())
    }

    /// Timing of an ended submission.
    pub fn timing(&self, ticket: Ticket) -> Timing {
        self.ended.get(&ticket.0).and_then(|r| r.clone().ok()).unwrap_or_default()
    }

    /// Host-visible memory of submissions whose callbacks have all come; they stay pending until [`Flight::end`].
    pub fn take_done(&mut self) -> Vec<(u64, Landed)> {
        let done = self.pending.iter_mut().filter(|(_, s)| s.marks.are_done() && s.index_is_open());
        done.map(|(&id, s)| (id, s.land())).collect()
    }

    /// A submission ended; gives its buffers to be dropped outside of any lock.
    pub fn end(&mut self, id: u64, result: Result<Timing, DeviceError>) -> Held {
        let held = self.pending.remove(&id).map(|s| {
            self.bytes -= s.bytes;
            s.held
        });
        self.remember(id, result);
        held.unwrap_or_default()
    }

    fn remember(&mut self, id: u64, result: Result<Timing, DeviceError>) {
        self.ended.insert(id, result);
        self.order.push_back(id);
        if self.order.len() > REMEMBERED
            && let Some(old) = self.order.pop_front()
            && let Some(Err(_)) = self.ended.remove(&old)
        {
            self.failures.add(old);
        }
    }

    /// The device is lost: whatever was pending has failed. What it held is left to the driver.
    pub fn fail_all(&mut self, error: &DeviceError) -> Vec<Submission> {
        let pending = std::mem::take(&mut self.pending);
        self.bytes = 0;
        for id in pending.keys() {
            self.remember(*id, Err(error.clone()));
        }
        pending.into_values().collect()
    }

    /// Takes all that is pending out, to be leaked.
    pub fn take_pending(&mut self) -> Vec<Submission> {
        std::mem::take(&mut self.pending).into_values().collect()
    }
}

/// A submission whose work is done and whose memory has not been looked at.
pub(crate) struct Landed {
    load: Load,
    timing: Timing,
    marks: Arc<Marks>,
}

impl Submission {
    /// False once its memory was taken to be settled.
    fn index_is_open(&self) -> bool {
        self.timing.read != Duration::MAX
    }

    fn land(&mut self) -> Landed {
        let timing = self.timing;
        self.timing.read = Duration::MAX;
        Landed { load: std::mem::take(&mut self.load), timing, marks: self.marks.clone() }
    }
}

impl Landed {
    /// Fills the reads and gives host-visible memory back.
    pub fn settle(self, gpu: &Arc<Gpu>) -> Result<Timing, DeviceError> {
        let said = self.marks.uncaptured(gpu);
        if self.marks.failed.load(SeqCst) || said.is_some() {
            gpu.staging.forget(&self.load);
            gpu.verdict.check()?;
            return Err(said.unwrap_or_else(|| DeviceError::Lost { reason: "the driver dropped a submission".into() }));
        }
        let start = Instant::now();
        for Staged { bytes, buffer, .. } in self.load.uploads {
            if let Some(buffer) = buffer {
                gpu.staging.put_write(bytes, buffer, gpu.now());
            }
        }
        let mut timing = self.timing;
        if let Some(clock) = self.load.clock {
            timing.kernel = clock.read(gpu.queue.get_timestamp_period(), gpu.now());
            gpu.staging.put_clock(clock, gpu.now());
        }
        let tape = self.load.tape.as_deref();
        if let Some(tape) = tape {
            timing.kernel = tape.finish(gpu);
        }
        for (nth, (cell, bytes, buffer)) in self.load.reads.into_iter().enumerate() {
            Tape::read(tape, gpu, (nth, bytes), || -> Result<(), DeviceError> {
                match buffer {
                    Some(buffer) => cell.fill(gpu.staging.take_read(gpu, bytes, buffer)?),
                    None => cell.fill(HostMemory::zeroed(0)),
                }
                Ok(())
            })?;
        }
        timing.read = start.elapsed();
        Ok(timing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends so many more submissions, of which those fail that `fails` says.
    fn end(flight: &mut Flight, count: u64, fails: impl Fn(u64) -> bool) {
        for id in flight.next..flight.next + count {
            flight.next = id + 1;
            let error = || DeviceError::Driver(format!("{id} failed"));
            flight.end(id, if fails(id) { Err(error()) } else { Ok(Timing::default()) });
            assert!(flight.ended.len() <= REMEMBERED && flight.order.len() <= REMEMBERED);
        }
    }

    fn has_failed(flight: &Flight, id: u64) -> bool {
        match flight.status(Ticket(id)) {
            Status::Failed(_) => true,
            Status::Done => false,
            Status::Pending => panic!("{id} has ended"),
        }
    }

    #[test]
    fn ten_thousand_failures_are_remembered_in_little_room() {
        let mut flight = Flight::default();
        end(&mut flight, 10_000, |_| true);
        assert!((0..10_000).all(|id| has_failed(&flight, id)));
        let why = |id| format!("{:?}", flight.status(Ticket(id)));
        assert!(why(9_999).contains("9999 failed") && why(0).contains("too long ago"), "{} and {}", why(9_999), why(0));
    }

    #[test]
    fn what_is_forgotten_counts_as_done_unless_it_failed() {
        let mut flight = Flight::default();
        let fails = |id| id % 100 == 7;
        end(&mut flight, 20_000, fails);
        assert!((0..20_000).all(|id| has_failed(&flight, id) == fails(id)));
        assert!(has_failed(&flight, 20_000), "it was never given out");
    }
}
