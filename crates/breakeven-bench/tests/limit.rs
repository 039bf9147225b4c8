//! Cells that a study has no time for: they are rows that say why, and the others of their size are measured.

mod simulated;

use std::sync::Arc;

use breakeven::{Device, DeviceProfile, Engine};
use breakeven_bench::scan::task::{Effort, Limit, Measure};
use breakeven_device::sim::{SimClock, SimDevice, SimOptions};
use breakeven_plan::{ClassCurves, Cost, Curve};
use breakeven_study::folder::Facts;
use breakeven_study::{Flags, Mode, Sample, Status};
use simulated::{Simulated, all_measured, engine, speed, task};

/// `relu` on the CPU, which the simulated clock charges nothing, and on the device, with time for calls of so many milliseconds.
fn both(device: &str, call_ms: u64) -> Measure {
    let one = task(Mode::Host, device);
    let limit = Some(Limit { call_ms, study_s: 55, only_plain_loops: false });
    let effort = Effort { limit, deadline_ms: 5000, ..one.effort };
    Measure { devices: vec!["cpu".to_owned(), device.to_owned()], effort, ..one }
}

/// What was found on the CPU and on the device.
fn found(engine: &Engine, clock: &Simulated, call_ms: u64) -> [(Facts, Vec<Sample>); 2] {
    let device = engine.devices()[1].name.clone();
    let found = all_measured((engine, clock), None, &both(&device, call_ms));
    let found: Vec<(Facts, Vec<Sample>)> = found.into_iter().map(|(_, facts, samples)| (facts, samples)).collect();
    found.try_into().expect("two cells")
}

/// Nobody knows how fast this device is: it is seen by its first calls, which are compared all the same.
#[test]
fn a_cell_whose_first_calls_take_too_long_is_left_out_and_not_its_size() {
    let (engine, clock) = engine();
    let [(on_cpu, samples), (facts, none)] = found(&engine, &clock, 3);
    assert!(on_cpu.status == Status::Ok && samples.len() >= 25, "{:?}", on_cpu.why);
    assert!(facts.is_left_out() && none.is_empty(), "{facts:?}");
    assert!(facts.checksum.is_some() && facts.checksum == on_cpu.checksum, "it was right");
    let why = facts.why.expect("a reason");
    assert!(why.starts_with("one call took 5.") && why.contains("calls of 3 ms: --seconds 110, "), "{why}");
    let (engine, clock) = simulated::engine();
    let [_, (facts, samples)] = found(&engine, &clock, 6);
    assert!(facts.status == Status::Ok && samples.len() >= 25, "{:?}", facts.why);
}

/// A device of which it is known that a call takes `seconds`.
fn known(seconds: f64) -> (Engine, Simulated, Arc<SimDevice>) {
    let clock = SimClock::new();
    let sim = Arc::new(SimDevice::new(SimOptions::new("sim", speed()), &clock));
    let fast = Curve::rate(1e18);
    let map = ClassCurves { math: fast.clone(), memory: fast.clone(), ..ClassCurves::default() };
    let profile = DeviceProfile {
        submit: Cost { seconds, spread: 0.0 },
        upload: fast.clone(),
        download: fast,
        classes: [("map".to_owned(), map)].into(),
        ..DeviceProfile::default()
    };
    let device: Arc<dyn Device> = sim.clone();
    let engine = Engine::builder().gpus(false).no_cache().measured_device(device, profile).build().unwrap();
    (engine, Simulated(clock), sim)
}

#[test]
fn a_call_that_is_predicted_to_take_too_long_is_not_made() {
    let (engine, clock, sim) = known(0.7);
    let before = sim.submits();
    let [(on_cpu, _), (facts, none)] = found(&engine, &clock, 300);
    assert_eq!((on_cpu.status, facts.is_left_out(), none.len()), (Status::Ok, true, 0));
    assert_eq!(sim.submits(), before, "nothing ran there");
    assert!(facts.predicted_ns.is_some_and(|ns| (7e8..7.1e8).contains(&ns)), "{:?}", facts.predicted_ns);
    let why = facts.why.expect("a reason");
    assert!(why.starts_with("one call is predicted to take 700") && why.contains("--seconds 150, "), "{why}");
    let (engine, clock, _) = known(0.2);
    let [_, (facts, samples)] = found(&engine, &clock, 300);
    assert!(facts.status == Status::Ok && samples.len() >= 25, "{:?}", facts.why);
}

#[test]
fn a_study_of_every_size_leaves_nothing_out() {
    let (engine, clock, _) = known(100.0);
    let one = both(&engine.devices()[1].name.clone(), 1);
    let all = Measure { effort: Effort { limit: None, ..one.effort }, ..one };
    let found = all_measured((&engine, &clock), None, &all);
    assert!(found.iter().all(|(_, facts, samples)| facts.status == Status::Ok && samples.len() >= 25), "{found:?}");
}

/// 100 ms for the size are 20 for one of its five rounds: four calls of 5 ms, where as many as ten were asked for.
#[test]
fn a_turn_takes_samples_for_its_part_of_the_time() {
    let (engine, clock) = engine();
    let one = task(Mode::Host, &engine.devices()[1].name.clone());
    let effort = Effort { budget_ms: 100, block: 10, ..one.effort };
    let found = all_measured((&engine, &clock), None, &Measure { effort, ..one });
    let timed = |round| found[0].2.iter().filter(|sample| sample.round == round && sample.flags == Flags::NONE).count();
    assert_eq!((0..6).map(timed).collect::<Vec<_>>(), [4, 4, 4, 4, 4, 0]);
}
