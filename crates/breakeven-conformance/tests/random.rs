//! Random graphs of 1 to 30 operations over every element type, on every device, fused and unfused, each kernel held to the
//! reference.
//!
//! A failure prints the seed and the number of operations. `PROPTEST_CASES=100000 cargo test --release -p
//! breakeven-conformance --test random` runs more than the usual number.

mod devices;

use std::cell::Cell;

use breakeven_conformance::{Bench, typed_graph};
use breakeven_cpu::Isa;
use breakeven_device::Device;
use breakeven_wgpu::Limits;
use devices::{cpu, gpu, sim};
use proptest::prelude::{ProptestConfig, Strategy, any};
use proptest::test_runner::TestRunner;

/// As many graphs as proptest is asked for, or `usual` of them.
fn check(device: &dyn Device, usual: u32) {
    let asked = ProptestConfig::default();
    let cases = if asked.cases == 256 { usual } else { asked.cases };
    // Each graph counts; none is kept in a file, since the seed says it all.
    let config = ProptestConfig { cases, failure_persistence: None, ..asked };
    let graphs = (any::<u64>().no_shrink(), 1usize..=30);
    let launches = Cell::new(0);
    let outcome = TestRunner::new(config).run(&graphs, |(seed, count)| {
        let mut bench = Bench::new(device);
        typed_graph(&mut bench, seed, count);
        launches.set(launches.get() + bench.finish().launches);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{}: {failure}", device.info().name));
    println!("{}: {} kernels in {cases} graphs", device.info().name, launches.get());
    assert!(launches.get() >= 4 * u64::from(cases), "graphs were nearly empty");
}

#[test]
fn on_the_cpu() {
    check(&*cpu(Isa::best(), 2), 300);
}

#[test]
fn on_a_scalar_cpu() {
    check(&*cpu(Isa::Scalar, 1), 100);
}

#[test]
fn on_the_simulated_device() {
    check(&*sim(), 50);
}

#[test]
fn on_lavapipe() {
    check(&*gpu("llvmpipe", Limits::Adapter), 24);
}

#[test]
fn on_swiftshader() {
    check(&*gpu("SwiftShader", Limits::WebGpuDefault), 24);
}
