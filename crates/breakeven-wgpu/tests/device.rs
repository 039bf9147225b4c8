//! The device around the kernels: submits, waits, memory, failures.

mod common;

use std::time::{Duration, Instant};

use breakeven_device::{
    Backend, Binding, Buffer, Deadline, Device, DeviceError, HostBytes, Lane, MemoryKind, Prepared, ReadCell, Segment,
    SegmentStep, Status,
};
use breakeven_ir::{DType, Expr, Kernel, Launch, Layout, Map, Operand, Row, Shape};
use breakeven_wgpu::{Graphics, Limits, WgpuBackend, WgpuDevice, WgpuOptions, self_test};
use common::{Random, alloc, devices, kernels, options, swiftshader};

fn row(name: &str) -> Expr {
    Expr::row(Row::named(name).unwrap(), DType::F32)
}

fn map(name: &str, n: usize, inputs: &[usize], output: usize) -> SegmentStep {
    let kernel = Kernel::Map(Map::dense(row(name), vec![], n));
    SegmentStep::Launch(Box::new(Launch { kernel, inputs: inputs.to_vec(), outputs: vec![output], workspace: None }))
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_mins(5))
}

#[test]
fn every_adapter_passes_its_self_test() {
    for device in devices() {
        for verdict in self_test(&device) {
            assert_eq!(verdict.failure, None, "{device:?}: {}", verdict.name);
        }
    }
}

#[test]
fn twenty_launches_are_one_pass_and_one_submit() {
    for device in devices() {
        let n = 256;
        let mut steps = vec![SegmentStep::Upload { upload: 0, slot: 0 }];
        steps.extend((0..20).map(|i| map("neg", n, &[i % 2], 1 - i % 2)));
        steps.push(SegmentStep::Download { slot: 0, bytes: 4 * n as u64, read: 0 });
        let work = device.prepare(&Segment { steps }).unwrap();
        let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let buffers = vec![alloc(&device, 1024), alloc(&device, 1024)];
        for again in 0..2 {
            let before = device.counters();
            let read = ReadCell::new();
            let uploads = vec![HostBytes::from_vec(values.clone())];
            let timed = again == 1;
            let binding =
                Binding { buffers: buffers.clone(), uploads, reads: vec![read.clone()], timed, recorder: None };
            let ticket = device.submit(&work, binding, Lane::Compute, &[]).unwrap();
            let timing = device.wait(ticket, soon()).unwrap();
            assert_eq!(read.take().unwrap().elements::<f32>(), values);
            let after = device.counters();
            assert_eq!((after.submits - before.submits, after.passes - before.passes), (1, 1));
            assert_eq!(after.dispatches - before.dispatches, 20);
            assert_eq!((after.uploads - before.uploads, after.reads - before.reads), (1, 1));
            assert_eq!(after.bind_groups - before.bind_groups, if again == 0 { 20 } else { 0 });
            assert!(timing.kernel.is_none_or(|t| timed && t < Duration::from_secs(5)), "{timing:?}");
            let lavapipe = device.info().name.contains("llvmpipe");
            assert!(timing.kernel.is_some() || !timed || !lavapipe, "lavapipe measures kernels that are timed");
            assert_eq!(after.bind_groups_kept, 20);
        }
        drop(work);
        assert_eq!(device.counters().bind_groups_kept, 0, "they go with what they were made for");
    }
}

/// Where it comes first, and where something has to be done before.
#[test]
fn an_upload_of_nothing_is_no_copy() {
    for device in devices() {
        let upload = |slot| SegmentStep::Upload { upload: slot, slot };
        let download = SegmentStep::Download { slot: 1, bytes: 4, read: 0 };
        let steps = vec![upload(0), upload(1), SegmentStep::Copy { from: 1, to: 0, bytes: 4 }, upload(0), download];
        let work = device.prepare(&Segment { steps }).unwrap();
        let read = ReadCell::new();
        let uploads = vec![HostBytes::from_vec(Vec::<f32>::new()), HostBytes::from_vec(vec![7f32])];
        let buffers = vec![alloc(&device, 16), alloc(&device, 16)];
        let before = device.counters();
        let binding = Binding { buffers, uploads, reads: vec![read.clone()], ..Binding::default() };
        let ticket = device.submit(&work, binding, Lane::Compute, &[]).unwrap();
        device.wait(ticket, soon()).unwrap();
        assert_eq!(read.take().unwrap().elements::<f32>(), [7.0]);
        let after = device.counters();
        assert_eq!(after.uploads - before.uploads, 1);
        let (staging, in_place) = (after.staging - before.staging, after.in_place - before.in_place);
        assert_eq!(staging + in_place, 2, "one for the number that came, unless in place, and one for that it went");
    }
}

#[test]
fn a_lone_read_completes_by_polling_alone() {
    for device in devices() {
        let work = device.prepare(&Segment {
            steps: vec![
                SegmentStep::Upload { upload: 0, slot: 0 },
                map("relu", 3, &[0], 0),
                SegmentStep::Download { slot: 0, bytes: 12, read: 0 },
            ],
        });
        let read = ReadCell::new();
        let uploads = vec![HostBytes::from_vec(vec![1.0f32, -2.0, 3.0])];
        let binding =
            Binding { buffers: vec![alloc(&device, 12)], uploads, reads: vec![read.clone()], ..Binding::default() };
        let ticket = device.submit(&work.unwrap(), binding, Lane::Compute, &[]).unwrap();
        let deadline = soon();
        while device.poll(ticket) == Status::Pending {
            assert!(!deadline.has_passed());
            std::thread::yield_now();
        }
        assert_eq!(read.take().unwrap().elements::<f32>(), [1.0, 0.0, 3.0]);
    }
}

#[test]
fn a_buffer_may_be_input_twice_and_output() {
    for device in devices() {
        let n = 1001;
        let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let double: Vec<f32> = values.iter().map(|x| x + x).collect();
        for (slots, buffers) in [(&[0, 0][..], 1), (&[0, 1], 2)] {
            let steps = vec![
                SegmentStep::Upload { upload: 0, slot: 0 },
                map("add", n, slots, slots[1]),
                SegmentStep::Download { slot: slots[1], bytes: 4 * n as u64, read: 0 },
            ];
            let work = device.prepare(&Segment { steps }).unwrap();
            let one = alloc(&device, 4 * n as u64);
            let read = ReadCell::new();
            let uploads = vec![HostBytes::from_vec(values.clone())];
            let binding =
                Binding { buffers: vec![one; buffers], uploads, reads: vec![read.clone()], ..Binding::default() };
            let ticket = device.submit(&work, binding, Lane::Compute, &[]).unwrap();
            device.wait(ticket, soon()).unwrap();
            assert_eq!(read.take().unwrap().elements::<f32>(), double);
        }
    }
}

#[test]
fn a_slice_deep_inside_a_buffer_is_bound_alone() {
    for device in devices() {
        let mut random = Random::new(3);
        let layout = Layout::dense([4000]).slice(0, 3001, 500, 1);
        let kernel = Kernel::Map(Map {
            expr: row("exp"),
            params: vec![],
            inputs: vec![Operand::new(DType::F32, layout)],
            out: Operand::new(DType::F32, Layout::dense([2000]).slice(0, 1024, 500, 1)),
        });
        common::check(&device, &kernel, &mut random, 1e-6);
    }
}

/// A product that takes `SwiftShader` seconds.
fn long_work(device: &WgpuDevice) -> (std::sync::Arc<dyn Prepared>, Vec<Buffer>) {
    let n = 512;
    let kernel = kernels::matmul(&mut Random::new(1), &Shape::from(4), [n, n, n], false);
    let launch = Launch { kernel, inputs: vec![0, 0, 0], outputs: vec![1], workspace: None };
    let work = device.prepare(&Segment { steps: vec![SegmentStep::Launch(Box::new(launch))] }).unwrap();
    (work, (0..2).map(|_| alloc(device, (16 * n * n) as u64)).collect())
}

/// The threads of `SwiftShader` crash a process that ends while they work. Work that nobody can wait for any more is given time
/// to end by as much work again, begun later on another device.
fn let_swiftshader_finish() {
    let device = swiftshader(WgpuOptions::default());
    let (work, buffers) = long_work(&device);
    let ticket = device.submit(&work, Binding { buffers, ..Binding::default() }, Lane::Compute, &[]).unwrap();
    device.wait(ticket, Deadline::after(Duration::from_mins(9))).unwrap();
}

#[test]
fn a_deadline_is_kept_and_what_is_unfinished_stays_reserved() {
    let device = swiftshader(WgpuOptions::default());
    let (work, buffers) = long_work(&device);
    let ticket = device.submit(&work, Binding { buffers, ..Binding::default() }, Lane::Compute, &[]).unwrap();
    let live = device.memory().pool.live_bytes;
    let start = Instant::now();
    let error = device.wait(ticket, Deadline::after(Duration::from_millis(200))).unwrap_err();
    let waited = start.elapsed();
    assert!(matches!(error, DeviceError::Timeout { pending: 1, .. }), "{error}");
    assert!(waited >= Duration::from_millis(200) && waited < Duration::from_millis(300), "{waited:?}");
    assert_eq!((device.memory().pending, device.memory().pool.live_bytes), (1, live));
    device.wait(ticket, Deadline::after(Duration::from_mins(10))).unwrap();
    assert_eq!((device.memory().pending, device.memory().pool.live_bytes), (0, 0));
}

#[test]
fn dropping_a_busy_device_does_not_wait_for_it() {
    let close = Duration::from_millis(50);
    let device = swiftshader(WgpuOptions { close, ..WgpuOptions::default() });
    let (work, buffers) = long_work(&device);
    device.submit(&work, Binding { buffers, ..Binding::default() }, Lane::Compute, &[]).unwrap();
    let start = Instant::now();
    drop((device, work));
    assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
    let_swiftshader_finish();
}

#[test]
fn too_much_memory_is_a_typed_error_and_the_device_lives_on() {
    for device in devices() {
        let error = device.alloc(1 << 40, MemoryKind::Resident).unwrap_err();
        assert!(matches!(error, DeviceError::OutOfMemory { wanted, .. } if wanted == 1 << 40), "{error}");
        assert!(device.alloc(1024, MemoryKind::Resident).is_ok());
    }
}

#[test]
fn memory_comes_back_and_is_used_again() {
    let device = devices().remove(0);
    drop(alloc(&device, 1 << 20));
    drop(alloc(&device, 1 << 20));
    let pool = device.memory().pool;
    assert_eq!((pool.hits, pool.misses, pool.live_bytes), (1, 1, 0));
    device.trim(Duration::ZERO);
    assert_eq!(device.memory().pool.pooled_bytes, 0);
}

#[test]
fn memory_that_nobody_asks_for_goes_by_itself() {
    let device = swiftshader(WgpuOptions { pool_age: Duration::from_millis(50), ..options(Limits::Adapter) });
    drop(alloc(&device, 1 << 20));
    let waits = |device: &WgpuDevice| device.pool_classes().iter().map(|class| class.waiting).collect::<Vec<_>>();
    assert_eq!(waits(&device), [1]);
    let end = Instant::now() + Duration::from_secs(10);
    // It is looked for when other memory comes back.
    while waits(&device)[1..] != [0] && Instant::now() < end {
        drop(alloc(&device, 64));
        std::thread::sleep(Duration::from_millis(5));
    }
    let classes = device.pool_classes();
    assert_eq!(classes.iter().map(|class| (class.bytes, class.waiting)).collect::<Vec<_>>(), [(64, 1), (1 << 20, 0)]);
    assert_eq!(device.memory().pool.pooled_bytes, 64);
}

#[test]
fn a_loop_of_uploads_stays_within_its_bounds() {
    let bound =
        WgpuOptions { in_flight_bytes: 4 << 20, poison: false, in_place: Some(false), ..options(Limits::Adapter) };
    let backend = WgpuBackend::new(bound);
    let device = backend.open_device(backend.software_adapters()[0]).unwrap();
    let work = device.prepare(&Segment { steps: vec![SegmentStep::Upload { upload: 0, slot: 0 }] }).unwrap();
    let buffer = alloc(&device, 1 << 20);
    let bytes = HostBytes::from_vec(vec![7u8; 1 << 20]);
    let mut last = None;
    for _ in 0..100 {
        let binding = Binding {
            buffers: vec![buffer.clone()],
            uploads: vec![bytes.clone()],
            reads: vec![],
            ..Binding::default()
        };
        let ticket = match device.submit(&work, binding.clone(), Lane::CopyIn, &[]) {
            Err(DeviceError::Busy) => {
                device.wait(last.expect("something is in flight"), soon()).unwrap();
                device.submit(&work, binding, Lane::CopyIn, &[]).unwrap()
            }
            other => other.unwrap(),
        };
        assert!(device.memory().pending <= 4);
        last = Some(ticket);
    }
    device.wait(last.unwrap(), soon()).unwrap();
}

#[test]
fn two_reads_in_flight_do_not_share_memory() {
    let device = devices().remove(0);
    let steps = vec![SegmentStep::Upload { upload: 0, slot: 0 }, SegmentStep::Download { slot: 0, bytes: 4, read: 0 }];
    let work = device.prepare(&Segment { steps }).unwrap();
    let buffer = alloc(&device, 4);
    let submit = |value: f32| {
        let read = ReadCell::new();
        let uploads = vec![HostBytes::from_vec(vec![value])];
        let binding =
            Binding { buffers: vec![buffer.clone()], uploads, reads: vec![read.clone()], ..Binding::default() };
        (device.submit(&work, binding, Lane::CopyOut, &[]).unwrap(), read)
    };
    let all: Vec<_> = (0..8).map(|i| submit(i as f32)).collect();
    device.wait(all[7].0, soon()).unwrap();
    for (i, (ticket, read)) in all.iter().enumerate() {
        assert_eq!(device.poll(*ticket), Status::Done);
        assert_eq!(read.take().unwrap().elements::<f32>(), [i as f32]);
    }
}

#[test]
fn work_of_size_zero_binds_nothing() {
    for device in devices() {
        let before = device.counters();
        let steps = vec![map("neg", 0, &[0], 1), SegmentStep::Download { slot: 1, bytes: 0, read: 0 }];
        let work = device.prepare(&Segment { steps }).unwrap();
        let read = ReadCell::new();
        let binding = Binding {
            buffers: vec![alloc(&device, 0), alloc(&device, 0)],
            uploads: vec![],
            reads: vec![read.clone()],
            ..Binding::default()
        };
        device.wait(device.submit(&work, binding, Lane::Compute, &[]).unwrap(), soon()).unwrap();
        assert_eq!(read.take().unwrap().len(), 0);
        assert_eq!(device.counters().dispatches, before.dispatches);
    }
}

#[test]
fn what_is_refused_says_why() {
    let device = devices().remove(0);
    let refused = |dtype: DType, name: &str| {
        let expr = Expr::row(Row::named(name).unwrap(), dtype);
        device.supports(&Kernel::Map(Map::dense(expr, vec![], 4))).unwrap_err().to_string()
    };
    let because = "unsupported here, because WGSL has no 64-bit floats, so there is no";
    assert_eq!(refused(DType::F64, "add"), format!("{because} Add of f64"));
    assert_eq!(refused(DType::F64, "less"), format!("{because} Lt of f64"));
}

#[test]
fn a_lost_device_fails_its_work_and_never_hangs() {
    for device in devices() {
        let work = device.prepare(&Segment { steps: vec![map("neg", 4, &[0], 1)] }).unwrap();
        let buffers = vec![alloc(&device, 16), alloc(&device, 16)];
        let binding = Binding { buffers, ..Binding::default() };
        let ticket = device.submit(&work, binding.clone(), Lane::Compute, &[]).unwrap();
        device.destroy();
        assert!(matches!(device.wait(ticket, soon()), Err(DeviceError::Lost { .. })));
        assert!(matches!(device.poll(ticket), Status::Failed(DeviceError::Lost { .. })));
        assert!(matches!(device.submit(&work, binding, Lane::Compute, &[]), Err(DeviceError::Lost { .. })));
        assert!(matches!(device.alloc(16, MemoryKind::Resident), Err(DeviceError::Lost { .. })));
        assert_eq!(device.memory().pending, 0);
    }
    let_swiftshader_finish();
}

#[test]
fn threads_share_a_device() {
    for device in devices() {
        let n = 1000;
        let steps = vec![
            SegmentStep::Upload { upload: 0, slot: 0 },
            map("neg", n, &[0], 1),
            SegmentStep::Download { slot: 1, bytes: 4 * n as u64, read: 0 },
        ];
        let work = device.prepare(&Segment { steps }).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (device, work) = (&device, &work);
                scope.spawn(move || {
                    for i in 0..20 {
                        let value = (thread * 100 + i) as f32;
                        let read = ReadCell::new();
                        let buffers = vec![alloc(device, 4 * n as u64), alloc(device, 4 * n as u64)];
                        let uploads = vec![HostBytes::from_vec(vec![value; n])];
                        let binding = Binding { buffers, uploads, reads: vec![read.clone()], ..Binding::default() };
                        let ticket = device.submit(work, binding, Lane::Compute, &[]).unwrap();
                        device.wait(ticket, soon()).unwrap();
                        assert_eq!(read.take().unwrap().elements::<f32>(), vec![-value; n]);
                    }
                });
            }
        });
        assert_eq!(device.memory().pending, 0);
    }
}

/// One kernel of some kinds; those of all kinds are run by the conformance suite.
#[test]
fn opengl_computes_where_it_is_named() {
    let backend = WgpuBackend::new(WgpuOptions { graphics: Some(Graphics::Gl), ..options(Limits::Adapter) });
    let all = backend.list();
    let usable = all.iter().position(|adapter| adapter.unusable.is_none());
    let index = usable.unwrap_or_else(|| {
        panic!("no OpenGL adapter that can compute: install libegl1, libegl-mesa0 and libgl1-mesa-dri; found: {all:?}")
    });
    assert_eq!(all[index].backend, "wgpu/gl");
    let device = backend.open_device(index).unwrap();
    let random = &mut Random::new(7);
    let some = [
        kernels::matmul(random, &Shape::scalar(), [33, 20, 7], false),
        kernels::reduce(random, breakeven_ir::Fold::Sum, DType::F32, &Shape::from(5), &Shape::from(100)),
        kernels::gather(random, &[9, 4], 0, &[6], false),
    ];
    for kernel in some {
        common::check(&device, &kernel, random, 1e-5);
    }
}

#[test]
fn software_adapters_are_marked() {
    let backend = WgpuBackend::new(options(Limits::Adapter));
    for index in backend.software_adapters() {
        let info = &backend.list()[index];
        assert_eq!(info.kind, breakeven_device::DeviceKind::Software);
        assert_eq!(info.backend, "wgpu/vulkan");
        assert!(!info.driver.is_empty());
    }
}
