//! Uploads that go in pieces: whole, in order, counted, bounded, and failing as one.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use breakeven_device::{
    Binding, Buffer, Copier, Deadline, Device, DeviceError, HostBytes, Lane, MemoryKind, ReadCell, Status,
};
use breakeven_wgpu::{Limits, WgpuBackend, WgpuDevice, WgpuOptions};
use common::vectors::{BYTES, ELEMENTS, add, download, numbers, prepare, soon, upload};
use common::{alloc, options};

const CHUNK: u64 = 40 << 10;
/// Pieces of so many bytes: ten, the last of them short.
const PIECES: u64 = BYTES.div_ceil(CHUNK);

fn devices(more: &WgpuOptions) -> Vec<WgpuDevice> {
    let options = WgpuOptions { chunk_bytes: CHUNK, in_place: Some(false), ..more.clone() };
    let backend = WgpuBackend::new(options);
    backend.software_adapters().into_iter().map(|i| backend.open_device(i).unwrap()).collect()
}

/// What is lent is not copied, and takes staging memory with it.
fn copying() -> WgpuOptions {
    WgpuOptions { lend_from: u64::MAX, ..options(Limits::Adapter) }
}

fn sums(one: &[f32], two: &[f32]) -> Vec<f32> {
    one.iter().zip(two).map(|(a, b)| a + b).collect()
}

fn buffers(device: &WgpuDevice, count: usize) -> Vec<Buffer> {
    (0..count).map(|_| alloc(device, BYTES)).collect()
}

#[test]
fn pieces_arrive_whole_and_are_counted_as_one() {
    for device in devices(&copying()) {
        let work = prepare(&device, vec![upload(0, 0), upload(1, 1), add(0, 1, 2), download(0, 2)]);
        let buffers = buffers(&device, 3);
        for again in 0..4 {
            let before = device.counters();
            let (one, two) = (numbers(again), numbers(again + 50));
            let read = ReadCell::new();
            let uploads = vec![HostBytes::from_vec(one.clone()), HostBytes::from_vec(two.clone())];
            let binding =
                Binding { buffers: buffers.clone(), uploads, reads: vec![read.clone()], ..Binding::default() };
            let ticket = device.submit(&work, binding, Lane::Compute, &[]).unwrap();
            device.wait(ticket, soon()).unwrap();
            assert_eq!(read.take().unwrap().elements::<f32>(), sums(&one, &two), "{device:?}");
            let after = device.counters();
            assert_eq!((after.uploads - before.uploads, after.reads - before.reads), (2, 1));
            // The short piece at the end of the first goes with the first of the second.
            assert_eq!(after.submits - before.submits, 2 * PIECES - 1);
            assert_eq!(device.memory().pending, 0);
            // A piece that has arrived makes room for a later one of the same submission, so there may be fewer.
            assert!(after.staging <= 2 * PIECES + 1, "staging memory is used again: {}", after.staging);
        }
    }
}

#[test]
fn an_upload_that_comes_later_stays_behind_what_reads_its_slot() {
    for device in devices(&copying()) {
        let steps = vec![upload(0, 0), add(0, 0, 1), upload(1, 0), upload(2, 2), add(0, 1, 1), download(0, 1)];
        let (one, two) = (numbers(1), numbers(2));
        let read = ReadCell::new();
        let uploads = vec![
            HostBytes::from_vec(one.clone()),
            HostBytes::from_vec(two.clone()),
            HostBytes::from_vec(Vec::<f32>::new()),
        ];
        let binding =
            Binding { buffers: buffers(&device, 3), uploads, reads: vec![read.clone()], ..Binding::default() };
        let ticket = device.submit(&prepare(&device, steps), binding, Lane::Compute, &[]).unwrap();
        device.wait(ticket, soon()).unwrap();
        assert_eq!(read.take().unwrap().elements::<f32>(), sums(&two, &sums(&one, &one)), "{device:?}");
    }
}

#[test]
fn the_copier_that_was_given_copies_both_ways() {
    let copied = Arc::new(AtomicUsize::new(0));
    let counted = copied.clone();
    let copier = Copier::new(move |from, to| {
        counted.fetch_add(from.len(), SeqCst);
        to.copy_from_slice(from);
    });
    for device in devices(&WgpuOptions { copier, lent_bytes: 0, ..copying() }) {
        let work = prepare(&device, vec![upload(0, 0), download(0, 0)]);
        let read = ReadCell::new();
        let uploads = vec![HostBytes::from_vec(numbers(3))];
        let binding =
            Binding { buffers: buffers(&device, 1), uploads, reads: vec![read.clone()], ..Binding::default() };
        copied.store(0, SeqCst);
        device.wait(device.submit(&work, binding, Lane::Compute, &[]).unwrap(), soon()).unwrap();
        assert_eq!(read.take().unwrap().elements::<f32>(), numbers(3));
        assert_eq!(copied.load(SeqCst) as u64, 2 * BYTES);
    }
}

/// A buffer that holds these numbers.
fn holding(device: &WgpuDevice, numbers: &[f32]) -> Buffer {
    let buffer = alloc(device, BYTES);
    let uploads = vec![HostBytes::from_vec(numbers.to_vec())];
    let binding = Binding { buffers: vec![buffer.clone()], uploads, ..Binding::default() };
    let work = prepare(device, vec![upload(0, 0)]);
    device.wait(device.submit(&work, binding, Lane::Compute, &[]).unwrap(), soon()).unwrap();
    buffer
}

#[test]
fn a_buffer_is_read_into_memory_of_the_callers_piece_by_piece() {
    // One after the other, several at once, and copied once more where nothing may be lent.
    for (in_flight_bytes, lent_bytes) in [(CHUNK, 1 << 30), (1 << 30, 1 << 30), (1 << 30, 0)] {
        let more = WgpuOptions { in_flight_bytes, lent_bytes, lend_from: 1, ..options(Limits::Adapter) };
        for device in devices(&more) {
            let buffer = holding(&device, &numbers(5));
            let made = device.counters().staging;
            for length in [ELEMENTS, ELEMENTS - 1, CHUNK as usize / 4 + 1, ELEMENTS] {
                let before = device.counters();
                let mut out = vec![-1.0f32; length];
                device.read_into(&buffer, bytemuck::cast_slice_mut(&mut out), soon()).unwrap().unwrap();
                assert_eq!(out, numbers(5)[..length], "{device:?}");
                let after = device.counters();
                assert_eq!((after.reads - before.reads, after.lent_bytes), (1, 0));
                assert_eq!(after.lent > before.lent, lent_bytes > 0, "{after:?}");
                assert_eq!(after.submits - before.submits, (4 * length as u64).div_ceil(CHUNK));
                // Three on their way, and short pieces at the end of two sizes.
                assert!(after.staging <= made + 5, "staging memory is used again: {after:?}");
            }
        }
    }
}

#[test]
fn reading_straight_is_refused_where_it_gains_nothing_or_cannot_be() {
    for device in devices(&copying()) {
        let buffer = holding(&device, &numbers(5));
        assert!(device.read_into(&buffer, &mut vec![0; CHUNK as usize], soon()).is_none());
        let beyond = device.read_into(&buffer, &mut vec![0; BYTES as usize + 1], soon());
        assert!(matches!(beyond, Some(Err(DeviceError::Driver(_)))), "{beyond:?}");
        let late = device.read_into(&buffer, &mut vec![0; BYTES as usize], Deadline::after(Duration::ZERO));
        assert!(matches!(late, Some(Ok(()) | Err(DeviceError::Timeout { .. }))), "{late:?}");
        device.destroy();
        let lost = device.read_into(&buffer, &mut vec![0; BYTES as usize], soon());
        assert!(matches!(lost, Some(Err(DeviceError::Lost { .. }))), "{lost:?}");
        assert_eq!(device.memory().pending, 0);
    }
}

#[test]
fn bytes_in_flight_are_bounded_whatever_the_pieces() {
    for device in devices(&WgpuOptions { in_flight_bytes: BYTES + BYTES / 2, ..copying() }) {
        let work = prepare(&device, vec![upload(0, 0)]);
        let buffers = buffers(&device, 1);
        let binding = |seed| Binding {
            buffers: buffers.clone(),
            uploads: vec![HostBytes::from_vec(numbers(seed))],
            reads: vec![],
            ..Binding::default()
        };
        let mut last = device.submit(&work, binding(0), Lane::CopyIn, &[]).unwrap();
        for seed in 1..20 {
            let before = device.counters().submits;
            match device.submit(&work, binding(seed), Lane::CopyIn, &[]) {
                Err(DeviceError::Busy) => {
                    assert_eq!(device.counters().submits, before, "nothing was submitted");
                    device.wait(last, soon()).unwrap();
                    last = device.submit(&work, binding(seed), Lane::CopyIn, &[]).unwrap();
                }
                ticket => last = ticket.unwrap(),
            }
            assert!(device.memory().pending as u64 <= 2 * PIECES);
        }
        device.wait(last, soon()).unwrap();
        assert_eq!(device.memory().pending, 0);
    }
}

#[test]
fn a_device_that_is_lost_between_pieces_fails_the_whole_and_holds_nothing() {
    let victim: Arc<Mutex<Option<Arc<WgpuDevice>>>> = Arc::default();
    let left = Arc::new(AtomicUsize::new(usize::MAX));
    let (found, counted) = (victim.clone(), left.clone());
    let copier = Copier::new(move |from, to| {
        to.copy_from_slice(from);
        if counted.fetch_sub(1, SeqCst) == 0 {
            found.lock().unwrap().take().iter().for_each(|device| device.destroy());
        }
    });
    for after in [0, 1, PIECES as usize / 2, PIECES as usize - 1] {
        for device in devices(&WgpuOptions { copier: copier.clone(), ..copying() }) {
            let device = Arc::new(device);
            let work = prepare(&device, vec![upload(0, 0), add(0, 0, 0), download(0, 0)]);
            let read = ReadCell::new();
            let uploads = vec![HostBytes::from_vec(numbers(3))];
            let binding =
                Binding { buffers: buffers(&device, 1), uploads, reads: vec![read.clone()], ..Binding::default() };
            *victim.lock().unwrap() = Some(device.clone());
            left.store(after, SeqCst);
            let lost = device.submit(&work, binding, Lane::Compute, &[]);
            assert!(matches!(lost, Err(DeviceError::Lost { .. })), "{device:?}: {lost:?}");
            assert!(victim.lock().unwrap().is_none(), "it was lost in the middle");
            assert_eq!((device.memory().pending, read.take().map(|bytes| bytes.len())), (0, None));
            assert!(matches!(device.alloc(16, MemoryKind::Resident), Err(DeviceError::Lost { .. })));
        }
    }
}

#[test]
fn pieces_on_their_way_when_a_device_is_lost_fail_with_their_ticket() {
    for device in devices(&copying()) {
        let work = prepare(&device, vec![upload(0, 0), add(0, 0, 0)]);
        let uploads = vec![HostBytes::from_vec(numbers(3))];
        let binding = Binding { buffers: buffers(&device, 1), uploads, reads: vec![], ..Binding::default() };
        let ticket = device.submit(&work, binding, Lane::Compute, &[]).unwrap();
        device.destroy();
        // What had ended when somebody last looked has ended.
        let status = device.poll(ticket);
        assert!(matches!(status, Status::Failed(DeviceError::Lost { .. }) | Status::Done), "{status:?}");
        assert_eq!(device.memory().pending, 0);
    }
}
