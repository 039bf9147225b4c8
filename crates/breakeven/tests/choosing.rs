//! Collected cases about finding devices and choosing among them, on simulated ones.

mod sim;

use breakeven::{DeviceId, DeviceKind, DeviceProfile, DeviceState, Error, Profile};
use breakeven_device::sim::{Fault, SimOptions};
use sim::{Driven, GPU, chain, options, rates, speed, want};

fn device(name: &str, kind: DeviceKind) -> SimOptions {
    SimOptions { kind, ..SimOptions::new(name, speed()) }
}

fn measured(name: &str, rate: f64) -> DeviceProfile {
    DeviceProfile { name: name.to_owned(), ..rates(rate) }
}

/// An integrated GPU first, a discrete one second, and a program that would be the fastest third.
fn three() -> Driven {
    let devices = vec![
        vec![device("integrated", DeviceKind::IntegratedGpu)],
        vec![device("discrete", DeviceKind::DiscreteGpu)],
        vec![device("llvmpipe", DeviceKind::Software)],
    ];
    let known = vec![measured("integrated", 1e10), measured("discrete", 1e15), measured("llvmpipe", 1e18)];
    Driven::of(devices, |builder| builder.software(true).profile(Profile { devices: known, ..Profile::new("") }))
}

/// Case D01: the first adapter is taken, whatever it is.
#[test]
fn d01_the_best_device_is_chosen_wherever_it_stands() {
    let driven = three();
    let listed: Vec<(String, DeviceKind)> =
        driven.engine.devices().into_iter().map(|d| (d.info.name, d.info.kind)).skip(1).collect();
    let kinds = [DeviceKind::IntegratedGpu, DeviceKind::DiscreteGpu, DeviceKind::Software];
    assert_eq!(listed.iter().map(|(_, kind)| *kind).collect::<Vec<_>>(), kinds);
    let last = chain(&driven.engine).pop().unwrap();
    let report = driven.engine.run(&[&last]).unwrap();
    assert_eq!(report.devices_used(), ["sim:1"]);
    let plan = driven.engine.explain(&[&chain(&driven.engine)[10]]).unwrap().to_string();
    assert!(plan.contains("sim:1"), "the choice is told: {plan}");
    let named = chain(&driven.engine).pop().unwrap().on(DeviceId(1));
    assert_eq!(driven.engine.run(&[&named]).unwrap().devices_used(), ["sim:0"]);
    assert_eq!(named.to_vec::<f32>().unwrap(), want());
}

/// Case D02: a program counts as a GPU.
#[test]
fn d02_a_software_adapter_is_never_chosen_and_can_be_named() {
    let driven = three();
    let report = driven.engine.run(&[&chain(&driven.engine)[10]]).unwrap();
    assert!(!report.devices_used().contains(&"sim:2"), "{report}");
    let named = chain(&driven.engine).pop().unwrap().on(DeviceId(3));
    assert_eq!(driven.engine.run(&[&named]).unwrap().devices_used(), ["sim:2"]);
    let closed = Driven::of(vec![vec![device("llvmpipe", DeviceKind::Software)]], |builder| builder);
    let state = closed.gpu().state;
    assert!(matches!(&state, DeviceState::Unusable(why) if why.contains("software")), "{state:?}");
}

/// A tensor in the middle of a graph that names a device is computed there, and what names another one after it elsewhere.
#[test]
fn a_tensor_within_a_graph_can_name_its_device() {
    let driven = three();
    let x = driven.engine.tensor(&[1.0, 2.0, 3.0], [3]);
    let (middle, all) = ((&x + 1.0).on(DeviceId(1)), [DeviceId::HOST, DeviceId(1)]);
    let devices = |last: &breakeven::Tensor| -> Vec<DeviceId> {
        let report = driven.engine.run(&[last]).unwrap();
        report.plan.decisions.iter().map(|decision| decision.device).collect()
    };
    for last in all {
        let twice = (&middle * 2.0).on(last);
        let want = if last == DeviceId(1) { vec![last] } else { vec![DeviceId(1), last] };
        assert_eq!(devices(&twice), want, "then on {last:?}");
        assert_eq!(twice.to_vec::<f32>().unwrap(), [4.0, 6.0, 8.0]);
    }
    // Whoever names none takes what is there as it is.
    let free = &middle * 2.0;
    assert_eq!(devices(&free)[0], DeviceId(1));
    assert_eq!(free.to_vec::<f32>().unwrap(), [4.0, 6.0, 8.0]);
}

/// Case D05: asked for a GPU, and silently on the CPU.
#[test]
fn d05_who_names_a_gpu_gets_it_or_an_error() {
    let (engine, _) = sim::engine(&[]);
    let missing = chain(&engine).pop().unwrap().on(DeviceId(2)).to_vec::<f32>().unwrap_err();
    assert!(matches!(missing, Error::Placement(_)), "{missing}");
    let failing = failing();
    let forced = chain(&failing.engine).pop().unwrap().on(GPU).to_vec::<f32>().unwrap_err();
    assert!(matches!(forced, Error::Placement(_)) && forced.to_string().contains("self-test"), "{forced}");
    let report = failing.engine.run(&[&chain(&failing.engine)[10]]).unwrap();
    assert_eq!(report.devices_used(), ["cpu"]);
}

/// A device that loses NaN, of which nothing is known.
fn failing() -> Driven {
    Driven::of(vec![vec![options(&[Fault::LosesNan])]], |builder| builder)
}

/// Case D08: one driver computes one kernel wrong.
#[test]
fn d08_a_device_that_fails_its_self_test_is_listed_and_not_used() {
    let state = failing().gpu().state;
    assert!(matches!(&state, DeviceState::Unusable(why) if why.contains("NaN is kept")), "{state:?}");
    let known = Profile { devices: vec![rates(1e18)], ..Profile::new("") };
    let tested = Driven::of(vec![vec![options(&[Fault::LosesNan])]], |builder| builder.profile(known));
    assert_eq!(tested.gpu().state, DeviceState::Ready, "what is known of a driver is not asked again");
}

/// Case D09: several drivers show the same GPU.
#[test]
fn d09_one_device_behind_two_drivers_is_one() {
    let at =
        |name: &str| SimOptions { address: Some("0000:65:00.0".to_owned()), ..device(name, DeviceKind::DiscreteGpu) };
    let known = vec![measured("through one", 1e15), measured("through another", 1e18)];
    let driven = Driven::of(vec![vec![at("through one")], vec![at("through another")]], |builder| {
        builder.profile(Profile { devices: known, ..Profile::new("") })
    });
    let devices = driven.engine.devices();
    assert_eq!(devices[1].state, DeviceState::Ready);
    assert_eq!(devices[2].state, DeviceState::Unusable("it is the same device as sim:0".to_owned()));
}
