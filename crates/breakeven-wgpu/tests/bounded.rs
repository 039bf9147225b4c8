//! What a device keeps stays bounded, however many different kernels it meets.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use breakeven_device::{Binding, Deadline, Device, DeviceError, HostBytes, Lane, ReadCell, Segment, SegmentStep};
use breakeven_ir::{DType, ExprBuilder, Kernel, Launch, Map, Row};
use breakeven_wgpu::{KeptPipelines, WgpuBackend, WgpuDevice, WgpuOptions};
use common::{alloc, options};

const ROWS: [&str; 4] = ["neg", "abs", "square", "relu"];

/// The `nth` of ever new kernels: a chain of rows as the digits of `nth` say.
fn kernel(nth: usize) -> Kernel {
    let mut expr = ExprBuilder::default();
    let mut last = expr.arg(DType::F32);
    for row in rows(nth) {
        last = expr.row(Row::named(row).unwrap(), DType::F32, &[last]);
    }
    Kernel::Map(Map::dense(expr.finish(last), vec![], 4))
}

fn rows(nth: usize) -> Vec<&'static str> {
    let digits = (0..5).map(|at| nth / ROWS.len().pow(at) % ROWS.len());
    digits.map(|digit| ROWS[digit]).collect()
}

/// What a chain makes of `x`.
fn want(nth: usize, x: f32) -> f32 {
    rows(nth).into_iter().fold(x, |x, row| match row {
        "neg" => -x,
        "abs" => x.abs(),
        "square" => x * x,
        _ => x.max(0.0),
    })
}

fn segment(nth: usize) -> Segment {
    let launch = Launch { kernel: kernel(nth), inputs: vec![0], outputs: vec![1], workspace: None };
    Segment {
        steps: vec![
            SegmentStep::Upload { upload: 0, slot: 0 },
            SegmentStep::Launch(Box::new(launch)),
            SegmentStep::Download { slot: 1, bytes: 16, read: 0 },
        ],
    }
}

fn check(device: &WgpuDevice, nth: usize) {
    let given = [1f32, -2.0, 0.5, -0.25];
    let (work, read) = (device.prepare(&segment(nth)).unwrap(), ReadCell::new());
    let binding = Binding {
        buffers: vec![alloc(device, 16), alloc(device, 16)],
        uploads: vec![HostBytes::from_vec(given.to_vec())],
        reads: vec![read.clone()],
        ..Binding::default()
    };
    let ticket = device.submit(&work, binding, Lane::Compute, &[]).unwrap();
    device.wait(ticket, Deadline::after(Duration::from_mins(5))).unwrap();
    let got = read.take().unwrap();
    assert_eq!(got.elements::<f32>(), given.map(|x| want(nth, x)), "{:?}", rows(nth));
}

fn devices(options: &WgpuOptions) -> Vec<WgpuDevice> {
    let backend = WgpuBackend::new(options.clone());
    backend.software_adapters().into_iter().map(|index| backend.open_device(index).unwrap()).collect()
}

#[test]
fn ever_new_kernels_leave_as_many_pipelines_as_may_be_kept() {
    let options = WgpuOptions { pipelines: 24, ..options(breakeven_wgpu::Limits::Adapter) };
    for device in devices(&options) {
        let kernels = 150;
        for nth in 0..kernels {
            check(&device, nth);
            assert!(device.counters().pipelines_kept <= 24, "{:?}", device.counters());
        }
        let made = device.counters();
        assert_eq!((made.pipelines, made.pipelines_kept, made.pipelines_let_go), (150, 24, 126), "{device:?}");
        assert!(made.pipeline_text_bytes > 0 && made.pipeline_text_bytes < 24 * 16_384, "{made:?}");
        // The newest is there, and the oldest is made again.
        check(&device, kernels - 1);
        assert_eq!(device.counters().pipelines, 150);
        check(&device, 0);
        assert_eq!(device.counters().pipelines, 151);
    }
}

#[test]
fn a_pipeline_that_a_prepared_segment_holds_is_not_made_twice() {
    let options = WgpuOptions { pipelines: 4, ..options(breakeven_wgpu::Limits::Adapter) };
    for device in devices(&options) {
        let held: Vec<_> = (0..8).map(|nth| device.prepare(&segment(nth)).unwrap()).collect();
        (8..20).for_each(|nth| check(&device, nth));
        assert_eq!((device.counters().pipelines, device.counters().pipelines_kept), (20, 9), "eight, and the newest");
        (0..8).for_each(|nth| check(&device, nth));
        assert_eq!(device.counters().pipelines, 20, "those that are held were found");
        assert_eq!(device.counters().pipeline_hits, 8);
        drop(held);
        check(&device, 20);
        assert_eq!(device.counters().pipelines_kept, 4);
    }
}

/// More at once than may be kept: they do not go for each other before their segment has them.
#[test]
fn one_segment_may_need_more_pipelines_than_are_kept() {
    let options = WgpuOptions { pipelines: 2, ..options(breakeven_wgpu::Limits::Adapter) };
    for device in devices(&options) {
        let steps = (0..6).map(|nth| {
            let launch = Launch { kernel: kernel(nth), inputs: vec![0], outputs: vec![nth + 1], workspace: None };
            SegmentStep::Launch(Box::new(launch))
        });
        let work = device.prepare(&Segment { steps: steps.collect() }).unwrap();
        assert_eq!(device.counters().pipelines, 6);
        drop(work);
        check(&device, 6);
        assert_eq!(device.counters().pipelines_kept, 2);
    }
}

/// Whoever wanted it may be gone before the last of many is compiled.
#[test]
fn what_nobody_wants_any_more_is_not_compiled_to_its_end() {
    for device in devices(&options(breakeven_wgpu::Limits::Adapter)) {
        let launch = |nth: usize| {
            let launch = Launch { kernel: kernel(nth), inputs: vec![0], outputs: vec![nth + 1], workspace: None };
            SegmentStep::Launch(Box::new(launch))
        };
        let all = Segment { steps: (0..40).map(launch).collect() };
        let cancelled = |is_wanted: &(dyn Fn() -> bool + Sync)| {
            let made = device.prepare_while(&all, is_wanted);
            assert!(matches!(made, Err(DeviceError::Cancelled)), "{made:?}");
        };
        cancelled(&|| false);
        assert_eq!(device.counters().pipelines, 0);
        let asked = AtomicUsize::new(0);
        cancelled(&|| asked.fetch_add(1, Relaxed) < 4);
        let made = device.counters().pipelines;
        assert!((1..=4).contains(&made), "{made} of 40");
        assert!(device.prepare_while(&all, &|| true).is_ok());
        assert_eq!(device.counters().pipelines, 40);
        assert!(device.prepare_while(&all, &|| false).is_ok(), "nothing is left to compile");
    }
}

/// What a driver keeps of pipelines in memory grows with each that it is given.
#[test]
fn a_drivers_cache_that_is_full_is_given_no_more() {
    let folder = std::env::temp_dir().join(format!("breakeven-full-{}", std::process::id()));
    let kept = KeptPipelines::bounded(&folder, 1);
    let options = WgpuOptions { kept: Some(kept.clone()), ..WgpuOptions::default() };
    let devices = devices(&options);
    for device in &devices {
        (0..70).for_each(|nth| check(device, nth));
        assert_eq!(device.counters().pipelines, 70, "they are made without it");
    }
    let full = kept.notes().iter().filter(|note| note.contains("it gets no longer")).count() as u64;
    assert!(full > 0, "{:?}", kept.notes());
    assert_eq!(kept.counters().pipelines, 64 * full + 70 * (devices.len() as u64 - full), "{:?}", kept.counters());
    drop(devices);
    let _ = std::fs::remove_dir_all(folder);
}
