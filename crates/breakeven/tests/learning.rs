//! Repeated work goes where it was seen to be faster, whatever was predicted.

mod sim;

use std::sync::Arc;
use std::time::{Duration, Instant};

use breakeven::{Deadline, Device, DeviceId, DeviceProfile, DeviceState, Engine, EngineBuilder, Tensor};
use breakeven_device::sim::{Fault, SimClock, SimDevice};
use breakeven_plan::{Curve, Reason};

/// Its kernels are interpreted, element by element: many times slower here than the CPU's own.
fn engine(sim_rate: f64, settle: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Engine {
    engine_with(&[], sim_rate, settle)
}

fn engine_with(faults: &[Fault], sim_rate: f64, settle: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Engine {
    engine_on(&simulated(faults), sim_rate, settle)
}

fn simulated(faults: &[Fault]) -> Arc<SimDevice> {
    Arc::new(SimDevice::new(sim::options(faults), &SimClock::new()))
}

fn engine_on(device: &Arc<SimDevice>, sim_rate: f64, settle: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Engine {
    let device: Arc<dyn Device> = device.clone();
    let builder = Engine::builder().gpus(false).no_cache().cpu_profile(sim::rates(1e9));
    let link = || Curve::rate(1e15);
    let profile = DeviceProfile { upload: link(), download: link(), ..sim::rates(sim_rate) };
    settle(builder.measured_device(device, profile)).build().unwrap()
}

const N: usize = 4096;

fn input(engine: &Engine) -> Tensor {
    engine.tensor(&(0..N).map(|i| i as f32 / N as f32).collect::<Vec<_>>(), [N])
}

fn work(engine: &Engine) -> Tensor {
    input(engine).exp() + 1.0
}

/// Where it would run now, why, and what was noticed.
fn explained(engine: &Engine) -> (DeviceId, Reason, Vec<String>) {
    let plan = engine.explain(&[&work(engine)]).unwrap();
    (plan.decisions[0].device, plan.decisions[0].reason, plan.remarks.clone())
}

/// Repeats the work until it has changed its place, for ten seconds at most.
fn repeat_until(engine: &Engine, device: DeviceId, compute: &dyn Fn(&Tensor)) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        compute(&work(engine));
        if explained(engine).0 == device {
            return true;
        }
    }
    false
}

fn check(got: &[f32]) {
    for (i, got) in got.iter().enumerate() {
        let want = f64::from(i as f32 / N as f32).exp() + 1.0;
        assert!((f64::from(*got) - want).abs() <= 4e-7 * want, "{i}: {got} for {want}");
    }
}

fn read(tensor: &Tensor) {
    check(&tensor.to_vec::<f32>().unwrap());
}

#[test]
fn work_leaves_a_device_that_was_predicted_too_fast() {
    let engine = engine(1.5e9, |builder| builder);
    assert_eq!(explained(&engine), (sim::GPU, Reason::Cut, vec![]));
    assert!(repeat_until(&engine, DeviceId::HOST, &read), "it never left: {:?}", explained(&engine));
    let (_, reason, remarks) = explained(&engine);
    assert_eq!(reason, Reason::Observed);
    assert!(remarks[0].contains("tried on cpu") && remarks[0].contains("so cpu is used"), "{remarks:?}");
    read(&work(&engine));
}

#[test]
fn calls_with_time_enough_try_too_and_others_do_not() {
    let engine = engine(1.5e9, |builder| builder);
    // Predicted: 8 us. Were something tried, the half of 100 us that is left would be too short.
    let within = |limit: Duration| move |tensor: &Tensor| drop(tensor.to_vec_by::<f32>(Deadline::after(limit)));
    (0..100).for_each(|_| within(Duration::from_micros(100))(&work(&engine)));
    assert_eq!(explained(&engine), (sim::GPU, Reason::Cut, vec![]));
    assert!(repeat_until(&engine, DeviceId::HOST, &within(Duration::from_mins(1))), "{:?}", explained(&engine));
    read(&work(&engine));
}

#[test]
fn a_trial_that_fails_costs_the_caller_no_result() {
    for fault in [Fault::HangAt(1), Fault::LostAt(1)] {
        let engine = engine_with(&[fault], 0.8e9, |builder| builder);
        let (begun, mut plans) = (Instant::now(), Vec::new());
        // A device that failed is left, with all plans for it.
        while plans.len() < 2 {
            check(&work(&engine).to_vec_by::<f32>(Deadline::after(Duration::from_mins(1))).unwrap());
            plans.push(engine.devices()[1].state.clone());
            plans.dedup();
            assert!(begun.elapsed() < Duration::from_secs(20), "{fault:?}: it was never tried");
        }
        assert!(plans[0] == DeviceState::Ready && plans[1].problem().is_some(), "{fault:?}: {plans:?}");
    }
}

#[test]
fn what_is_tried_is_woken_first() {
    // As long as it sleeps, and where it never wakes, the leader's runs go on.
    for (sleeps, asked) in [(1, 1), (5, 5), (u64::MAX, 32)] {
        let device = simulated(&[Fault::WakesAfter(sleeps)]);
        let engine = engine_on(&device, 0.8e9, |builder| builder);
        let begun = Instant::now();
        while device.submits() == 0 {
            read(&work(&engine));
            assert!(begun.elapsed() < Duration::from_secs(20), "it was never tried");
        }
        assert_eq!(device.roused(), asked);
    }
}

#[test]
fn results_that_stay_where_they_are_computed_are_learnt_of_too() {
    let engine = engine(1.5e9, |builder| builder);
    let begun = Instant::now();
    let mut reasons = Vec::new();
    while reasons.last() != Some(&Reason::Observed) {
        let tensor = work(&engine);
        reasons.push(engine.run(&[&tensor]).unwrap().plan.decisions[0].reason);
        read(&tensor);
        assert!(begun.elapsed() < Duration::from_secs(10), "it never left: {reasons:?}");
    }
    reasons.dedup();
    assert_eq!(reasons, [Reason::Cut, Reason::Observed], "what a trial gave was not used");
}

#[test]
fn what_is_the_fastest_stays_and_the_other_is_tried() {
    let engine = engine(0.8e9, |builder| builder);
    let begun = Instant::now();
    while explained(&engine).2.is_empty() {
        read(&work(&engine));
        assert!(begun.elapsed() < Duration::from_secs(10), "nothing was tried");
    }
    (0..100).for_each(|_| read(&work(&engine)));
    let (device, reason, remarks) = explained(&engine);
    assert_eq!((device, reason), (DeviceId::HOST, Reason::Cut));
    assert!(remarks[0].contains("tried on sim") && remarks[0].contains("stays as planned"), "{remarks:?}");
}

#[test]
fn nothing_is_tried_where_that_is_not_wanted() {
    let stays = |engine: &Engine, compute: &dyn Fn(&Tensor)| {
        (0..40).for_each(|_| compute(&work(engine)));
        let settled = Instant::now() + Duration::from_millis(50);
        while Instant::now() < settled {
            compute(&work(engine));
        }
        assert_eq!(explained(engine).2, Vec::<String>::new());
    };
    stays(&engine(1.5e9, |builder| builder.learn(false)), &read);
    let far = engine(1e12, |builder| builder);
    stays(&far, &read);
    let engine = engine(1.5e9, |builder| builder);
    let frozen = engine.explain(&[&work(&engine)]).unwrap().freeze();
    for _ in 0..100 {
        let pinned = work(&engine).on(sim::GPU);
        let report = engine.run(&[&pinned]).unwrap();
        assert_eq!((report.plan.decisions[0].device, report.plan.decisions[0].reason), (sim::GPU, Reason::Pinned));
        let report = engine.run_frozen(&[&work(&engine)], &frozen).unwrap();
        assert_eq!((report.plan.decisions[0].device, report.plan.decisions[0].reason), (sim::GPU, Reason::Frozen));
    }
}

#[test]
fn a_trial_leaves_no_copies_by_which_later_work_would_go() {
    let engine = engine(0.8e9, |builder| builder);
    let x = input(&engine);
    let work = || x.exp() + 1.0;
    let begun = Instant::now();
    while engine.explain(&[&work()]).unwrap().remarks.is_empty() {
        read(&work());
        assert!(begun.elapsed() < Duration::from_secs(10), "nothing was tried");
    }
    (0..100).for_each(|_| read(&work()));
    assert_eq!(engine.plans_made(), 1);
}

#[test]
fn threads_that_share_a_plan_learn_together() {
    let engine = engine(1.5e9, |builder| builder);
    std::thread::scope(|scope| {
        (0..8).for_each(|_| drop(scope.spawn(|| (0..200).for_each(|_| read(&work(&engine))))));
    });
    assert!(repeat_until(&engine, DeviceId::HOST, &read), "{:?}", explained(&engine));
}

#[test]
fn an_engine_is_dropped_while_the_other_plan_is_compiled() {
    let begun = Instant::now();
    for _ in 0..20 {
        let engine = engine(1.5e9, |builder| builder);
        (0..17).for_each(|_| read(&work(&engine)));
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "none waited until it was given up");
}
