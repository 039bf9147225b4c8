//! The seam, proved on the simulated device.

use std::sync::Arc;
use std::time::Duration;

use breakeven_ir::{Caps, DType, Expr, Fold, Kernel, Launch, Layout, Map, Operand, ReduceRows, Row, Shape};

use super::{Fault, SimClock, SimDevice, SimOptions, SimSpeed};
use crate::{
    Binding, Buffer, Deadline, Device, DeviceError, HostBytes, Lane, MemoryKind, Prepared, ReadCell, Segment,
    SegmentStep, Status, Ticket,
};

const MS: Duration = Duration::from_millis(1);
const N: usize = 1000;

/// One millisecond for each kernel of `N` elements and for each copy of them.
fn speed() -> SimSpeed {
    SimSpeed {
        per_submit: Duration::ZERO,
        per_launch: MS,
        per_wait: Duration::ZERO,
        flops_per_second: f64::INFINITY,
        bytes_per_second: f64::INFINITY,
        link_latency: MS,
        link_bytes_per_second: f64::INFINITY,
    }
}

fn device(faults: &[Fault]) -> (SimDevice, SimClock) {
    let clock = SimClock::new();
    let options = SimOptions { faults: faults.to_vec(), ..SimOptions::new("sim", speed()) };
    (SimDevice::new(options, &clock), clock)
}

fn prepare(device: &SimDevice, steps: Vec<SegmentStep>) -> Arc<dyn Prepared> {
    device.prepare(&Segment { steps }).unwrap()
}

fn neg() -> SegmentStep {
    let expr = Expr::row(Row::named("neg").unwrap(), DType::F32);
    let kernel = Kernel::Map(Map::dense(expr, vec![], N));
    SegmentStep::Launch(Box::new(Launch { kernel, inputs: vec![0], outputs: vec![1], workspace: None }))
}

struct Stream<'a> {
    device: &'a SimDevice,
    stages: [Arc<dyn Prepared>; 3],
}

impl<'a> Stream<'a> {
    fn new(device: &'a SimDevice) -> Stream<'a> {
        let upload = prepare(device, vec![SegmentStep::Upload { upload: 0, slot: 0 }]);
        let compute = prepare(device, vec![neg()]);
        let read = prepare(device, vec![SegmentStep::Download { slot: 0, bytes: 4 * N as u64, read: 0 }]);
        Stream { device, stages: [upload, compute, read] }
    }

    fn buffer(&self) -> Buffer {
        self.device.alloc(4 * N as u64, MemoryKind::Resident).unwrap()
    }

    /// Upload, compute and read one batch; gives the ticket of the read.
    fn batch(&self, value: f32, cell: &ReadCell) -> Ticket {
        let [upload, compute, read] = &self.stages;
        let (x, y) = (self.buffer(), self.buffer());
        let bytes = HostBytes::from_vec(vec![value; N]);
        let bind = |buffers: &[&Buffer]| Binding {
            buffers: buffers.iter().map(|&b| b.clone()).collect(),
            ..Binding::default()
        };
        let given = Binding { uploads: vec![bytes], ..bind(&[&x]) };
        let wanted = Binding { reads: vec![cell.clone()], ..bind(&[&y]) };
        let a = self.device.submit(upload, given, Lane::CopyIn, &[]).unwrap();
        let b = self.device.submit(compute, bind(&[&x, &y]), Lane::Compute, &[a]).unwrap();
        self.device.submit(read, wanted, Lane::CopyOut, &[b]).unwrap()
    }
}

#[test]
fn neighbouring_batches_overlap_so_time_is_the_maximum_not_the_sum() {
    let (device, clock) = device(&[]);
    let stream = Stream::new(&device);
    let cells: Vec<ReadCell> = (0..10).map(|_| ReadCell::new()).collect();
    let tickets: Vec<Ticket> = cells.iter().enumerate().map(|(i, c)| stream.batch(i as f32, c)).collect();
    device.wait(tickets[9], Deadline::after(Duration::from_secs(1))).unwrap();
    assert_eq!(clock.now(), 12 * MS, "10 batches and the 2 stages that fill and drain");
    assert!(tickets.iter().all(|&t| device.poll(t) == Status::Done));
    for (i, cell) in cells.iter().enumerate() {
        assert_eq!(cell.take().unwrap().elements::<f32>(), [-(i as f32); N]);
    }
}

#[test]
fn a_forgotten_after_is_an_error_not_a_race() {
    let (device, _) = device(&[]);
    let stream = Stream::new(&device);
    let (x, y) = (stream.buffer(), stream.buffer());
    let given = Binding {
        buffers: vec![x.clone()],
        uploads: vec![HostBytes::from_vec(vec![1.0f32; N])],
        reads: vec![],
        ..Binding::default()
    };
    device.submit(&stream.stages[0], given, Lane::CopyIn, &[]).unwrap();
    let both = Binding { buffers: vec![x, y], ..Binding::default() };
    let error = device.submit(&stream.stages[1], both, Lane::Compute, &[]).unwrap_err();
    assert!(error.to_string().contains("hazard"), "{error}");
}

/// Mean and variance of 4 rows of 3, with scratch memory.
fn moments() -> SegmentStep {
    let operand = |shape: &[usize]| Operand::new(DType::F32, Layout::dense(shape));
    let kernel = Kernel::Reduce(ReduceRows {
        fold: Fold::Moments,
        outer: Shape::from(4),
        inner: Shape::from(3),
        pre: Expr::identity(DType::F32),
        post: Expr::identity(DType::F32),
        params: vec![],
        inputs: vec![operand(&[4, 3])],
        outs: vec![operand(&[4]), operand(&[4])],
    });
    SegmentStep::Launch(Box::new(Launch { kernel, inputs: vec![0], outputs: vec![1, 2], workspace: Some(3) }))
}

#[test]
fn a_launch_has_two_outputs_and_a_workspace_and_a_segment_is_replayed_with_other_buffers() {
    let (device, _) = device(&[]);
    let alloc = |bytes| device.alloc(bytes, MemoryKind::Resident).unwrap();
    let download = |slot, read| SegmentStep::Download { slot, bytes: 16, read };
    let work =
        prepare(&device, vec![SegmentStep::Upload { upload: 0, slot: 0 }, moments(), download(1, 0), download(2, 1)]);
    for base in [0.0f32, 1e4] {
        let rows: Vec<f32> = (0..12).map(|i| base + (i % 3) as f32).collect();
        let reads = vec![ReadCell::new(), ReadCell::new()];
        let buffers = vec![alloc(48), alloc(16), alloc(16), alloc(64)];
        let binding =
            Binding { buffers, uploads: vec![HostBytes::from_vec(rows)], reads: reads.clone(), ..Binding::default() };
        let ticket = device.submit(&work, binding, Lane::Compute, &[]).unwrap();
        device.wait(ticket, Deadline::after(Duration::from_secs(1))).unwrap();
        assert_eq!(reads[0].take().unwrap().elements::<f32>(), [base + 1.0; 4]);
        assert_eq!(reads[1].take().unwrap().elements::<f32>(), [2.0 / 3.0; 4]);
    }
    assert_eq!(device.launches(), 2);
}

#[test]
fn a_hang_times_out_on_the_virtual_clock_and_stays_pending() {
    let (device, clock) = device(&[Fault::HangAt(3)]);
    let cell = ReadCell::new();
    let ticket = Stream::new(&device).batch(1.0, &cell);
    let error = device.wait(ticket, Deadline::after(200 * MS)).unwrap_err();
    assert!(matches!(error, DeviceError::Timeout { waited, pending: 1 } if waited == 200 * MS), "{error}");
    assert_eq!((clock.now(), device.memory().pending), (200 * MS, 1));
    assert_eq!(device.memory().pending_bytes, 4000, "the read of a thousand numbers");
    assert!(cell.take().is_none());
}

#[test]
fn done_too_early_leaves_the_read_empty() {
    let (device, _) = device(&[Fault::EarlyDoneAt(3)]);
    let cell = ReadCell::new();
    let ticket = Stream::new(&device).batch(1.0, &cell);
    assert_eq!(device.poll(ticket), Status::Done);
    assert!(cell.take().is_none());
}

#[test]
fn busy_refuses_once_and_a_loss_is_for_good() {
    let (device, _) = device(&[Fault::BusyAt(1), Fault::LostAt(3)]);
    let stream = Stream::new(&device);
    let submit = || {
        let buffers = vec![device.alloc(4 * N as u64, MemoryKind::Resident)?];
        let uploads = vec![HostBytes::from_vec(vec![1.0f32; N])];
        device.submit(
            &stream.stages[0],
            Binding { buffers, uploads, reads: vec![], ..Binding::default() },
            Lane::CopyIn,
            &[],
        )
    };
    assert_eq!(submit(), Err(DeviceError::Busy));
    let ticket = submit().unwrap();
    assert!(matches!(submit(), Err(DeviceError::Lost { .. })));
    assert!(matches!(submit(), Err(DeviceError::Lost { .. })));
    assert!(matches!(device.poll(ticket), Status::Failed(DeviceError::Lost { .. })));
}

#[test]
fn memory_has_a_hard_limit_and_comes_back() {
    let clock = SimClock::new();
    let mut options = SimOptions::new("small", speed());
    options.caps = Caps { memory_bytes: Some(64), ..options.caps };
    let device = SimDevice::new(options, &clock);
    let held = device.alloc(40, MemoryKind::Resident).unwrap();
    let error = device.alloc(20, MemoryKind::Resident).unwrap_err();
    assert_eq!(error, DeviceError::OutOfMemory { wanted: 20, left: Some(16) });
    drop(held);
    assert!(device.alloc(64, MemoryKind::Resident).is_ok());
}

/// A simulated device holds no buffer for work that is on its way: what is dropped comes back at once.
#[test]
fn ten_thousand_uploads_hold_what_is_kept_of_them() {
    const KEPT: usize = 4;
    let (device, _) = device(&[]);
    let bytes = 1 << 20;
    let work = prepare(&device, vec![SegmentStep::Upload { upload: 0, slot: 0 }]);
    let upload = HostBytes::from_vec(vec![7u8; bytes as usize]);
    let mut kept = Vec::new();
    for _ in 0..10_000 {
        kept.push(device.alloc(bytes, MemoryKind::Resident).unwrap());
        let buffers = kept[kept.len() - 1..].to_vec();
        let binding = Binding { buffers, uploads: vec![upload.clone()], ..Binding::default() };
        device.submit(&work, binding, Lane::CopyIn, &[]).unwrap();
        kept.drain(..kept.len().saturating_sub(KEPT));
        assert!(device.memory().pool.peak_bytes <= (KEPT as u64 + 1) * bytes);
    }
    drop(kept);
    assert_eq!(device.memory().pool.live_bytes, 0);
}
