//! The simulated device itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breakeven_ir::{Caps, Kernel, Unsupported};

use super::memory::{Books, SimMemory, Used};
use super::queue::{Fate, Lanes, Submission, run};
use super::{Fault, SimClock, SimOptions};
use crate::{
    Binding, Buffer, Deadline, Device, DeviceError, DeviceInfo, HostBytes, Lane, Memory, MemoryKind, PoolCounters,
    Prepared, Result, Segment, SegmentStep, Status, Ticket, Timing,
};

/// A device made of arithmetic.
#[derive(Debug)]
pub struct SimDevice {
    info: DeviceInfo,
    options: SimOptions,
    clock: SimClock,
    books: Books,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lanes: Lanes,
    submissions: Vec<Submission>,
    /// Submissions tried, refused ones included.
    tried: u64,
    launches: u64,
    roused: u64,
    lost: bool,
    peak: u64,
}

#[derive(Debug)]
struct SimPrepared(Vec<SegmentStep>);
impl Prepared for SimPrepared {}

impl SimDevice {
    /// A device on `clock`, which several devices may share.
    pub fn new(options: SimOptions, clock: &SimClock) -> SimDevice {
        let info = options.info();
        SimDevice { info, books: Books::new(options.keeps), options, clock: clock.clone(), state: Mutex::default() }
    }

    /// Submissions so far, refused ones not counted.
    pub fn submits(&self) -> usize {
        self.state().submissions.len()
    }

    /// Kernels run so far.
    pub fn launches(&self) -> u64 {
        self.state().launches
    }

    /// How often it was roused.
    pub fn roused(&self) -> u64 {
        self.state().roused
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, fault: Fault) -> bool {
        self.options.faults.contains(&fault)
    }

    /// What its clock says instead of the time.
    fn marks(&self) -> Option<(u64, u64)> {
        self.options
            .faults
            .iter()
            .find_map(|fault| if let Fault::Marks(start, end) = fault { Some((*start, *end)) } else { None })
    }

    /// Counts a try and lets the faults that refuse it happen.
    fn admit(&self, state: &mut State, steps: &[SegmentStep]) -> Result<Fate> {
        if !state.lost {
            state.tried += 1;
        }
        let has = |class| {
            let is_such = |step: &SegmentStep| matches!(step, SegmentStep::Launch(l) if l.kernel.class() == class);
            steps.iter().any(is_such)
        };
        let loses = |fault: &Fault| matches!(fault, Fault::LosesOn(class) if has(*class));
        state.lost |= self.has(Fault::LostAt(state.tried)) || self.options.faults.iter().any(loses);
        if state.lost {
            return Err(lost());
        }
        let refuses = |fault: &Fault| match *fault {
            Fault::RefusesFrom(from) => from <= state.tried,
            Fault::RefusesEverySecondFrom(from) => from <= state.tried && (state.tried - from).is_multiple_of(2),
            _ => false,
        };
        if self.options.faults.iter().any(refuses) {
            return Err(DeviceError::Driver("the test said so".to_owned()));
        }
        match state.tried {
            n if self.has(Fault::BusyAt(n)) => Err(DeviceError::Busy),
            n if self.has(Fault::HangAt(n)) => Ok(Fate::Hangs),
            n if self.has(Fault::EarlyDoneAt(n)) => Ok(Fate::EarlyDone),
            _ => Ok(Fate::Usual),
        }
    }
}

impl State {
    fn submission(&mut self, ticket: Ticket) -> Option<&mut Submission> {
        self.submissions.get_mut(ticket.0 as usize)
    }

    fn pending(&self, now: Duration) -> impl Iterator<Item = &Submission> {
        self.submissions.iter().filter(move |s| s.fate == Fate::Hangs || s.finish > now)
    }
}

impl Submission {
    /// How it stands at `now`; delivers its reads once it is really done.
    fn status(&mut self, now: Duration) -> Status {
        match self.fate {
            Fate::Hangs => Status::Pending,
            Fate::EarlyDone => Status::Done,
            Fate::Usual if self.finish > now => Status::Pending,
            Fate::Usual => {
                self.reads.drain(..).for_each(|(cell, memory)| cell.fill(memory));
                Status::Done
            }
        }
    }
}

fn lost() -> DeviceError {
    DeviceError::Lost { reason: "the test said so".to_owned() }
}

impl Device for SimDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn caps(&self) -> &Caps {
        &self.options.caps
    }

    fn supports(&self, kernel: &Kernel) -> std::result::Result<(), Unsupported> {
        if matches!(kernel, Kernel::Custom(k) if !k.op.has_cpu()) {
            return Err(Unsupported("no CPU closure was given".to_owned()));
        }
        let missing =
            kernel.inputs().into_iter().chain(kernel.outputs()).find(|o| !self.caps().dtypes.contains(&o.dtype));
        missing.map_or(Ok(()), |o| Err(Unsupported(format!("this device has no {}", o.dtype))))
    }

    fn alloc(&self, bytes: u64, _: MemoryKind) -> Result<Buffer> {
        let mut state = self.state();
        if state.lost {
            return Err(lost());
        }
        let Used { live, kept, .. } = self.books.read();
        let used = live + kept;
        let padded = bytes.next_multiple_of(16);
        let left = self.caps().memory_bytes.map(|limit| limit.saturating_sub(used));
        if padded > left.unwrap_or(u64::MAX).min(self.caps().max_buffer_bytes) {
            return Err(DeviceError::OutOfMemory { wanted: bytes, left });
        }
        state.peak = state.peak.max(used + padded);
        Ok(Buffer::new(SimMemory::poisoned(padded, self.books.clone()), bytes))
    }

    fn import(&self, bytes: &HostBytes) -> Option<Buffer> {
        let held = SimMemory::holding(bytes, self.books.clone());
        self.caps().host_memory.then(|| Buffer::new(held, bytes.len() as u64))
    }

    fn export(&self, buffer: &Buffer) -> Option<HostBytes> {
        let memory: &SimMemory = buffer.memory()?;
        self.caps().host_memory.then(|| HostBytes::from_vec(memory.lock().bytes[..buffer.bytes() as usize].to_vec()))
    }

    fn prepare(&self, segment: &Segment) -> Result<Arc<dyn Prepared>> {
        self.prepare_while(segment, &|| true)
    }

    fn prepare_while(&self, segment: &Segment, is_wanted: &(dyn Fn() -> bool + Sync)) -> Result<Arc<dyn Prepared>> {
        if self.state().lost {
            return Err(lost());
        }
        for step in &segment.steps {
            if let SegmentStep::Launch(launch) = step {
                self.supports(&launch.kernel)?;
            }
        }
        self.options.compiler.iter().try_for_each(|compiler| compiler.compile(segment, is_wanted))?;
        Ok(Arc::new(SimPrepared(segment.steps.clone())))
    }

    fn compiles(&self, segment: &Segment) -> bool {
        self.options.compiler.as_ref().is_some_and(|compiler| compiler.has_work(segment))
    }

    fn submit(&self, work: &Arc<dyn Prepared>, binding: Binding, lane: Lane, after: &[Ticket]) -> Result<Ticket> {
        let work: &dyn std::any::Any = &**work;
        let steps =
            &work.downcast_ref::<SimPrepared>().ok_or_else(|| DeviceError::Driver("prepared elsewhere".into()))?.0;
        let mut state = self.state();
        let fate = self.admit(&mut state, steps)?;
        self.clock.advance(self.options.speed.per_submit);
        let ready = after.iter().filter_map(|&t| state.submission(t).map(|s| s.finish)).max().unwrap_or_default();
        let start = self.clock.now().max(ready).max(*state.lanes.free(lane));
        let mut submission = run(&self.options.speed, steps, &binding, start)?;
        submission.fate = fate;
        if self.has(Fault::LosesNan) {
            submission.lose_nan();
        }
        if let Some(marks) = self.marks() {
            submission.timing.kernel = Timing::between(marks, 1.0, submission.finish.saturating_sub(start));
        }
        submission.timing.dispatch = Some(self.options.speed.per_submit);
        *state.lanes.free(lane) = submission.finish;
        if self.caps().host_memory {
            // A device in the host's memory works on the caller's thread.
            self.clock.advance_to(submission.finish);
        }
        state.launches += steps.iter().filter(|s| matches!(s, SegmentStep::Launch(_))).count() as u64;
        state.submissions.push(submission);
        Ok(Ticket(state.submissions.len() as u64 - 1))
    }

    fn rouse(&self, _: Duration) -> bool {
        let mut state = self.state();
        state.roused += 1;
        self.options.faults.iter().all(|fault| !matches!(fault, Fault::WakesAfter(times) if *times > state.roused))
    }

    fn poll(&self, ticket: Ticket) -> Status {
        let mut state = self.state();
        if state.lost {
            return Status::Failed(lost());
        }
        let unknown = || Status::Failed(DeviceError::Driver(format!("{ticket:?} was never given out")));
        state.submission(ticket).map_or_else(unknown, |s| s.status(self.clock.now()))
    }

    fn wait(&self, ticket: Ticket, deadline: Deadline) -> Result<Timing> {
        let before = self.clock.now();
        if let Some(s) = self.state().submission(ticket).filter(|s| s.fate != Fate::EarlyDone) {
            let end = if s.fate == Fate::Hangs { Duration::MAX } else { s.finish };
            self.clock.advance_to(end.min(before + deadline.limit()));
        }
        self.clock.advance(self.options.speed.per_wait);
        match self.poll(ticket) {
            Status::Failed(e) => Err(e),
            Status::Pending => {
                let pending = self.state().pending(self.clock.now()).count();
                Err(DeviceError::Timeout { waited: self.clock.now().saturating_sub(before), pending })
            }
            Status::Done => {
                let timing = self.state().submission(ticket).map(|s| s.timing).unwrap_or_default();
                Ok(Timing { wait: self.clock.now().saturating_sub(before), ..timing })
            }
        }
    }

    fn drain(&self, deadline: Deadline) -> Result<()> {
        let tickets = self.submits() as u64;
        (0..tickets)
            .map(Ticket)
            .filter(|&t| self.poll(t) != Status::Done)
            .try_for_each(|t| self.wait(t, deadline).map(drop))
    }

    fn owns(&self, buffer: &Buffer) -> bool {
        buffer.memory::<SimMemory>().is_some_and(|memory| memory.is_of(&self.books))
    }

    fn memory(&self) -> Memory {
        let Used { live, kept, .. } = self.books.read();
        let state = self.state();
        let (pooled_bytes, used) = if self.options.hides_kept { (0, Some(live + kept)) } else { (kept, None) };
        let pool = PoolCounters { live_bytes: live, pooled_bytes, peak_bytes: state.peak, ..PoolCounters::default() };
        let pending = state.pending(self.clock.now());
        let (pending, pending_bytes) = pending.fold((0, 0), |(count, bytes), s| (count + 1, bytes + s.bytes));
        Memory { pool, used, budget: self.caps().memory_bytes, pending, pending_bytes }
    }

    fn trim(&self, _: Duration) {
        self.books.trim();
    }

    fn now(&self) -> Duration {
        self.clock.now()
    }
}
