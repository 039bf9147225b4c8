//! What a run that is recorded did, step by step: what the host did for each device and what the devices wrote down, from one moment on.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use breakeven_device::{Activity, Clock, Recorder, Span};
use breakeven_plan::{DeviceId, Step};

use crate::Executable;
use crate::compile::Stage;

/// What happened in a run, in no order.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Each step of the plan is in [`Event::steps`] of one of them.
    pub events: Vec<Event>,
    /// Times that devices told and that cannot be, which were dropped.
    pub dropped: usize,
}

/// A stretch of time, from the beginning of the run. A simulated device has a clock of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which device did it, or what the host did it for.
    pub device: DeviceId,
    /// What was done.
    pub what: What,
    /// Steps of the plan that were done so.
    pub steps: Vec<usize>,
    /// Steps of the plan that it had a part in beside.
    pub part_of: Vec<usize>,
    /// Bytes that were moved.
    pub bytes: u64,
    /// When it began.
    pub start: Duration,
    /// When it ended.
    pub end: Duration,
    /// Whose clock says so.
    pub clock: Clock,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// The host found or made the memory of a submission, and waited for what other devices send there.
    Bind,
    /// The host handed a submission over; what works on the caller's thread did it then.
    Submit,
    /// The host waited for a submission.
    Wait,
    /// Memory of the host was used in its place, without a copy.
    Shared,
    /// The steps ran at some time between their submission and its end, and the device did not tell when.
    Untold,
    /// The device did this.
    Did(Activity),
}

#[derive(Debug)]
pub(crate) struct Log {
    executable: Arc<Executable>,
    /// The time of each device when the run began.
    zeros: Vec<Duration>,
    recording: Recording,
}

impl Log {
    pub fn new(executable: &Arc<Executable>) -> Log {
        let zero = |device: &Option<Arc<_>>| {
            device.as_ref().map_or(Duration::ZERO, |d: &Arc<dyn breakeven_device::Device>| d.now())
        };
        let zeros = executable.devices.iter().map(zero).collect();
        Log { executable: executable.clone(), zeros, recording: Recording::default() }
    }

    pub fn now(&self, device: DeviceId) -> Duration {
        self.of(device, self.executable.device(device).now())
    }

    fn of(&self, device: DeviceId, time: Duration) -> Duration {
        time.saturating_sub(self.zeros[device.0])
    }

    /// The host did something for a stage, from `start` until now.
    pub fn host(&mut self, stage: &Stage, what: What, start: Duration) {
        let part_of = stage.steps.clone().collect();
        self.add(stage.device, what, (Vec::new(), part_of), start..self.now(stage.device));
    }

    /// Memory of the host was used where it lies, for step `step` of the plan; `is_rest` where another device has done the first half.
    pub fn shared(&mut self, device: DeviceId, step: usize, is_rest: bool, start: Duration) {
        let steps = if is_rest { (vec![], vec![step]) } else { (vec![step], vec![]) };
        self.add(device, What::Shared, steps, start..self.now(device));
    }

    fn add(&mut self, device: DeviceId, what: What, (steps, part_of): (Vec<usize>, Vec<usize>), time: Range<Duration>) {
        let Range { start, end } = time;
        self.recording.events.push(Event { device, what, steps, part_of, bytes: 0, start, end, clock: Clock::Host });
    }

    /// Takes over what a device wrote of a stage that was handed over at `start` and has ended.
    pub fn told(&mut self, stage: &Stage, recorder: &Recorder, start: Duration) {
        let recorded = recorder.take();
        self.recording.dropped += recorded.dropped;
        let mut untold: Vec<usize> = stage.origins.segment.clone();
        for span in recorded.spans {
            let event = self.event(stage, span);
            untold.retain(|step| !event.steps.contains(step) && !event.part_of.contains(step));
            self.recording.events.push(event);
        }
        let (rest, untold): (Vec<usize>, Vec<usize>) = untold.into_iter().partition(|&step| self.is_rest(stage, step));
        if !untold.is_empty() {
            self.add(stage.device, What::Untold, (untold, rest), start..self.now(stage.device));
        }
    }

    fn event(&self, stage: &Stage, span: Span) -> Event {
        let Span { activity, steps, bytes, start, end, clock } = span;
        let steps = steps.into_iter().map(|step| stage.origins.segment[step]);
        let is_part = |step: &usize| activity == Activity::Transfer || self.is_rest(stage, *step);
        let (part_of, steps) = steps.partition(is_part);
        let (start, end) = (self.of(stage.device, start), self.of(stage.device, end));
        Event { device: stage.device, what: What::Did(activity), steps, part_of, bytes, start, end, clock }
    }

    /// The stage only receives what another device has sent.
    fn is_rest(&self, stage: &Stage, step: usize) -> bool {
        let plan = &self.executable.plan;
        matches!(plan.steps[step], Step::Copy { to, .. } if plan.slots[to].device == stage.device)
    }

    pub fn end(self) -> Recording {
        self.recording
    }
}
