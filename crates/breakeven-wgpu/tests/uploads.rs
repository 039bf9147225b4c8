//! Uploads for which nobody waits and of which nothing is computed: what they hold is bounded, however many there are.

mod common;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use breakeven_device::{
    Binding, Buffer, Device, DeviceError, HostBytes, Lane, Prepared, ReadCell, SegmentStep, Ticket,
};
use breakeven_wgpu::{Limits, WgpuBackend, WgpuDevice, WgpuOptions};
use common::vectors::{prepare, soon, upload};
use common::{alloc, options};

const MB: u64 = 1 << 20;
/// What may be on its way to the device.
const IN_FLIGHT: u64 = 16 * MB;
/// Buffers that the caller keeps, the newest; it drops the others while they are on their way.
const KEPT: usize = 4;
/// What lies in buffers: on its way, kept, and the next.
const LIVE: u64 = IN_FLIGHT + (KEPT as u64 + 1) * MB;

fn devices(in_place: Option<bool>) -> Vec<WgpuDevice> {
    let bound = WgpuOptions { in_flight_bytes: IN_FLIGHT, poison: false, in_place, ..options(Limits::Adapter) };
    let backend = WgpuBackend::new(bound);
    backend.software_adapters().into_iter().map(|i| backend.open_device(i).unwrap()).collect()
}

/// What is uploaded, in turn: eight vectors, each of one number.
struct Uploads<'a> {
    device: &'a WgpuDevice,
    work: Arc<dyn Prepared>,
    given: Vec<HostBytes>,
    last: Option<Ticket>,
}

fn vector(nth: usize) -> Vec<f32> {
    vec![(nth % 8) as f32; MB as usize / 4]
}

impl<'a> Uploads<'a> {
    fn new(device: &'a WgpuDevice) -> Uploads<'a> {
        let given = (0..8).map(|nth| HostBytes::from_vec(vector(nth))).collect();
        Uploads { device, work: prepare(device, vec![upload(0, 0)]), given, last: None }
    }

    /// A new buffer, and an upload to it on its way.
    fn send(&mut self, nth: usize) -> Buffer {
        let buffer = alloc(self.device, MB);
        let (buffers, uploads) = (vec![buffer.clone()], vec![self.given[nth % 8].clone()]);
        let binding = Binding { buffers, uploads, ..Binding::default() };
        let submit = || self.device.submit(&self.work, binding.clone(), Lane::CopyIn, &[]);
        let ticket = submit().or_else(|error| {
            assert_eq!(error, DeviceError::Busy);
            self.device.wait(self.last.expect("something is on its way"), soon())?;
            submit()
        });
        self.last = Some(ticket.unwrap());
        buffer
    }

    /// Sends them; those that are kept.
    fn send_all(&mut self, all: Range<usize>) -> VecDeque<(usize, Buffer)> {
        let mut kept = VecDeque::new();
        for nth in all {
            kept.push_back((nth, self.send(nth)));
            kept.drain(..kept.len().saturating_sub(KEPT));
            let (memory, staging) = (self.device.memory(), self.device.counters().staging_bytes);
            assert!(memory.pending_bytes <= IN_FLIGHT, "{} bytes are on their way", memory.pending_bytes);
            assert!(memory.pool.peak_bytes <= LIVE, "{:?}: {:?} after {nth} uploads", self.device, memory.pool);
            assert!(staging <= IN_FLIGHT, "{staging} bytes of staging memory after {nth} uploads");
        }
        kept
    }
}

fn check(in_place: Option<bool>) {
    for device in devices(in_place) {
        let mut uploads = Uploads::new(&device);
        drop(uploads.send_all(0..500));
        let before = resident_bytes();
        let kept = uploads.send_all(500..10_000);
        let grown = resident_bytes().saturating_sub(before);
        println!("{device:?}, in place: {in_place:?}: {grown} bytes more");
        // One upload in a thousand that stays would be more.
        assert!(grown < 8 * MB, "{device:?}: {grown} bytes more are held after 10,000 uploads");
        for (nth, buffer) in &kept {
            assert_eq!(read(&device, buffer), vector(*nth));
        }
        drop(kept);
        assert_eq!((device.memory().pool.live_bytes, device.memory().pending), (0, 0));
        assert_eq!(device.counters().uploads, 10_000);
        assert_eq!(device.counters().in_place > 0, in_place.is_none());
    }
}

fn read(device: &WgpuDevice, buffer: &Buffer) -> Vec<f32> {
    let download = SegmentStep::Download { slot: 0, bytes: MB, read: 0 };
    let (work, cell) = (prepare(device, vec![download]), ReadCell::new());
    let binding = Binding { buffers: vec![buffer.clone()], reads: vec![cell.clone()], ..Binding::default() };
    device.wait(device.submit(&work, binding, Lane::CopyOut, &[]).unwrap(), soon()).unwrap();
    cell.take().expect("it was read").elements::<f32>().to_vec()
}

/// Bytes of this process that are in memory. A software adapter's are among them.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells what a process holds");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has that line");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("it is a number") * 1024
}

/// Through staging memory, as on a card, and in place. In one test: what one holds would be taken for another's.
#[test]
fn ten_thousand_uploads_stay_in_the_budget() {
    check(Some(false));
    check(None);
}
