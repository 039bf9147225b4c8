//! The seam: memory in place, ordering, failures, and callers on several threads.

mod common;

use std::sync::Arc;
use std::time::Duration;

use breakeven_cpu::{CpuBackend, CpuDevice, CpuOptions, Isa, Tuning};
use breakeven_device::{
    Backend, Binding, Buffer, Deadline, Device, DeviceError, HostBytes, Lane, Lent, MemoryKind, Prepared, Segment,
    SegmentStep, Status, Ticket,
};
use breakeven_ir::{DType, Element, Expr, ExprBuilder, Kernel, Launch, Layout, Map, Row};
use common::{buffer, plain_device};

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().expect("four bytes"))).collect()
}

fn row(name: &str, n: usize) -> Kernel {
    Kernel::Map(Map::dense(Expr::row(Row::named(name).expect("a row"), DType::F32), Vec::new(), [n]))
}

fn prepare(device: &CpuDevice, kernel: Kernel, inputs: &[usize], output: usize) -> Arc<dyn Prepared> {
    let launch = Launch { kernel, inputs: inputs.to_vec(), outputs: vec![output], workspace: None };
    device.prepare(&Segment { steps: vec![SegmentStep::Launch(Box::new(launch))] }).expect("it is supported")
}

fn submit(device: &CpuDevice, work: &Arc<dyn Prepared>, buffers: &[Buffer]) -> Result<Ticket, DeviceError> {
    device.submit(work, Binding { buffers: buffers.to_vec(), ..Binding::default() }, Lane::Compute, &[])
}

#[test]
fn host_bytes_are_used_in_place_and_results_are_read_in_place() {
    let device = plain_device();
    let data = HostBytes::from_vec(vec![1.0f32, -2.0, 3.0]);
    let input = device.import(&data).expect("it works in the host's memory");
    let output = device.alloc(12, MemoryKind::Resident).expect("memory");
    let work = prepare(&device, row("relu", 3), &[0], 1);
    let ticket = submit(&device, &work, &[input.clone(), output.clone()]).expect("it runs");
    assert_eq!(device.poll(ticket), Status::Done);
    let timing = device.wait(ticket, Deadline::after(Duration::ZERO)).expect("it is done");
    assert!(timing.kernel.is_some_and(|t| t > Duration::ZERO));
    assert_eq!(timing.dispatch, None, "the call does the work");
    let result = device.export(&output).expect("in place");
    assert_eq!(floats(&result), [1.0, 0.0, 3.0]);
    // Neither the host's bytes nor exported ones may change any more.
    let back = prepare(&device, row("neg", 3), &[1], 0);
    assert!(submit(&device, &back, &[input, output.clone()]).is_err());
    assert!(submit(&device, &work, &[output.clone(), output]).is_err());
}

#[test]
fn lent_memory_is_written_wherever_it_starts() {
    let data: Vec<f32> = (0..3000).map(|i| i as f32 - 1500.0).collect();
    let (given, n) = (bytes(&data), data.len());
    let want: Vec<f32> = data.iter().map(|x| -x.max(0.0)).collect();
    for device in common::devices() {
        let mut expr = ExprBuilder::default();
        let x = expr.arg(DType::F32);
        let relu = expr.row(Row::named("relu").expect("a row"), DType::F32, &[x]);
        let all = expr.row(Row::named("neg").expect("a row"), DType::F32, &[relu]);
        let work = prepare(&device, Kernel::Map(Map::dense(expr.finish(all), Vec::new(), [n])), &[0], 1);
        for start in 0..20 {
            let mut room = vec![7f32; n + 40];
            let out = f32::bytes_mut(&mut room[start..start + n]).expect("plain numbers");
            let done = device.run_lent(&work, &mut [Lent::Read(&given), Lent::Write(out)]);
            done.expect("it works in the host's memory").expect("it runs");
            assert_eq!(room[start..start + n], want, "{:?} from {start}", device.isa());
            assert!(room[..start].iter().chain(&room[start + n..]).all(|x| *x == 7.0));
        }
    }
}

#[test]
fn misaligned_host_bytes_still_work() {
    let device = plain_device();
    let mut raw = vec![0u8; 4];
    raw.extend([7i64, -9].map(i64::to_le_bytes).concat());
    let words: Vec<u32> = raw.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().expect("four"))).collect();
    let data = HostBytes::from_vec(words).slice(4..20);
    let input = device.import(&data).expect("aligned to 4");
    let output = device.alloc(16, MemoryKind::Resident).expect("memory");
    let kernel = Kernel::Map(Map::dense(Expr::row(Row::named("abs").expect("a row"), DType::I64), Vec::new(), [2]));
    submit(&device, &prepare(&device, kernel, &[0], 1), &[input, output.clone()]).expect("it runs");
    assert_eq!(device.export(&output).expect("in place")[..], [7i64.to_le_bytes(), 9i64.to_le_bytes()].concat());
}

#[test]
fn a_map_may_write_where_it_reads_and_nothing_else_may() {
    let device = plain_device();
    let x = buffer(&*device, &bytes(&[1.0, 2.0, -3.0]));
    let in_place = prepare(&device, row("neg", 3), &[0], 0);
    submit(&device, &in_place, std::slice::from_ref(&x)).expect("layouts are equal");
    assert_eq!(floats(&device.export(&x).expect("in place")), [-1.0, -2.0, 3.0]);
    let y = buffer(&*device, &bytes(&[1.0, 2.0, -3.0]));
    let Kernel::Map(mut flipped) = row("neg", 3) else { unreachable!("a map") };
    flipped.inputs[0].layout = Layout::dense([3]).slice(0, 2, 3, -1);
    let work = prepare(&device, Kernel::Map(flipped), &[0], 1);
    assert!(submit(&device, &work, &[y.clone(), y]).is_err());
}

#[test]
fn an_upload_or_a_copy_of_nothing_writes_nothing() {
    let device = plain_device();
    let exported = buffer(&*device, &bytes(&[1.0, 2.0]));
    let seen = device.export(&exported).expect("in place");
    let upload = SegmentStep::Upload { upload: 0, slot: 0 };
    let bring = |step: SegmentStep, given: &[u8]| {
        let work = device.prepare(&Segment { steps: vec![step] }).expect("it is supported");
        let uploads = vec![HostBytes::from_vec(given.to_vec())];
        let buffers = vec![exported.clone(), buffer(&*device, &bytes(&[3.0, 4.0]))];
        device.submit(&work, Binding { buffers, uploads, ..Binding::default() }, Lane::Compute, &[])
    };
    assert!(bring(upload.clone(), &[]).is_ok());
    assert!(bring(SegmentStep::Copy { from: 1, to: 0, bytes: 0 }, &[]).is_ok());
    assert!(bring(upload, &[0; 4]).is_err(), "exported memory is not written");
    assert!(bring(SegmentStep::Copy { from: 1, to: 0, bytes: 4 }, &[]).is_err());
    assert_eq!(floats(&seen), [1.0, 2.0]);
}

#[test]
fn wrong_bindings_are_errors() {
    let device = plain_device();
    let small = buffer(&*device, &bytes(&[1.0]));
    let work = prepare(&device, row("neg", 1000), &[0], 1);
    assert!(matches!(submit(&device, &work, &[small.clone(), small.clone()]), Err(DeviceError::Driver(_))));
    assert!(matches!(submit(&device, &work, std::slice::from_ref(&small)), Err(DeviceError::Driver(_))));
    let foreign = Buffer::new(0u8, 4000);
    assert!(matches!(submit(&device, &work, &[foreign.clone(), foreign]), Err(DeviceError::Driver(_))));
    let never = Ticket(99);
    assert!(matches!(device.poll(never), Status::Failed(_)));
    let binding = Binding { buffers: vec![small.clone(), small], ..Binding::default() };
    assert!(device.submit(&work, binding, Lane::Compute, &[never]).is_err());
    assert!(matches!(device.alloc(u64::MAX, MemoryKind::Resident), Err(DeviceError::OutOfMemory { .. })));
    assert!(matches!(device.alloc(1 << 60, MemoryKind::Resident), Err(DeviceError::OutOfMemory { .. })));
}

#[test]
fn no_more_is_given_than_may_be_held() {
    let device = CpuDevice::new(CpuOptions { memory_bytes: Some(1 << 20), ..CpuOptions::default() }).expect("a CPU");
    assert_eq!(device.memory().budget, Some(1 << 20));
    let alloc = |bytes| device.alloc(bytes, MemoryKind::Resident);
    let half = alloc(1 << 19).expect("half of it is there");
    assert!(matches!(alloc(1 << 20), Err(DeviceError::OutOfMemory { wanted, left: Some(left) }) if wanted > left));
    drop(half);
    alloc(1 << 20).expect("what waits in the pool makes room");
}

breakeven_ir::row! {
    /// `a * 2^b`, which no row of the table computes.
    static SCALED = scaled: Float(a: V, b: V) -> V [breakeven_ir::Tolerance::EXACT] = a.ldexp(b);
}

#[test]
fn what_is_not_supported_says_why() {
    let device = plain_device();
    let foreign = Kernel::Map(Map::dense(Expr::row(SCALED, DType::F32), Vec::new(), [3]));
    let why = device.supports(&foreign).expect_err("the CPU has no loop for it").to_string();
    assert!(why.contains("Ldexp"), "{why}");
    assert!(device.supports(&row("gelu", 3)).is_ok());
}

#[test]
fn memory_is_pooled_poisoned_and_trimmed() {
    let device = plain_device();
    drop(device.alloc(1000, MemoryKind::Resident).expect("memory"));
    assert!(device.memory().pool.pooled_bytes >= 1000);
    let again = device.alloc(1000, MemoryKind::Resident).expect("memory");
    assert_eq!(device.memory().pool.hits, 1);
    assert!(floats(&device.export(&again).expect("in place")).iter().all(|x| x.is_nan()));
    drop(again);
    device.trim(Duration::ZERO);
    assert_eq!((device.memory().pool.pooled_bytes, device.memory().pool.live_bytes), (0, 0));
}

#[test]
fn memory_that_nobody_asks_for_goes_by_itself() {
    let tuning = Tuning { pool_age: Duration::from_millis(50), ..Tuning::default() };
    let device = CpuDevice::new(CpuOptions { tuning, ..CpuOptions::default() }).expect("there is a CPU");
    let take = |bytes| drop(device.alloc(bytes, MemoryKind::Resident).expect("memory"));
    take(1 << 20);
    std::thread::sleep(Duration::from_millis(100));
    // It is looked for when other memory comes back.
    take(64);
    let waiting: Vec<_> = device.pool_classes().iter().map(|class| (class.bytes, class.waiting)).collect();
    assert_eq!(waiting, [(64, 1), (1 << 20, 0)]);
    assert_eq!(device.memory().pool.pooled_bytes, 64);
}

#[test]
fn several_threads_share_one_device() {
    let device = plain_device();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let device = &device;
            scope.spawn(move || {
                let data: Vec<f32> = (0..5000).map(|i| (i + seed) as f32).collect();
                let work = prepare(device, row("neg", 5000), &[0], 1);
                for _ in 0..50 {
                    let input = buffer(&**device, &bytes(&data));
                    let output = device.alloc(20_000, MemoryKind::Resident).expect("memory");
                    submit(device, &work, &[input, output.clone()]).expect("it runs");
                    let got = floats(&device.export(&output).expect("in place"));
                    assert!(got.iter().zip(&data).all(|(g, x)| *g == -x));
                }
            });
        }
    });
}

#[test]
fn the_backend_opens_its_one_device() {
    let backend = CpuBackend::default();
    assert_eq!(backend.list().len(), 1);
    let device = backend.open(0).expect("always there");
    assert_eq!(device.info(), &backend.list()[0]);
    assert!(backend.open(1).is_err());
    let tuning = Tuning { spins: 1, ..Tuning::default() };
    let one = CpuDevice::new(CpuOptions { threads: Some(1), isa: Some(Isa::Scalar), tuning, ..CpuOptions::default() });
    let one = one.expect("scalar code runs everywhere");
    assert_eq!((one.threads(), one.isa()), (1, Isa::Scalar));
}

#[test]
fn what_a_device_measures_of_itself_it_works_by_and_another_may_adopt() {
    let device = plain_device();
    let tuned = device.tune(8 << 20).expect("it is measured");
    assert!(tuned.values().all(|x| x.is_finite() && *x > 0.0), "{tuned:?}");
    let times = ["part_ns", "wake_ns", "copy_ns", "code_ns", "stream_bytes"];
    let known = times.into_iter().chain(["pack_rows", "pack_rows_of_few_sets", "pack_panels"]);
    assert!(tuned.keys().all(|name| known.clone().any(|known| known == name)), "{tuned:?}");
    assert!(tuned.contains_key("pack_rows") && tuned.contains_key("pack_panels"), "{tuned:?}");
    plain_device().adopt(&tuned);
    let one = CpuDevice::new(CpuOptions { threads: Some(1), ..CpuOptions::default() }).expect("a CPU");
    assert!(!one.tune(0).expect("nothing is measured").contains_key("part_ns"), "nobody is there to hand parts to");
}
