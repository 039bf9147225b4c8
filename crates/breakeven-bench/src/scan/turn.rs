//! One cell while it is measured: its turns, what it ran, and how it ended.

use std::time::Duration;

use breakeven::{DeviceError, DeviceId, DeviceReport, Engine, Error, Report};
use breakeven_plan::Step;
use breakeven_study::folder::Facts;
use breakeven_study::stats::{Kept, StopRule, degenerate_share, should_stop};
use breakeven_study::{Cell, Copied, Flag, Flags, Mode, Pool, Sample, Status, Stop};

use super::child::Bench;
use super::clock::Clock;
use super::contention::Waited;
use super::limit::Known;
use super::places::Place;
use super::subject::{References, Subject, times};
use super::task::Effort;

/// A cell that gets its turns.
pub struct Turn {
    /// Where.
    pub place: Place,
    /// Its samples so far.
    pub samples: Vec<Sample>,
    /// Which cell it is.
    pub cell: Cell,
    /// What will be said of it in the end.
    pub facts: Facts,
    /// Calls that failed; a cell with any earns no time.
    failed: u64,
    /// How long threads waited for a core in its turns.
    waited: Waited,
    /// What the last of its first calls took: nothing was compiled for it any more.
    took: Option<Duration>,
}

/// What an engine and a device's pool did so far.
#[derive(Clone, Copy)]
struct Books {
    pool: Option<Pool>,
    plans: u64,
    pipelines: Option<u64>,
}

/// When a cell is known well enough: within 1% at 95% confidence, or as well as this machine allows. Twelve rounds of five, if there is time for them:
/// a comparison with another run counts rounds, and five in each say little.
const ENOUGH: StopRule = StopRule { least: 60, narrow: 0.01, stable: 0.1, budget_ns: 1 };

/// Calls that failed, of which more would not tell more.
const ENOUGH_FAILED: u64 = 20;

/// A result that is wrong by more than this share of the largest element is wrong.
fn tolerance(dtype: &str) -> f64 {
    match dtype {
        "f64" => 1e-12,
        "f16" => 4e-3,
        "bf16" => 3e-2,
        _ => 2e-5,
    }
}

impl Turn {
    /// Of a cell that was not tried yet.
    pub fn new(cell: Cell, place: Place) -> Turn {
        let waited = Waited::default();
        Turn { place, samples: Vec::new(), cell, facts: Facts::of(Status::Ok), failed: 0, waited, took: None }
    }

    /// Whether it still gets turns.
    pub fn is_open(&self) -> bool {
        self.facts.status == Status::Ok && self.facts.stop.is_none()
    }

    /// Leaves the cell out where the engine predicts a longer call than there is time for; nothing runs.
    pub fn foresee(&mut self, subject: &Subject<'_>, effort: &Effort) {
        let Some(limit) = effort.limit.filter(|limit| limit.holds(false) && !self.place.is_scalar()) else { return };
        let Some(predicted) = subject.predicted(self.cell.mode, self.place.device) else { return };
        if let Some(why) = limit.refuses(predicted, Known::Predicted, effort) {
            self.facts = Facts { predicted_ns: Some(predicted.as_secs_f64() * 1e9), ..Facts::left_out(why) };
        }
    }

    /// Leaves the cell out where its first calls took longer than there is time for.
    pub fn look_back(&mut self, effort: &Effort) {
        let limit = effort.limit.filter(|limit| limit.holds(self.place.is_scalar()));
        let Some((limit, took)) = limit.zip(self.took).filter(|_| self.is_open()) else { return };
        if let Some(why) = limit.refuses(took, Known::Taken, effort) {
            let Facts { status, why, stop, .. } = Facts::left_out(why);
            self.facts = Facts { status, why, stop, ..self.facts.clone() };
        }
    }

    /// The first calls: the result is compared with what is wanted, and what ran is put down. Nothing of it is a sample.
    pub fn check(&mut self, subject: &mut Subject<'_>, wanted: &References, bench: &Bench<'_>) {
        if self.facts.status != Status::Ok {
            return;
        }
        let (mode, device) = (self.cell.mode, self.place.device);
        let begun = bench.clock.now();
        let computed = if self.place.is_scalar() { subject.compute_plainly() } else { subject.compute(mode, device) };
        self.took = Some(bench.clock.since(begun));
        let got = match computed {
            Ok(got) => got,
            Err(error) => return self.end(&error, bench.engine),
        };
        if let Some(why) = difference(&got, &wanted[&times(mode)], tolerance(&self.cell.dtype)) {
            self.facts.status = Status::Wrong;
            self.facts.why = Some(why);
            return;
        }
        self.facts.checksum = Some(checksum(&got));
        if matches!(mode, Mode::Chain(_)) {
            let last: Vec<f32> = got.iter().map(|x| *x as f32).collect();
            self.facts.degenerate = Some(degenerate_share(&last));
        }
        if self.place.is_scalar() {
            self.facts.ran = Some("a plain loop on one thread".to_owned());
            return;
        }
        match subject.call_in_parts(mode, device, bench.clock) {
            Ok((sample, report)) => {
                self.took = Some(Duration::from_nanos(sample.wall_ns));
                self.put_down(&report, subject.operands().calls() as u64, bench.engine);
            }
            Err(error) => return self.end(&error, bench.engine),
        }
        if mode == Mode::Copy {
            self.facts.copied = Some(subject.copied());
        }
    }

    /// What a call does, of which there are so many alike, counts for all of them.
    fn put_down(&mut self, report: &Report, calls: u64, engine: &Engine) {
        let plan = &report.plan;
        let kernel = |step: &Step| if let Step::Run { launch, .. } = step { Some(launch.kernel.work()) } else { None };
        let work = plan.steps.iter().filter_map(kernel).fold((0, 0), |(f, b), w| (f + w.flops, b + w.bytes));
        (self.facts.flops, self.facts.bytes) = (Some(calls * work.0), Some(calls * work.1));
        let Copied { upload_bytes, read_bytes } = copied(plan);
        self.facts.copied = Some(Copied { upload_bytes: calls * upload_bytes, read_bytes: calls * read_bytes });
        let predicted_ns = calls as f64 * plan.predicted.seconds * 1e9;
        self.facts.predicted_ns = (predicted_ns > 0.0).then_some(predicted_ns);
        let used = report.devices_used();
        let told = |d: DeviceReport| {
            let info = &d.info;
            let is_used = used.contains(&d.name.as_str());
            is_used.then(|| format!("{}, {} ({}, {})", d.name, info.name, info.backend, info.driver))
        };
        let devices: Vec<String> = engine.devices().into_iter().filter_map(told).collect();
        let paths = plan.decisions.iter().filter_map(|d| d.products.clone());
        let said: Vec<String> = devices.into_iter().chain(paths).chain(report.replanned.iter().cloned()).collect();
        self.facts.ran = Some(said.join("; "));
        self.notice(report);
    }

    /// What was asked of one device and ran on another is no time of either.
    fn notice(&mut self, report: &Report) {
        let used = report.devices_used();
        if self.place.device.is_some() && used.iter().any(|name| *name != self.place.name) {
            self.facts.status = Status::Lost;
            self.facts.why = Some(format!("it ran on {} instead", used.join(" and ")));
        }
    }

    /// A block of samples, after as many untimed calls as wake the device. Of a device that was lost meanwhile nothing of it counts: calls
    /// that it did not answer were answered by another.
    pub fn take(&mut self, subject: &mut Subject<'_>, round: u32, effort: &Effort, bench: &Bench<'_>) {
        let (health, throttlings) = (self.place.health(bench.engine), bench.sensors.throttlings());
        // Its least rounds are there, and it was lost while another cell had its turn, which says so.
        if round >= effort.rounds && health.as_ref().is_some_and(|health| health.problem.is_some()) {
            self.facts.stop = Some(Stop::Budget);
            return;
        }
        let first = self.samples.len();
        // Cells take turns on one engine, so its books are looked at before and after each.
        let before = Books::of(bench.engine, self.place.device);
        let (begun, waits) = (bench.clock.now(), bench.sensors.waits());
        let calls = self.take_block(subject, round, effort, bench);
        if let (Some(before), Some(after)) = (waits, bench.sensors.waits()) {
            self.waited.add(bench.clock.since(begun), after.longest_since(&before));
        }
        self.add_made(calls, before, Books::of(bench.engine, self.place.device));
        if bench.sensors.throttlings() > throttlings {
            self.samples[first..].iter_mut().for_each(|sample| sample.flags = sample.flags.with(Flag::Throttled));
        }
        let after = self.place.health(bench.engine);
        if after != health {
            self.samples.truncate(first);
            let problem = after.and_then(|health| health.problem).unwrap_or_else(|| "it is open again".to_owned());
            self.facts.status = Status::Lost;
            self.facts.why = Some(format!("{} was lost in round {round}: {problem}", self.place.name));
        }
    }

    /// How many calls that took.
    fn take_block(&mut self, subject: &mut Subject<'_>, round: u32, effort: &Effort, bench: &Bench<'_>) -> u64 {
        let (mode, device, clock) = (self.cell.mode, self.place.device, bench.clock);
        let awake = clock.now() + Duration::from_millis(self.place.warm_up_ms(effort));
        let mut index = 0;
        while index == 0 || clock.now() < awake {
            match self.call(subject, clock) {
                // The first of all are kept, flagged, for whoever wants to see them.
                Ok(sample) if round == 0 && index < effort.block => {
                    self.samples.push(Sample { round, index, flags: Flags::NONE.with(Flag::WarmUp), ..sample });
                }
                Ok(_) => {}
                Err(error) => {
                    self.fail(&error, bench.engine);
                    return u64::from(index) + 1;
                }
            }
            index += 1;
        }
        // One call at least; the others only as long as there is time in a round for all cells of the size together.
        let end = clock.now() + Duration::from_millis(effort.budget_ms) / effort.rounds.max(1);
        let mut calls = u64::from(index);
        for index in (0..effort.block).take_while(|index| *index == 0 || effort.budget_ms == 0 || clock.now() < end) {
            calls += 1;
            match self.call(subject, clock) {
                Ok(sample) => self.samples.push(slowed(Sample { round, index, ..sample }, effort.slowed, clock)),
                Err(error) => self.fail(&error, bench.engine),
            }
        }
        if !self.is_open() || self.place.is_scalar() {
            return calls;
        }
        match subject.call_in_parts(mode, device, clock) {
            Ok((sample, report)) => {
                let flags = Flags::NONE.with(Flag::InParts);
                self.samples.push(Sample { round, index: effort.block, flags, ..sample });
                // The engine's choice may change with what it has seen: what ran last is told.
                self.put_down(&report, subject.operands().calls() as u64, bench.engine);
            }
            Err(error) => self.fail(&error, bench.engine),
        }
        calls + 1
    }

    fn add_made(&mut self, calls: u64, before: Books, after: Books) {
        let made = self.facts.made.get_or_insert_default();
        made.calls += calls;
        // A device that was opened anew counts from zero.
        let more = |after: u64, before: u64| after.saturating_sub(before);
        made.plans += more(after.plans, before.plans);
        let pipelines = after.pipelines.zip(before.pipelines);
        made.pipelines = pipelines.map(|(after, before)| made.pipelines.unwrap_or(0) + more(after, before));
        self.facts.pool = after.pool.zip(before.pool).map(|(after, before)| {
            let known = self.facts.pool.unwrap_or_default();
            let (hits, misses) = (more(after.hits, before.hits), more(after.misses, before.misses));
            Pool { hits: known.hits + hits, misses: known.misses + misses, bytes: after.bytes }
        });
    }

    fn call(&self, subject: &mut Subject<'_>, clock: &dyn Clock) -> breakeven::Result<Sample> {
        if self.place.is_scalar() {
            subject.call_plainly(clock)
        } else {
            subject.call(self.cell.mode, self.place.device, clock)
        }
    }

    /// One call from the host's memory to the host's memory, timed from `begun` on.
    pub fn take_once(&mut self, subject: &mut Subject<'_>, begun: Duration, bench: &Bench<'_>) {
        let before = Books::of(bench.engine, self.place.device);
        match subject.call(Mode::Host, self.place.device, bench.clock) {
            Ok(_) => {
                let wall_ns = bench.clock.nanoseconds_since(begun);
                self.samples.push(Sample { wall_ns, ..Sample::default() });
                self.facts.stop = Some(Stop::Budget);
            }
            Err(error) => self.end(&error, bench.engine),
        }
        self.add_made(1, before, Books::of(bench.engine, self.place.device));
    }

    /// Why it has no time, if it has none.
    pub fn wrong(&self) -> Option<String> {
        let why = || self.facts.why.clone().unwrap_or_else(|| self.facts.status.to_string());
        (self.failed > 0 || self.facts.status != Status::Ok).then(why)
    }

    /// Decides whether it needs no more turns, or gets none since the time is up.
    pub fn settle(&mut self, is_late: bool, seed: u64) {
        let spent_ns = if is_late { ENOUGH.budget_ns } else { 0 };
        self.facts.stop = should_stop(&Kept::of(&self.samples).wall_ns(), spent_ns, &ENOUGH, seed);
    }

    /// Everything that was found.
    pub fn finish(mut self) -> (Cell, Facts, Vec<Sample>) {
        self.facts.waited = self.waited.share();
        if self.failed > 0 && self.facts.status == Status::Ok {
            self.give_up();
        }
        (self.cell, self.facts, self.samples)
    }

    /// Some calls went well and others did not: nothing of it is a time of the operation.
    fn give_up(&mut self) {
        let calls = self.samples.len() as u64 + self.failed;
        let why = format!("{} of {calls} calls failed", self.failed);
        self.facts.why = Some(self.facts.why.take().map_or(why.clone(), |last| format!("{why}; the last: {last}")));
        self.facts.status = Status::Lost;
    }

    /// A call failed; the cell goes on, so that it is known how often that happens, unless there is no hope.
    fn fail(&mut self, error: &Error, engine: &Engine) {
        self.failed += 1;
        // What hung once is not waited for again.
        if status(error) == Status::Timeout || self.failed > ENOUGH_FAILED && self.samples.is_empty() {
            return self.end(error, engine);
        }
        self.facts.why = Some(self.why(error, engine).0);
        if self.failed > ENOUGH_FAILED {
            self.give_up();
        }
    }

    /// Nothing more comes of this cell.
    pub fn end(&mut self, error: &Error, engine: &Engine) {
        let (why, is_lost) = self.why(error, engine);
        self.facts.status = match status(error) {
            _ if is_lost => Status::Lost,
            // It did what it says now that it does not offer.
            Status::Unsupported if !self.samples.is_empty() => Status::Lost,
            status => status,
        };
        self.facts.why = Some(why);
    }

    /// What a call failed by and what is wrong with the device, and whether something is.
    fn why(&self, error: &Error, engine: &Engine) -> (String, bool) {
        match self.place.health(engine).and_then(|health| health.problem) {
            Some(problem) => (format!("{error}; {problem}"), true),
            None => (error.to_string(), false),
        }
    }
}

/// A call that takes longer by this share of what it took: by waiting, as slower code would, without what looking at the clock adds to that.
fn slowed(sample: Sample, by: f64, clock: &dyn Clock) -> Sample {
    if by <= 0.0 {
        return sample;
    }
    let extra = (sample.wall_ns as f64 * by) as u64;
    clock.work(Duration::from_nanos(extra));
    Sample { wall_ns: sample.wall_ns + extra, ..sample }
}

fn status(error: &Error) -> Status {
    match error {
        Error::Call(_) | Error::Placement(_) => Status::Unsupported,
        Error::Device { source: DeviceError::Timeout { .. }, .. } => Status::Timeout,
        Error::Device { source: DeviceError::Unsupported(_) | DeviceError::OutOfMemory { .. }, .. } => {
            Status::Unsupported
        }
        _ => Status::Lost,
    }
}

/// In words, where `got` is not `wanted`. What is not finite is as it is wanted, and says nothing of how large the others are.
fn difference(got: &[f64], wanted: &[f64], tolerance: f64) -> Option<String> {
    if got.len() != wanted.len() {
        return Some(format!("{} elements instead of {}", got.len(), wanted.len()));
    }
    let finite = wanted.iter().filter(|x| x.is_finite());
    let most = tolerance * finite.fold(1e-30f64, |most, x| most.max(x.abs()));
    let is_right = |got: f64, want: f64| {
        let is_near = got.is_finite() && want.is_finite() && (got - want).abs() <= most;
        is_near || got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan()
    };
    let (i, (got, want)) = got.iter().zip(wanted).enumerate().find(|(_, (got, want))| !is_right(**got, **want))?;
    Some(format!("element {i} is {got} instead of {want}"))
}

/// FNV-1a over the elements as f32, which is what all of these types have in common.
fn checksum(numbers: &[f64]) -> String {
    let bytes = numbers.iter().flat_map(|&x| (x as f32).to_bits().to_le_bytes());
    format!(
        "{:016x}",
        bytes.fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
    )
}

/// What a call copies: as the plan has it, for devices that do not work in the host's memory.
fn copied(plan: &breakeven::Plan) -> Copied {
    let is_far = |slot: usize| plan.slots[slot].device != DeviceId::HOST;
    let mut copied = Copied::default();
    for step in &plan.steps {
        match step {
            Step::Upload { slot, .. } if is_far(*slot) => copied.upload_bytes += plan.slots[*slot].bytes,
            Step::Download { slot, bytes, .. } if is_far(*slot) => copied.read_bytes += bytes,
            Step::Copy { from, to, bytes } => {
                copied.read_bytes += if is_far(*from) { *bytes } else { 0 };
                copied.upload_bytes += if is_far(*to) { *bytes } else { 0 };
            }
            _ => {}
        }
    }
    copied
}

impl Books {
    /// Pipelines are those of GPUs: a cell on the CPU has none.
    fn of(engine: &Engine, device: Option<DeviceId>) -> Books {
        let kept = engine.kept_pipelines().filter(|_| device != Some(DeviceId::HOST));
        let pipelines = kept.map(|kept| kept.pipelines);
        Books { pool: pool(engine, device), plans: engine.plans_made(), pipelines }
    }
}

fn pool(engine: &Engine, device: Option<DeviceId>) -> Option<Pool> {
    let counters = engine.device(device?)?.memory().pool;
    Some(Pool { hits: counters.hits, misses: counters.misses, bytes: counters.live_bytes + counters.pooled_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_finite_hides_no_difference() {
        let check = |got: &[f64], wanted: &[f64], is_right: bool| {
            assert_eq!(difference(got, wanted, 1e-3).is_none(), is_right, "{got:?} for {wanted:?}");
        };
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        check(&[1.0, 2.0], &[1.0, 2.001], true);
        check(&[1.0, 2.0], &[1.0, 2.01], false);
        check(&[inf, 1.0], &[inf, 1.0], true);
        check(&[inf, 2.0], &[inf, 1.0], false);
        check(&[1e9], &[inf], false);
        check(&[inf], &[-inf], false);
        check(&[nan, 1.0], &[nan, 1.0], true);
        check(&[nan, 1.0], &[1.0, 1.0], false);
        check(&[inf], &[1.0], false);
        check(&[1.0], &[1.0, 1.0], false);
    }
}
