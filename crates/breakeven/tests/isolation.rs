//! Real drivers that are destroyed, late or left at work: whoever has the work is answered, and nobody else is disturbed.

mod adapters;
mod sim;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use adapters::{GPU, Handing, engines, is_swiftshader, known, long_work, ramp, swiftshader_of};
use breakeven::{CustomOp, Deadline, Device, DeviceError, DeviceState, Engine, Error, Report, Tensor};
use breakeven_device::Backend;
use breakeven_wgpu::{WgpuDevice, WgpuOptions};

fn soon() -> Deadline {
    Deadline::after(Duration::from_mins(5))
}

/// An engine that places all it can on that adapter.
fn placing(backend: &Arc<Handing>) -> Engine {
    let builder = Engine::builder().gpus(false).software(true).no_cache().learn(false).backend(backend.clone());
    let builder = builder.profile(known(&**backend, sim::unbeatable())).cpu_profile(sim::hopeless());
    let engine = builder.build().unwrap();
    engine.ready(soon()).unwrap();
    engine
}

/// Does what the CPU serves at first, and waits until the driver has compiled it: from now on it is done there.
fn compiled<T>(engine: &Engine, work: impl Fn() -> T) {
    work();
    engine.ready(soon()).unwrap();
}

fn submissions(report: &Report) -> usize {
    report.submissions.iter().filter(|(device, _)| *device == GPU).count()
}

/// What no adapter computes.
fn half_on_cpu(x: &Tensor) -> Tensor {
    let op = CustomOp::new("half", |inputs| Ok(vec![inputs[0].clone()])).cpu(|inputs, outputs| {
        let (x, half) = (inputs.get::<f32>(0), outputs.take::<f32>(0));
        half.iter_mut().zip(x).for_each(|(half, x)| *half = x * 0.5);
    });
    let [half] = x.custom(&op, &[], &[]);
    half
}

/// Six turns of the device, between five of the CPU.
fn turns(engine: &Engine) -> Tensor {
    let turn = |x: Tensor, _| half_on_cpu(&x.cumsum(0));
    (0..5).fold(engine.tensor(&[1.0, 2.0, 3.0], [3]), turn).cumsum(0)
}

#[test]
fn an_adapter_that_is_destroyed_at_any_submission_of_one_plan_is_answered() {
    for at in 1..=6 {
        for backend in Handing::cards() {
            let engine = placing(&backend);
            let run = || {
                let y = turns(&engine);
                let report = engine.run_by(&[&y], soon()).unwrap();
                assert_eq!(y.to_vec::<f32>().unwrap(), [1.0 / 32.0, 0.25, 1.125], "destroyed at {at}: {report}");
                (submissions(&report), report.replanned)
            };
            compiled(&engine, run);
            assert_eq!(run(), (6, vec![]));
            let before = backend.opened()[0].counters().submits;
            backend.left.store(at, SeqCst);
            let (there, replanned) = run();
            assert_eq!((there, replanned.len()), (0, 1), "destroyed at {at}: {replanned:?}");
            assert!(replanned[0].contains("it was destroyed"), "{replanned:?}");
            assert_eq!(backend.opened()[0].counters().submits - before, at, "it had worked for this plan");
            compiled(&engine, run);
            let (there, replanned) = run();
            assert!(there >= 6, "it was opened again, and each doubted kernel runs alone: {there}, {replanned:?}");
            assert_eq!((backend.opened().len(), replanned.len()), (2, 0), "{replanned:?}");
        }
    }
}

/// Does `fault` while `engine` works in another thread, where nothing unusual happens. `fault` is given a way to wait until something
/// was begun and done there.
fn beside(engine: &Engine, backend: &Handing, fault: impl FnOnce(&dyn Fn())) {
    compiled(engine, || works(engine, 0));
    let of_engine = || {
        let gpu = engine.devices().swap_remove(GPU.0);
        (gpu.state, gpu.reopened, backend.opened().len(), engine.plans_made(), engine.notes())
    };
    let before = of_engine();
    let (turned, turns) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for from in (0..900).cycle().take_while(|_| turned.send(()).is_ok()) {
                let report = works(engine, from);
                let places = (submissions(&report), report.devices_used().len());
                assert_eq!((places, report.replanned.len()), ((1, 1), 0), "{report}");
                assert_eq!(engine.devices()[GPU.0].state, DeviceState::Ready);
            }
        });
        // It ends when nobody counts its turns any more.
        let turns = turns;
        fault(&|| {
            turns.try_iter().for_each(drop);
            (0..2).for_each(|_| turns.recv().expect("it works on"));
        });
    });
    assert_eq!(of_engine(), before, "nothing was tried, planned or opened again");
    assert_eq!((before.0, before.1, before.2), (DeviceState::Ready, 0, 1));
}

fn works(engine: &Engine, from: usize) -> Report {
    let y = (ramp(engine, 1000, from) * 3.0).cumsum(0);
    let report = engine.run_by(&[&y], soon()).unwrap();
    let each = (from..from + 1000).map(|i| (i % 1000) as f32 * 3.0);
    let want: Vec<f32> = each.scan(0.0, |sum, x| Some(std::mem::replace(sum, *sum + x) + x)).collect();
    assert_eq!(y.to_vec_by::<f32>(soon()).unwrap(), want, "{report}");
    report
}

/// And what was in flight there is computed elsewhere.
#[test]
fn an_engine_that_loses_its_device_does_not_disturb_another_on_the_adapter() {
    for (mine, others) in Handing::cards().iter().zip(&Handing::cards()) {
        let (a, b) = (placing(mine), placing(others));
        beside(&b, others, |other_works| {
            for loss in 0..3 {
                let y = || (ramp(&a, 1 << 16, loss) * 3.0).cumsum(0);
                compiled(&a, || a.run_by(&[&y()], soon()).unwrap());
                let device = mine.opened().pop().unwrap();
                let (before, y) = (device.counters().submits, y());
                let read = y.read::<f32>();
                assert_eq!(device.counters().submits, before + 1);
                device.destroy();
                other_works();
                assert_eq!(pollster::block_on(read).unwrap()[..2], [loss as f32 * 3.0, loss as f32 * 6.0 + 3.0]);
                a.ready(soon()).unwrap();
                assert_eq!(a.devices()[GPU.0].reopened, loss + 1);
                other_works();
            }
        });
    }
}

#[test]
fn an_engine_whose_call_is_late_does_not_disturb_another_on_the_adapter() {
    let card = || Handing::cards().into_iter().find(|card| is_swiftshader(&card.list()[0])).expect("SwiftShader");
    let (mine, others) = (card(), card());
    let (a, b) = (placing(&mine), placing(&others));
    beside(&b, &others, |other_works| {
        let y = long_work(&a);
        // Compiles it, so that the device is at it when the deadline passes.
        a.explain(&[&y]).unwrap();
        let error = y.to_vec_by::<f32>(Deadline::after(Duration::from_millis(200))).unwrap_err();
        assert!(matches!(error, Error::Device { source: DeviceError::Timeout { .. }, .. }), "{error}");
        assert!(matches!(a.devices()[GPU.0].state, DeviceState::Suspect(_)));
        other_works();
        a.ready(soon()).unwrap();
        assert_eq!((&a.devices()[GPU.0].state, mine.opened().len()), (&DeviceState::Ready, 1));
        other_works();
    });
}

#[test]
fn two_engines_on_one_adapter_do_not_know_of_each_other() {
    for (a, b) in engines().iter().zip(&engines()) {
        for turn in 0..20 {
            let (x, y) = ((ramp(a, 1000, turn) + 1.0).on(GPU), (ramp(b, 1000, turn) * 3.0).on(GPU));
            a.run(&[&x]).unwrap();
            b.run(&[&y]).unwrap();
            assert_eq!(x.to_vec::<f32>().unwrap()[1], turn as f32 + 2.0);
            assert_eq!(y.to_vec::<f32>().unwrap()[1], (turn + 1) as f32 * 3.0);
        }
    }
}

/// How long closing a device may wait for its work here.
const CLOSE: Duration = Duration::from_millis(250);

/// What a drop may take besides. It computes nothing, so it waits for a core alone: two cores, on which `SwiftShader` and the tests
/// beside it have some ten threads at work, give each of them one within a tenth of a second.
const MARGIN: Duration = Duration::from_secs(1);

/// Work that takes `SwiftShader` several times as long, and begins at once.
fn at_work() -> (Engine, Arc<WgpuDevice>, Tensor) {
    let (engine, device) = swiftshader_of(WgpuOptions { close: CLOSE, ..WgpuOptions::default() });
    let one = ramp(&engine, 640 * 640, 0).reshape([640, 640]);
    let y = (0..12).fold(long_work(&engine), |y, _| y.matmul(&one)).on(GPU);
    // Compiles it.
    engine.explain(&[&y]).unwrap();
    (engine, device, y)
}

/// The drop, which leaves the work to the driver: it is at it afterwards.
fn dropped(all: (Engine, Arc<WgpuDevice>, Tensor)) {
    assert_eq!(all.1.memory().pending, 1);
    let start = Instant::now();
    drop(all);
    let taken = start.elapsed();
    assert!(taken < CLOSE + MARGIN, "{taken:?}");
    // The system may list a thread for a moment after it has ended.
    while waiters() > 0 && start.elapsed() < CLOSE + MARGIN {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(waiters(), 0, "a thread waits in the driver for an engine that is gone");
    assert!(computes(), "the work ended before the drop: {taken:?}");
    // The threads of SwiftShader crash a process that ends while they work.
    while computes() {
        assert!(start.elapsed() < Duration::from_mins(3), "the work does not end");
    }
}

/// Whether another thread of this process has a core, or waits for one, at any of ten moments.
fn computes() -> bool {
    (0..10).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        // One of them is this thread.
        threads(") R ") > 1
    })
}

/// Threads of this process that wait for late work; the system keeps 15 letters of their name.
fn waiters() -> usize {
    threads("(breakeven-reope)")
}

/// Threads of this process in whose line, `17 (name) R ...`, that stands.
fn threads(what: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux tells of threads");
    let lines = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
    lines.filter(|line| line.contains(what)).count()
}

#[test]
fn an_engine_that_is_dropped_with_work_in_flight_does_not_wait_for_it() {
    let all = at_work();
    drop(all.2.read::<f32>());
    dropped(all);
}

/// Nor does what waits for late work in the background.
#[test]
fn an_engine_that_is_dropped_after_a_call_was_late_does_not_wait_for_its_work() {
    let all = at_work();
    all.2.to_vec_by::<f32>(Deadline::after(Duration::from_millis(100))).unwrap_err();
    let start = Instant::now();
    while waiters() == 0 {
        assert!(start.elapsed() < MARGIN, "nothing waits for it in the background");
    }
    dropped(all);
}
