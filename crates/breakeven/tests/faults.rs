//! What an engine does when a device fails: it answers, or says in one sentence why it cannot.

mod sim;

use std::sync::Arc;
use std::time::Duration;

use breakeven::{Deadline, Device, DeviceError, DeviceId, Draft, Engine, Error};
use breakeven_device::sim::{Fault, SimClock, SimDevice, SimOptions};
use sim::{GPU, chain, engine, hopeless, speed, unbeatable, want};

#[test]
fn a_loss_at_any_step_is_planned_again_and_answered() {
    for at in 1..=12 {
        let (engine, _) = engine(&[Fault::LostAt(at)]);
        let steps = chain(&engine);
        for step in &steps[1..] {
            engine.run(&[step.on(GPU)].iter().collect::<Vec<_>>()).map(drop).unwrap_or_default();
            engine.run(&[step]).unwrap();
        }
        assert_eq!(steps[10].to_vec::<f32>().unwrap(), want(), "lost at submission {at}");
    }
}

#[test]
fn a_loss_between_calls_of_a_program_is_answered() {
    for at in 1..=8 {
        let (engine, _) = engine(&[Fault::LostAt(at)]);
        let start = engine.tensor(&[1.0, 2.0, 3.0], [3]);
        let draft = Draft::new(&[&start]).unwrap();
        let scale = (&engine.tensor(&[3.0, 3.0, 3.0], [3]) + 1.0).sqrt();
        let program = draft.finish(&[&(&draft.stand_ins()[0] * scale + 1.0)]).unwrap();
        let mut state = start;
        for _ in 0..10 {
            state = program.call(&[&state]).unwrap().swap_remove(0);
            engine.run(&[&state]).unwrap();
        }
        assert_eq!(state.to_vec::<f32>().unwrap(), want(), "lost at submission {at}");
    }
}

#[test]
fn a_hang_is_a_timeout_for_a_deadline_of_the_callers_and_an_answer_for_the_engines() {
    let (engine, sim) = engine(&[Fault::HangAt(1), Fault::HangAt(2)]);
    let y = chain(&engine).pop().unwrap().on(GPU);
    let error = y.to_vec_by::<f32>(Deadline::after(Duration::from_millis(200))).unwrap_err();
    let timeout = matches!(&error, Error::Device { source: DeviceError::Timeout { .. }, .. });
    assert!(timeout, "{error}");
    assert_eq!(sim.memory().pending, 1);
    let free = chain(&engine).pop().unwrap();
    assert_eq!(free.to_vec::<f32>().unwrap(), want());
}

#[test]
fn a_busy_device_is_asked_again() {
    let (engine, sim) = engine(&[Fault::BusyAt(1), Fault::BusyAt(2)]);
    assert_eq!(chain(&engine)[10].to_vec::<f32>().unwrap(), want());
    assert_eq!(sim.submits(), 1);
}

#[test]
fn done_too_early_is_never_an_answer_of_garbage() {
    let (engine, _) = engine(&[Fault::EarlyDoneAt(1)]);
    assert_eq!(chain(&engine)[10].to_vec::<f32>().unwrap(), want());
    assert!(engine.notes().iter().any(|n| n.contains("before the bytes")), "{:?}", engine.notes());
}

#[test]
fn out_of_memory_goes_elsewhere() {
    let mut options = SimOptions::new("small", speed());
    options.caps.memory_bytes = Some(64);
    let sim: Arc<dyn Device> = Arc::new(SimDevice::new(options, &SimClock::new()));
    let engine = Engine::builder()
        .gpus(false)
        .no_cache()
        .cpu_profile(hopeless())
        .measured_device(sim, unbeatable())
        .build()
        .unwrap();
    let x = engine.from_vec((0..1000).map(|i| i as f32).collect(), [1000]);
    assert_eq!((x * 2.0).to_vec::<f32>().unwrap()[999], 1998.0);
}

/// What others hold there is left alone, and nothing is begun that could not end; whoever names the device is told by its driver.
#[test]
fn a_device_that_has_no_room_left_is_not_asked() {
    let mut options = SimOptions::new("small", speed());
    options.caps.memory_bytes = Some(10_000);
    let (engine, sim) = sim::engine_of(options);
    let held = (engine.from_vec(vec![1.0f32; 1000], [1000]) + 1.0).on(GPU);
    engine.run(&[&held]).unwrap();
    let work = |x: f32| engine.from_vec(vec![x; 1000], [1000]) * 2.0;
    let submits = sim.submits();
    for x in [1.0, 2.0, 3.0] {
        let y = work(x);
        let report = engine.run(&[&y]).unwrap();
        let [replanned] = &report.replanned[..] else { panic!("{:?}", report.replanned) };
        assert!(replanned.contains("8000 bytes were wanted and 2000 are left"), "{replanned}");
        assert_eq!((report.devices_used(), y.to_vec::<f32>().unwrap()), (vec!["cpu"], vec![2.0 * x; 1000]));
    }
    assert_eq!((sim.submits(), engine.plans_made()), (submits, 3), "one for what is held, and one with each device");
    assert!(engine.notes().iter().any(|note| note.contains("no room")), "{:?}", engine.notes());
    let error = engine.run(&[&work(4.0).on(GPU)]).unwrap_err();
    assert!(matches!(&error, Error::Device { source: DeviceError::OutOfMemory { .. }, .. }), "{error}");
    drop(held);
    let report = engine.run(&[&work(5.0)]).unwrap();
    assert_eq!((report.replanned.len(), report.devices_used()), (0, vec!["sim:0"]));
}

/// What nobody uses any more is given back before work goes elsewhere for want of memory.
#[test]
fn l09_memory_that_is_kept_for_later_makes_room() {
    let mut options = SimOptions { keeps: true, ..SimOptions::new("small", speed()) };
    options.caps.memory_bytes = Some(100_000);
    let (engine, sim) = sim::engine_of(options);
    let mut most = 0;
    for n in 1000..1040 {
        let x = engine.from_vec(vec![3.0f32; n], [n]);
        let report = engine.run(&[&(&x * 2.0)]).unwrap();
        assert_eq!((report.devices_used(), report.replanned.len()), (vec!["sim:0"], 0), "{n}");
        assert_eq!((x * 2.0).to_vec::<f32>().unwrap(), vec![6.0; n]);
        most = most.max(sim.memory().pool.pooled_bytes);
    }
    assert!(most > 50_000, "memory was kept: {most}");
    assert!(sim.submits() >= 40);
}

/// Nor does memory for copies, which no pool for results counts and the driver does.
#[test]
fn memory_for_copies_makes_room_too() {
    let mut options = SimOptions { keeps: true, hides_kept: true, ..SimOptions::new("small", speed()) };
    options.caps.memory_bytes = Some(10_000);
    let (engine, sim) = sim::engine_of(options);
    for x in [1.0f32, 2.0, 3.0] {
        let y = engine.from_vec(vec![x; 1000], [1000]) * 2.0;
        let report = engine.run(&[&y]).unwrap();
        assert_eq!((report.devices_used(), report.replanned.len()), (vec!["sim:0"], 0), "{:?}", sim.memory());
        assert_eq!(y.to_vec::<f32>().unwrap(), vec![2.0 * x; 1000]);
    }
}

#[test]
fn a_forced_device_never_falls_back() {
    let (engine, _) = engine(&[Fault::LostAt(1)]);
    let error = chain(&engine)[10].on(GPU).to_vec::<f32>().unwrap_err();
    assert!(matches!(error, Error::Device { .. }), "{error}");
    let missing = chain(&engine)[10].on(DeviceId(7)).to_vec::<f32>().unwrap_err();
    assert!(matches!(missing, Error::Placement(_)), "{missing}");
}

#[test]
fn many_operations_are_one_upload_one_submit_one_read() {
    let (engine, sim) = engine(&[]);
    assert_eq!(chain(&engine)[10].to_vec::<f32>().unwrap(), want());
    assert_eq!(sim.submits(), 1);
}

#[test]
fn a_loop_on_a_device_does_not_keep_its_history() {
    let options = SimOptions::new("sim", speed());
    let sim = Arc::new(SimDevice::new(options, &SimClock::new()));
    let device: Arc<dyn Device> = sim.clone();
    let engine = Engine::builder()
        .gpus(false)
        .no_cache()
        .cpu_profile(hopeless())
        .recovery_bytes(10 * 4096)
        .measured_device(device, unbeatable())
        .build()
        .unwrap();
    let mut a = engine.from_vec(vec![0.0f32; 1024], [1024]);
    let mut most = 0;
    for step in 0..200 {
        // What is only on the way to a value is part of its history too.
        a = (&a + 3.0) * 1.0 - 2.0;
        engine.run(&[&a]).unwrap();
        if step == 50 {
            most = sim.memory().pool.peak_bytes;
        }
    }
    assert_eq!(sim.memory().pool.peak_bytes, most, "memory grows with the number of steps");
    assert_eq!(a.to_vec::<f32>().unwrap(), vec![200.0; 1024]);
}

#[test]
fn a_read_is_a_future() {
    let (engine, _) = engine(&[]);
    let read = chain(&engine)[10].read::<f32>();
    assert_eq!(pollster::block_on(read).unwrap(), want());
}
