//! The runner against a simulated device and against operations that misbehave: what it says is what happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use breakeven::{Device, DeviceProfile, Engine, Tensor};
use breakeven_bench::scan::task::{Effort, Line, Measure, Setting};
use breakeven_bench::scan::{Clock, Operation, Suite, child};
use breakeven_device::sim::{SimClock, SimDevice, SimOptions, SimSpeed};
use breakeven_study::folder::Facts;
use breakeven_study::{Copied, Flag, Mode, Sample, Status};

/// The simulated clock as the runner wants it.
struct Simulated(SimClock);

impl Clock for Simulated {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn rest(&self, time: Duration) {
        self.0.advance(time);
    }
}

/// An engine with a device that takes 10 us to submit and 5 ms to finish.
fn engine() -> (Engine, Simulated) {
    let clock = SimClock::new();
    let speed = SimSpeed {
        per_submit: Duration::from_micros(10),
        per_launch: Duration::from_millis(5),
        per_wait: Duration::ZERO,
        flops_per_second: 1e18,
        bytes_per_second: 1e18,
        link_latency: Duration::ZERO,
        link_bytes_per_second: 1e18,
    };
    let device: Arc<dyn Device> = Arc::new(SimDevice::new(SimOptions::new("sim", speed), &clock));
    let builder = Engine::builder().gpus(false).no_cache().measured_device(device, DeviceProfile::default());
    (builder.build().unwrap(), Simulated(clock))
}

fn task(mode: Mode, device: &str) -> Measure {
    Measure {
        operation: "relu".to_owned(),
        dtype: "f32".to_owned(),
        sizes: vec![1000],
        devices: vec![device.to_owned()],
        modes: vec![mode],
        without: vec![],
        seed: 1,
        effort: Effort {
            rounds: 5,
            block: 5,
            budget_ms: 0,
            warm_up_ms: 0,
            deadline_ms: 5000,
            silence_ms: 5000,
            slowed: 0.0,
        },
        setting: Setting::default(),
    }
}

/// The one cell that `operation` gives, or that of the study's relu.
fn measured(operation: Option<&'static Operation>, task: &Measure) -> (Facts, Vec<Sample>) {
    let (engine, clock) = engine();
    let mut found = None;
    let mut say = |line: Line| {
        if let Line::Done { facts, samples, .. } = line {
            found = Some((*facts, samples));
        }
        Ok(())
    };
    match operation {
        Some(operation) => child::measure_this(&engine, operation, task, &clock, &mut say).unwrap(),
        None => child::measure(&engine, task, &clock, &mut say).unwrap(),
    }
    found.expect("the cell is done")
}

/// The device's name in the engine.
fn simulated() -> String {
    engine().0.devices()[1].name.clone()
}

#[test]
fn a_time_runs_until_the_result_is_there_and_not_until_it_is_submitted() {
    let (facts, samples) = measured(None, &task(Mode::Host, &simulated()));
    assert_eq!(facts.status, Status::Ok, "{:?}", facts.why);
    assert!(samples.len() >= 25);
    for sample in samples {
        assert!((4_750_000..5_250_000).contains(&sample.wall_ns), "5 ms, not the submission's 10 us: {sample:?}");
    }
}

#[test]
fn what_the_submission_took_stands_in_a_column_of_its_own() {
    let (_, samples) = measured(None, &task(Mode::Host, &simulated()));
    let dispatch: Vec<u64> = samples.iter().filter_map(|sample| sample.dispatch_ns).collect();
    assert!(!dispatch.is_empty());
    assert!(dispatch.iter().all(|ns| *ns < 1_000_000), "{dispatch:?}");
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
    let mut found = Vec::new();
    let mut say = |line: Line| {
        if let Line::Done { cell, facts, .. } = line {
            let pool = facts.pool.expect("the CPU has one");
            found.push((cell.mode, facts.made.map(|made| made.calls), pool.hits + pool.misses));
        }
        Ok(())
    };
    child::measure(&engine, &both, &clock, &mut say).unwrap();
    let pool = engine.device(breakeven::DeviceId::HOST).expect("always there").memory().pool;
    let of_both: u64 = found.iter().map(|cell| cell.2).sum();
    assert!(of_both > 0 && of_both <= pool.hits + pool.misses, "{found:?} of {pool:?}");
    assert!(found.iter().all(|cell| cell.1 >= Some(25)), "{found:?}");
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
    suite: Suite::Seeds,
    chains: false,
};

#[test]
fn an_operation_that_fails_half_of_the_time_earns_no_time() {
    let (facts, samples) = measured(Some(&HALF), &task(Mode::Host, "cpu"));
    assert_ne!(facts.status, Status::Ok);
    let why = facts.why.unwrap();
    assert!(why.contains("calls failed") && why.contains("reshape"), "{why}");
    assert!(!samples.is_empty(), "what was measured is kept all the same");
}

static WRONG: AtomicU32 = AtomicU32::new(0);

/// Right for the reference, which is written first of all, and wrong afterwards.
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
    write: |x| x[0].matmul(&x[0].reshape([3, 3])),
    sizes: &[1000],
    suite: Suite::Seeds,
    chains: false,
};

#[test]
fn a_call_that_is_wrong_is_an_error_and_no_cell() {
    let (engine, clock) = engine();
    let why = child::measure_this(&engine, &REFUSED, &task(Mode::Host, "cpu"), &clock, &mut |_| Ok(())).unwrap_err();
    assert!(why.to_string().contains("reshape"), "{why}");
}

#[test]
fn time_grows_with_the_size_when_a_result_is_used_or_not() {
    let host = breakeven_bench::scan::HostClock::start();
    let engine = Engine::builder().gpus(false).no_cache().build().unwrap();
    for mode in [Mode::Host, Mode::Upload, Mode::Resident] {
        let mut times = Vec::new();
        let task = Measure { operation: "add".to_owned(), sizes: vec![1, 1_000_000], ..task(mode, "cpu") };
        let mut say = |line: Line| {
            if let Line::Done { facts, samples, .. } = line {
                assert_eq!(facts.status, Status::Ok, "{:?}", facts.why);
                assert!(facts.checksum.is_some());
                times.push(samples.iter().map(|sample| sample.wall_ns).min().unwrap());
            }
            Ok(())
        };
        child::measure(&engine, &task, &host, &mut say).unwrap();
        assert!(times[1] > 10 * times[0], "{mode}: {times:?}");
    }
}
