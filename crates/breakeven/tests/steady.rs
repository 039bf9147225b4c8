//! What repeated work asks of a GPU once it is warm: nothing is made, whatever its sizes. Counted on a software adapter.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use breakeven::{Conv, DType, Deadline, Device, DeviceId, DeviceKind, Engine, Tensor};
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

/// What is computed in the size `n`.
type Operation = fn(&Engine, usize) -> Tensor;

fn numbers<const RANK: usize>(engine: &Engine, dims: [usize; RANK]) -> Tensor {
    engine.from_vec(ramp(dims.iter().product()), dims)
}

/// Operations with the most pipelines that five hundred sizes of each may take. Extents are arguments of kernels, so another size is the
/// same pipeline, but for a few constants of the text: whether rows are whole quads, and how many of them an invocation of a norm holds;
/// whether rows are so short that each is one invocation's; which tile a product takes.
const OPERATIONS: [(&str, usize, Operation); 10] = [
    ("relu(x + 1)", 1, |e, n| (numbers(e, [3, n]) + 1.0).relu()),
    ("sum", 5, |e, n| numbers(e, [3, n]).sum(-1)),
    ("argmax", 5, |e, n| numbers(e, [3, n]).argmax(-1).cast(DType::F32)),
    ("softmax", 5, |e, n| numbers(e, [3, n]).softmax(-1)),
    ("layer_norm", 5, |e, n| numbers(e, [3, n]).layer_norm(None, None, 1e-5)),
    ("cumsum", 3, |e, n| numbers(e, [3, n]).cumsum(-1)),
    ("matmul over n", 3, |e, n| numbers(e, [3, n]).matmul(&numbers(e, [n, 5]))),
    ("matmul", 5, |e, n| numbers(e, [1 + n % 89, n]).matmul(&numbers(e, [n, 1 + n % 67]))),
    ("conv2d", 4, |e, n| numbers(e, [1, 3, 3 + n % 13, 2 + n]).conv(&numbers(e, [4, 3, 3, 3]), None, &Conv::default())),
    ("attention", 5, |e, n| {
        let [keys, values] = [4, 6].map(|width| numbers(e, [2, n, width]));
        numbers(e, [2, 1 + n % 29, 4]).attention(&keys, &values, None)
    }),
];

/// Memory of other sizes comes from the same classes.
#[test]
fn five_hundred_shapes_take_few_pipelines_and_find_their_memory() {
    let (engine, device) = engine(None);
    let pool = device.memory().pool;
    let mut over = Vec::new();
    for (name, most, operation) in OPERATIONS {
        let [before, ..] = made(&device);
        for n in (0..500).map(|i| 1 + i * 7 % 1000) {
            let on = |device| operation(&engine, n).on(device).to_vec::<f32>().expect("it runs");
            let (got, want) = (on(GPU), on(DeviceId::HOST));
            let is_near = |(g, w): (&f32, &f32)| (g - w).abs() <= 1e-4 * w.abs().max(1.0);
            assert!(got.len() == want.len() && got.iter().zip(&want).all(is_near), "{name} of {n}");
        }
        let pipelines = (made(&device)[0] - before) as usize;
        println!("{name}: {pipelines} pipelines for 500 shapes");
        over.extend((pipelines > most).then_some((name, pipelines, most)));
    }
    assert!(over.is_empty(), "more pipelines than they may take: {over:?}");
    let now = device.memory().pool;
    let (hits, all) = (now.hits - pool.hits, now.hits + now.misses - pool.hits - pool.misses);
    println!("{:.1}% of {all} buffers were found", 100.0 * hits as f64 / all as f64);
    assert!(hits * 100 >= 93 * all, "{hits} of {all} buffers");
}

/// Two layers and a softmax, on the device.
fn model(engine: &Engine) -> impl Fn(usize) -> Tensor + Sync {
    let (w, b) = (engine.from_vec(ramp(64 * 64), [64, 64]), engine.from_vec(ramp(64), [64]));
    let engine = engine.clone();
    move |i| {
        let x = engine.from_vec(ramp(9 * 64 + i % 5)[i % 5..].to_vec(), [9, 64]);
        x.linear(&w, Some(&b)).gelu().linear(&w, None).softmax(-1).on(GPU)
    }
}

/// A hundred steps after the other until a hundred make nothing, which has to come: pools give buffers out in whatever order they
/// came back in, but there are only so many of them.
fn settles(device: &WgpuDevice, mut hundred: impl FnMut()) {
    let made_by = |act: &mut dyn FnMut()| {
        let before = made(device);
        act();
        let now = made(device);
        [0, 1, 2, 3].map(|at| now[at] - before[at])
    };
    let all: Vec<[u64; 4]> = (0..100).map(|_| made_by(&mut hundred)).take_while(|made| *made != [0; 4]).collect();
    assert!(all.len() < 100, "pipelines, bind groups, staging buffers, new memory: {all:?}");
    println!("warm after {} hundreds of steps: {all:?}", all.len());
}

#[test]
fn a_caller_who_holds_the_last_results_comes_to_a_loop_that_makes_nothing() {
    let (engine, device) = engine(Some(false));
    let (step, mut held) = (model(&engine), VecDeque::new());
    let mut one = |i| {
        let result = step(i);
        engine.run(&[&result]).expect("it runs");
        held.push_back(result);
        held.drain(..held.len().saturating_sub(12));
    };
    settles(&device, || (0..100).for_each(&mut one));
    // From now on as before: nothing else is under way that could change the order.
    let warm = made(&device);
    (0..300).for_each(one);
    assert_eq!(made(&device), warm, "pipelines, bind groups, staging buffers, new memory");
}

#[test]
fn four_threads_on_one_engine_come_to_a_loop_that_makes_nothing() {
    let (engine, device) = engine(Some(false));
    let step = model(&engine);
    let read = |i| step(i).to_vec::<f32>().map(drop).expect("it runs");
    let thread = |first: usize| (first..first + 25).for_each(read);
    settles(&device, || std::thread::scope(|scope| (0..4).for_each(|first| drop(scope.spawn(move || thread(first))))));
}

#[test]
fn streams_come_to_a_loop_that_makes_nothing() {
    let (engine, device) = engine(Some(false));
    let step = model(&engine);
    for depth in [3, 8] {
        let batches = || engine.stream(0..100, |i| Ok(step(i))).depth(depth);
        settles(&device, || batches().for_each(|result| drop(result.expect("it runs"))));
    }
}

/// Each state remembers the one that it was computed from, should its device be lost.
#[test]
fn a_state_of_many_steps_is_dropped_without_a_stack() {
    let (engine, _) = engine(None);
    let mut state = engine.tensor(&[0.0; 4], [4]);
    for _ in 0..5000 {
        state = (&state + 1.0).on(GPU);
        engine.run(&[&state]).expect("it runs");
    }
    let last = (&state + 1.0).to_vec::<f32>();
    drop(state);
    assert_eq!(last.expect("it runs"), [5001.0; 4]);
}
