//! How well devices do: told when asked, and to whoever wants to hear of changes.

mod sim;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use breakeven::{Deadline, Device, DeviceId, DeviceReport, Engine, Health, HealthSubscription, Tensor};
use breakeven_device::sim::{Fault, SimClock, SimDevice, SimOptions};
use breakeven_ir::Class;
use sim::{Driven, GPU, chain, hopeless, speed, unbeatable, want};

/// What was told of the device, as "critical: Suspect".
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn of(engine: &Engine) -> (Heard, HealthSubscription) {
        let heard = Heard::default();
        let all = heard.clone();
        let subscription = engine.on_health(move |device| all.0.lock().unwrap().push(told(device)));
        (heard, subscription)
    }

    /// What was told since.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn told(device: &DeviceReport) -> String {
    let state = format!("{:?}", device.state);
    format!("{}: {}", name(device), state.split('(').next().unwrap_or_default())
}

fn name(device: &DeviceReport) -> &'static str {
    device.health.as_ref().map_or("never used", Health::name)
}

fn run(driven: &Driven) {
    let last = chain(&driven.engine).pop().unwrap();
    assert_eq!(last.to_vec::<f32>().unwrap(), want());
}

fn run_and_settle(driven: &Driven) {
    run(driven);
    driven.settle();
}

#[test]
fn a_loss_is_critical_until_it_is_open_again() {
    let driven = Driven::new(&[&[Fault::LostAt(2)], &[]]);
    let (heard, subscription) = Heard::of(&driven.engine);
    run_and_settle(&driven);
    assert_eq!((name(&driven.gpu()), heard.take()), ("healthy", vec![]));
    run_and_settle(&driven);
    assert_eq!(heard.take(), ["critical: Reopening", "healthy: Ready"]);
    run_and_settle(&driven);
    assert!(heard.take().is_empty(), "nothing changed");
    drop(subscription);
}

#[test]
fn one_that_nobody_can_open_again_stays_critical() {
    let (engine, _) = sim::engine(&[Fault::LostAt(1)]);
    let (heard, _subscription) = Heard::of(&engine);
    assert_eq!(chain(&engine).pop().unwrap().to_vec::<f32>().unwrap(), want());
    assert_eq!(heard.take(), ["critical: Lost"]);
    let lost = &engine.monitor()[GPU.0];
    assert!(lost.health.as_ref().and_then(Health::reason).is_some_and(|why| why.contains("lost")), "{lost:?}");
    assert_eq!(lost.memory, None);
}

#[test]
fn a_hang_is_critical_while_it_is_waited_for_and_after() {
    let driven = Driven::new(&[&[Fault::HangAt(1)], &[]]);
    let (heard, _subscription) = Heard::of(&driven.engine);
    let last = chain(&driven.engine).pop().unwrap();
    last.to_vec_by::<f32>(Deadline::after(Duration::from_millis(200))).unwrap_err();
    driven.settle();
    assert_eq!(heard.take(), ["critical: Suspect", "critical: Reopening", "healthy: Ready"]);
}

/// Before a device is left alone, it is said that this comes next; and afterwards, how it is lifted.
#[test]
fn the_last_opening_is_a_warning_and_quarantine_is_critical() {
    let driven =
        Driven::new(&[&[Fault::LostAt(1)], &[Fault::LostAt(1)], &[Fault::LostAt(1)], &[Fault::LostAt(1)], &[]]);
    let (heard, _subscription) = Heard::of(&driven.engine);
    for after in ["healthy: Ready", "healthy: Ready", "warning: Ready"] {
        run_and_settle(&driven);
        assert_eq!(heard.take(), ["critical: Reopening", after]);
    }
    let why = driven.gpu().health.unwrap();
    assert!(why.reason().is_some_and(|why| why.contains("at the next loss it is left alone")), "{why:?}");
    run_and_settle(&driven);
    assert_eq!(heard.take(), ["critical: Quarantined"]);
    driven.clock.advance(Duration::from_mins(2));
    driven.engine.readmit(GPU).unwrap();
    driven.settle();
    assert_eq!(heard.take(), ["critical: Reopening", "healthy: Ready"]);
}

#[test]
fn what_it_may_not_do_once_more_is_forgotten_after_a_minute() {
    let driven = Driven::new(&[&[Fault::RefusesFrom(1)]]);
    let (heard, _subscription) = Heard::of(&driven.engine);
    for want in [&[][..], &[], &["warning: Ready"]] {
        run(&driven);
        assert_eq!(heard.take(), want);
    }
    driven.clock.advance(Duration::from_mins(1));
    assert_eq!(name(&driven.engine.monitor()[GPU.0]), "healthy");
    run(&driven);
    assert_eq!(heard.take(), ["healthy: Ready"]);
}

#[test]
fn a_kernel_that_is_not_run_there_again_is_a_warning() {
    let driven = Driven::new(&[&[Fault::LosesOn(Class::RowWise)]]);
    for _ in 0..2 {
        let x = driven.engine.from_vec((0..16).map(|i| i as f32 * 0.25).collect(), [4, 4]);
        driven.engine.run(&[&x.matmul(&x).softmax(-1)]).unwrap();
        driven.settle();
    }
    let gpu = driven.gpu();
    assert!(matches!(&gpu.health, Some(Health::Warning(why)) if why.contains("not run there: 1")), "{gpu:?}");
}

/// An engine whose device has so many bytes.
fn small(bytes: u64) -> Engine {
    let mut options = SimOptions::new("small", speed());
    options.caps.memory_bytes = Some(bytes);
    let sim: Arc<dyn Device> = Arc::new(SimDevice::new(options, &SimClock::new()));
    let builder = Engine::builder().gpus(false).no_cache().cpu_profile(hopeless());
    // Else what was computed remembers what it was computed from, there.
    builder.recovery_bytes(0).measured_device(sim, unbeatable()).build().unwrap()
}

/// As many bytes as that, left on the device.
fn hold(engine: &Engine, bytes: usize) -> Tensor {
    let held = (engine.from_vec(vec![1u8; bytes], [bytes]) + 1u8).on(GPU);
    engine.run(&[&held]).unwrap();
    held
}

/// The same parts of a small memory and of a large one.
#[test]
fn memory_is_short_by_parts_of_what_the_device_has() {
    for budget in [100_000, 10_000_000] {
        let engine = small(budget as u64);
        let (heard, _subscription) = Heard::of(&engine);
        let most = hold(&engine, budget * 2 / 5);
        assert!(heard.take().is_empty(), "{:?}", engine.monitor());
        drop(hold(&engine, budget / 10));
        assert!(heard.take().is_empty());
        let more = hold(&engine, budget / 4);
        let rest = hold(&engine, budget / 6);
        assert_eq!(heard.take(), ["warning: Ready"], "{:?}", engine.monitor());
        let last = (hold(&engine, budget / 11), hold(&engine, budget / 22));
        assert_eq!(heard.take(), ["critical: Ready"], "{:?}", engine.monitor());
        let device = &engine.monitor()[GPU.0];
        let memory = device.memory.unwrap();
        assert_eq!((memory.budget, memory.pending), (Some(budget as u64), 0));
        assert!(memory.left_bytes().is_some_and(|left| left * 20 < budget as u64), "{memory:?}");
        drop((most, more, rest, last));
        assert_eq!(engine.tensor(&[1.0f32], [1]).to_vec::<f32>().unwrap(), [1.0]);
        drop(hold(&engine, 16));
        assert_eq!(heard.take(), ["healthy: Ready"], "seen after a call");
    }
}

#[test]
fn what_was_dropped_hears_nothing_and_what_panics_is_not_called_again() {
    let driven = Driven::new(&[&[Fault::LostAt(1)], &[Fault::LostAt(1)], &[]]);
    let (dropped, subscription) = Heard::of(&driven.engine);
    drop(subscription);
    let panics = Heard::default();
    let calls = panics.clone();
    let _panics = driven.engine.on_health(move |device| {
        calls.0.lock().unwrap().push(told(device));
        panic!("on purpose");
    });
    let (heard, _subscription) = Heard::of(&driven.engine);
    for _ in 0..2 {
        run_and_settle(&driven);
        assert_eq!(heard.take(), ["critical: Reopening", "healthy: Ready"]);
    }
    assert_eq!((dropped.take(), panics.take()), (vec![], vec!["critical: Reopening".to_owned()]));
    let notes = driven.engine.notes();
    assert!(notes.iter().any(|note| note.contains("panicked, and is not called again")), "{notes:?}");
}

/// Whoever ends another's subscription while a change is told keeps that one from hearing of it.
#[test]
fn what_is_dropped_before_its_turn_hears_nothing() {
    let driven = Driven::new(&[&[Fault::LostAt(1)], &[]]);
    let second = Arc::new(Mutex::new(None::<HealthSubscription>));
    let held = second.clone();
    let _first = driven.engine.on_health(move |_| drop(held.lock().unwrap().take()));
    let (heard, subscription) = Heard::of(&driven.engine);
    *second.lock().unwrap() = Some(subscription);
    run_and_settle(&driven);
    assert!(second.lock().unwrap().is_none());
    assert!(heard.take().is_empty());
}

/// A call that fails and one of a frozen plan are looked at afterwards as any other.
#[test]
fn memory_is_seen_however_a_call_ends() {
    let fails = |engine: &Engine| {
        let missing = (engine.tensor(&[1.0f32], [1]) + 1.0).on(DeviceId(7));
        missing.to_vec::<f32>().unwrap_err();
    };
    let is_frozen = |engine: &Engine| {
        let y = engine.tensor(&[1.0f32], [1]) + 1.0;
        let frozen = engine.explain(&[&y]).unwrap().freeze();
        engine.run_frozen(&[&y], &frozen).unwrap();
    };
    for call in [&fails as &dyn Fn(&Engine), &is_frozen] {
        let engine = small(100_000);
        let (heard, _subscription) = Heard::of(&engine);
        let held = [40_000, 25_000, 17_000].map(|bytes| hold(&engine, bytes));
        assert_eq!(heard.take(), ["warning: Ready"], "{:?}", engine.monitor());
        drop(held);
        call(&engine);
        assert_eq!(heard.take(), ["healthy: Ready"], "{:?}", engine.monitor());
    }
}

/// No lock is held: it may ask the engine, compute, and end itself.
#[test]
fn whoever_is_told_may_use_the_engine() {
    let driven = Driven::new(&[&[Fault::LostAt(1)], &[Fault::LostAt(1)], &[]]);
    let (heard, _subscription) = Heard::of(&driven.engine);
    let (engine, answers) = (driven.engine.clone(), Heard::default());
    let (all, own) = (answers.clone(), Arc::new(Mutex::new(None::<HealthSubscription>)));
    let held = own.clone();
    *own.lock().unwrap() = Some(driven.engine.on_health(move |device| {
        let answer = (engine.tensor(&[1.0f32, 2.0], [2]) * 3.0).on(DeviceId::HOST).to_vec::<f32>();
        all.0.lock().unwrap().push(format!("{} {answer:?} {}", name(device), engine.monitor().len()));
        if all.0.lock().unwrap().len() == 3 {
            drop(held.lock().unwrap().take());
        }
    }));
    run_and_settle(&driven);
    run_and_settle(&driven);
    let answers = answers.take();
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.contains("Ok([3.0, 6.0]) 2")), "{answers:?}");
    assert_eq!(heard.take().last().map(String::as_str), Some("healthy: Ready"));
}

/// What is found is told as well.
#[test]
fn a_device_that_is_found_is_told() {
    let clock = SimClock::new();
    let backend = breakeven_device::sim::SimBackend::new(&clock, vec![vec![sim::options(&[])]]);
    let known = breakeven::Profile { devices: vec![unbeatable()], ..breakeven::Profile::new("") };
    let builder = Engine::builder().gpus(false).no_cache().cpu_profile(hopeless()).profile(known);
    let engine = builder.backend(Arc::new(backend)).build().unwrap();
    let (heard, _subscription) = Heard::of(&engine);
    assert_eq!(engine.monitor().len(), 1, "asking does not begin to look for any");
    engine.ready(Deadline::after(Duration::from_mins(1))).unwrap();
    assert_eq!(heard.take(), ["healthy: Ready"]);
}

/// Calls on many threads at once are all told, and each hears of every change.
#[test]
fn changes_are_told_in_order_whoever_sees_them() {
    let driven = Driven::new(&[&[Fault::LostAt(40)], &[]]);
    let (heard, _subscription) = Heard::of(&driven.engine);
    std::thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(|| (0..20).for_each(|_| run(&driven)))));
    });
    driven.settle();
    assert_eq!(heard.take(), ["critical: Reopening", "healthy: Ready"]);
}
