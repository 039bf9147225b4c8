//! Many small calls and the same as one graph: two rows, each of which is what its name says.

mod simulated;

use breakeven_bench::scan::task::Measure;
use breakeven_study::stats::Kept;
use breakeven_study::{Copied, Mode, Status};
use simulated::{all_measured, engine, task};

/// The time of a call, what it copies, and its checksum, by the simulated clock.
fn call(operation: &str) -> (f64, Copied, String, Option<u64>) {
    let (engine, clock) = engine();
    let device = engine.devices()[1].name.clone();
    let task = Measure { operation: operation.to_owned(), sizes: vec![5_120], ..task(Mode::Host, &device) };
    let (_, facts, samples) = all_measured((&engine, &clock), None, &task).pop().expect("the cell is done");
    assert_eq!(facts.status, Status::Ok, "{:?}", facts.why);
    let kernel_ns = samples.iter().find_map(|sample| sample.kernel_ns);
    let copied = facts.copied.expect("it is known");
    (Kept::of(&samples).wall_ns()[0], copied, facts.checksum.expect("it was compared"), kernel_ns)
}

#[test]
fn twenty_calls_take_twenty_times_one_and_one_graph_takes_less() {
    let [(many_ns, copied, sum, kernels), (_, _, graph_sum, _), (one_ns, one_copied, one_sum, kernel)] =
        ["many_small_calls", "many_small_adds", "single_large_add"].map(call);
    // A call of this device takes 5.01 ms however small it is.
    assert!((19.0..21.0).contains(&(many_ns / one_ns)), "{many_ns} {one_ns}");
    assert_eq!((copied, sum.as_str(), graph_sum), (one_copied, one_sum.as_str(), one_sum.clone()));
    assert!(kernels > kernel.map(|kernel| 15 * kernel), "the parts are those of all calls: {kernels:?} {kernel:?}");
}

#[test]
fn calls_in_a_row_are_from_the_host_to_the_host_alone() {
    let (engine, clock) = engine();
    let device = engine.devices()[1].name.clone();
    let modes = vec![Mode::Host, Mode::Upload, Mode::Resident, Mode::Copy, Mode::Kernel, Mode::Cold];
    let operation = "many_small_calls".to_owned();
    let task = Measure { operation, modes, sizes: vec![5_120], ..task(Mode::Host, &device) };
    let found = all_measured((&engine, &clock), None, &task);
    assert_eq!(found.iter().map(|(cell, ..)| cell.mode).collect::<Vec<_>>(), [Mode::Host]);
}
