//! The runner against a simulated device and against operations that misbehave: what it says is what happened.

mod simulated;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use breakeven::{Engine, Tensor};
use breakeven_bench::scan::child::Bench;
use breakeven_bench::scan::task::{Effort, Measure};
use breakeven_bench::scan::{Clock, OPERATIONS, Operation, Sensors, Suite};
use breakeven_device::sim::{Fault, SimClock};
use breakeven_study::folder::Facts;
use breakeven_study::stats::{Kept, flags};
use breakeven_study::{Copied, Flag, Mode, Sample, Status};
use simulated::{Simulated, all_measured, engine, engine_on, no_sensors, submissions_of_a_cell, task, with_bench};

/// The one cell that `operation` gives, or that of the study's relu.
fn measured(operation: Option<&'static Operation>, task: &Measure) -> (Facts, Vec<Sample>) {
    let (engine, clock) = engine();
    let (_, facts, samples) = all_measured((&engine, &clock), operation, task).pop().expect("the cell is done");
    (facts, samples)
}

/// The device's name in the engine.
fn simulated() -> String {
    engine().0.devices()[1].name.clone()
}

/// B01: a device that takes 10 us to submit and 5 ms to finish.
#[test]
fn b01_a_time_runs_until_the_result_is_there_and_not_until_it_is_submitted() {
    let (facts, samples) = measured(None, &task(Mode::Host, &simulated()));
    assert_eq!(facts.status, Status::Ok, "{:?}", facts.why);
    assert!(samples.len() >= 25);
    for sample in samples {
        assert!((4_750_000..5_250_000).contains(&sample.wall_ns), "5 ms, not the submission's 10 us: {sample:?}");
    }
}

#[test]
fn b01_what_the_submission_took_stands_in_a_column_of_its_own() {
    let (_, samples) = measured(None, &task(Mode::Host, &simulated()));
    let dispatch: Vec<u64> = samples.iter().filter_map(|sample| sample.dispatch_ns).collect();
    assert!(!dispatch.is_empty());
    assert!(dispatch.iter().all(|ns| *ns == 10_000), "submitting takes 10 us: {dispatch:?}");
    let (_, on_cpu) = measured(None, &task(Mode::Host, "cpu"));
    let in_parts = on_cpu.iter().filter(|sample| sample.flags.has(Flag::InParts)).count();
    assert!(in_parts > 0 && on_cpu.iter().all(|sample| sample.dispatch_ns.is_none()), "the CPU submits nothing");
}

#[test]
fn getting_memory_is_a_part_and_what_was_made_is_counted() {
    let device = simulated();
    let (facts, samples) = measured(None, &task(Mode::Host, &device));
    let allocate: Vec<u64> = samples.iter().filter_map(|sample| sample.allocate_ns).collect();
    assert_eq!(allocate.len(), samples.iter().filter(|s| s.flags.has(Flag::InParts)).count());
    assert!(!allocate.is_empty());
    // 1,000 numbers up and as many back; a warm call finds its plan and its buffers.
    assert_eq!(facts.copied, Some(Copied { upload_bytes: 4000, read_bytes: 4000 }));
    let made = facts.made.expect("counted");
    assert!(made.plans == 0 && made.calls >= samples.len() as u64, "{made:?}");
    assert!(facts.pool.is_some_and(|pool| pool.misses == 0), "{:?}", facts.pool);
    let on_cpu = measured(None, &task(Mode::Host, "cpu")).1;
    assert!(on_cpu.iter().all(|sample| sample.allocate_ns.is_none()), "a timed call works in the caller's memory");
    let resident = measured(None, &task(Mode::Resident, &device)).0;
    assert_eq!(resident.copied, Some(Copied::default()));
    let copies = measured(None, &task(Mode::Copy, &device)).0;
    assert_eq!(copies.copied, Some(Copied { upload_bytes: 4000, read_bytes: 4000 }));
}

/// Cells take turns on one engine: what one of them took from the pool is not counted for another too.
#[test]
fn the_pool_of_a_cell_is_that_of_its_own_turns() {
    let both = Measure { modes: vec![Mode::Host, Mode::Resident], ..task(Mode::Host, "cpu") };
    let (engine, clock) = engine();
    let found: Vec<(Option<u64>, u64)> = all_measured((&engine, &clock), None, &both)
        .into_iter()
        .map(|(_, facts, _)| {
            let pool = facts.pool.expect("the CPU has one");
            (facts.made.map(|made| made.calls), pool.hits + pool.misses)
        })
        .collect();
    let pool = engine.device(breakeven::DeviceId::HOST).expect("always there").memory().pool;
    let of_both: u64 = found.iter().map(|cell| cell.1).sum();
    assert!(of_both > 0 && of_both <= pool.hits + pool.misses, "{found:?} of {pool:?}");
    assert!(found.iter().all(|cell| cell.0 >= Some(25)), "{found:?}");
}

/// A clock of the device that was not written, runs backwards, begins anew in between, or tells more than the whole call took.
#[test]
fn times_of_a_device_that_cannot_be_are_dropped_and_the_hosts_kept() {
    let told = |marks: (u64, u64), mode: Mode| {
        let clock = Simulated(SimClock::new());
        let engine = engine_on(&clock.0, &[Fault::Marks(marks.0, marks.1)]);
        let task = task(mode, &engine.devices()[1].name);
        all_measured((&engine, &clock), None, &task).pop().expect("the cell is done")
    };
    for marks in [(0, 0), (0, 4_000_000), (4_000_000, 5), (u64::MAX - 9, 3_000_000), (7, 60_000_000)] {
        let (_, facts, samples) = told(marks, Mode::Host);
        assert_eq!(facts.status, Status::Ok, "{marks:?}: {:?}", facts.why);
        assert!(samples.iter().all(|sample| sample.kernel_ns.is_none()), "{marks:?}: {samples:?}");
        assert!(samples.iter().all(|sample| (4_750_000..5_250_000).contains(&sample.wall_ns)), "{marks:?}");
        // Where the kernel alone is asked for, nothing is left that could be told.
        let (_, _, samples) = told(marks, Mode::Kernel);
        let kept = Kept::of(&samples);
        assert!(kept.dropped.impossible >= 25, "{marks:?}: {samples:?}");
        assert!(kept.samples.iter().all(|sample| sample.flags.has(Flag::InParts)), "{marks:?}: {samples:?}");
    }
    let (_, _, samples) = told((7, 4_000_007), Mode::Host);
    let known: Vec<u64> = samples.iter().filter_map(|sample| sample.kernel_ns).collect();
    assert!(!known.is_empty() && known.iter().all(|ns| *ns == 4_000_000), "a possible one is taken: {known:?}");
    let (_, facts, samples) = told((7, 4_000_007), Mode::Kernel);
    assert_eq!(facts.status, Status::Ok, "{:?}", facts.why);
    let whole: Vec<u64> = samples.iter().filter(|s| !s.flags.has(Flag::InParts)).map(|sample| sample.wall_ns).collect();
    assert!(whole.len() >= 25 && whole.iter().all(|ns| *ns == 4_000_000), "{samples:?}");
}

#[test]
fn rest_before_a_call_is_not_part_of_it() {
    let (_, samples) = measured(None, &task(Mode::Idle(250), &simulated()));
    assert!(samples.iter().all(|sample| sample.wall_ns < 6_000_000), "{samples:?}");
}

static CALLS: AtomicU32 = AtomicU32::new(0);

/// After the first calls, which are checked, every second one fails.
fn half(x: &[Tensor]) -> Tensor {
    let calls = CALLS.fetch_add(1, Ordering::Relaxed);
    if calls > 8 && calls.is_multiple_of(2) { x[0].reshape([7]) } else { x[0].relu() }
}

static HALF: Operation = Operation {
    name: "half",
    operands: |n| vec![vec![n]],
    write: half,
    sizes: &[1000],
    counts: "elements",
    calls: 1,
    suite: Suite::Seeds,
    chains: false,
};

#[test]
fn an_operation_that_fails_half_of_the_time_earns_no_time() {
    let few = task(Mode::Host, "cpu");
    let many = Measure { effort: Effort { rounds: 40, ..few.effort }, ..few.clone() };
    for task in [few, many] {
        CALLS.store(0, Ordering::Relaxed);
        let (facts, samples) = measured(Some(&HALF), &task);
        assert_eq!(facts.status, Status::Lost);
        let why = facts.why.unwrap();
        assert!(why.contains("calls failed") && why.contains("reshape"), "{why}");
        assert!(!samples.is_empty(), "what was measured is kept all the same");
    }
}

/// A device that refuses every second submission: the engine goes on elsewhere, and nothing of that is a time of this device.
#[test]
fn a_device_that_refuses_half_of_its_work_earns_no_time() {
    let first = submissions_of_a_cell() / 4;
    let clock = Simulated(SimClock::new());
    let engine = engine_on(&clock.0, &[Fault::RefusesEverySecondFrom(first)]);
    let task = task(Mode::Host, &engine.devices()[1].name);
    let (_, facts, _) = all_measured((&engine, &clock), None, &task).pop().expect("the cell is done");
    assert_eq!(facts.status, Status::Lost, "{:?}", facts.why);
    assert!(facts.why.as_ref().is_some_and(|why| why.contains("the test said so")), "{:?}", facts.why);
}

static WRONG: AtomicU32 = AtomicU32::new(0);

/// Right for the reference, which is of f64, and wrong otherwise.
fn wrong(x: &[Tensor]) -> Tensor {
    if x[0].dtype() == breakeven::DType::F64 {
        x[0].relu()
    } else {
        x[0].relu() + f64::from(WRONG.fetch_add(1, Ordering::Relaxed))
    }
}

static WRONG_OPERATION: Operation = Operation {
    name: "wrong",
    operands: |n| vec![vec![n]],
    write: wrong,
    sizes: &[1000],
    counts: "elements",
    calls: 1,
    suite: Suite::Seeds,
    chains: false,
};

#[test]
fn a_wrong_result_is_never_timed() {
    let (facts, samples) = measured(Some(&WRONG_OPERATION), &task(Mode::Host, "cpu"));
    assert_eq!(facts.status, Status::Wrong);
    assert!(facts.why.unwrap().contains("instead of"));
    assert!(samples.is_empty());
}

/// A tenth of the operand each time: after 40 of them there are denormals alone.
static DECAYING: Operation = Operation {
    name: "decaying",
    operands: |n| vec![vec![n]],
    write: |x| &x[0] * 0.1,
    sizes: &[1000],
    counts: "elements",
    calls: 1,
    suite: Suite::Seeds,
    chains: true,
};

#[test]
fn data_that_decays_is_caught() {
    let (facts, _) = measured(Some(&DECAYING), &task(Mode::Chain(40), "cpu"));
    assert!(facts.degenerate.unwrap() > 0.5, "{:?}", facts.degenerate);
    let (facts, _) = measured(Some(&DECAYING), &task(Mode::Chain(10), "cpu"));
    assert_eq!(facts.degenerate, Some(0.0));
}

static REFUSED: Operation = Operation {
    name: "refused",
    operands: |n| vec![vec![n]],
    write: |x| x[0].reshape([3, 3]),
    sizes: &[1000],
    counts: "elements",
    calls: 1,
    suite: Suite::Seeds,
    chains: false,
};

#[test]
fn work_that_nothing_takes_is_a_row_with_the_reason() {
    let (engine, clock) = engine();
    let task = Measure { sizes: vec![1000, 9], modes: vec![Mode::Host, Mode::Resident], ..task(Mode::Host, "cpu") };
    let found = all_measured((&engine, &clock), Some(&REFUSED), &task);
    let of_size = |elements| found.iter().filter(move |(cell, ..)| cell.elements == elements).collect::<Vec<_>>();
    assert_eq!((of_size(1000).len(), of_size(9).len()), (2, 2));
    for (_, facts, samples) in of_size(1000) {
        assert_eq!((facts.status, samples.len()), (Status::Skipped, 0));
        assert!(facts.why.as_ref().unwrap().contains("reshape"), "{:?}", facts.why);
    }
    // What it does take is measured all the same.
    assert!(of_size(9).iter().all(|(_, facts, _)| facts.status == Status::Ok), "{found:?}");
}

/// B05: on the CPU of this machine, with results that are read, that are waited for, and that nobody looks at; and a plain loop, which a compiler could
/// see through.
#[test]
fn b05_time_grows_with_the_size_when_a_result_is_used_or_not() {
    let host = breakeven_bench::scan::HostClock::start();
    let engine = Engine::builder().gpus(false).no_cache().build().unwrap();
    let cpu = vec!["cpu".to_owned()];
    let cases = [Mode::Host, Mode::Upload, Mode::Resident].map(|mode| (mode, cpu.clone()));
    let mut checksums = BTreeSet::new();
    for (mode, devices) in cases.into_iter().chain([(Mode::Host, vec!["scalar".to_owned()])]) {
        let mut times = Vec::new();
        let sizes = vec![1, 4_000_000];
        let task = Measure { operation: "add".to_owned(), sizes, devices, ..task(mode, "cpu") };
        for (cell, facts, samples) in all_measured((&engine, &host), None, &task) {
            assert_eq!(facts.status, Status::Ok, "{cell}: {:?}", facts.why);
            checksums.insert((cell.elements, facts.checksum.expect("the output was compared")));
            let least = samples.iter().map(|sample| sample.wall_ns).min().unwrap();
            assert_eq!(flags(cell.elements, least as f64, None), [""; 0], "{cell}: {least} ns");
            times.push(least);
        }
        // 48 megabytes in less than at a terabyte a second are not moved; and a million elements took only ten times as long as one where the last cache
        // holds them.
        assert!(times[1] > 10 * times[0] && times[1] > 48_000, "{mode}: {times:?}");
    }
    assert_eq!(checksums.len(), 2, "one output for each size, whatever the mode: {checksums:?}");
}

static CHAIN_WRONG: Operation = Operation {
    name: "wrong at its third link",
    operands: |n| vec![vec![n]],
    write: wrong_at_third_link,
    sizes: &[1000],
    counts: "elements",
    calls: 1,
    suite: Suite::Seeds,
    chains: true,
};

/// One more in each link, but for the third where it is not the reference that is written.
fn wrong_at_third_link(x: &[Tensor]) -> Tensor {
    static LINKS: AtomicU32 = AtomicU32::new(0);
    if x[0].dtype() == breakeven::DType::F64 {
        return &x[0] + 1.0;
    }
    let link = LINKS.fetch_add(1, Ordering::Relaxed);
    &x[0] + if link == 3 { 1.5 } else { 1.0 }
}

#[test]
fn the_result_of_a_chain_is_compared_too() {
    let (facts, samples) = measured(Some(&CHAIN_WRONG), &task(Mode::Chain(4), "cpu"));
    assert_eq!((facts.status, samples.len()), (Status::Wrong, 0), "{:?}", facts.why);
    for operation in ["add", "mul", "tanh", "gelu", "softmax", "log_softmax", "matmul"] {
        for dtype in ["f32", "f16", "bf16", "f64"] {
            let (operation, dtype) = (operation.to_owned(), dtype.to_owned());
            let task = Measure { operation, dtype, sizes: vec![40], ..task(Mode::Chain(16), "cpu") };
            let (facts, _) = measured(None, &task);
            assert_eq!(facts.status, Status::Ok, "{} {}: {:?}", task.operation, task.dtype, facts.why);
        }
    }
}

#[test]
fn first_calls_are_those_of_new_engines() {
    let (main, clock) = engine();
    let made = AtomicU32::new(0);
    let another = || {
        made.fetch_add(1, Ordering::Relaxed);
        Ok(engine_on(&clock.0, &[]))
    };
    let bench = Bench { engine: &main, another: &another, clock: &clock, sensors: &no_sensors() };
    let found = with_bench(&bench, None, &task(Mode::First, &simulated()));
    let [(_, facts, samples)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(facts.status, Status::Ok, "{:?}", facts.why);
    assert!(samples.len() >= 3, "{samples:?}");
    assert_eq!(made.load(Ordering::Relaxed) as usize, samples.len());
    assert!(samples.iter().all(|sample| (4_750_000..5_250_000).contains(&sample.wall_ns)), "{samples:?}");
}

#[test]
fn a_device_that_is_lost_in_the_middle_takes_no_finished_row_with_it() {
    let whole = submissions_of_a_cell();
    // In the first call, while its first cell is measured, and while its second one is.
    for at in [1, whole / 2, whole, whole + whole / 2] {
        let clock = Simulated(SimClock::new());
        let engine = engine_on(&clock.0, &[Fault::LostAt(at)]);
        let device = engine.devices()[1].name.clone();
        let devices = vec!["cpu".to_owned(), device.clone()];
        let task = Measure { devices, sizes: vec![1000, 2000, 3000], ..task(Mode::Host, &device) };
        let found = all_measured((&engine, &clock), None, &task);
        let statuses = |name: &str| -> Vec<Status> {
            found.iter().filter(|(cell, ..)| cell.device == name).map(|(_, facts, _)| facts.status).collect()
        };
        assert_eq!(statuses("cpu"), [Status::Ok; 3], "lost at {at}");
        let done = ((at - 1) / whole) as usize;
        let (ok, lost) = (vec![Status::Ok; done], vec![Status::Lost; 3 - done]);
        assert_eq!(statuses(&device), [ok, lost].concat(), "lost at {at}: {found:?}");
        for (_, facts, samples) in found.iter().filter(|(_, facts, _)| facts.status == Status::Lost) {
            assert!(facts.why.as_ref().unwrap().contains("lost"), "{:?}", facts.why);
            // None of what the CPU answered instead, which takes no time by this clock.
            assert!(samples.iter().all(|sample| sample.wall_ns >= 4_750_000), "{samples:?}");
        }
    }
}

/// A machine whose processor lowers its clock once, in the middle.
#[test]
fn b04_samples_taken_while_the_clock_was_lowered_are_flagged() {
    let root = std::env::temp_dir().join(format!("breakeven-throttled-{}", std::process::id()));
    let file = root.join("devices/system/cpu/cpu0/thermal_throttle/core_throttle_count");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "7\n").unwrap();
    let (engine, clock) = engine();
    let hot = Hot { clock, file: &file, text: "8\n", calls: AtomicU32::new(0) };
    let (another, sensors) = (|| Ok(engine.clone()), Sensors::under(&root));
    let bench = Bench { engine: &engine, another: &another, clock: &hot, sensors: &sensors };
    let found = with_bench(&bench, None, &task(Mode::Host, &simulated()));
    std::fs::remove_dir_all(&root).unwrap();
    let samples = &found[0].2;
    let rounds: BTreeSet<u32> =
        samples.iter().filter(|s| s.flags.has(Flag::Throttled)).map(|sample| sample.round).collect();
    assert_eq!(rounds.len(), 1, "{samples:?}");
    let kept = Kept::of(samples);
    assert!(kept.dropped.throttled >= 5 && !kept.samples.is_empty() && !kept.is_throttled());
}

/// A machine on which a thread waits for 20 ms for a core, in one of five rounds.
#[test]
fn what_other_work_takes_of_the_cores_is_told() {
    let root = std::env::temp_dir().join(format!("breakeven-contended-{}", std::process::id()));
    let file = root.join("proc/self/task/1/schedstat");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "0 5000 0\n").unwrap();
    let (engine, clock) = engine();
    let busy = Hot { clock, file: &file, text: "0 20005000 0\n", calls: AtomicU32::new(0) };
    let (another, sensors) = (|| Ok(engine.clone()), Sensors::under(&root));
    let bench = Bench { engine: &engine, another: &another, clock: &busy, sensors: &sensors };
    let found = with_bench(&bench, None, &task(Mode::Host, &simulated()));
    std::fs::remove_dir_all(&root).unwrap();
    let waited = found[0].1.waited.expect("it is counted");
    // Five rounds of six or seven calls of 5 ms.
    assert!((20.0 / 180.0..20.0 / 140.0).contains(&waited), "{waited}");
    assert_eq!(
        measured(None, &task(Mode::Host, &simulated())).0.waited,
        None,
        "where nothing counts, nothing is known"
    );
}

/// A clock that is asked a while before the file says something else.
struct Hot<'a> {
    clock: Simulated,
    file: &'a Path,
    text: &'a str,
    calls: AtomicU32,
}

impl Clock for Hot<'_> {
    fn now(&self) -> Duration {
        if self.calls.fetch_add(1, Ordering::Relaxed) == 48 {
            std::fs::write(self.file, self.text).unwrap();
        }
        self.clock.now()
    }

    fn rest(&self, time: Duration) {
        self.clock.rest(time);
    }
}

#[test]
fn plain_loops_give_what_the_reference_gives() {
    let (engine, clock) = engine();
    let mut with_a_loop = Vec::new();
    for operation in OPERATIONS {
        // Of the layers of models, those sizes at which scores of attention once made any rounding a large difference.
        let size = if operation.name.starts_with("batch") { 1000 } else { 37 };
        let task = Measure { scalar: true, sizes: vec![size], ..task(Mode::Host, "cpu") };
        let task = Measure { operation: operation.name.to_owned(), ..task };
        for (cell, facts, samples) in all_measured((&engine, &clock), None, &task) {
            assert_eq!(facts.status, Status::Ok, "{cell}: {:?}", facts.why);
            if cell.device == "scalar" {
                assert_eq!(facts.ran.as_deref(), Some("a plain loop on one thread"));
                assert!(samples.len() >= 25, "{cell}: {}", samples.len());
                with_a_loop.push(cell.operation);
            }
        }
    }
    // Every operation of the claims over scalar loops.
    let claimed = [
        "add",
        "dot",
        "relu",
        "leaky_relu",
        "elu",
        "clip",
        "sigmoid",
        "tanh",
        "silu",
        "gelu",
        "softmax",
        "log_softmax",
        "matmul",
    ];
    assert!(claimed.iter().all(|name| with_a_loop.iter().any(|found| found == name)), "{with_a_loop:?}");
}
