//! When each step of a run was done, by whom, and as Chrome and Perfetto read it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use breakeven_device::{Activity, Clock};
use breakeven_exec::{Event, Recording, What};
use breakeven_plan::{Decision, DeviceId, Plan, Step};
use serde_json::{Map, Value, json};

use crate::attempts::Attempts;
use crate::evaluate::Way;
use crate::{Engine, Report, Result, Tensor};

/// What a run did and when, from the beginning of planning on. Each step of the plan is in one event, as [`TraceEvent::steps`].
#[derive(Clone, Debug)]
pub struct RunTrace {
    events: Vec<TraceEvent>,
    devices: Arc<[String]>,
    dropped: usize,
    predicted_seconds: f64,
}

/// A stretch of time of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceEvent {
    /// What was done, in words: a kernel as [`Engine::explain`] names it.
    pub name: String,
    /// The device that did it or that it was done for; none for planning.
    pub device: Option<DeviceId>,
    /// Who did it.
    pub lane: Lane,
    /// When it began.
    pub start: Duration,
    /// How long it took.
    pub duration: Duration,
    /// True where the device counted: lengths are its own, and all of a submission may have happened somewhat later than said, since
    /// its first mark is put where the submission was handed over or the one before it ended.
    pub is_by_device: bool,
    /// Steps of the plan that were done.
    pub steps: Vec<usize>,
    /// Steps of the plan that it had a part in, which other events name as theirs.
    pub part_of: Vec<usize>,
    /// Bytes that were moved.
    pub bytes: u64,
    /// What was predicted for the kernels, all launches that these were split into together; none where nothing was measured.
    pub predicted_seconds: Option<f64>,
    /// Why the kernels ran on that device, as explanations name it.
    pub reason: Option<String>,
}

/// Who does something. Events of one lane and one device follow each other or lie within each other, but for devices that do several
/// things at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// The thread that called, for a device.
    Host,
    /// The device computes.
    Kernels,
    /// The device moves bytes.
    Copies,
    /// The device did it at some time in between and did not tell when.
    Untold,
}

impl Engine {
    /// As [`Engine::run`], and writes down when each step was done: [`Report::trace`]. Kernels are measured one by one, for which each
    /// gets a pass of its own on a GPU; other runs pay nothing for this.
    pub fn run_traced(&self, outputs: &[&Tensor]) -> Result<Report> {
        self.traced(outputs, false)
    }

    /// As [`Engine::run_traced`], and brings the outputs to the host.
    pub fn read_traced(&self, outputs: &[&Tensor]) -> Result<Report> {
        self.traced(outputs, true)
    }

    fn traced(&self, outputs: &[&Tensor], are_read: bool) -> Result<Report> {
        let read = vec![are_read; outputs.len()];
        let way = Way { read: &read, frozen: None, is_traced: true };
        self.compute_so(outputs, &way, &mut Attempts::at(outputs, self.patience()))
    }
}

impl RunTrace {
    /// What was recorded after so much planning.
    pub(crate) fn new(plan: &Plan, devices: Arc<[String]>, recording: Recording, planning: Duration) -> RunTrace {
        let Recording { events, dropped } = recording;
        let words = Words::new(plan);
        let planned = TraceEvent { duration: planning, ..TraceEvent::of_host("plan".to_owned()) };
        let mut events: Vec<TraceEvent> = events
            .into_iter()
            .map(|event| words.event(event))
            .map(|event| TraceEvent { start: event.start + planning, ..event })
            .chain([planned])
            .collect();
        events.sort_by_key(|event| (event.start, Reverse(event.duration)));
        RunTrace { events, devices, dropped, predicted_seconds: plan.predicted.seconds }
    }

    /// Everything, by its beginning; what lies within something else comes after that.
    pub fn events(&self) -> &[TraceEvent] {
        &self.events
    }

    /// Times that devices told and that cannot be: such kernels are among those that are not told.
    pub fn dropped_times(&self) -> usize {
        self.dropped
    }

    /// Trace event format: open it at <https://ui.perfetto.dev> or in `chrome://tracing`. Each device is a process, each lane a
    /// thread; times are in microseconds.
    pub fn to_chrome_json(&self) -> String {
        let mut written: Vec<Value> = self.metadata();
        let threads = threads(&self.events);
        written.extend(
            self.events
                .iter()
                .zip(&threads)
                .map(|(event, (lane, copy))| event.to_json(process(event.device), thread(*lane, *copy))),
        );
        let about = json!({
            "predicted_us": self.predicted_seconds * 1e6,
            "dropped_times": self.dropped,
            "clocks": "'host': the host looked at its clock; 'device': the device's own count, whose first mark of a submission is put \
                       where that was handed over or the one before it ended",
        });
        json!({"traceEvents": written, "displayTimeUnit": "ns", "otherData": about}).to_string()
    }

    /// Names of processes and threads.
    fn metadata(&self) -> Vec<Value> {
        let named = |name: &str, pid: usize, tid: usize, value: Value| {
            let key = if name.ends_with("sort_index") { "sort_index" } else { "name" };
            json!({"ph": "M", "name": name, "pid": pid, "tid": tid, "args": {key: value}})
        };
        let mut all: BTreeMap<(usize, usize), String> = BTreeMap::new();
        for (event, (lane, copy)) in self.events.iter().zip(threads(&self.events)) {
            all.insert((process(event.device), thread(lane, copy)), lane.name(copy));
        }
        let mut written = Vec::new();
        for ((pid, tid), name) in all {
            let device = pid.checked_sub(1).map_or("breakeven", |device| &*self.devices[device]);
            written.push(named("process_name", pid, tid, device.into()));
            written.push(named("process_sort_index", pid, tid, pid.into()));
            written.push(named("thread_name", pid, tid, name.into()));
            written.push(named("thread_sort_index", pid, tid, tid.into()));
        }
        written
    }
}

/// Devices count from 1; planning is process 0.
fn process(device: Option<DeviceId>) -> usize {
    device.map_or(0, |device| device.0 + 1)
}

/// A number for a lane and its copies, from 1.
fn thread(lane: Lane, copy: usize) -> usize {
    1 + lane as usize + 4 * copy
}

/// The lane of each event and which copy of it: what only partly overlaps goes to the next, since viewers show one stack a thread.
fn threads(events: &[TraceEvent]) -> Vec<(Lane, usize)> {
    let mut stacks: BTreeMap<(usize, Lane), Vec<Vec<Duration>>> = BTreeMap::new();
    let mut place = |event: &TraceEvent| {
        let (start, end) = (event.start, event.start + event.duration);
        let copies = stacks.entry((process(event.device), event.lane)).or_default();
        for stack in &mut *copies {
            stack.retain(|open| *open > start);
        }
        let fits = |stack: &Vec<Duration>| stack.last().is_none_or(|open| end <= *open);
        let copy = copies.iter().position(fits).unwrap_or_else(|| {
            copies.push(Vec::new());
            copies.len() - 1
        });
        copies[copy].push(end);
        (event.lane, copy)
    };
    events.iter().map(&mut place).collect()
}

impl Lane {
    fn name(self, copy: usize) -> String {
        let name = match self {
            Lane::Host => "host",
            Lane::Kernels => "kernels",
            Lane::Copies => "copies",
            Lane::Untold => "not told when",
        };
        if copy == 0 { name.to_owned() } else { format!("{name} ({})", copy + 1) }
    }
}

impl TraceEvent {
    fn of_host(name: String) -> TraceEvent {
        TraceEvent {
            name,
            device: None,
            lane: Lane::Host,
            start: Duration::ZERO,
            duration: Duration::ZERO,
            is_by_device: false,
            steps: Vec::new(),
            part_of: Vec::new(),
            bytes: 0,
            predicted_seconds: None,
            reason: None,
        }
    }

    /// A complete event.
    fn to_json(&self, pid: usize, tid: usize) -> Value {
        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
        let clock = if self.is_by_device { "device" } else { "host" };
        let mut args = Map::from_iter([("clock".to_owned(), json!(clock)), ("steps".to_owned(), json!(self.steps))]);
        let mut add = |key: &str, value: Value| drop(args.insert(key.to_owned(), value));
        if !self.part_of.is_empty() {
            add("part_of", json!(self.part_of));
        }
        if self.bytes > 0 {
            add("bytes", json!(self.bytes));
        }
        if let Some(seconds) = self.predicted_seconds {
            add("predicted_us", json!(seconds * 1e6));
        }
        if let Some(reason) = &self.reason {
            add("reason", json!(reason));
        }
        let (name, category) = (&self.name, self.lane.name(0));
        json!({
            "ph": "X", "name": name, "cat": category, "pid": pid, "tid": tid, "ts": us(self.start), "dur": us(self.duration),
            "args": args,
        })
    }
}

/// The steps of a plan in words.
struct Words<'a> {
    plan: &'a Plan,
    /// For each step that runs a kernel, the decision behind it, and which of its launches it is, of how many.
    decided: BTreeMap<usize, (&'a Decision, usize, usize)>,
}

impl<'a> Words<'a> {
    fn new(plan: &'a Plan) -> Words<'a> {
        let runs = plan.steps.iter().enumerate().filter(|(_, step)| matches!(step, Step::Run { .. }));
        let (mut seen, mut launches) = (vec![0; plan.decisions.len()], vec![0; plan.decisions.len()]);
        plan.decided.iter().for_each(|&decision| launches[decision] += 1);
        let mut decided = BTreeMap::new();
        for ((step, _), &decision) in runs.zip(&plan.decided) {
            decided.insert(step, (&plan.decisions[decision], seen[decision], launches[decision]));
            seen[decision] += 1;
        }
        Words { plan, decided }
    }

    fn event(&self, event: Event) -> TraceEvent {
        let Event { device, what, steps, part_of, bytes, start, end, clock } = event;
        let all: Vec<usize> = steps.iter().chain(&part_of).copied().collect();
        let decisions = self.decisions(&steps);
        let predicted = |decision: &&Decision| decision.predicted.map(|parts| parts.seconds());
        let reasons = decisions.iter().map(|decision| decision.reason.code());
        TraceEvent {
            name: self.name(what, &all, bytes),
            device: Some(device),
            lane: lane(what, clock),
            start,
            duration: end.saturating_sub(start),
            is_by_device: clock == Clock::Device,
            predicted_seconds: decisions.iter().map(predicted).reduce(|a, b| Some(a? + b?)).flatten(),
            reason: (!decisions.is_empty()).then(|| distinct(reasons).join(", ")),
            steps,
            part_of,
            bytes,
        }
    }

    /// Those behind steps, each once.
    fn decisions(&self, steps: &[usize]) -> Vec<&'a Decision> {
        let mut all: Vec<&Decision> = Vec::new();
        for (decision, ..) in steps.iter().filter_map(|step| self.decided.get(step)) {
            if !all.iter().any(|other| std::ptr::eq(*other, *decision)) {
                all.push(decision);
            }
        }
        all
    }

    fn name(&self, what: What, steps: &[usize], bytes: u64) -> String {
        let of_steps = || distinct(steps.iter().map(|&step| self.step(step))).join(" + ");
        match what {
            What::Bind => "bind memory".to_owned(),
            What::Submit => "submit".to_owned(),
            What::Wait => "wait".to_owned(),
            What::Shared => format!("{} in place", of_steps()),
            What::Untold => format!("{}, not told when", of_steps()),
            What::Did(Activity::Kernel) => of_steps(),
            What::Did(Activity::Upload) => format!("bring {bytes} bytes to the device"),
            What::Did(Activity::Download) => format!("bring {bytes} bytes to the host"),
            What::Did(Activity::Copy) => format!("copy {bytes} bytes"),
            What::Did(Activity::Transfer) => format!("move {bytes} bytes for: {}", of_steps()),
        }
    }

    fn step(&self, step: usize) -> String {
        let name = |device: DeviceId| self.plan.devices.get(device.0).map_or("?", String::as_str);
        let of = |slot: usize| self.plan.slots[slot].device;
        match &self.plan.steps[step] {
            Step::Upload { input, slot } => format!("input {} to {}", input.0, name(of(*slot))),
            Step::Copy { from, to, .. } => format!("{} to {}", name(of(*from)), name(of(*to))),
            Step::Download { slot, output, .. } => format!("output {output} from {}", name(of(*slot))),
            Step::Run { launch, .. } => match self.decided.get(&step) {
                Some((decision, _, 1)) => decision.what.clone(),
                Some((decision, nth, of)) => format!("{} (launch {} of {of})", decision.what, nth + 1),
                None => breakeven_plan::describe(&launch.kernel),
            },
        }
    }
}

fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for item in items {
        if !all.contains(&item) {
            all.push(item);
        }
    }
    all
}

fn lane(what: What, clock: Clock) -> Lane {
    match (what, clock) {
        (What::Untold, _) => Lane::Untold,
        (What::Did(Activity::Kernel | Activity::Copy), _) => Lane::Kernels,
        (What::Did(_), Clock::Device) => Lane::Copies,
        _ => Lane::Host,
    }
}

/// How many events there are, of which devices.
impl fmt::Display for RunTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kernels = self.events.iter().filter(|event| event.lane == Lane::Kernels).count();
        write!(f, "{} events, {kernels} of kernels", self.events.len())?;
        if self.dropped > 0 { write!(f, ", {} times dropped that cannot be", self.dropped) } else { Ok(()) }
    }
}
