//! Launches that do not see each other are shared out whole, and give what they give one after the other.

mod common;

use std::time::Duration;

use breakeven_cpu::{CpuDevice, CpuOptions, Tuning};
use breakeven_device::{Binding, Buffer, Deadline, Device, Lane, MemoryKind, ReadCell, Recorder, Segment, SegmentStep};
use breakeven_ir::{DType, Expr, Kernel, Launch, Layout, Map, Operand, Row};

/// Additions, and elements of each.
const COUNT: usize = 20;
const EACH: usize = 4096;

/// One addition is too little for two threads, and all are enough for four.
fn device() -> CpuDevice {
    let tuning = Tuning { part_ns: 1500.0, wake_ns: 0.0, ..Tuning::default() };
    CpuDevice::new(CpuOptions { threads: Some(4), tuning, ..CpuOptions::default() }).expect("the CPU opens")
}

fn part(of: usize, i: usize) -> Operand {
    Operand::new(DType::F32, Layout::dense([of]).slice(0, i * EACH, EACH, 1))
}

fn launch(name: &str, inputs: [(Operand, usize); 2], out: (Operand, usize)) -> SegmentStep {
    let [(a, at_a), (b, at_b)] = inputs;
    let expr = Expr::row(Row::named(name).expect("a usual row"), DType::F32);
    let kernel = Kernel::Map(Map { expr, params: vec![], inputs: vec![a, b], out: out.0 });
    SegmentStep::Launch(Box::new(Launch { kernel, inputs: vec![at_a, at_b], outputs: vec![out.1], workspace: None }))
}

fn values(count: usize, of: fn(usize) -> f32) -> Vec<u8> {
    (0..count).flat_map(|i| of(i).to_le_bytes()).collect()
}

fn run(device: &CpuDevice, steps: Vec<SegmentStep>, buffers: Vec<Buffer>, recorder: Option<Recorder>) {
    let prepared = device.prepare(&Segment { steps }).expect("it compiles");
    let binding = Binding { buffers, recorder, ..Binding::default() };
    let ticket = device.submit(&prepared, binding, Lane::Compute, &[]).expect("it runs");
    device.wait(ticket, Deadline::after(Duration::from_secs(10))).expect("it is done");
}

fn read(device: &CpuDevice, buffer: &Buffer) -> Vec<f32> {
    let (bytes, cell) = (buffer.bytes(), ReadCell::new());
    let steps = vec![SegmentStep::Download { slot: 0, bytes, read: 0 }];
    let prepared = device.prepare(&Segment { steps }).expect("a download");
    let binding = Binding { buffers: vec![buffer.clone()], reads: vec![cell.clone()], ..Binding::default() };
    device.submit(&prepared, binding, Lane::CopyOut, &[]).expect("it is read");
    let bytes = cell.take().expect("filled when done");
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().expect("four"))).collect()
}

fn fresh(device: &CpuDevice, count: usize) -> Buffer {
    device.alloc(4 * count as u64, MemoryKind::Resident).expect("memory")
}

/// Twenty parts of one result, then the sum of each with the one beside it, which sees two of them.
#[test]
fn parts_of_one_result_and_what_depends_on_them() {
    let (device, all) = (device(), COUNT * EACH);
    let x = common::buffer(&device, &values(all, |i| i as f32));
    let y = common::buffer(&device, &values(EACH, |i| (i % 7) as f32));
    let parts = (0..COUNT).map(|i| launch("add", [(part(all, i), 0), (part(EACH, 0), 1)], (part(all, i), 2)));
    let pairs =
        (0..COUNT).map(|i| launch("add", [(part(all, i), 2), (part(all, (i + 1) % COUNT), 2)], (part(all, i), 3)));
    let steps: Vec<SegmentStep> = parts.chain(pairs).collect();
    let one = |i: usize| i as f32 + (i % EACH % 7) as f32;
    let want: Vec<f32> = (0..all).map(|i| one(i) + one((i + EACH) % all)).collect();
    for recorder in [None, Some(Recorder::default())] {
        let (sums, pairs) = (fresh(&device, all), fresh(&device, all));
        run(&device, steps.clone(), vec![x.clone(), y.clone(), sums, pairs.clone()], recorder.clone());
        assert!(read(&device, &pairs) == want, "recorded: {}", recorder.is_some());
        if let Some(recorder) = recorder {
            let spans: Vec<Vec<usize>> = recorder.take().spans.into_iter().map(|span| span.steps).collect();
            assert_eq!(spans, [(0..COUNT).collect::<Vec<_>>(), (COUNT..2 * COUNT).collect()]);
        }
    }
}

/// What one writes and another reads in a slot of its own number, where both stand for the same memory.
#[test]
fn memory_that_stands_in_two_slots_is_seen_in_order() {
    let (device, all) = (device(), COUNT * EACH);
    let x = common::buffer(&device, &values(all, |i| i as f32));
    let [sums, twice] = [fresh(&device, all), fresh(&device, all)];
    // Written backwards, so that whoever takes the first launches would need what the last ones write.
    let parts = (0..COUNT).map(|i| launch("add", [(part(all, i), 0), (part(all, i), 0)], (part(all, i), 1)));
    let seen = (0..COUNT).map(|i| {
        let from = part(all, COUNT - 1 - i);
        launch("add", [(from.clone(), 2), (from, 2)], (part(all, i), 3))
    });
    let steps: Vec<SegmentStep> = parts.chain(seen).collect();
    for _ in 0..20 {
        run(&device, steps.clone(), vec![x.clone(), sums.clone(), sums.clone(), twice.clone()], None);
        let want = |i: usize| 4.0 * ((COUNT - 1 - i / EACH) * EACH + i % EACH) as f32;
        assert!(read(&device, &twice).iter().enumerate().all(|(i, got)| *got == want(i)));
    }
}

/// Each reads what the one before wrote, in place and elsewhere.
#[test]
fn what_depends_on_each_other_stays_in_order() {
    let (device, all) = (device(), COUNT * EACH);
    let x = common::buffer(&device, &values(all, |i| (i % 5) as f32));
    let (a, b) = (fresh(&device, EACH), fresh(&device, EACH));
    let whole = || part(EACH, 0);
    let first = launch("add", [(part(all, 0), 0), (part(all, 0), 0)], (whole(), 1));
    let steps = (1..COUNT).flat_map(|i| {
        let there = launch("add", [(whole(), 1), (part(all, i), 0)], (whole(), 2));
        [there, launch("add", [(whole(), 2), (whole(), 1)], (whole(), 1))]
    });
    run(&device, [first].into_iter().chain(steps).collect(), vec![x, a.clone(), b], None);
    let value = |i: usize, part: usize| ((part * EACH + i) % 5) as f32;
    let want = |i: usize| (1..COUNT).fold(2.0 * value(i, 0), |a, part| 2.0 * a + value(i, part));
    assert!(read(&device, &a).iter().enumerate().all(|(i, got)| *got == want(i)));
}
