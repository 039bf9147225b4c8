//! Memory of loops that go on for long: once they are warm, neither what the process holds nor what its engine counts grows.

mod adapters;
#[path = "../examples/minilm/batch.rs"]
#[expect(dead_code, reason = "the example groups texts too")]
mod batch;
#[path = "../examples/minilm/load.rs"]
mod load;
#[path = "../examples/minilm/model.rs"]
#[expect(dead_code, reason = "the example asks for sizes too")]
mod model;
#[path = "../examples/minilm/seeded.rs"]
#[expect(dead_code, reason = "the example has a larger one")]
mod seeded;

use std::sync::Arc;

use adapters::{GPU, resident_bytes};
use batch::Batch;
use breakeven::{DeviceId, Engine};
use breakeven_device::Backend;
use breakeven_wgpu::{Counters, WgpuBackend, WgpuDevice, WgpuOptions};
use model::Model;
use seeded::Seeded;

/// Steps after which a loop is warm: repeated plans were tried on the other devices by then, and each pool has what it needs.
const WARM: usize = 300;

/// Does `steps` steps. Of what the process held when they were warm it may hold a fiftieth more, and `counted` stays as it was then.
fn check(name: &str, steps: usize, counted: impl Fn() -> Vec<u64>, step: impl FnMut(usize)) {
    let mut step = step;
    (0..WARM).for_each(&mut step);
    let (held, count) = (resident_bytes(), counted());
    (WARM..steps).for_each(&mut step);
    let grown = resident_bytes().saturating_sub(held);
    println!("{name}: {grown} bytes more than {held} after {steps} steps");
    assert_eq!(counted(), count, "{name}: what the engine counts");
    // Whatever a step leaves, thousands of them leave more than this; allocators and threads that wake late take less once.
    assert!(grown <= (held / 50).max(4 << 20), "{name}: {grown} bytes more than {held} after {steps} steps");
}

/// What an engine made: plans, and memory of a device.
fn made(engine: &Engine, device: DeviceId) -> Vec<u64> {
    let pool = engine.devices()[device.0].memory.expect("it is open").pool;
    vec![engine.plans_made(), pool.misses, pool.peak_bytes, pool.live_bytes]
}

fn host() -> Engine {
    Engine::builder().gpus(false).no_cache().build().expect("the CPU opens")
}

fn lavapipe() -> (Engine, Arc<WgpuDevice>) {
    let backend = WgpuBackend::new(WgpuOptions::default());
    let index = backend.list().iter().position(|info| info.name.contains("llvmpipe"));
    let index = index.expect("lavapipe is not among the adapters: install mesa-vulkan-drivers, or set VK_DRIVER_FILES");
    let device = Arc::new(backend.open_device(index).expect("it opens"));
    let engine = Engine::builder().gpus(false).no_cache().device(device.clone()).build().expect("the CPU opens");
    (engine, device)
}

fn sums(n: usize, steps: usize) {
    let engine = host();
    let mut a = engine.from_vec(vec![0.0f32; n], [n]);
    check(
        "a = a + 1",
        steps,
        || made(&engine, DeviceId::HOST),
        |_| {
            a = &a + 1.0;
            engine.run(&[&a]).expect("it runs");
        },
    );
    let last = a.to_vec::<f32>().expect("it is there");
    assert!(last.iter().all(|x| *x == steps as f32), "{}", last[0]);
}

/// Two layers of the encoder's structure, small.
fn encoder(engine: &Engine) -> Model {
    let engine = engine.clone();
    let seeded = Seeded { engine: engine.clone(), vocabulary: 50, positions: 16, width: 64, inner: 96, layers: 2 };
    load::load(&engine, &seeded).expect("its shapes fit")
}

/// A forward of as many tokens, of other ones each time, read back.
fn forward(model: &Model, step: usize, on: DeviceId) -> Vec<f32> {
    let text = |length: usize| (0..length).map(|at| ((step + at * 7) % 50) as i64).collect::<Vec<_>>();
    model.embed(&Batch::new(&[text(9), text(4)])).on(on).to_vec::<f32>().expect("it runs")
}

fn forwards(name: &str, steps: usize, (engine, on): (&Engine, DeviceId), counted: impl Fn() -> Vec<u64>) {
    let model = encoder(engine);
    // What comes again after fifty steps is the same again.
    let first: Vec<Vec<f32>> = (0..50).map(|step| forward(&model, step, on)).collect();
    check(name, steps, counted, |step| assert_eq!(forward(&model, step, on), first[step % 50], "{name}, step {step}"));
}

/// Case P01. One test, since they share a process whose memory is looked at.
#[test]
fn p01_memory_of_long_loops_is_flat() {
    sums(1 << 18, 5000);
    let engine = host();
    forwards("forwards on the CPU", 2000, (&engine, DeviceId::HOST), || made(&engine, DeviceId::HOST));
    let (engine, device) = lavapipe();
    // One takes as long there as ten on the CPU. Of what it holds nothing is taken off for the driver: a thousand take no memory of it.
    forwards("forwards on lavapipe", 1000, (&engine, GPU), || {
        let Counters { pipelines, bind_groups, staging, staging_bytes, .. } = device.counters();
        [made(&engine, GPU), vec![pipelines, bind_groups, staging, staging_bytes]].concat()
    });
}

#[test]
#[ignore = "takes minutes: cargo test --release -p breakeven --test flat -- --ignored"]
fn p01_memory_of_a_loop_over_ten_million_numbers_is_flat() {
    sums(10_000_000, 5000);
}
