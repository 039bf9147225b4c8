//! Uploads and reads of memory that host and device share: without copies by the device, and with the results that copies give.

mod common;

use std::sync::Arc;

use breakeven_device::{
    Binding, Buffer, Device, DeviceError, HostBytes, Lane, Prepared, ReadCell, SegmentStep, Ticket,
};
use breakeven_wgpu::{Limits, WgpuBackend, WgpuDevice, WgpuOptions};
use common::vectors::{BYTES, ELEMENTS, add, download, numbers, prepare, soon, upload};
use common::{alloc, options};

/// Every software adapter, writing in place as that says.
fn devices(in_place: Option<bool>) -> Vec<WgpuDevice> {
    let backend = WgpuBackend::new(WgpuOptions { in_place, ..options(Limits::Adapter) });
    backend.software_adapters().into_iter().map(|i| backend.open_device(i).unwrap()).collect()
}

fn doubled(numbers: &[f32]) -> Vec<f32> {
    numbers.iter().map(|x| x + x).collect()
}

/// Submits `work` on `buffers`, with what it uploads and one read.
fn submit(
    device: &WgpuDevice,
    work: &Arc<dyn Prepared>,
    buffers: &[Buffer],
    uploads: &[Vec<f32>],
) -> Result<(Ticket, ReadCell), DeviceError> {
    let (buffers, cell) = (buffers.to_vec(), ReadCell::new());
    let uploads = uploads.iter().cloned().map(HostBytes::from_vec).collect();
    let binding = Binding { buffers, uploads, reads: vec![cell.clone()], ..Binding::default() };
    Ok((device.submit(work, binding, Lane::Compute, &[])?, cell))
}

fn finish(device: &WgpuDevice, (ticket, cell): (Ticket, ReadCell)) -> Vec<f32> {
    device.wait(ticket, soon()).unwrap();
    cell.take().expect("it was read").elements::<f32>().to_vec()
}

/// A buffer that holds these numbers.
fn holding(device: &WgpuDevice, numbers: &[f32]) -> Buffer {
    let buffer = alloc(device, size_of_val(numbers) as u64);
    let uploaded =
        submit(device, &prepare(device, vec![upload(0, 0)]), std::slice::from_ref(&buffer), &[numbers.to_vec()]);
    device.wait(uploaded.unwrap().0, soon()).unwrap();
    buffer
}

fn held_by(device: &WgpuDevice, buffer: &Buffer, elements: usize) -> Vec<f32> {
    let mut out = vec![-1.0f32; elements];
    device.read_into(buffer, bytemuck::cast_slice_mut(&mut out), soon()).expect("it is read in place").unwrap();
    out
}

#[test]
fn bytes_go_both_ways_without_staging_memory() {
    for device in devices(None) {
        for (nth, length) in [1, 4, 5, 1000, ELEMENTS, 3, ELEMENTS].into_iter().enumerate() {
            let want = &numbers(nth)[..length];
            assert_eq!(held_by(&device, &holding(&device, want), length), want, "{device:?}");
            let counters = device.counters();
            let done = nth as u64 + 1;
            assert_eq!((counters.uploads, counters.reads, counters.in_place), (done, done, 2 * done));
            assert_eq!((counters.staging, counters.lent), (0, 0));
        }
    }
}

#[test]
fn bytes_are_copied_where_that_is_wanted() {
    for device in devices(Some(false)) {
        let buffer = holding(&device, &numbers(1));
        assert!(device.read_into(&buffer, &mut [0; 64], soon()).is_none());
        assert_eq!((device.counters().in_place, device.counters().staging), (0, 1));
    }
}

#[test]
fn any_number_of_bytes_is_written_and_no_other_byte() {
    for device in devices(None) {
        let buffer = alloc(&device, 64);
        let work = prepare(&device, vec![upload(0, 0)]);
        let mut want = [0xFF; 64];
        for length in [64usize, 1, 3, 15, 16, 17, 0, 63] {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 31 + length) as u8).collect();
            want[..length].copy_from_slice(&bytes);
            let uploads = vec![HostBytes::from_vec(bytes)];
            let binding = Binding { buffers: vec![buffer.clone()], uploads, ..Binding::default() };
            device.wait(device.submit(&work, binding, Lane::CopyIn, &[]).unwrap(), soon()).unwrap();
            for part in [1, 5, 16, 61, 64] {
                let mut got = vec![0; part];
                device.read_into(&buffer, &mut got, soon()).unwrap().unwrap();
                assert_eq!(got, want[..part], "{device:?}: {length} bytes");
            }
        }
        assert_eq!(device.counters().staging, 0);
        assert!(device.read_into(&buffer, &mut [], soon()).is_none());
        assert!(device.read_into(&buffer, &mut [0; 65], soon()).is_none());
    }
}

#[test]
fn what_is_uploaded_while_earlier_work_reads_the_buffer_waits_its_turn() {
    for device in devices(None) {
        let double = prepare(&device, vec![upload(0, 0), add(0, 0, 1), download(0, 1)]);
        let (shared, own) = (holding(&device, &numbers(0)), || alloc(&device, BYTES));
        let before = device.counters();
        let buffers: Vec<[Buffer; 2]> = (0..8).map(|_| [shared.clone(), own()]).collect();
        let submitted: Vec<_> =
            (0..8).map(|seed| submit(&device, &double, &buffers[seed], &[numbers(seed)]).unwrap()).collect();
        for (seed, submitted) in submitted.into_iter().enumerate() {
            assert_eq!(finish(&device, submitted), doubled(&numbers(seed)), "{device:?}");
        }
        // Nobody asked meanwhile what had ended.
        assert_eq!(device.counters().in_place - before.in_place, 1);
        let read = held_by(&device, &shared, ELEMENTS);
        assert_eq!(read, numbers(7));
    }
}

/// Does work in place and by copies, and again in memory that came back.
fn check(steps: &[SegmentStep], slots: &[usize], uploads: usize, want: &[f32]) {
    for in_place in [Some(false), None] {
        for device in devices(in_place) {
            let work = prepare(&device, steps.to_vec());
            let uploads: Vec<Vec<f32>> = (0..uploads).map(numbers).collect();
            for _ in 0..3 {
                let all: Vec<Buffer> = (0..slots.len()).map(|_| alloc(&device, BYTES)).collect();
                let buffers: Vec<Buffer> = slots.iter().map(|at| all[*at].clone()).collect();
                let got = finish(&device, submit(&device, &work, &buffers, &uploads).unwrap());
                assert_eq!(got, want, "{device:?}, in place: {in_place:?}");
            }
            assert_eq!(device.counters().in_place > 0, in_place.is_none());
        }
    }
}

#[test]
fn of_several_uploads_to_one_buffer_the_last_before_a_step_counts() {
    let sums = |a: usize, b: usize| -> Vec<f32> { numbers(a).iter().zip(numbers(b)).map(|(a, b)| a + b).collect() };
    let twice = [upload(0, 0), upload(1, 0), add(0, 0, 1), download(0, 1)];
    check(&twice, &[0, 1], 2, &doubled(&numbers(1)));
    let between = [upload(0, 0), add(0, 0, 1), upload(1, 0), upload(2, 1), add(0, 1, 1), download(0, 1)];
    check(&between, &[0, 1], 3, &sums(1, 2));
    // One buffer in the place of two.
    let shared = [upload(0, 0), upload(1, 1), add(0, 1, 2), download(0, 2)];
    check(&shared, &[0, 0, 1], 2, &doubled(&numbers(1)));
    check(&shared, &[0, 1, 0], 2, &sums(0, 1));
}

#[test]
fn a_submission_that_is_refused_leaves_its_buffers_usable() {
    for device in devices(None) {
        let work = prepare(&device, vec![upload(0, 0), upload(1, 0), add(0, 0, 1), download(0, 1)]);
        let buffers = [alloc(&device, BYTES), alloc(&device, BYTES)];
        for seed in 0..3 {
            let refused = submit(&device, &work, &buffers, &[numbers(seed)]);
            assert!(matches!(refused, Err(DeviceError::Driver(_))), "an upload is not bound: {refused:?}");
            let got = finish(&device, submit(&device, &work, &buffers, &[numbers(9), numbers(seed)]).unwrap());
            assert_eq!(got, doubled(&numbers(seed)), "{device:?}");
        }
        let missing = prepare(&device, vec![upload(0, 0), download(1, 0)]);
        let refused = submit(&device, &missing, &buffers, &[numbers(4)]);
        assert!(matches!(refused, Err(DeviceError::Driver(_))), "a read is not bound: {refused:?}");
        let got = finish(&device, submit(&device, &work, &buffers, &[numbers(9), numbers(5)]).unwrap());
        assert_eq!(got, doubled(&numbers(5)), "{device:?}");
    }
}

#[test]
fn threads_that_upload_read_and_compute_with_one_buffer_see_whole_uploads() {
    const TURNS: usize = 30;
    for device in devices(None) {
        let device = &device;
        let (up, double) = (prepare(device, vec![upload(0, 0)]), prepare(device, vec![add(0, 0, 1), download(0, 1)]));
        let constant = |seed: usize| vec![seed as f32; ELEMENTS];
        let shared = &holding(device, &constant(0));
        let is_whole =
            |got: &[f32]| assert!(got.iter().all(|x| *x == got[0]), "{device:?}: a part of an upload is seen");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for seed in 1..=TURNS {
                    let submitted = submit(device, &up, std::slice::from_ref(shared), &[constant(seed)]);
                    device.wait(submitted.unwrap().0, soon()).unwrap();
                }
            });
            scope.spawn(|| {
                let out = alloc(device, BYTES);
                for _ in 0..TURNS {
                    let submitted = submit(device, &double, &[shared.clone(), out.clone()], &[]);
                    is_whole(&finish(device, submitted.unwrap()));
                }
            });
            scope.spawn(|| {
                let mut out = vec![0f32; ELEMENTS];
                for _ in 0..TURNS {
                    // Where the others are at it, it would be a download.
                    if let Some(read) = device.read_into(shared, bytemuck::cast_slice_mut(&mut out), soon()) {
                        read.unwrap();
                        is_whole(&out);
                    }
                }
            });
        });
        assert_eq!(held_by(device, shared, ELEMENTS), constant(TURNS));
        assert_eq!(device.memory().pending, 0);
    }
}

#[test]
fn a_lost_device_is_said_to_be_lost() {
    for device in devices(None) {
        let buffer = holding(&device, &numbers(2));
        let work = prepare(&device, vec![upload(0, 0)]);
        device.destroy();
        let read = device.read_into(&buffer, &mut [0; 64], soon());
        assert!(matches!(read, Some(Err(DeviceError::Lost { .. }))), "{read:?}");
        let refused = submit(&device, &work, &[buffer], &[numbers(3)]);
        assert!(matches!(refused, Err(DeviceError::Lost { .. })), "{refused:?}");
    }
}
