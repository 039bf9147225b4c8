//! Loops in which a number is another one at every step: from the fifth on nothing is planned for it, and a GPU makes nothing.

use std::time::Duration;

use breakeven::{DType, Deadline, DeviceId, Engine, Frozen, Tensor};
use breakeven_plan::PlanError;

const CPU: DeviceId = DeviceId::HOST;

fn cpu() -> Engine {
    Engine::builder().gpus(false).no_cache().build().expect("the CPU opens")
}

/// The CPU and every software adapter.
fn all() -> (Engine, Vec<DeviceId>) {
    let engine = Engine::builder().software(true).no_cache().build().expect("the CPU opens");
    engine.ready(Deadline::after(Duration::from_mins(5))).expect("they are measured");
    let devices: Vec<DeviceId> = engine.devices().iter().map(|device| device.id).collect();
    assert!(devices.len() > 1, "there is no GPU and no software adapter: {:?}", engine.notes());
    (engine, devices)
}

/// A step of descent by Adam's rule: the numbers 0.9, 0.1 and 1e-8 stay, the rate and the correction are others each time.
fn step(x: &Tensor, gradient: &Tensor, i: usize) -> Tensor {
    let (rate, correction) = (1.0 / (i + 1) as f64, 1.0 - 0.9f64.powi(i as i32 + 1));
    let mean = (x * 0.9 + gradient * 0.1) / correction;
    x - mean * rate / (gradient.abs() + 1e-8)
}

/// The same in f32, operation by operation.
fn plain(x: f32, gradient: f32, i: usize) -> f32 {
    let (rate, correction) = (1.0 / (i + 1) as f64, 1.0 - 0.9f64.powi(i as i32 + 1));
    let mean = (x * 0.9 + gradient * 0.1) / correction as f32;
    x - mean * rate as f32 / (gradient.abs() + 1e-8)
}

#[test]
fn a_loop_with_numbers_of_its_own_is_planned_five_times() {
    let (engine, devices) = all();
    let values: Vec<f32> = (0..300).map(|i| (i % 13) as f32 * 0.25 - 1.5).collect();
    let gradients: Vec<f32> = (0..300).map(|i| (i % 7) as f32 * 0.5 + 0.5).collect();
    let (x, gradient) = (engine.tensor(&values, [300]), engine.tensor(&gradients, [300]));
    for device in devices {
        let made = engine.plans_made();
        for i in 0..40 {
            let got = step(&x, &gradient, i).on(device).to_vec::<f32>().expect("it runs");
            for ((got, x), gradient) in got.iter().zip(&values).zip(&gradients) {
                let want = plain(*x, *gradient, i);
                assert!((got - want).abs() <= 1e-6 * want.abs().max(1.0), "step {i} on {device:?}: {got}, not {want}");
            }
        }
        let made = engine.plans_made() - made;
        // Four with the numbers in them, and one for all others; on a GPU one of them again when the operands have come to stay there.
        let most = if device == CPU { 5 } else { 6 };
        assert!((1..=most).contains(&made), "{made} plans on {device:?}");
    }
}

/// Neither pipelines nor bind groups, staging buffers or memory, and every submission's bind groups were there.
#[test]
fn a_gpu_makes_nothing_for_another_number() {
    let (engine, devices) = all();
    let x = engine.tensor(&[1.5; 1000], [1000]);
    for &device in devices.iter().filter(|device| **device != CPU) {
        let counts = || engine.monitor()[device.0].counts.clone();
        let run = |steps: std::ops::Range<u16>| {
            for i in steps {
                let got = (&x * f64::from(i) + 0.5).on(device).to_vec::<f32>().expect("it runs");
                assert_eq!(got, [1.5 * f32::from(i) + 0.5; 1000], "step {i} on {device:?}");
            }
        };
        run(0..20);
        let before = counts();
        run(20..120);
        let more = |name: &str| {
            let of = |counts: &[(&str, u64)]| counts.iter().find(|(known, _)| *known == name).map(|(_, count)| *count);
            of(&counts()).zip(of(&before)).map(|(now, before)| now - before)
        };
        for name in ["pipelines", "bind_groups", "staging"] {
            assert_eq!(more(name), Some(0), "{name} on {device:?}: {before:?}, {:?}", counts());
        }
        assert_eq!((more("submits"), more("bind_group_hits")), (Some(100), Some(100)), "{device:?}");
    }
}

/// As constants and as inputs numbers are rounded to the same type, and give the same bits.
#[test]
fn a_number_has_one_value_in_every_type() {
    let engine = cpu();
    for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64, DType::I32, DType::U8] {
        let x = engine.tensor(&[1.0, 2.0, 3.0], [3]).cast(dtype);
        let number = |i: u8| if dtype.is_float() { f64::from(i) * 0.1 } else { f64::from(i) };
        let times = |engine: &Engine, x: &Tensor, i: u8| {
            (x * engine.full(dtype, number(i), [3])).cast(DType::F64).to_vec::<f64>().expect("it runs")
        };
        for i in 0..20 {
            // An engine that meets it for the first time has the number in its plan.
            let other = cpu();
            let same = other.tensor(&[1.0, 2.0, 3.0], [3]).cast(dtype);
            assert_eq!(times(&engine, &x, i), times(&other, &same, i), "{dtype:?} times {}", number(i));
        }
        assert!(engine.plans_made() <= 6 * 7, "{} plans", engine.plans_made());
    }
}

/// Few numbers stay in their plans, which are found without a graph.
#[test]
fn few_numbers_are_planned_with() {
    let engine = cpu();
    let x = engine.tensor(&[2.0; 8], [8]);
    for i in 0..100 {
        let factor = f64::from(i % 4) + 0.5;
        assert_eq!((&x * factor).to_vec::<f32>().expect("it runs"), [2.0 * factor as f32; 8]);
    }
    let plan = engine.explain(&[&(&x * 0.5)]).expect("it is planned");
    assert!(engine.plans_made() == 4 && plan.lifted.is_empty(), "{} plans, {plan:?}", engine.plans_made());
}

/// A plan that was made for all numbers is frozen as such, and read by an engine that never met any.
#[test]
fn a_plan_for_all_numbers_can_be_frozen() {
    let engine = cpu();
    let x = engine.tensor(&[2.0; 8], [8]);
    let step = |i: u8| engine.run(&[&(&x * f64::from(i) + 1.0)]).expect("it runs").plan.freeze();
    let plans: Vec<Frozen> = (0..20).map(step).collect();
    let text = serde_json::to_string(&plans[19]).expect("it is written");
    let frozen: Frozen = serde_json::from_str(&text).expect("it is read");
    assert_eq!(frozen.lifted().count(), 1, "{text}");
    let other = cpu();
    let sum = other.tensor(&[2.0; 8], [8]) * 7.5 + 1.0;
    other.run_frozen(&[&sum], &frozen).expect("it runs as it was frozen");
    assert_eq!(sum.to_vec::<f32>().expect("it ran"), [16.0; 8]);
    let elsewhere = other.tensor(&[2.0; 8], [8]) - 7.5;
    let error = other.run_frozen(&[&elsewhere], &frozen).expect_err("it is for another graph").to_string();
    assert!(error.contains(&PlanError::FrozenGraph.to_string()), "{error}");
}

/// What was planned for a tensor of one element is not what runs for a number, whose plan is frozen with it.
#[test]
fn a_number_does_not_pass_for_a_tensor() {
    let engine = cpu();
    let (x, factor) = (engine.tensor(&[2.0; 8], [8]), engine.tensor(&[3.0], []));
    engine.run(&[&(&x * &factor)]).expect("it runs");
    let report = engine.run(&[&(&x * 5.0)]).expect("it runs");
    let again = &x * 5.0;
    engine.run_frozen(&[&again], &report.plan.freeze()).expect("it is the same graph");
    assert_eq!(again.to_vec::<f32>().expect("it ran"), [10.0; 8]);
}

/// What is read, and not only computed with, is where it was asked for.
#[test]
fn a_number_that_is_wanted_itself_stays_one() {
    let engine = cpu();
    for i in 0..20u8 {
        let (all, sum) = (engine.full(DType::F32, f64::from(i), [3]), engine.tensor(&[1.0; 3], [3]) + f64::from(i));
        let report = engine.run(&[&all, &sum]).expect("it runs");
        assert_eq!(all.to_vec::<f32>().expect("it ran"), [f32::from(i); 3]);
        assert_eq!(sum.to_vec::<f32>().expect("it ran"), [1.0 + f32::from(i); 3]);
        assert!(report.plan.lifted.len() <= 1, "{:?}", report.plan.lifted);
    }
}

/// Where the same call must give the same bits, numbers are where they were.
#[test]
fn an_engine_that_does_not_learn_plans_each_number() {
    let engine = Engine::builder().gpus(false).no_cache().learn(false).build().expect("the CPU opens");
    let x = engine.tensor(&[2.0; 8], [8]);
    for i in 0..10u8 {
        assert_eq!((&x * f64::from(i)).to_vec::<f32>().expect("it runs"), [2.0 * f32::from(i); 8]);
    }
    assert_eq!(engine.plans_made(), 10);
}
