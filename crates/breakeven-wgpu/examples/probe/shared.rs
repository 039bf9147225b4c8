//! What it brings to write and read a device's memory where it lies: the same work on two devices of one adapter, by turns, one of
//! which copies.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use breakeven_device::{
    Binding, Buffer, Copier, Device, HostBytes, Lane, MemoryKind, Prepared, ReadCell, Segment, SegmentStep,
};
use breakeven_ir::{Kernel, Launch, Map};
use breakeven_wgpu::{WgpuBackend, WgpuDevice, WgpuOptions};

use crate::stand::{Stand, row, value};

/// Turns of both, of which every second begins with the other.
const TURNS: usize = 41;

/// Adds numbers of the host's on one device.
struct Adder {
    device: WgpuDevice,
    copier: Copier,
    add: Arc<dyn Prepared>,
    up: Arc<dyn Prepared>,
    down: Arc<dyn Prepared>,
    values: HostBytes,
    resident: Buffer,
    out: RefCell<Vec<u8>>,
}

/// Does nothing where the device's memory is its own.
pub fn all(index: usize, options: &WgpuOptions, shrink: usize) {
    let open = |in_place| {
        let backend = WgpuBackend::new(WgpuOptions { in_place, ..options.clone() });
        backend.open_device(index).expect("it was opened before")
    };
    for bytes in [1 << 10, 64 << 10, 1 << 20, (64 << 20) / shrink] {
        let [copies, in_place] = [Some(false), None].map(|way| Adder::new(open(way), &options.copier, bytes / 4));
        let ways = [&copies, &in_place];
        ways.into_iter().for_each(Adder::check);
        if in_place.device.counters().in_place == 0 {
            return println!("  its memory is not the host's, or is copied to and from for a better reason");
        }
        let what = format!("{} KiB", bytes >> 10);
        compare(&format!("add, host to host, {what}"), ways, Adder::add);
        compare(&format!("upload, {what}"), ways, Adder::upload);
        compare(&format!("read, {what}"), ways, Adder::read);
    }
}

/// Medians of both, and of what one takes for each second of the other's.
fn compare(what: &str, ways: [&Adder; 2], act: impl Fn(&Adder)) {
    let once = |adder: &Adder| {
        let start = Instant::now();
        act(adder);
        start.elapsed().as_secs_f64()
    };
    let turn = |nth: usize| {
        let (first, second) = (once(ways[nth % 2]), once(ways[1 - nth % 2]));
        if nth.is_multiple_of(2) { [first, second] } else { [second, first] }
    };
    (0..TURNS).for_each(|nth| _ = turn(nth));
    let turns: Vec<[f64; 2]> = (0..TURNS).map(turn).collect();
    let median = |of: fn(&[f64; 2]) -> f64| {
        let mut all: Vec<f64> = turns.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[TURNS / 2]
    };
    let [copied, in_place] = [median(|t| t[0]), median(|t| t[1])].map(|time| time * 1e6);
    let ratio = median(|t| t[0] / t[1]);
    println!("  {what:<30} copied {copied:>9.1} us, in place {in_place:>9.1} us: {ratio:>5.2} times as fast");
}

impl Adder {
    fn new(device: WgpuDevice, copier: &Copier, elements: usize) -> Adder {
        let kernel = Kernel::Map(Map::dense(row("add"), vec![], elements));
        let launch = Launch { kernel, inputs: vec![0, 1], outputs: vec![2], workspace: None };
        let up = |slot| SegmentStep::Upload { upload: slot, slot };
        let down = SegmentStep::Download { slot: 2, bytes: 4 * elements as u64, read: 0 };
        let prepare = |steps| device.prepare(&Segment { steps }).expect("it compiles");
        Adder {
            add: prepare(vec![up(0), up(1), SegmentStep::Launch(Box::new(launch)), down]),
            up: prepare(vec![up(0)]),
            down: prepare(vec![SegmentStep::Download { slot: 0, bytes: 4 * elements as u64, read: 0 }]),
            values: HostBytes::from_vec((0..elements).map(value).collect()),
            resident: device.alloc(4 * elements as u64, MemoryKind::Resident).expect("there is memory"),
            out: RefCell::new(vec![1; 4 * elements]),
            copier: copier.clone(),
            device,
        }
    }

    fn submit(&self, work: &Arc<dyn Prepared>, binding: Binding) {
        let ticket = self.device.submit(work, binding, Lane::Compute, &[]).expect("it is submitted");
        self.device.wait(ticket, Stand::deadline()).expect("it ends");
    }

    fn add(&self) {
        let alloc = || self.device.alloc(self.resident.bytes(), MemoryKind::Resident).expect("there is memory");
        let (buffers, uploads) = (vec![alloc(), alloc(), alloc()], vec![self.values.clone(); 2]);
        let cell = ReadCell::new();
        self.submit(&self.add, Binding { buffers, uploads, reads: vec![cell.clone()], ..Binding::default() });
        self.copier.copy(&cell.take().expect("it was read"), &mut self.out.borrow_mut());
    }

    fn upload(&self) {
        let (buffers, uploads) = (vec![self.resident.clone()], vec![self.values.clone()]);
        self.submit(&self.up, Binding { buffers, uploads, ..Binding::default() });
    }

    fn read(&self) {
        let (mut out, cell) = (self.out.borrow_mut(), ReadCell::new());
        if let Some(read) = self.device.read_into(&self.resident, &mut out, Stand::deadline()) {
            return read.expect("it is read");
        }
        let (buffers, reads) = (vec![self.resident.clone()], vec![cell.clone()]);
        self.submit(&self.down, Binding { buffers, reads, ..Binding::default() });
        self.copier.copy(&cell.take().expect("it was read"), &mut out);
    }

    fn check(&self) {
        let is = |want: fn(f32) -> f32| {
            let out = self.out.borrow();
            let got = bytemuck::cast_slice::<u8, f32>(&out).iter().enumerate();
            assert!(got.into_iter().all(|(i, got)| *got == want(value(i))), "a number is wrong");
        };
        self.add();
        is(|x| x + x);
        self.upload();
        self.read();
        is(|x| x);
    }
}
