//! The suite again and again on one device, in another order each time: nothing of a test stays behind that another could meet.

mod devices;

use breakeven_conformance::{Check, Random, Tier};
use breakeven_cpu::Isa;
use breakeven_device::Device;
use breakeven_wgpu::Limits;

const CHECKS: &[Check] = &breakeven_conformance::suite!(list Tier::Quick);

/// Runs some of the suite `times` over. What fails names its order, which is that of the number of its run.
fn run(device: &dyn Device, times: u64, is_wanted: fn(&str) -> bool) {
    let mut live = Vec::new();
    for time in 0..times {
        let mut order: Vec<&Check> = CHECKS.iter().filter(|(name, _)| is_wanted(name)).collect();
        shuffle(&mut order, &mut Random::new(time));
        assert!(order.len() > 20, "{} of {}", order.len(), CHECKS.len());
        for (name, check) in order {
            println!("run {time}: {name}");
            check(device);
        }
        live.push(device.memory().pool.live_bytes);
    }
    assert!(live.iter().all(|bytes| *bytes == live[0]), "memory that is held after each run: {live:?}");
}

fn shuffle<T>(all: &mut [T], random: &mut Random) {
    for last in (1..all.len()).rev() {
        all.swap(last, random.below(last + 1));
    }
}

/// The cases alone: the areas take a minute.
fn is_case(name: &str) -> bool {
    name.as_bytes()[1].is_ascii_digit()
}

#[test]
fn orders_differ_and_lose_nothing() {
    let order = |seed| {
        let mut order: Vec<usize> = (0..CHECKS.len()).collect();
        shuffle(&mut order, &mut Random::new(seed));
        order
    };
    assert!(order(0) != order(1) && order(1) == order(1));
    let mut all = order(7);
    all.sort_unstable();
    assert_eq!(all, (0..CHECKS.len()).collect::<Vec<_>>());
}

#[test]
fn cases_in_any_order_on_the_cpu() {
    run(&*devices::cpu(Isa::best(), 2), 5, is_case);
}

#[test]
fn cases_in_any_order_on_a_software_gpu() {
    run(&*devices::gpu("llvmpipe", Limits::Adapter), 2, is_case);
}

#[test]
#[ignore = "cargo test --release -p breakeven-conformance --test shuffled -- --ignored cases_a_hundred_times (minutes)"]
fn cases_a_hundred_times_on_the_cpu() {
    run(&*devices::cpu(Isa::best(), 2), 100, is_case);
}

#[test]
#[ignore = "cargo test --release -p breakeven-conformance --test shuffled -- --ignored cases_a_hundred_times (minutes)"]
fn cases_a_hundred_times_on_a_gpu() {
    run(&*devices::gpu("llvmpipe", Limits::Adapter), 100, is_case);
}

#[test]
#[ignore = "cargo test --release -p breakeven-conformance --test shuffled -- --ignored whole (ten minutes)"]
fn the_whole_suite_five_times_on_the_cpu() {
    run(&*devices::cpu(Isa::best(), 2), 5, |_| true);
}

#[test]
#[ignore = "cargo test --release -p breakeven-conformance --test shuffled -- --ignored whole (ten minutes)"]
fn the_whole_suite_five_times_on_a_gpu() {
    run(&*devices::gpu("llvmpipe", Limits::Adapter), 5, |_| true);
}
