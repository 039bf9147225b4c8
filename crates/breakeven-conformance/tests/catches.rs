//! The suite finds what it is there to find: devices with one fault each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use breakeven_conformance::{Bench, Tier};
use breakeven_device::sim::{SimClock, SimDevice, SimOptions, SimSpeed};
use breakeven_device::{
    Binding, Buffer, Deadline, Device, DeviceInfo, HostMemory, Lane, Memory, MemoryKind, Prepared, ReadCell, Result,
    Segment, SegmentStep, Status, Ticket, Timing,
};
use breakeven_ir::{Caps, DType, Fold, Kernel, Scalar, Unsupported};

/// What is done to a kernel's output before anybody sees it.
type Fault = fn(&Kernel, &mut [u8]);

/// What a device does to kernels before running them.
type Misreading = fn(&mut Kernel);

#[derive(Debug)]
struct Faulty {
    sim: SimDevice,
    fault: Fault,
    misreads: Misreading,
    work: Mutex<Vec<(Ticket, Segment, Vec<ReadCell>)>>,
}

#[derive(Debug)]
struct Work(Arc<dyn Prepared>, Segment);
impl Prepared for Work {}

impl Device for Faulty {
    fn info(&self) -> &DeviceInfo {
        self.sim.info()
    }
    fn caps(&self) -> &Caps {
        self.sim.caps()
    }
    fn supports(&self, kernel: &Kernel) -> std::result::Result<(), Unsupported> {
        self.sim.supports(kernel)
    }
    fn alloc(&self, bytes: u64, kind: MemoryKind) -> Result<Buffer> {
        self.sim.alloc(bytes, kind)
    }
    fn prepare(&self, segment: &Segment) -> Result<Arc<dyn Prepared>> {
        let mut misread = segment.clone();
        for step in &mut misread.steps {
            if let SegmentStep::Launch(launch) = step {
                (self.misreads)(&mut launch.kernel);
            }
        }
        Ok(Arc::new(Work(self.sim.prepare(&misread)?, segment.clone())))
    }
    fn submit(&self, work: &Arc<dyn Prepared>, binding: Binding, lane: Lane, after: &[Ticket]) -> Result<Ticket> {
        let any: &dyn std::any::Any = &**work;
        let work = any.downcast_ref::<Work>().expect("prepared here");
        let reads = binding.reads.clone();
        let ticket = self.sim.submit(&work.0, binding, lane, after)?;
        self.work.lock().unwrap().push((ticket, work.1.clone(), reads));
        Ok(ticket)
    }
    fn poll(&self, ticket: Ticket) -> Status {
        self.sim.poll(ticket)
    }
    fn wait(&self, ticket: Ticket, deadline: Deadline) -> Result<Timing> {
        let timing = self.sim.wait(ticket, deadline)?;
        for (_, segment, reads) in self.work.lock().unwrap().drain(..) {
            spoil(&segment, &reads, self.fault);
        }
        Ok(timing)
    }
    fn memory(&self) -> Memory {
        self.sim.memory()
    }
    fn trim(&self, age: Duration) {
        self.sim.trim(age);
    }
    fn now(&self) -> Duration {
        self.sim.now()
    }
}

fn spoil(segment: &Segment, reads: &[ReadCell], fault: Fault) {
    for step in &segment.steps {
        let SegmentStep::Download { slot, read, .. } = step else { continue };
        let writer = segment.steps.iter().find_map(|s| match s {
            SegmentStep::Launch(launch) if launch.outputs.contains(slot) => Some(&launch.kernel),
            _ => None,
        });
        if let (Some(kernel), Some(bytes)) = (writer, reads[*read].take()) {
            let mut bytes = HostMemory::copy_of(&bytes);
            fault(kernel, &mut bytes);
            reads[*read].fill(bytes);
        }
    }
}

fn device(fault: Fault, misreads: Misreading) -> Faulty {
    let speed = SimSpeed {
        per_submit: Duration::ZERO,
        per_launch: Duration::ZERO,
        per_wait: Duration::ZERO,
        flops_per_second: f64::INFINITY,
        bytes_per_second: f64::INFINITY,
        link_latency: Duration::ZERO,
        link_bytes_per_second: f64::INFINITY,
    };
    let mut options = SimOptions::new("faulty", speed);
    options.caps.dtypes = vec![DType::F32, DType::I64, DType::Bool];
    Faulty { sim: SimDevice::new(options, &SimClock::new()), fault, misreads, work: Mutex::default() }
}

type Area = for<'a> fn(&mut Bench<'a>, Tier);

/// What the suite says of the device.
fn verdict(device: &Faulty, area: Area) -> String {
    let run = || {
        let mut bench = Bench::new(device);
        area(&mut bench, Tier::Quick);
        bench.finish()
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(counts) => panic!("nothing was found: {counts}"),
        Err(panic) => panic.downcast_ref::<String>().cloned().unwrap_or_default(),
    }
}

fn check_fault(area: Area, fault: Fault, words: &[&str]) {
    let found = verdict(&device(fault, |_| {}), area);
    assert!(words.iter().all(|w| found.contains(w)), "{found}");
}

fn check_misreading(area: Area, misreads: Misreading, words: &[&str]) {
    let found = verdict(&device(|_, _| {}, misreads), area);
    assert!(words.iter().all(|w| found.contains(w)), "{found}");
}

/// Changes each f32 element of the first output.
fn each(kernel: &Kernel, bytes: &mut [u8], change: impl Fn(f32) -> f32) {
    let out = kernel.outputs()[0];
    if out.dtype == DType::F32 {
        for at in out.layout.positions() {
            let Scalar::F(x) = Scalar::load(DType::F32, bytes, at) else { unreachable!("a float") };
            Scalar::F(f64::from(change(x as f32))).store(DType::F32, bytes, at);
        }
    }
}

fn is_row(kernel: &Kernel, name: &str) -> bool {
    matches!(kernel, Kernel::Map(m) if m.expr.rows() == 1
        && m.expr.items().iter().any(|(i, _)| matches!(i, breakeven_ir::Item::Row(r, _) if r.name == name)))
}

#[test]
fn one_unit_in_the_last_place_of_an_exact_row() {
    let fault: Fault = |k, b| {
        if is_row(k, "mul") {
            each(k, b, |x| if x.abs() > 1.0 && x < 1e30 { x.next_up() } else { x });
        }
    };
    check_fault(breakeven_conformance::maps, fault, &["mul f32", "got"]);
}

#[test]
fn nan_that_a_maximum_drops() {
    let fault: Fault = |k, b| {
        if is_row(k, "maximum") {
            each(k, b, |x| if x.is_nan() { 1.0 } else { x });
        }
    };
    check_fault(breakeven_conformance::maps, fault, &["maximum f32", "NaN"]);
}

#[test]
fn a_denormal_flushed_on_a_cpu_and_a_zero_that_lost_its_sign() {
    let flush: Fault = |k, b| each(k, b, |x| if x.is_subnormal() { 0.0 } else { x });
    check_fault(breakeven_conformance::specials, flush, &["special values"]);
    let sign: Fault = |k, b| each(k, b, |x| if x == 0.0 { 0.0 } else { x });
    check_fault(breakeven_conformance::specials, sign, &["-0.0"]);
}

#[test]
fn a_last_element_that_was_not_written() {
    let fault: Fault = |k, b| {
        if let Some(at) = k.outputs()[0].layout.positions().nth(256) {
            let width = k.outputs()[0].dtype.bytes();
            b[at * width..][..width].fill(0xFF);
        }
    };
    check_fault(breakeven_conformance::maps, fault, &["element 256", "NaN"]);
    check_fault(breakeven_conformance::row_wise, fault, &["element 256"]);
}

#[test]
fn a_byte_written_behind_the_end_and_a_truth_value_that_is_none() {
    let behind: Fault = |k, b| {
        let end = k.outputs()[0].span_bytes() as usize;
        b[end] = 0;
    };
    check_fault(breakeven_conformance::copies, behind, &["was changed"]);
    let truth: Fault = |k, b| {
        let out = k.outputs()[0];
        out.layout.positions().filter(|_| out.dtype == DType::Bool).for_each(|at| b[at] *= 255);
    };
    check_fault(breakeven_conformance::maps, truth, &["got B(true), want B(true)"]);
}

#[test]
fn sums_of_half_precision() {
    let fault: Fault = |k, b| {
        if matches!(k, Kernel::Reduce(r) if r.fold == Fold::Sum) || matches!(k, Kernel::MatMul(_) | Kernel::RowWise(_))
        {
            each(k, b, |x| f32::from_bits(x.to_bits() & 0xFFFF_E000));
        }
    };
    check_fault(breakeven_conformance::reductions, fault, &["sum f32"]);
    check_fault(breakeven_conformance::matmuls, fault, &["matmul f32"]);
    check_fault(breakeven_conformance::row_wise, fault, &["softmax f32"]);
}

#[test]
fn the_last_of_equal_places() {
    let fault: Fault = |k, b| {
        if matches!(k, Kernel::Reduce(r) if r.fold == Fold::ArgMax && r.inner.elements() == 16) {
            b[0] = 14;
        }
    };
    check_fault(breakeven_conformance::reductions, fault, &["argmax f32", "of 16", "got I(14)"]);
}

#[test]
fn views_that_are_read_as_if_they_were_dense() {
    let offset: Misreading = |k| {
        if let Kernel::Map(m) = k
            && m.inputs[0].layout.strides.iter().all(|&s| s >= 0)
        {
            m.inputs[0].layout.offset = 0;
        }
    };
    check_misreading(breakeven_conformance::copies, offset, &["copy f32", "offset"]);
    let strides: Misreading = |k| {
        if let Kernel::Reduce(r) = k
            && r.inputs[0].layout.strides.iter().all(|&s| s > 0)
        {
            r.inputs[0].layout.strides = r.inputs[0].layout.shape.strides();
        }
    };
    check_misreading(breakeven_conformance::reductions, strides, &["sum f32", "transposed"]);
}

#[test]
fn every_batch_reads_the_first() {
    let misreads: Misreading = |k| {
        if let Kernel::MatMul(m) = k
            && m.batch.rank() > 0
        {
            m.a.layout.strides[0] = 0;
        }
    };
    check_misreading(breakeven_conformance::matmuls, misreads, &["matmul f32 [3] x"]);
}
