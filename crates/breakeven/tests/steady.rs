//! What repeated work asks of a GPU once it is warm: nothing is made, whatever its sizes. Counted on a software adapter.

use std::sync::Arc;
use std::time::Duration;

use breakeven::{Deadline, Device, DeviceId, DeviceKind, Engine, Tensor};
use breakeven_device::Backend;
use breakeven_wgpu::{Counters, WgpuBackend, WgpuDevice, WgpuOptions};

const GPU: DeviceId = DeviceId(1);

/// With a device that is written and read in place, or not, or as its driver says.
fn engine(in_place: Option<bool>) -> (Engine, Arc<WgpuDevice>) {
    let backend = WgpuBackend::new(WgpuOptions { in_place, ..WgpuOptions::default() });
    let all = backend.list();
    let is_usable = |i: &usize| all[*i].kind == DeviceKind::Software && all[*i].unusable.is_none();
    let index = (0..all.len()).find(is_usable).unwrap_or_else(|| panic!("there is no software adapter: {all:?}"));
    let device = Arc::new(backend.open_device(index).expect("it opens"));
    let engine = Engine::builder().gpus(false).no_cache().device(device.clone()).build().expect("the CPU opens");
    engine.ready(Deadline::after(Duration::from_mins(5))).expect("it is measured");
    (engine, device)
}

/// What must not grow while work repeats: pipelines, bind groups, staging buffers, new memory.
fn made(device: &WgpuDevice) -> [u64; 4] {
    let Counters { pipelines, bind_groups, staging, .. } = device.counters();
    [pipelines, bind_groups, staging, device.memory().pool.misses]
}

/// What grows instead: dispatches, bind groups that were found for them, copies, those of them that pass through staging buffers, and staging
/// buffers that were found for these.
fn found(device: &WgpuDevice) -> [u64; 5] {
    let Counters { dispatches, bind_group_hits, uploads, reads, in_place, staging_hits, .. } = device.counters();
    [dispatches, bind_group_hits, uploads + reads, uploads + reads - in_place, staging_hits]
}

fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i % 11) as f32 * 0.25 - 1.0).collect()
}

/// A model that the device keeps, on a batch from the host's memory, read into the caller's.
#[test]
fn a_warm_loop_makes_nothing_on_the_device() {
    warm_loop(None);
}

/// As on a card.
#[test]
fn a_warm_loop_that_copies_everything_makes_nothing_either() {
    let [copies, staged] = warm_loop(Some(false));
    assert_eq!(copies, staged);
}

/// How many copies there were, and how many of them passed through staging buffers.
fn warm_loop(in_place: Option<bool>) -> [u64; 2] {
    let (engine, device) = engine(in_place);
    let (w, b) = (engine.from_vec(ramp(64 * 64), [64, 64]), engine.from_vec(ramp(64), [64]));
    let layer = |x: &Tensor| x.linear(&w, Some(&b)).gelu().linear(&w, None).softmax(-1);
    let step = |i: usize, on: DeviceId| {
        let x = engine.from_vec(ramp(9 * 64 + i)[i..].to_vec(), [9, 64]);
        layer(&x).on(on).to_vec::<f32>().expect("it runs")
    };
    (0..30).for_each(|i| drop(step(i % 5, GPU)));
    let (warm, before) = (made(&device), found(&device));
    for i in 0..100 {
        let (got, want) = (step(i % 5, GPU), step(i % 5, DeviceId::HOST));
        assert!(got.iter().zip(&want).all(|(g, w)| (g - w).abs() <= 1e-5), "step {i}");
    }
    assert_eq!(made(&device), warm, "pipelines, bind groups, staging buffers, new memory");
    let [dispatches, groups, copies, staged, staging] = [0, 1, 2, 3, 4].map(|at| found(&device)[at] - before[at]);
    assert!(dispatches > 100 && copies >= 200, "{dispatches} dispatches, {copies} copies");
    assert_eq!((groups, staging), (dispatches, staged), "all of them were found");
    let Counters { staging_bytes, .. } = device.counters();
    let classes = device.staging_classes();
    let bytes = classes.iter().flatten().map(|class| class.bytes * (class.live + class.waiting)).sum::<u64>();
    assert!(bytes == staging_bytes && staging_bytes > 0, "{bytes} and {staging_bytes} of {classes:?}");
    [copies, staged]
}

/// What is computed of two tensors.
type Operation = fn(&Tensor, &Tensor) -> Tensor;

/// Extents are arguments of kernels: another size is the same pipeline, but for how many invocations share a row, by powers of two, or a product. Memory of other sizes
/// comes from the same classes.
#[test]
fn five_hundred_shapes_take_a_dozen_pipelines_at_most_and_find_their_memory() {
    let (engine, device) = engine(None);
    let operations: [(&str, Operation); 4] = [
        ("relu(x + 1)", |x, _| (x + 1.0).relu()),
        ("softmax", |x, _| x.softmax(-1)),
        ("sum", |x, _| x.sum(-1)),
        ("matmul", |x, y| x.matmul(y)),
    ];
    let pool = device.memory().pool;
    for (name, operation) in operations {
        let [before, ..] = made(&device);
        for n in (0..500).map(|i| 1 + i * 7 % 1000) {
            let (x, y) = (engine.from_vec(ramp(3 * n), [3, n]), engine.from_vec(ramp(5 * n), [n, 5]));
            let on = |device| operation(&x, &y).on(device).to_vec::<f32>().expect("it runs");
            let (got, want) = (on(GPU), on(DeviceId::HOST));
            let is_near = |(g, w): (&f32, &f32)| (g - w).abs() <= 1e-4 * w.abs().max(1.0);
            assert!(got.len() == want.len() && got.iter().zip(&want).all(is_near), "{name} of {n}");
        }
        let pipelines = made(&device)[0] - before;
        println!("{name}: {pipelines} pipelines for 500 shapes");
        assert!(pipelines <= 12, "{name}: {pipelines} pipelines");
    }
    let now = device.memory().pool;
    let (hits, all) = (now.hits - pool.hits, now.hits + now.misses - pool.hits - pool.misses);
    println!("{:.1}% of {all} buffers were found", 100.0 * hits as f64 / all as f64);
    assert!(hits * 100 >= 93 * all, "{hits} of {all} buffers");
}
