//! What calibration says of kernels that it did not measure, beside what they take on the same bench.

use std::sync::Arc;
use std::time::Duration;

use breakeven_cpu::{CpuDevice, CpuOptions};
use breakeven_device::Device;
use breakeven_device::sim::{SimClock, SimDevice, SimOptions, SimSpeed};
use breakeven_ir::{Class, DType, ExprBuilder, Kernel, Kind, Map, Row};
use breakeven_plan::{DeviceProfile, class_name};

use super::measure::Bench;
use super::{Effort, STEPS, class, kernels, overheads, step_seconds, unmeasured};

/// A row, so often on its own result, over so many elements.
fn rows(name: &str, times: usize, elements: usize) -> Kernel {
    let (row, mut b) = (Row::named(name).unwrap(), ExprBuilder::default());
    let x = b.arg(DType::F32);
    let step = |last: u16, _| {
        let rest = row.args[1..].iter().map(|kind| if *kind == Kind::P { b.param(DType::F32) } else { x });
        let operands: Vec<u16> = [last].into_iter().chain(rest).collect();
        b.row(row, DType::F32, &operands)
    };
    let last = (0..times).fold(x, step);
    let expr = b.finish(last);
    let params = vec![0.5; expr.params()];
    Kernel::Map(Map::dense(expr, params, elements))
}

/// Kernels of which none is among those that are measured, at sizes between those.
fn held_out(elements: &[usize], sides: &[usize]) -> Vec<(String, Kernel)> {
    let times = |name| [(name, 1), (name, 16)];
    let maps = ["mul", "clip", "exp", "tanh", "sigmoid", "silu", "gelu"].into_iter().flat_map(times);
    let maps = maps.flat_map(|(name, times)| {
        elements.iter().map(move |&n| (format!("{times} {name} of {n}"), rows(name, times, n)))
    });
    let convs = [(3, 16), (3, 64), (8, 8), (16, 32)].into_iter();
    let convs = convs.flat_map(|(channels, outs)| {
        sides.iter().map(move |&n| (format!("conv {channels} to {outs} of {n}"), kernels::conv([1, outs, channels], n)))
    });
    maps.chain(convs).collect()
}

/// By how much what was said is off, as a factor of 1 or more, ascending.
fn errors(device: &Arc<dyn Device>, effort: Effort, kernels: Vec<(String, Kernel)>) -> Vec<f64> {
    let bench = Bench { device, effort, go_on: &|| true };
    let profile = of_maps_and_convolutions(&bench);
    let one = |(name, kernel): (String, Kernel)| {
        let (one, many) = bench.kernel(&kernel, STEPS).unwrap();
        let (said, taken) = (foretell(&profile, &kernel), step_seconds(&one, &many));
        println!("{name:<24} taken {:>9.2} us, said {:>9.2}: {:.2}", taken * 1e6, said * 1e6, said / taken);
        (said / taken).ln().abs().exp()
    };
    let mut errors: Vec<f64> = kernels.into_iter().map(one).collect();
    errors.sort_by(f64::total_cmp);
    errors
}

fn of_maps_and_convolutions(bench: &Bench<'_>) -> DeviceProfile {
    let mut profile = unmeasured(bench.device.info());
    bench.device.tune(bench.effort.largest_bytes as u64).unwrap();
    overheads(bench, &mut profile).unwrap();
    for probe in kernels::PROBES.iter().filter(|probe| matches!(probe.class, Class::Map | Class::Conv)) {
        let curves = class(bench, &profile, probe).unwrap();
        profile.classes.insert(class_name(probe.class).to_owned(), curves);
    }
    profile
}

fn foretell(profile: &DeviceProfile, kernel: &Kernel) -> f64 {
    let curves = &profile.classes[class_name(kernel.class())];
    profile.dispatch.seconds + curves.cost(kernel.work()).unwrap().seconds
}

fn at(errors: &[f64], share: f64) -> f64 {
    errors[((errors.len() - 1) as f64 * share).round() as usize]
}

/// Two operations for each byte that it moves, and either waits for the other: where one begins to count is the hardest to say.
#[test]
fn usual_kernels_are_priced_between_their_neighbours() {
    let speed = SimSpeed {
        per_submit: Duration::from_nanos(200),
        per_launch: Duration::from_nanos(100),
        per_wait: Duration::from_nanos(100),
        flops_per_second: 2e9,
        bytes_per_second: 1e9,
        link_latency: Duration::ZERO,
        link_bytes_per_second: 1e10,
    };
    let device: Arc<dyn Device> = Arc::new(SimDevice::new(SimOptions::new("sim", speed), &SimClock::new()));
    // Bytes bound the sizes: how long this machine takes to simulate them says nothing.
    let effort = Effort { repeats: 1, longest: Duration::from_secs(100), largest_bytes: 8 << 10, ..Effort::QUICK };
    let errors = errors(&device, effort, held_out(&[300, 2_000], &[7, 14]));
    assert!(at(&errors, 0.5) <= 1.08 && at(&errors, 0.9) <= 1.21, "{errors:?}");
}

#[test]
#[ignore = "measures this machine: cargo test -p breakeven --lib held_out -- --ignored --nocapture"]
fn this_machine_takes_what_was_said() {
    let device: Arc<dyn Device> = Arc::new(CpuDevice::new(CpuOptions::default()).unwrap());
    let errors =
        errors(&device, Effort::QUICK, held_out(&[3_000, 30_000, 316_228, 1_000_000], &[14, 55, 110, 240, 430]));
    println!("half within {:.2}, nine tenths within {:.2}", at(&errors, 0.5), at(&errors, 0.9));
    // An error of 0.3 in the logarithm costs placement less than a hundredth.
    assert!(at(&errors, 0.5).ln() <= 0.3 && at(&errors, 0.9) <= 2.0, "{errors:?}");
}
