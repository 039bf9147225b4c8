//! Tuned numbers that the device measures by itself: what handing over a part costs, what waking a thread and copying a byte
//! cost, from where on outputs are written past the caches and operands of products packed, and when code is generated.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use breakeven_ir::Unsupported;

use crate::Tuning;
use crate::gemm::Packing;
use crate::kernels::{CodeTrial, Machine, StreamTrial};
use crate::team::Team;

/// Names of the numbers in profiles.
const PART_NS: &str = "part_ns";
/// What a profile's tuning calls the nanoseconds until all threads of a team that slept are at work.
pub const WAKE_NS: &str = "wake_ns";
const COPY_NS: &str = "copy_ns";
const CODE_NS: &str = "code_ns";
const STREAM_BYTES: &str = "stream_bytes";
const PACK_ROWS: &str = "pack_rows";
const PACK_ROWS_OF_FEW_SETS: &str = "pack_rows_of_few_sets";
const PACK_PANELS: &str = "pack_panels";

/// The numbers in use; they may change between launches.
#[derive(Debug)]
pub(crate) struct Tuned {
    /// Bits of floats.
    part_ns: AtomicU64,
    wake_ns: AtomicU64,
    copy_ns: AtomicU64,
    code_ns: AtomicU64,
    stream_bytes: AtomicU64,
    pack_rows: AtomicU64,
    pack_rows_of_few_sets: AtomicU64,
    pack_panels: AtomicU64,
}

impl Tuned {
    pub fn new(tuning: &Tuning) -> Tuned {
        let bits = |ns: f64| AtomicU64::new(ns.to_bits());
        Tuned {
            part_ns: bits(tuning.part_ns),
            wake_ns: bits(tuning.wake_ns),
            copy_ns: bits(tuning.copy_ns),
            code_ns: bits(tuning.code_ns),
            stream_bytes: AtomicU64::new(tuning.stream_bytes),
            pack_rows: AtomicU64::new(tuning.pack_rows),
            pack_rows_of_few_sets: AtomicU64::new(tuning.pack_rows_of_few_sets),
            pack_panels: AtomicU64::new(tuning.pack_panels),
        }
    }

    /// As [`Tuning::part_ns`].
    pub fn part_ns(&self) -> f64 {
        f64::from_bits(self.part_ns.load(Ordering::Relaxed))
    }

    /// As [`Tuning::wake_ns`].
    pub fn wake_ns(&self) -> f64 {
        f64::from_bits(self.wake_ns.load(Ordering::Relaxed))
    }

    /// As [`Tuning::copy_ns`].
    pub fn copy_ns(&self) -> f64 {
        f64::from_bits(self.copy_ns.load(Ordering::Relaxed))
    }

    /// As [`Tuning::code_ns`].
    pub fn code_ns(&self) -> f64 {
        f64::from_bits(self.code_ns.load(Ordering::Relaxed))
    }

    /// As [`Tuning::stream_bytes`].
    pub fn stream_bytes(&self) -> u64 {
        self.stream_bytes.load(Ordering::Relaxed)
    }

    /// What products pack, where so many bytes are near.
    pub fn packing(&self, near_bytes: usize) -> Packing {
        let least = |count: &AtomicU64| u16::try_from(count.load(Ordering::Relaxed)).unwrap_or(u16::MAX);
        let rows = least(&self.pack_rows);
        Packing {
            rows,
            rows_of_few_sets: least(&self.pack_rows_of_few_sets),
            panels: least(&self.pack_panels),
            near_bytes: if rows == 0 { 0 } else { u16::try_from(near_bytes).unwrap_or(u16::MAX) },
        }
    }

    /// Takes over what is named and makes sense.
    pub fn adopt(&self, named: &BTreeMap<String, f64>) {
        let number = |name: &str| named.get(name).copied().filter(|x| x.is_finite() && *x > 0.0);
        let times =
            [(PART_NS, &self.part_ns), (WAKE_NS, &self.wake_ns), (COPY_NS, &self.copy_ns), (CODE_NS, &self.code_ns)];
        for (name, place) in times {
            if let Some(ns) = number(name) {
                place.store(ns.to_bits(), Ordering::Relaxed);
            }
        }
        let counts = [
            (STREAM_BYTES, &self.stream_bytes),
            (PACK_ROWS, &self.pack_rows),
            (PACK_ROWS_OF_FEW_SETS, &self.pack_rows_of_few_sets),
            (PACK_PANELS, &self.pack_panels),
        ];
        for (name, place) in counts {
            if let Some(count) = number(name) {
                place.store(count as u64, Ordering::Relaxed);
            }
        }
    }
}

/// Measures what can be measured here, with arrays of at most so many bytes.
pub(crate) fn measure(machine: &Machine, largest_bytes: u64) -> Result<BTreeMap<String, f64>, Unsupported> {
    let mut named = BTreeMap::new();
    if let Some(ns) = hand_over_ns(&machine.team) {
        named.insert(PART_NS.to_owned(), PART_WORTH * ns);
    }
    if let Some(ns) = wake_ns(&machine.team) {
        named.insert(WAKE_NS.to_owned(), WAKE_WORTH * ns);
    }
    if largest_bytes >= COPIED {
        named.insert(COPY_NS.to_owned(), copy_ns(COPIED as usize));
    }
    if let Some(packing) = (largest_bytes >= machine.caches.second as u64).then(|| machine.measure_packing()).flatten()
    {
        let counts = [
            (PACK_ROWS, packing.rows),
            (PACK_ROWS_OF_FEW_SETS, packing.rows_of_few_sets),
            (PACK_PANELS, packing.panels),
        ];
        named.extend(counts.map(|(name, count)| (name.to_owned(), f64::from(count))));
    }
    if let Some(ns) = code_ns(machine)? {
        named.insert(CODE_NS.to_owned(), ns);
    }
    let mut trials = Vec::new();
    let mut bytes = SMALLEST_STREAM;
    while machine.natives.target.is_some() && bytes <= largest_bytes.min(LARGEST_STREAM) {
        trials.push((bytes, gain(StreamTrial::new(machine, bytes)?, machine)));
        bytes *= 2;
    }
    if let Some(bytes) = worth_from(&trials, machine.tuning.stream_bytes) {
        named.insert(STREAM_BYTES.to_owned(), bytes as f64);
    }
    Ok(named)
}

/// A part is handed over when it takes this many times as long as handing it over, by an estimate that takes its operands
/// to be in memory: in a cache it takes half of that.
const PART_WORTH: f64 = 3.0;
/// Threads are woken for work that takes this many times as long as waking them: less is done before they come.
const WAKE_WORTH: f64 = 2.0;
/// Rendezvous that are timed, in groups that are a nap apart. Whatever else the machine does makes them longer, so the quietest group
/// counts: a measurement that met a busy moment would keep all later work on one thread.
const MEETINGS: usize = 40;
const GROUPS: usize = 8;
/// A worker that does not come within this time has no core to run on.
const PATIENCE: Duration = Duration::from_micros(500);

/// Wakings that are timed.
const WAKINGS: usize = 9;
/// Longer than any worker looks for work.
const NAP: Duration = Duration::from_millis(2);

/// Nanoseconds until all threads of a team whose workers are awake are at work; `None` where they do not come.
fn hand_over_ns(team: &Team) -> Option<f64> {
    let group = |group: usize| {
        if group > 0 {
            std::thread::sleep(NAP);
        }
        let times = meetings(team, MEETINGS, || {})?;
        Some(times[times.len() / 4])
    };
    (0..GROUPS).filter_map(group).reduce(f64::min)
}

/// The same of a team whose workers sleep.
fn wake_ns(team: &Team) -> Option<f64> {
    let times = meetings(team, WAKINGS, || std::thread::sleep(NAP))?;
    Some(times[times.len() / 4])
}

/// Nanoseconds of rendezvous, ascending, each after `pause`; `None` where most failed: one may have met a busy machine.
fn meetings(team: &Team, count: usize, pause: impl Fn()) -> Option<Vec<f64>> {
    let threads = team.threads();
    if threads == 1 {
        return None;
    }
    let one = |_| {
        pause();
        meeting_ns(team, threads)
    };
    let mut times: Vec<f64> = (0..count).filter_map(one).collect();
    times.sort_by(f64::total_cmp);
    (times.len() > count / 2).then_some(times)
}

/// Nanoseconds until every thread has a part.
fn meeting_ns(team: &Team, threads: usize) -> Option<f64> {
    let (arrived, late) = (AtomicUsize::new(0), AtomicBool::new(false));
    let start = Instant::now();
    team.run(threads, &|_| {
        arrived.fetch_add(1, Ordering::SeqCst);
        while arrived.load(Ordering::SeqCst) < threads && !late.load(Ordering::SeqCst) {
            late.fetch_or(start.elapsed() > PATIENCE, Ordering::SeqCst);
            std::hint::spin_loop();
        }
    });
    (!late.into_inner()).then(|| start.elapsed().as_nanos() as f64)
}

/// Bytes that are copied to see how long that takes: more than the caches of one core hold.
const COPIED: u64 = 16 << 20;

/// Nanoseconds in which this thread copies one byte of so many.
fn copy_ns(bytes: usize) -> f64 {
    let (from, mut to) = (vec![1u8; bytes], vec![0u8; bytes]);
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            to.copy_from_slice(&from);
            std::hint::black_box(&mut to);
            start.elapsed().as_nanos() as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 4].max(1.0) / bytes as f64
}

/// Nanoseconds of estimated loss for which code is generated: what that takes, in the measure of the estimate, which is off by as
/// much for the chain that is tried as for others.
fn code_ns(machine: &Machine) -> Result<Option<f64>, Unsupported> {
    let (mut generating, mut saved, mut estimate) = (f64::INFINITY, f64::NEG_INFINITY, 0.0);
    for _ in 0..ROUNDS {
        let Some(mut trial) = CodeTrial::new(machine)? else { return Ok(None) };
        generating = trial.generate(machine).min(generating);
        let Some(ns) = trial.saved_ns() else { return Ok(None) };
        (saved, estimate) = (ns.max(saved), trial.estimate_ns());
    }
    Ok(worth_ns(generating, saved, estimate))
}

/// What takes so long, in the measure of an estimate of what it saves.
fn worth_ns(takes: f64, saves: f64, estimate: f64) -> Option<f64> {
    (saves > 0.0).then(|| takes * estimate / saves)
}

/// Outputs that are tried.
const SMALLEST_STREAM: u64 = 4 << 20;
const LARGEST_STREAM: u64 = 64 << 20;
/// Runs of each way.
const ROUNDS: usize = 7;

/// How many times as fast writing past the caches and reading it is as writing through them and reading it.
fn gain(mut trial: StreamTrial, machine: &Machine) -> f64 {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for streams in [false, true] {
            let start = Instant::now();
            trial.run(machine, streams);
            times[usize::from(streams)].push(start.elapsed().as_secs_f64());
        }
    }
    let [through, past] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 4]
    });
    through / past
}

/// Outputs so much faster are worth it.
const WORTH: f64 = 1.03;

/// The least size from which on every larger one gains; past the largest where that one does not, as far as the trials
/// reach `known`, what was used so far.
fn worth_from(trials: &[(u64, f64)], known: u64) -> Option<u64> {
    let losing = trials.iter().rposition(|(_, gain)| *gain < WORTH);
    match losing {
        None => trials.first().map(|(bytes, _)| *bytes),
        Some(last) if last + 1 < trials.len() => Some(trials[last + 1].0),
        Some(last) => (trials[last].0 >= known).then(|| 2 * trials[last].0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_start_where_all_larger_outputs_gain() {
        let check = |gains: &[f64], known: u64, want: Option<u64>| {
            let trials: Vec<(u64, f64)> = gains.iter().enumerate().map(|(i, &gain)| (4 << i, gain)).collect();
            assert_eq!(worth_from(&trials, known), want, "{gains:?}");
        };
        check(&[], 32, None);
        check(&[1.1, 1.2], 32, Some(4));
        check(&[1.1, 0.9, 1.2, 1.3], 32, Some(16));
        check(&[0.8, 0.9], 32, None);
        check(&[0.8, 0.9, 0.9, 1.0], 32, Some(64));
    }

    #[test]
    fn code_is_worth_what_it_takes_in_the_measure_of_an_estimate() {
        assert_eq!(worth_ns(20_000.0, 500.0, 250.0), Some(10_000.0));
        assert_eq!((worth_ns(20_000.0, 0.0, 250.0), worth_ns(20_000.0, -3.0, 250.0)), (None, None));
    }

    #[test]
    fn a_copy_takes_time_and_no_more_than_a_microsecond_a_byte() {
        let ns = copy_ns(1 << 20);
        assert!(ns > 0.0 && ns < 1_000.0, "{ns}");
    }

    #[test]
    fn a_team_meets_and_a_lone_thread_does_not() {
        assert_eq!((hand_over_ns(&Team::new(1, 10)), wake_ns(&Team::new(1, 10))), (None, None));
        let team = Team::new(2, 10_000);
        let met = (0..1000).find_map(|_| meeting_ns(&team, 2));
        assert!(met.is_some_and(|ns| ns > 0.0), "{met:?}");
    }

    #[test]
    fn numbers_that_make_no_sense_are_not_adopted() {
        let tuned = Tuned::new(&Tuning::default());
        let named = |part: f64, wake: f64, stream: f64| {
            let times = [(PART_NS, part), (WAKE_NS, wake), (COPY_NS, wake), (CODE_NS, part), ("else", 1.0)];
            let counts = [(STREAM_BYTES, stream), (PACK_ROWS, stream), (PACK_PANELS, wake)];
            times.into_iter().chain(counts).map(|(name, number)| (name.to_owned(), number)).collect::<BTreeMap<_, _>>()
        };
        let now = |tuned: &Tuned| {
            let times = (tuned.part_ns(), tuned.wake_ns(), tuned.copy_ns(), tuned.code_ns());
            (times, tuned.stream_bytes(), tuned.packing(1))
        };
        let before = now(&tuned);
        tuned.adopt(&named(f64::NAN, 0.0, -1.0));
        assert_eq!(now(&tuned), before);
        tuned.adopt(&named(700.0, 9000.0, 1e6));
        let packing = Packing { rows: u16::MAX, panels: 9000, ..before.2 };
        assert_eq!(now(&tuned), ((700.0, 9000.0, 9000.0, 700.0), 1_000_000, packing));
    }
}
