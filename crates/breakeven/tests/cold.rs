//! While a driver compiles what was chosen, the CPU serves.

mod sim;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use breakeven::{
    Deadline, Device, DeviceError, DeviceId, DeviceProfile, DeviceState, Engine, EngineBuilder, Error, Tensor,
};
use breakeven_device::sim::{SimClock, SimCompiler, SimDevice, SimOptions};
use breakeven_plan::{Curve, Reason};

const N: usize = 4096;
const LATE: Duration = Duration::from_secs(20);

/// With a device that is predicted to be a hundred times as fast as the CPU, which does `cpu_rate` operations a second.
fn engine_of(cpu_rate: f64, compiler: &SimCompiler, settle: fn(EngineBuilder) -> EngineBuilder) -> Engine {
    let options = SimOptions { compiler: Some(compiler.clone()), ..sim::options(&[]) };
    let device: Arc<dyn Device> = Arc::new(SimDevice::new(options, &SimClock::new()));
    let link = || Curve::rate(1e15);
    let profile = DeviceProfile { upload: link(), download: link(), ..sim::rates(100.0 * cpu_rate) };
    let builder = Engine::builder().gpus(false).no_cache().cpu_profile(sim::rates(cpu_rate));
    settle(builder.measured_device(device, profile)).build().unwrap()
}

/// Its work is predicted to take the CPU some eight microseconds: nobody notices the wait.
fn engine(compiler: &SimCompiler) -> Engine {
    engine_of(1e9, compiler, |builder| builder)
}

fn work(engine: &Engine) -> Tensor {
    engine.tensor(&(0..N).map(|i| i as f32 / N as f32).collect::<Vec<_>>(), [N]).exp() + 1.0
}

fn check(got: &[f32]) {
    assert_eq!(got.len(), N);
    for (i, got) in got.iter().enumerate() {
        let want = f64::from(i as f32 / N as f32).exp() + 1.0;
        assert!((f64::from(*got) - want).abs() <= 4e-7 * want, "{i}: {got} for {want}");
    }
}

/// Computes the work; where, why, and what is to be known of it.
fn run(engine: &Engine) -> (DeviceId, Reason, Vec<String>) {
    let tensor = work(engine);
    let plan = engine.run(&[&tensor]).unwrap().plan;
    check(&tensor.to_vec::<f32>().unwrap());
    (plan.decisions[0].device, plan.decisions[0].reason, plan.remarks.clone())
}

#[test]
fn the_cpu_serves_until_what_was_chosen_is_compiled_and_says_so() {
    let compiler = SimCompiler::default();
    let engine = engine(&compiler);
    for _ in 0..3 {
        let (device, reason, remarks) = run(&engine);
        assert_eq!((device, reason), (DeviceId::HOST, Reason::Compiling));
        assert!(remarks.len() == 1 && remarks[0].contains("being compiled"), "{remarks:?}");
        check(&work(&engine).to_vec::<f32>().unwrap());
    }
    assert!(is_begun(&compiler, 2), "what is read and what is left there are two plans");
    compiler.release();
    engine.ready(Deadline::after(LATE)).unwrap();
    assert_eq!(run(&engine), (sim::GPU, Reason::Cut, vec![]));
    assert_eq!(compiler.begun(), 2, "each was compiled once");
}

/// Waits until so many compilations have begun.
fn is_begun(compiler: &SimCompiler, count: usize) -> bool {
    let begun = Instant::now();
    while compiler.begun() < count && begun.elapsed() < LATE {
        std::thread::sleep(Duration::from_millis(1));
    }
    compiler.begun() == count
}

/// Releases it once something is compiled.
fn release_later(compiler: &SimCompiler) -> JoinHandle<()> {
    let compiler = compiler.clone();
    std::thread::spawn(move || {
        is_begun(&compiler, 1);
        compiler.release();
    })
}

#[test]
fn a_call_waits_as_long_as_the_cpu_would_take_and_is_served_by_what_it_waited_for() {
    let compiler = SimCompiler::default();
    // Predicted to take the CPU some eight seconds.
    let engine = engine_of(1e3, &compiler, |builder| builder);
    let begun = Instant::now();
    let other = release_later(&compiler);
    let (device, ..) = run(&engine);
    other.join().unwrap();
    assert_eq!(device, sim::GPU);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[test]
fn programs_are_served_too_and_change_over() {
    let compiler = SimCompiler::default();
    let engine = engine(&compiler);
    let x = engine.tensor(&vec![0.5f32; N], [N]);
    let draft = breakeven::Draft::new(&[&x]).unwrap();
    let program = draft.finish(&[&(draft.stand_ins()[0].exp() + 1.0)]).unwrap();
    let run = || {
        let outputs = program.call(&[&x]).unwrap();
        let report = engine.run(&[&outputs[0]]).unwrap();
        assert!(outputs[0].to_vec::<f32>().unwrap().iter().all(|y| (y - 2.648_721_3).abs() < 2e-6));
        report.plan.decisions[0].device
    };
    assert_eq!([run(), run()], [DeviceId::HOST; 2]);
    compiler.release();
    engine.ready(Deadline::after(LATE)).unwrap();
    assert_eq!([run(), run()], [sim::GPU; 2]);
}

#[test]
fn what_the_caller_insists_on_is_waited_for_until_the_deadline_and_no_longer() {
    let compiler = SimCompiler::default();
    let engine = engine(&compiler);
    let soon = || Deadline::after(Duration::from_millis(50));
    let pinned = work(&engine).on(sim::GPU);
    let begun = Instant::now();
    let late = pinned.to_vec_by::<f32>(soon()).unwrap_err();
    let Error::Device { device, source: DeviceError::Timeout { .. } } = &late else { panic!("{late}") };
    assert_eq!(device, "sim:0, while its driver compiled for it");
    assert!(begun.elapsed() < LATE, "{:?}", begun.elapsed());
    assert_eq!(engine.devices()[1].state, DeviceState::Ready, "nothing is wrong with it");
    let is_noted = |note: &String| note.contains("sim:0") && note.contains("still compiling");
    assert!(engine.notes().iter().any(is_noted), "{:?}", engine.notes());
    let not_yet = engine.ready(soon()).unwrap_err();
    assert!(matches!(not_yet, Error::Device { source: DeviceError::Timeout { .. }, .. }), "{not_yet}");
    compiler.release();
    check(&pinned.to_vec_by::<f32>(Deadline::after(LATE)).unwrap());
    assert_eq!(compiler.begun(), 1, "it was not begun again");
}

#[test]
fn where_the_same_bits_are_wanted_each_time_nobody_else_serves() {
    let compiler = SimCompiler::default();
    let engine = engine_of(1e9, &compiler, |builder| builder.learn(false));
    let late = work(&engine).to_vec_by::<f32>(Deadline::after(Duration::from_millis(50))).unwrap_err();
    assert!(matches!(late, Error::Device { source: DeviceError::Timeout { .. }, .. }), "{late}");
    compiler.release();
    assert_eq!(run(&engine).0, sim::GPU);
}

#[test]
fn what_cannot_be_compiled_is_left_to_the_cpu_and_told() {
    let compiler = SimCompiler::default();
    let engine = engine(&compiler);
    assert_eq!(run(&engine).0, DeviceId::HOST);
    compiler.refuse(DeviceError::Driver("the test's compiler is broken".to_owned()));
    engine.ready(Deadline::after(LATE)).unwrap();
    let tensor = work(&engine);
    let report = engine.run(&[&tensor]).unwrap();
    check(&tensor.to_vec::<f32>().unwrap());
    assert!(report.replanned[0].contains("compiler is broken"), "{:?}", report.replanned);
    assert_eq!(report.plan.decisions[0].device, DeviceId::HOST);
}

#[test]
fn an_explanation_is_of_what_was_chosen_and_waits_for_it() {
    let compiler = SimCompiler::default();
    let engine = engine(&compiler);
    let other = release_later(&compiler);
    let plan = engine.explain(&[&work(&engine)]).unwrap();
    other.join().unwrap();
    assert_eq!((plan.decisions[0].device, plan.decisions[0].reason), (sim::GPU, Reason::Cut));
}

#[test]
fn an_engine_that_goes_waits_for_its_compiler_no_longer_than_it_may() {
    let compiler = SimCompiler::default();
    let first = engine(&compiler);
    run(&first);
    assert!(is_begun(&compiler, 1));
    let begun = Instant::now();
    drop(first);
    let waited = begun.elapsed();
    assert!(waited > Duration::from_secs(4) && waited < LATE, "five seconds, and not {waited:?}");
    compiler.release();
}

#[test]
fn an_engine_that_goes_has_no_more_compiled_than_what_was_begun() {
    let compiler = SimCompiler::default();
    let first = engine(&compiler);
    let result = work(&first).softmax(0).sum(..);
    first.run(&[&result]).unwrap();
    assert!(is_begun(&compiler, 1));
    let other = compiler.clone();
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        other.release_one();
    });
    let begun = Instant::now();
    drop((result, first));
    let waited = begun.elapsed();
    later.join().unwrap();
    assert!(waited < Duration::from_secs(3), "until its first kernel was compiled, and not {waited:?}");
    assert_eq!(compiler.compiled(), 1);
    compiler.release();
    let second = engine(&compiler);
    second.run(&[&work(&second).softmax(0).sum(..)]).unwrap();
    second.ready(Deadline::after(LATE)).unwrap();
    assert!(compiler.compiled() > 1, "there was more to compile");
}

#[test]
fn a_cpu_that_cannot_serve_leaves_it_to_what_is_compiled() {
    let compiler = SimCompiler::default();
    // No room for its result.
    let engine = engine_of(1e9, &compiler, |builder| builder.memory_limit(2 * N as u64));
    let releases = compiler.clone();
    let other = std::thread::spawn(move || {
        is_begun(&releases, 1);
        // Longer than the call waits before it asks the CPU.
        std::thread::sleep(Duration::from_secs(2));
        releases.release();
    });
    let tensor = work(&engine);
    let report = engine.run(&[&tensor]).unwrap();
    assert_eq!(report.plan.decisions[0].device, sim::GPU);
    assert!(report.replanned[0].contains("cpu: out of memory"), "{:?}", report.replanned);
    let want: f64 = (0..N).map(|i| (i as f64 / N as f64).exp() + 1.0).sum();
    let got = tensor.sum(..).on(sim::GPU).item::<f32>().unwrap();
    assert!((f64::from(got) / want - 1.0).abs() < 1e-6, "{got} for {want}");
    other.join().unwrap();
}

#[test]
fn a_call_that_has_no_time_for_both_does_not_wait() {
    let compiler = SimCompiler::default();
    // Predicted to take the CPU some eight seconds, and taking a moment.
    let engine = engine_of(1e3, &compiler, |builder| builder);
    let begun = Instant::now();
    check(&work(&engine).to_vec_by::<f32>(Deadline::after(Duration::from_secs(4))).unwrap());
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    compiler.release();
}

#[test]
fn what_is_on_the_device_alone_stays_there() {
    let compiler = SimCompiler::default();
    let engine = engine(&compiler);
    let there = (&work(&engine) * 1.0).on(sim::GPU);
    let other = release_later(&compiler);
    engine.run(&[&there]).unwrap();
    other.join().unwrap();
    let begun = compiler.begun();
    compiler.hold();
    let next = there.exp();
    let releases = compiler.clone();
    let other = std::thread::spawn(move || {
        let is_new = is_begun(&releases, begun + 1);
        releases.release();
        is_new
    });
    let plan = engine.run(&[&next]).unwrap().plan;
    assert!(other.join().unwrap(), "it is another kernel");
    assert_eq!(plan.decisions[0].device, sim::GPU);
}

#[test]
fn batches_of_a_stream_and_reads_to_come_are_served_too() {
    let compiler = SimCompiler::default();
    let engine = engine(&compiler);
    for batch in engine.stream(0..3, |_| Ok(work(&engine))) {
        check(&batch.unwrap().to_vec::<f32>().unwrap());
    }
    check(&pollster::block_on(work(&engine).read::<f32>()).unwrap());
    let pinned = work(&engine).on(sim::GPU);
    let each = Duration::from_millis(50);
    let late = engine.stream([pinned], Ok).deadline(each).next().unwrap().unwrap_err();
    assert!(matches!(late, Error::Device { source: DeviceError::Timeout { .. }, .. }), "{late}");
    compiler.release();
}

#[test]
fn a_device_whose_compiler_hangs_holds_up_no_other() {
    let (hanging, other) = (SimCompiler::default(), SimCompiler::default());
    other.release();
    let device = |compiler: &SimCompiler| -> Arc<dyn Device> {
        let options = SimOptions { compiler: Some(compiler.clone()), ..sim::options(&[]) };
        Arc::new(SimDevice::new(options, &SimClock::new()))
    };
    let builder = Engine::builder().gpus(false).no_cache().device(device(&hanging)).device(device(&other));
    let engine = builder.build().unwrap();
    let soon = || Deadline::after(Duration::from_millis(20));
    for n in 1..=9usize {
        let x = engine.tensor(&vec![1.0f32; n], [n]);
        assert!(x.exp().on(DeviceId(1)).to_vec_by::<f32>(soon()).is_err());
        let there = (&x * 2.0).on(DeviceId(2)).to_vec_by::<f32>(Deadline::after(LATE)).unwrap();
        assert_eq!(there, vec![2.0; n]);
    }
    hanging.release();
}

#[test]
fn while_too_much_is_compiled_already_a_repeated_call_is_planned_once() {
    let compiler = SimCompiler::default();
    let engine = engine(&compiler);
    let plan = |n: usize| {
        let result = engine.tensor(&vec![1.0f32; n], [n]).exp();
        let plan = engine.run(&[&result]).unwrap().plan;
        assert!(result.to_vec::<f32>().unwrap().iter().all(|x| (x - 1.0f32.exp()).abs() < 1e-6));
        plan
    };
    for nth in 1..=4 {
        plan(N + nth);
        assert!(is_begun(&compiler, nth));
    }
    let fifth = plan(N);
    assert_eq!((fifth.decisions[0].device, fifth.decisions[0].reason), (DeviceId::HOST, Reason::Compiling));
    for _ in 0..3 {
        assert!(Arc::ptr_eq(&plan(N), &fifth), "it was kept");
    }
    assert_eq!(compiler.begun(), 4);
    compiler.release();
    let begun = Instant::now();
    while plan(N).decisions[0].device != sim::GPU {
        assert!(begun.elapsed() < LATE, "its turn came");
    }
}
