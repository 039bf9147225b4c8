//! Devices that are lost or hang are opened again in the background; what does that too often is left alone.

mod sim;

use std::sync::Arc;
use std::time::{Duration, Instant};

use breakeven::{DType, Deadline, DeviceError, DeviceState, Draft, Error, Tensor};
use breakeven_device::sim::{Fault, SimOptions, SimSpeed};
use breakeven_device::{Device, DeviceKind};
use breakeven_ir::Class;
use sim::{Driven, GPU, chain, options, speed, want};

/// A chain that is placed on the device, read; what failed on the way.
fn run(driven: &Driven) -> Vec<String> {
    let last = chain(&driven.engine).pop().unwrap();
    let report = driven.engine.run(&[&last]).unwrap();
    assert_eq!(last.to_vec::<f32>().unwrap(), want());
    report.replanned
}

#[test]
fn a_lost_device_is_opened_again_and_used() {
    let driven = Driven::new(&[&[Fault::LostAt(1)], &[]]);
    let replanned = run(&driven);
    assert!(replanned[0].contains("sim:0: the device was lost"), "{replanned:?}");
    driven.settle();
    let gpu = driven.gpu();
    assert_eq!((gpu.state, gpu.reopened), (DeviceState::Ready, 1));
    assert!(driven.engine.notes().iter().any(|note| note.contains("opened again")), "{:?}", driven.engine.notes());
    assert!(run(&driven).is_empty());
    assert!(driven.backend.opened(0)[1].submits() > 0);
}

#[test]
fn three_openings_in_a_minute_and_then_quarantine_until_it_is_readmitted() {
    let driven =
        Driven::new(&[&[Fault::LostAt(1)], &[Fault::LostAt(1)], &[Fault::LostAt(1)], &[Fault::LostAt(1)], &[]]);
    for reopened in 1..=3 {
        assert_eq!(run(&driven).len(), 1);
        driven.settle();
        assert_eq!((driven.gpu().state, driven.gpu().reopened), (DeviceState::Ready, reopened));
    }
    assert_eq!(run(&driven).len(), 1);
    driven.settle();
    assert!(matches!(driven.gpu().state, DeviceState::Quarantined(_)), "{:?}", driven.gpu());
    driven.clock.advance(Duration::from_mins(10));
    assert!(run(&driven).is_empty());
    assert_eq!(driven.backend.tried(0), 4);
    driven.engine.readmit(GPU).unwrap();
    driven.settle();
    assert_eq!((driven.gpu().state, driven.gpu().reopened), (DeviceState::Ready, 4));
    assert!(run(&driven).is_empty());
    assert!(driven.backend.opened(0)[4].submits() > 0);
}

#[test]
fn losses_that_are_far_apart_are_no_reason_for_quarantine() {
    let driven = Driven::new(&[&[Fault::LostAt(1)]]);
    for reopened in 1..=8 {
        assert_eq!(run(&driven).len(), 1);
        driven.settle();
        assert_eq!((driven.gpu().state, driven.gpu().reopened), (DeviceState::Ready, reopened));
        driven.clock.advance(Duration::from_secs(21));
    }
}

#[test]
fn an_opening_that_fails_is_tried_again_and_counts() {
    let driven = Driven::new(&[&[Fault::LostAt(1)], &[Fault::DoesNotOpen], &[]]);
    assert_eq!(run(&driven).len(), 1);
    driven.settle();
    assert_eq!((driven.gpu().state, driven.backend.tried(0)), (DeviceState::Ready, 3));
    let driven = Driven::new(&[&[Fault::LostAt(1)], &[Fault::DoesNotOpen]]);
    assert_eq!(run(&driven).len(), 1);
    driven.settle();
    assert!(matches!(driven.gpu().state, DeviceState::Quarantined(_)), "{:?}", driven.gpu());
    assert_eq!(driven.backend.tried(0), 4);
}

/// What a device answered before it was lost says nothing of the one that is opened in its place.
#[test]
fn a_device_that_fails_its_self_test_after_a_loss_is_not_used() {
    let driven = cards(&[&[Fault::LostAt(1)], &[Fault::LosesNan]]);
    assert_eq!(run(&driven).len(), 1);
    driven.settle();
    let gpu = driven.gpu();
    assert!(matches!(&gpu.state, DeviceState::Quarantined(why) if why.contains("self-test: NaN is kept")), "{gpu:?}");
    assert_eq!((gpu.reopened, driven.backend.tried(0)), (0, 4));
    assert!(run(&driven).is_empty());
}

#[test]
fn a_device_that_passes_its_self_test_after_a_loss_is_used() {
    let driven = cards(&[&[Fault::LostAt(1)], &[Fault::LosesNan], &[]]);
    assert_eq!(run(&driven).len(), 1);
    driven.settle();
    let gpu = driven.gpu();
    assert_eq!((gpu.state, gpu.reopened, driven.backend.tried(0)), (DeviceState::Ready, 1, 3));
    let asked = driven.backend.opened(0)[2].submits();
    assert!(asked > 0, "it was asked before it was used");
    assert!(run(&driven).is_empty());
    assert!(driven.backend.opened(0)[2].submits() > asked);
}

/// Plans hold the devices that they were made for: those of the engine, of a program, and of small graphs.
#[test]
fn a_device_that_was_retired_is_held_by_no_plan() {
    for fault in [Fault::LostAt(6), Fault::HangAt(6)] {
        let driven = Driven::new(&[&[fault], &[]]);
        let x = driven.engine.tensor(&[1.0, 2.0, 3.0], [3]);
        let draft = Draft::new(&[&x]).unwrap();
        let program = draft.finish(&[&(&draft.stand_ins()[0] * 2.0)]).unwrap();
        assert_eq!(program.call(&[&x]).unwrap()[0].to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);
        assert!(driven.backend.opened(0)[0].submits() > 0, "the program ran there");
        for n in (1..20).take_while(|_| driven.gpu().reopened == 0) {
            let ones = driven.engine.from_vec(vec![1.0f32; n], [n]) + 1.0;
            assert_eq!(ones.to_vec::<f32>().unwrap(), vec![2.0; n]);
            driven.settle();
        }
        assert_eq!(driven.gpu().reopened, 1, "{fault:?}");
        let opened = driven.backend.opened(0);
        assert_eq!(Arc::strong_count(&opened[0]), 2, "{fault:?}: the backend's list and this one");
        assert_eq!(program.call(&[&x]).unwrap()[0].to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);
        assert!(opened[1].submits() > 0, "the program goes on");
    }
}

/// A card that was measured before, with these faults at each of its openings.
fn cards(openings: &[&[Fault]]) -> Driven {
    let card = |faults: &&[Fault]| SimOptions { kind: DeviceKind::DiscreteGpu, ..options(faults) };
    let known = breakeven::Profile { devices: vec![sim::unbeatable()], ..breakeven::Profile::new("") };
    Driven::of(vec![openings.iter().map(card).collect()], |builder| builder.profile(known))
}

/// A device that says no to everything is asked three times in a minute.
#[test]
fn a_device_that_refuses_is_spared_and_then_left_alone() {
    let driven = Driven::new(&[&[Fault::RefusesFrom(1)], &[]]);
    for _ in 0..3 {
        assert_eq!(run(&driven).len(), 1);
        assert_eq!(driven.gpu().state, DeviceState::Ready);
    }
    assert_eq!(run(&driven).len(), 1);
    assert!(matches!(driven.gpu().state, DeviceState::Quarantined(_)), "{:?}", driven.gpu());
    assert!(run(&driven).is_empty());
    driven.engine.readmit(GPU).unwrap();
    driven.settle();
    assert!(run(&driven).is_empty());
    assert!(driven.backend.opened(0)[1].submits() > 0);
}

#[test]
fn who_cannot_be_opened_again_is_not_readmitted() {
    let (engine, _) = sim::engine(&[Fault::LostAt(1)]);
    let last = chain(&engine).pop().unwrap();
    assert_eq!(last.to_vec::<f32>().unwrap(), want());
    assert!(matches!(engine.devices()[1].state, DeviceState::Lost(_)));
    assert!(matches!(engine.readmit(GPU), Err(Error::Placement(_))));
    assert!(matches!(engine.readmit(breakeven::DeviceId(9)), Err(Error::Placement(_))));
}

fn softmax_of_product(driven: &Driven) -> Tensor {
    let x = driven.engine.from_vec((0..16).map(|i| i as f32 * 0.25).collect(), [4, 4]);
    x.matmul(&x).softmax(-1)
}

#[test]
fn a_kernel_that_loses_the_device_twice_is_quarantined_alone() {
    let driven = Driven::new(&[&[Fault::LosesOn(Class::RowWise)]]);
    let mut answers = Vec::new();
    for losses in [1, 1, 0, 0] {
        let y = softmax_of_product(&driven);
        let report = driven.engine.run(&[&y]).unwrap();
        assert_eq!(report.replanned.len(), losses, "{:?}", driven.engine.notes());
        answers.push(y.to_vec::<f32>().unwrap());
        driven.settle();
        assert_eq!(driven.gpu().state, DeviceState::Ready);
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    let gpu = driven.gpu();
    assert_eq!((gpu.reopened, gpu.quarantined.len()), (2, 1), "{gpu:?}");
    assert!(gpu.quarantined[0].contains("softmax"), "{gpu:?}");
    let report = driven.engine.run(&[&softmax_of_product(&driven)]).unwrap();
    assert_eq!(report.devices_used(), ["cpu", "sim:0"], "the product stays where it was");
    let forced = softmax_of_product(&driven).on(GPU);
    let error = driven.engine.run(&[&forced]).unwrap_err().to_string();
    assert!(error.contains("quarantined"), "{error}");
    driven.engine.readmit(GPU).unwrap();
    assert!(driven.gpu().quarantined.is_empty());
}

/// A kernel that shares a submission with the guilty one is cleared by running well on its own.
#[test]
fn innocent_kernels_share_submissions_again() {
    let driven = Driven::new(&[&[Fault::LostAt(1)], &[]]);
    for _ in 0..3 {
        driven.engine.run(&[&softmax_of_product(&driven)]).unwrap();
        driven.settle();
    }
    let submits = driven.backend.opened(0)[1].submits();
    assert_eq!(submits, 4, "an upload and two kernels on their own, then all of them at once");
}

#[test]
fn work_that_ends_late_makes_a_suspect_that_is_trusted_again() {
    let slow = SimOptions { speed: SimSpeed { per_launch: Duration::from_secs(5), ..speed() }, ..options(&[]) };
    let known = breakeven::Profile { devices: vec![sim::unbeatable()], ..breakeven::Profile::new("") };
    let driven = Driven::of(vec![vec![slow]], |builder| builder.profile(known));
    let last = chain(&driven.engine).pop().unwrap();
    let error = last.to_vec_by::<f32>(Deadline::after(Duration::from_millis(200))).unwrap_err();
    assert!(matches!(error, Error::Device { source: DeviceError::Timeout { .. }, .. }), "{error}");
    driven.settle();
    assert_eq!((driven.gpu().state, driven.gpu().reopened), (DeviceState::Ready, 0));
    assert_eq!(driven.gpu().memory.unwrap().pending, 0);
    assert_eq!(last.on(GPU).to_vec::<f32>().unwrap(), want());
}

/// Case S05: after a lost device, everything of it is dead.
#[test]
fn s05_a_loss_after_any_step_is_answered_or_names_what_is_lost() {
    for at in 1..=12 {
        let driven = Driven::new(&[&[Fault::LostAt(at)], &[]]);
        let steps = chain(&driven.engine);
        for step in &steps[1..] {
            driven.engine.run(&[step]).unwrap();
            driven.settle();
        }
        assert_eq!(steps[10].to_vec::<f32>().unwrap(), want(), "lost at submission {at}");
        assert_eq!(steps[5].to_vec::<f32>().unwrap()[0], 63.0, "lost at submission {at}");
    }
}

#[test]
fn s05_a_value_that_cannot_be_computed_again_is_named() {
    for at in 2..=11 {
        let driven = Driven::with(&[&[Fault::LostAt(at)], &[]], |builder| builder.recovery_bytes(0));
        let steps = chain(&driven.engine);
        let ran: Vec<bool> = steps[1..].iter().map(|step| driven.engine.run(&[step]).is_ok()).collect();
        let lost = (at as usize - 1).min(10);
        assert!(ran[..lost].iter().all(|ran| *ran), "lost at submission {at}: {ran:?}");
        driven.settle();
        let error = steps[lost].to_vec::<f32>().unwrap_err();
        let Error::DeviceLost { device, tensor } = &error else { panic!("lost at submission {at}: {error}") };
        assert_eq!((device.as_str(), tensor.as_str()), ("sim:0", "the result of add, f32[3]"), "{error}");
        driven.settle();
        assert!(run(&driven).is_empty(), "the next graph works on the new device");
        assert!(driven.backend.opened(0)[1].submits() > 0);
    }
}

/// Case S11: a device that hangs and is never removed.
#[test]
fn s11_a_hung_device_is_left_and_nothing_waits_for_it() {
    let started = Instant::now();
    let driven = Driven::new(&[&[Fault::HangAt(1)]]);
    let is_quarantined = |driven: &Driven| matches!(driven.gpu().state, DeviceState::Quarantined(_));
    // A call may meet the device that was opened meanwhile, which hangs too.
    for hangs in (1..=4).take_while(|_| !is_quarantined(&driven)) {
        // Another kernel each time: one that hangs twice is not tried a third time.
        let last = driven.engine.from_vec(vec![1.0f32; hangs], [hangs]) + 1.0;
        let error = last.to_vec_by::<f32>(Deadline::after(Duration::from_millis(200))).unwrap_err();
        let Error::Device { source: DeviceError::Timeout { waited, pending: 1 }, .. } = error else {
            panic!("{error}")
        };
        assert!(waited <= Duration::from_millis(250), "{waited:?}");
        assert_eq!(last.to_vec::<f32>().unwrap(), vec![2.0; hangs], "the next call works after hang {hangs}");
        driven.settle();
    }
    assert!(is_quarantined(&driven), "{:?}", driven.gpu());
    let hung = driven.backend.opened(0);
    assert!(hung.iter().all(|device| device.memory().pending == 1), "unfinished work is still counted");
    drop(driven);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

/// Without doubles: of a plan with steps in them, the device does the others.
fn without_doubles(faults: &[Fault]) -> Driven {
    let mut options = options(faults);
    options.caps.dtypes.retain(|dtype| *dtype != DType::F64);
    let known = breakeven::Profile { devices: vec![sim::unbeatable()], ..breakeven::Profile::new("") };
    Driven::of(vec![vec![options.clone(), options]], |builder| builder.profile(known))
}

/// Twenty steps, of which the device can do every second: each of these waits for the CPU's before it, and is a submission of its own.
fn ten_turns(driven: &Driven) -> Tensor {
    let step = |x: Tensor, _| (x.cumsum(0).cast(DType::F64).cumsum(0) * 0.5).cast(DType::F32);
    (0..10).fold(driven.engine.tensor(&[1.0, 2.0, 3.0], [3]), step)
}

/// Runs them as one plan: how many submissions of the device led to the answer, and what failed before.
fn take_turns(driven: &Driven) -> (usize, Vec<String>) {
    let y = ten_turns(driven);
    let report = driven.engine.run(&[&y]).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [1.0, 22.0, 253.0].map(|sum: f32| sum / 1024.0), "{report}");
    (report.submissions.iter().filter(|(device, _)| *device == GPU).count(), report.replanned)
}

/// In the middle of a run that has used the device already.
#[test]
fn s05_a_loss_or_a_hang_after_any_of_ten_steps_of_one_plan_is_answered() {
    let driven = without_doubles(&[]);
    assert_eq!(take_turns(&driven), (10, vec![]));
    assert_eq!((driven.engine.plans_made(), driven.backend.opened(0)[0].submits()), (1, 10), "all of it is one plan");
    for at in 1..=10 {
        for (fault, done) in [(Fault::LostAt(at), at - 1), (Fault::HangAt(at), at)] {
            let driven = without_doubles(&[fault]);
            let (there, replanned) = take_turns(&driven);
            assert_eq!((there, replanned.len()), (0, 1), "{fault:?}: {replanned:?}");
            assert_eq!(
                (driven.engine.plans_made(), driven.backend.opened(0)[0].submits() as u64),
                (2, done),
                "{fault:?}"
            );
        }
    }
}
