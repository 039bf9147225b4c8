//! Groups in any order find the same, and what one leaves to the next is seen.

mod simulated;
mod written;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use breakeven::{Device, DeviceKind, DeviceProfile, DeviceReport, Engine, Tensor};
use breakeven_bench::scan::task::Measure;
use breakeven_bench::scan::{OPERATIONS, Operation, Suite};
use breakeven_device::sim::{SimClock, SimDevice, SimOptions, SimSpeed};
use breakeven_study::folder::{RunWriter, read};
use breakeven_study::{BreakEven, Environment, Mode, Source, Status, StudyDevice, summarize};
use simulated::{Simulated, all_measured, speed, task};
use written::manifest;

/// A device as fast as this at bytes, after so much for each launch.
fn device(kind: DeviceKind, per_launch: Duration, bytes_per_second: f64, clock: &SimClock) -> Arc<dyn Device> {
    let speed = SimSpeed { per_launch, bytes_per_second, ..speed() };
    Arc::new(SimDevice::new(SimOptions { kind, ..SimOptions::new("sim", speed) }, clock))
}

/// What a study of these operations finds, measured in this order on one engine, which each leaves to the next as it is.
fn break_evens(operations: &[&'static Operation]) -> Vec<BreakEven> {
    let clock = Simulated(SimClock::new());
    let host = device(DeviceKind::Cpu, Duration::from_micros(1), 1e9, &clock.0);
    let gpu = device(DeviceKind::DiscreteGpu, Duration::from_micros(8), 1e11, &clock.0);
    let builder = Engine::builder().gpus(false).no_cache();
    let builder = builder.measured_device(host, DeviceProfile::default());
    let engine = builder.measured_device(gpu, DeviceProfile::default()).build().unwrap();
    let devices: Vec<StudyDevice> = engine.devices()[1..].iter().zip(["cpu", "discrete"]).map(listed).collect();
    let names: Vec<String> = devices.iter().map(|device| device.name.clone()).collect();
    let order: Vec<&str> = operations.iter().map(|operation| operation.name).collect();
    let path = std::env::temp_dir().join(format!("breakeven-order-{}-{}", order.concat(), std::process::id()));
    let environment = Environment { devices, ..Environment::default() };
    let mut writer = RunWriter::create(&path, &manifest(environment)).unwrap();
    for operation in operations {
        let sizes = vec![100, 1_000, 5_000];
        let task = Measure { sizes, devices: names.clone(), ..task(Mode::Host, "") };
        let task = Measure { operation: operation.name.to_owned(), ..task };
        for (cell, facts, samples) in all_measured((&engine, &clock), Some(operation), &task) {
            assert_eq!(facts.status, Status::Ok, "{cell}: {:?}", facts.why);
            let id = writer.begin(0, &cell).unwrap();
            writer.samples(id, &samples).unwrap();
            writer.finish(0, id, &cell, facts).unwrap();
        }
    }
    let run = summarize(&read(&path).unwrap(), "order", Source::Simulated, |_| Vec::new());
    std::fs::remove_dir_all(&path).unwrap();
    run.break_even
}

fn listed((report, kind): (&DeviceReport, &str)) -> StudyDevice {
    let info = &report.info;
    StudyDevice {
        name: report.name.clone(),
        device: info.name.clone(),
        backend: info.backend.clone(),
        driver: info.driver.clone(),
        kind: kind.to_owned(),
    }
}

fn named(name: &str) -> &'static Operation {
    OPERATIONS.iter().find(|operation| operation.name == name).unwrap()
}

#[test]
fn b04_groups_in_any_order_find_the_same_break_evens() {
    let [add, gelu, sum, softmax] = ["add", "gelu", "sum", "softmax"].map(named);
    let found = break_evens(&[add, gelu, sum, softmax]);
    assert_eq!(found.len(), 4);
    for one in &found {
        assert!(one.crossings.len() == 1 && one.verdict.starts_with("GPU from "), "{}: {}", one.operation, one.verdict);
    }
    for order in [[softmax, sum, gelu, add], [sum, add, softmax, gelu], [gelu, softmax, add, sum]] {
        assert_eq!(break_evens(&order), found);
    }
}

static IS_LEFT: AtomicBool = AtomicBool::new(false);

static LEAVES: Operation = Operation {
    name: "leaves",
    operands: |n| vec![vec![n]],
    write: leaves,
    sizes: &[1000],
    counts: "elements",
    calls: 1,
    suite: Suite::Seeds,
    chains: false,
};

fn leaves(x: &[Tensor]) -> Tensor {
    IS_LEFT.store(true, Ordering::Relaxed);
    x[0].relu()
}

static SUFFERS: Operation = Operation {
    name: "suffers",
    operands: |n| vec![vec![n]],
    write: |x| {
        if IS_LEFT.load(Ordering::Relaxed) { (0..8).fold(x[0].clone(), |x, _| x.softmax(-1)) } else { x[0].softmax(-1) }
    },
    sizes: &[1000],
    counts: "elements",
    calls: 1,
    suite: Suite::Seeds,
    chains: false,
};

/// The failure of a suite whose groups shared a device's state is seen by the same comparison.
#[test]
fn a_group_that_leaves_something_behind_is_seen() {
    let alone = break_evens(&[&SUFFERS]);
    let after = break_evens(&[&LEAVES, &SUFFERS]);
    assert_ne!(alone.last(), after.last());
}
