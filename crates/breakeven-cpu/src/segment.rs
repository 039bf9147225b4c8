//! Segments compiled for the CPU, and how a submission binds and runs them.

use std::collections::BTreeMap;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use breakeven_device::{
    Activity, Binding, Clock, DeviceError, HostBytes, HostMemory, Prepared, ReadCell, Recorder, Result, Segment,
    SegmentStep, Span, Timing,
};
use breakeven_ir::{Kernel, Launch, Operand};

use crate::kept::{Order, Panels, panels};
use crate::kernels::{Bound as Operands, Compiled, Machine, compile};
use crate::program::Scratch;
use crate::slots::{Refusal, Slot, Slots, Use};

/// Operands of one launch that are placed without asking for memory.
const FEW: usize = 8;

/// A segment whose kernels are compiled.
#[derive(Debug)]
pub(crate) struct CpuSegment {
    steps: Vec<Step>,
    /// Slots of its steps, the written ones first, where every upload brings something.
    uses: Vec<Use>,
}

impl Prepared for CpuSegment {}

/// What the numbers of a segment stand for while it runs.
#[derive(Debug, Default)]
pub(crate) struct Bound<'a> {
    pub memory: Slots<'a>,
    pub uploads: &'a [HostBytes],
    pub reads: &'a [ReadCell],
}

impl<'a> Bound<'a> {
    #[inline]
    fn memory(&self, slot: usize) -> std::result::Result<&Slot<'a>, Refusal> {
        self.memory.get(slot)
    }

    // Never inline: launches are short enough that their stack frame counts.
    #[inline(never)]
    fn upload(&self, upload: usize, slot: usize) -> Result<()> {
        let bytes = self.uploads.get(upload).ok_or_else(|| unbound("upload", upload))?;
        self.write(slot, bytes)
    }

    #[inline(never)]
    fn copy(&self, from: usize, to: usize, bytes: usize) -> Result<()> {
        if bytes == 0 || from == to {
            return Ok(());
        }
        let source = self.memory(from)?;
        source.apart_from(self.memory(to)?)?;
        self.write(to, slice(source, bytes)?)
    }

    #[inline(never)]
    fn download(&self, slot: usize, bytes: usize, read: usize) -> Result<()> {
        let from = slice(self.memory(slot)?, bytes)?;
        let mut to = HostMemory::zeroed(bytes);
        to.copy_from_slice(from);
        self.reads.get(read).ok_or_else(|| unbound("read", read))?.fill(to);
        Ok(())
    }

    fn write(&self, slot: usize, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let memory = self.memory(slot)?;
        let to = memory.write()?;
        if bytes.len() > memory.bytes() {
            let text = format!("{} bytes do not fit slot {slot} of {}", bytes.len(), memory.bytes());
            return Err(DeviceError::Driver(text));
        }
        // SAFETY: `to` is the start of memory that is lent to this run alone, or that it holds for writing until it ends, and which is
        // long enough. Neither holds `bytes`: those of an upload may lie in memory of the device only if that is frozen, which nobody
        // holds for writing, and those of a copy were checked to lie in other memory. The steps of a run follow each other.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }
}

#[derive(Debug)]
enum Step {
    Upload { upload: usize, slot: usize },
    Launch(Box<CpuLaunch>),
    Copy { from: usize, to: usize, bytes: u64 },
    Download { slot: usize, bytes: u64, read: usize },
}

#[derive(Debug)]
struct CpuLaunch {
    kernel: Compiled,
    /// Inputs, then outputs.
    places: Box<[Place]>,
    inputs: usize,
}

/// One operand of a launch: what must be true of its buffer, and where its first element lies.
#[derive(Debug)]
struct Place {
    slot: usize,
    span: u64,
    offset: usize,
    align: usize,
    /// An input that may lie in the memory of output 0: that of a map whose layout is the output's.
    may_share: bool,
}

impl Place {
    fn new(operand: &Operand, slot: usize) -> Place {
        let width = operand.dtype.bytes();
        let offset = operand.layout.offset * width;
        Place { slot, span: operand.span_bytes(), offset, align: width, may_share: false }
    }
}

impl CpuSegment {
    /// Compiles every kernel.
    pub fn new(machine: &Machine, segment: &Segment) -> Result<CpuSegment> {
        let step = |step: &SegmentStep| {
            Ok(match step {
                SegmentStep::Upload { upload, slot } => Step::Upload { upload: *upload, slot: *slot },
                SegmentStep::Copy { from, to, bytes } => Step::Copy { from: *from, to: *to, bytes: *bytes },
                SegmentStep::Download { slot, bytes, read } => {
                    Step::Download { slot: *slot, bytes: *bytes, read: *read }
                }
                SegmentStep::Launch(launch) => Step::Launch(Box::new(CpuLaunch::new(machine, launch)?)),
            })
        };
        let steps = segment.steps.iter().map(step).collect::<Result<_>>()?;
        Ok(CpuSegment::of(steps))
    }

    fn of(steps: Vec<Step>) -> CpuSegment {
        let uses = uses(&steps, &|_| false);
        CpuSegment { steps, uses }
    }

    /// Runs all steps over what a submission binds, which is reserved meanwhile. Reserving it counts with the steps: a look at the
    /// clock takes as long.
    pub fn run_bound(&self, machine: &Machine, binding: &Binding) -> Result<Timing> {
        let start = Instant::now();
        // Filled in place: what is moved about costs more than what is reserved.
        let mut bound = Bound { memory: Slots::default(), uploads: &binding.uploads, reads: &binding.reads };
        let is_empty = |upload: usize| binding.uploads.get(upload).is_some_and(|bytes| bytes.is_empty());
        if binding.uploads.iter().any(|bytes| bytes.is_empty()) {
            bound.memory.reserve(&binding.buffers, &uses(&self.steps, &is_empty))?;
        } else {
            bound.memory.reserve(&binding.buffers, &self.uses)?;
        }
        match &binding.recorder {
            None => self.run(machine, &bound, start),
            Some(recorder) => self.run_recorded(machine, &bound, recorder),
        }
    }

    /// Runs all steps, one after the other. The clock is read where one kind of step follows another.
    fn run(&self, machine: &Machine, bound: &Bound<'_>, mut since: Instant) -> Result<Timing> {
        let mut timing = Timing { kernel: Some(Duration::ZERO), ..Timing::default() };
        for (at, step) in self.steps.iter().enumerate() {
            step.run(machine, bound)?;
            let next = self.steps.get(at + 1).map(std::mem::discriminant);
            if next != Some(std::mem::discriminant(step)) {
                let now = Instant::now();
                *step.part(&mut timing) += now - since;
                since = now;
            }
        }
        Ok(timing)
    }

    /// As [`CpuSegment::run`], writing down when each step ran.
    fn run_recorded(&self, machine: &Machine, bound: &Bound<'_>, recorder: &Recorder) -> Result<Timing> {
        let mut timing = Timing { kernel: Some(Duration::ZERO), ..Timing::default() };
        for (at, step) in self.steps.iter().enumerate() {
            let start = machine.store.now();
            step.run(machine, bound)?;
            let end = machine.store.now();
            *step.part(&mut timing) += end.saturating_sub(start);
            let (activity, bytes) = step.activity(bound);
            recorder.write(Span { activity, steps: vec![at], bytes, start, end, clock: Clock::Host });
        }
        Ok(timing)
    }

    /// Runs all steps without looking at the clock.
    pub fn run_untimed(&self, machine: &Machine, bound: &Bound<'_>) -> Result<()> {
        self.steps.iter().try_for_each(|step| step.run(machine, bound))
    }
}

impl Step {
    /// What it is, and how many bytes it moves.
    fn activity(&self, bound: &Bound<'_>) -> (Activity, u64) {
        match self {
            Step::Launch(_) => (Activity::Kernel, 0),
            Step::Upload { upload, .. } => {
                (Activity::Upload, bound.uploads.get(*upload).map_or(0, |bytes| bytes.len() as u64))
            }
            Step::Copy { bytes, .. } => (Activity::Copy, *bytes),
            Step::Download { bytes, .. } => (Activity::Download, *bytes),
        }
    }

    /// The part of a timing that it belongs to.
    fn part<'a>(&self, timing: &'a mut Timing) -> &'a mut Duration {
        match self {
            Step::Upload { .. } => &mut timing.upload,
            Step::Launch(_) | Step::Copy { .. } => timing.kernel.get_or_insert_default(),
            Step::Download { .. } => &mut timing.read,
        }
    }

    #[inline]
    fn run(&self, machine: &Machine, bound: &Bound<'_>) -> Result<()> {
        match self {
            Step::Launch(launch) => launch.run(machine, bound),
            Step::Upload { upload, slot } => bound.upload(*upload, *slot),
            Step::Copy { from, to, bytes } => bound.copy(*from, *to, *bytes as usize),
            Step::Download { slot, bytes, read } => bound.download(*slot, *bytes as usize, *read),
        }
    }
}

impl CpuLaunch {
    fn new(machine: &Machine, launch: &Launch) -> Result<CpuLaunch> {
        let out = launch.kernel.outputs()[0];
        let alike = |o: &Operand| {
            matches!(launch.kernel, Kernel::Map(_)) && o.layout == out.layout && o.dtype.bytes() == out.dtype.bytes()
        };
        let inputs = launch.kernel.inputs().into_iter().zip(&launch.inputs);
        let outputs = launch.kernel.outputs().into_iter().zip(&launch.outputs);
        let inputs = inputs.map(|(o, &slot)| Place { may_share: alike(o), ..Place::new(o, slot) });
        Ok(CpuLaunch {
            kernel: compile(machine, &launch.kernel)?,
            inputs: inputs.len(),
            places: inputs.chain(outputs.map(|(o, &slot)| Place::new(o, slot))).collect(),
        })
    }

    #[inline]
    fn run(&self, machine: &Machine, bound: &Bound<'_>) -> Result<()> {
        let mut few = [null_mut(); FEW];
        match few.get_mut(..self.places.len()) {
            Some(operands) => self.run_at(operands, machine, bound),
            None => self.run_many(machine, bound),
        }
    }

    #[cold]
    fn run_many(&self, machine: &Machine, bound: &Bound<'_>) -> Result<()> {
        self.run_at(&mut vec![null_mut(); self.places.len()], machine, bound)
    }

    /// Runs it, where `operands` has room for the place of each.
    #[inline(always)]
    fn run_at(&self, operands: &mut [*mut u8], machine: &Machine, bound: &Bound<'_>) -> Result<()> {
        let mut copies = Vec::new();
        for (at, to) in operands.iter_mut().enumerate() {
            *to = if at < self.inputs { self.input(at, bound, &mut copies) } else { self.output(at, bound) }
                .map_err(|refusal| refusal.of(&self.places[at]))?;
        }
        let panels = if self.kernel.keeps().is_some() { self.packed(machine, bound, operands) } else { None };
        let packed = panels.as_ref().map(Panels::start);
        // SAFETY: every operand's span lies in its memory, which is the run's as the kernel needs it, and is aligned to its
        // elements; no input lies in memory that is written but where it may. Panels are those of what the second input holds.
        unsafe { self.kernel.run(machine, Operands::new(operands, self.inputs, packed)) }
    }

    /// Where input `at` lies, in a copy where host bytes are not aligned to its elements.
    #[inline(always)]
    fn input(&self, at: usize, bound: &Bound<'_>, copies: &mut Vec<Scratch>) -> std::result::Result<*mut u8, Refusal> {
        let place = &self.places[at];
        let memory = bound.memory(place.slot)?;
        place.check(memory)?;
        // It may lie in the memory of the first output.
        let mut others = self.places.iter().skip(self.inputs + usize::from(place.may_share));
        others.try_for_each(|other| memory.apart_from(bound.memory(other.slot)?))?;
        Ok(place.aligned(memory.start(), copies).cast_mut())
    }

    /// Where operand `at` lies, an output.
    #[inline(always)]
    fn output(&self, at: usize, bound: &Bound<'_>) -> std::result::Result<*mut u8, Refusal> {
        let place = &self.places[at];
        let memory = bound.memory(place.slot)?;
        place.check(memory)?;
        let mut others = self.places[..at].iter().skip(self.inputs);
        others.try_for_each(|other| memory.apart_from(bound.memory(other.slot)?))?;
        Ok(memory.write()?.wrapping_add(place.offset))
    }

    /// The second input of a product as it was packed before, or is now.
    #[inline(never)]
    fn packed(&self, machine: &Machine, bound: &Bound<'_>, operands: &[*mut u8]) -> Option<Panels> {
        let (product, keeps) = self.kernel.keeps()?;
        let order = Order { start: self.places[1].offset, ..keeps.order };
        let memory = bound.memory(self.places[1].slot).ok()?;
        panels(&machine.store, (memory, order), keeps.bytes(), |to| {
            // SAFETY: the operand's span lies in its memory, which is the run's, and there is room for the panels.
            unsafe { product.pack(machine, keeps, operands[1], to) };
        })
    }
}

impl Place {
    #[inline]
    fn check(&self, memory: &Slot<'_>) -> std::result::Result<(), Refusal> {
        if self.span <= memory.bytes() as u64 { Ok(()) } else { Err(Refusal::Short(memory.bytes())) }
    }

    /// The first element, in a copy where host bytes are not aligned to the elements.
    #[inline]
    fn aligned(&self, start: *const u8, copies: &mut Vec<Scratch>) -> *const u8 {
        // Widths are powers of two, and the processor's division takes longer than all else here.
        if start.addr() & (self.align - 1) == 0 || self.span == 0 {
            return start.wrapping_add(self.offset);
        }
        self.copied(start, copies)
    }

    #[cold]
    fn copied(&self, start: *const u8, copies: &mut Vec<Scratch>) -> *const u8 {
        let mut copy = Scratch::of_bytes(self.span as usize);
        // SAFETY: the operand's span was checked against its memory, and the copy is as long.
        unsafe { std::ptr::copy_nonoverlapping(start, copy.start(), self.span as usize) };
        let place = copy.start().wrapping_add(self.offset);
        copies.push(copy);
        place
    }
}

/// The slots of all steps, the written ones first: memory that stands in two slots is reserved for writing where one is written.
/// What brings no bytes writes nothing.
fn uses(steps: &[Step], is_empty: &dyn Fn(usize) -> bool) -> Vec<Use> {
    let mut written: BTreeMap<usize, bool> = BTreeMap::new();
    let mut take = |slot: usize, is_written: bool| *written.entry(slot).or_default() |= is_written;
    for step in steps {
        match step {
            Step::Upload { upload, .. } if is_empty(*upload) => {}
            Step::Copy { bytes: 0, .. } => {}
            Step::Upload { slot, .. } => take(*slot, true),
            Step::Copy { from, to, .. } => {
                take(*from, false);
                take(*to, from != to);
            }
            Step::Download { slot, .. } => take(*slot, false),
            Step::Launch(launch) => {
                let slots = launch.places.iter().map(|place| place.slot).enumerate();
                slots.for_each(|(at, slot)| take(slot, at >= launch.inputs));
            }
        }
    }
    let mut all: Vec<Use> = written.into_iter().map(|(slot, is_written)| Use { slot, is_written }).collect();
    all.sort_by_key(|one| !one.is_written);
    all
}

fn slice<'s>(memory: &'s Slot<'_>, bytes: usize) -> Result<&'s [u8]> {
    if bytes > memory.bytes() {
        return Err(DeviceError::Driver(format!("{bytes} bytes were asked of a buffer of {}", memory.bytes())));
    }
    // SAFETY: the memory is the run's, whose steps follow each other, and this step writes other memory.
    Ok(unsafe { std::slice::from_raw_parts(memory.start(), bytes) })
}

impl Refusal {
    /// As an error about an operand.
    #[cold]
    fn of(self, place: &Place) -> DeviceError {
        match self {
            Refusal::Short(bytes) => {
                let text =
                    format!("slot {} holds {bytes} bytes, and its operand reaches to {}", place.slot, place.span);
                DeviceError::Driver(text)
            }
            other => other.into(),
        }
    }
}

#[cold]
fn unbound(what: &str, index: usize) -> DeviceError {
    DeviceError::Driver(format!("{what} {index} is not bound"))
}
