//! Reads that are lent where they lie: bounded, given back, and there for as long as somebody looks.

mod common;

use std::time::Duration;

use breakeven_device::{
    Binding, Deadline, Device, DeviceError, HostBytes, Lane, MemoryKind, ReadCell, Segment, SegmentStep,
};
use breakeven_wgpu::{Limits, WgpuBackend, WgpuDevice, WgpuOptions};
use common::options;

const BYTES: usize = 100_000;

/// Every software adapter, lending what `lend_from` and `lent_bytes` say.
fn devices(lend_from: u64, lent_bytes: u64) -> Vec<WgpuDevice> {
    let backend =
        WgpuBackend::new(WgpuOptions { lend_from, lent_bytes, in_place: Some(false), ..options(Limits::Adapter) });
    backend.software_adapters().into_iter().map(|i| backend.open_device(i).unwrap()).collect()
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_mins(5))
}

fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| ((i + seed) * 31 % 251) as u8).collect()
}

/// Passes bytes through the device.
fn pass(device: &WgpuDevice, bytes: &[u8]) -> Result<HostBytes, DeviceError> {
    let up = SegmentStep::Upload { upload: 0, slot: 0 };
    let down = SegmentStep::Download { slot: 0, bytes: bytes.len() as u64, read: 0 };
    let work = device.prepare(&Segment { steps: vec![up, down] })?;
    let read = ReadCell::new();
    let buffers = vec![device.alloc(bytes.len() as u64, MemoryKind::Resident)?];
    let binding = Binding {
        buffers,
        uploads: vec![HostBytes::from_vec(bytes.to_vec())],
        reads: vec![read.clone()],
        ..Binding::default()
    };
    device.wait(device.submit(&work, binding, Lane::Compute, &[])?, soon())?;
    Ok(read.take().expect("it was read"))
}

#[test]
fn what_is_read_again_and_again_needs_no_new_memory() {
    for device in devices(1, u64::MAX) {
        for seed in 0..5 {
            let bytes = pattern(seed, BYTES);
            let read = pass(&device, &bytes).unwrap();
            let counters = device.counters();
            assert_eq!(&*read, bytes);
            assert_eq!((counters.lent, counters.lent_bytes, counters.staging), (seed as u64 + 1, BYTES as u64, 2));
            drop(read);
            assert_eq!(device.counters().lent_bytes, 0);
        }
    }
}

#[test]
fn what_is_lent_is_not_written_again() {
    for device in devices(1, u64::MAX) {
        let held: Vec<_> = (0..6).map(|seed| (seed, pass(&device, &pattern(seed, BYTES)).unwrap())).collect();
        for (seed, read) in &held {
            assert_eq!(&**read, pattern(*seed, BYTES), "{device:?}");
        }
        let parts: Vec<HostBytes> = held.iter().map(|(_, read)| read.slice(5..50)).collect();
        drop(held);
        assert_eq!((device.counters().lent, device.counters().lent_bytes), (6, 6 * BYTES as u64));
        for (seed, part) in parts.iter().enumerate() {
            assert_eq!(**part, pattern(seed, BYTES)[5..50]);
        }
        drop(parts);
        let staging = device.counters().staging;
        let again: Vec<_> = (0..6).map(|seed| pass(&device, &pattern(seed, BYTES)).unwrap()).collect();
        assert_eq!((device.counters().staging, device.counters().lent), (staging, 12));
        drop(again);
    }
}

#[test]
fn what_is_small_or_beyond_the_bound_is_copied() {
    for device in devices(1000, 2 * BYTES as u64) {
        let small = pass(&device, &pattern(1, 999)).unwrap();
        assert_eq!((&*small, device.counters().lent), (&*pattern(1, 999), 0));
        let all: Vec<_> = (0..4).map(|seed| pass(&device, &pattern(seed, BYTES)).unwrap()).collect();
        assert_eq!((device.counters().lent, device.counters().lent_bytes), (2, 2 * BYTES as u64));
        for (seed, read) in all.iter().enumerate() {
            assert_eq!(&**read, pattern(seed, BYTES));
            assert!((read.as_ptr() as usize).is_multiple_of(16));
        }
        drop(all);
        assert_eq!(device.counters().lent_bytes, 0);
        drop(pass(&device, &pattern(9, BYTES)).unwrap());
        assert_eq!(device.counters().lent, 3);
    }
}

#[test]
fn what_is_lent_outlives_its_device() {
    for device in devices(1, u64::MAX) {
        let bytes = pattern(3, BYTES);
        let read = pass(&device, &bytes).unwrap();
        drop(device);
        assert_eq!(&*read, bytes);
        let copy = read.clone();
        drop(read);
        std::thread::spawn(move || assert_eq!(&*copy, bytes)).join().unwrap();
    }
}

#[test]
fn what_is_lent_outlives_the_loss_of_its_device() {
    for device in devices(1, u64::MAX) {
        let bytes = pattern(4, BYTES);
        let reads: Vec<_> = (0..3).map(|_| pass(&device, &bytes).unwrap()).collect();
        device.destroy();
        let mut reads = reads.into_iter();
        assert_eq!(&*reads.next().unwrap(), bytes);
        assert_eq!(device.counters().lent_bytes, 2 * BYTES as u64);
        assert!(matches!(pass(&device, &bytes), Err(DeviceError::Lost { .. })));
        assert_eq!(&*reads.next().unwrap(), bytes);
        drop(device);
        assert_eq!(&*reads.next().unwrap(), bytes);
    }
}

#[test]
fn threads_read_and_let_go_at_once() {
    for device in devices(1, 8 * BYTES as u64) {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let device = &device;
                scope.spawn(move || {
                    let mut held = Vec::new();
                    for i in 0..10 {
                        let seed = 100 * thread + i;
                        held.push((seed, pass(device, &pattern(seed, BYTES)).unwrap()));
                        if i % 3 == 2 {
                            held.drain(..).for_each(|(seed, read)| assert_eq!(&*read, pattern(seed, BYTES)));
                        }
                    }
                });
            }
        });
        assert_eq!((device.counters().lent_bytes, device.memory().pending), (0, 0));
    }
}
