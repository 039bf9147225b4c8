//! Segments compiled for the CPU, and how a submission binds and runs them.

use std::time::{Duration, Instant};

use breakeven_device::{
    Activity, Binding, Clock, DeviceError, HostBytes, HostMemory, Prepared, ReadCell, Recorder, Result, Segment,
    SegmentStep, Span, Timing,
};
use breakeven_ir::{Kernel, Launch, Operand};
use smallvec::SmallVec;

use crate::kept::{Order, Panels, panels};
use crate::kernels::{Bound as Operands, Compiled, Machine, compile};
use crate::memory::{Reading, Slot, Writing};
use crate::program::Scratch;

/// Operands of one launch: usually so few that no memory is asked for.
type Few<T> = SmallVec<[T; 4]>;

/// A segment whose kernels are compiled.
#[derive(Debug)]
pub(crate) struct CpuSegment(Vec<Step>);

impl Prepared for CpuSegment {}

/// What the numbers of a segment stand for while it runs.
#[derive(Debug, Default)]
pub(crate) struct Bound<'a> {
    /// Memory by slot; none where it is another device's.
    pub memory: SmallVec<[Option<Slot<'a>>; 6]>,
    pub uploads: &'a [HostBytes],
    pub reads: &'a [ReadCell],
}

impl<'a> Bound<'a> {
    /// What a submission binds.
    pub fn new(binding: &'a Binding) -> Bound<'a> {
        let memory = binding.buffers.iter().map(|buffer| buffer.memory().map(Slot::Own)).collect();
        Bound { memory, uploads: &binding.uploads, reads: &binding.reads }
    }

    /// The memory bound to `slot`.
    fn memory(&self, slot: usize) -> Result<Slot<'a>> {
        let memory = *self.memory.get(slot).ok_or_else(|| unbound("slot", slot))?;
        memory.ok_or_else(|| DeviceError::Driver(format!("the buffer in slot {slot} is of another device")))
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
    /// Inputs that may lie in the memory of output 0: those of a map whose layout is the output's.
    in_place: Vec<bool>,
    inputs: Vec<Place>,
    outputs: Vec<Place>,
}

/// One operand of a launch: what must be true of its buffer, and where its first element lies.
#[derive(Debug)]
struct Place {
    slot: usize,
    span: u64,
    offset: usize,
    align: usize,
}

impl Place {
    fn new(operand: &Operand, slot: usize) -> Place {
        let width = operand.dtype.bytes();
        Place { slot, span: operand.span_bytes(), offset: operand.layout.offset * width, align: width }
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
        segment.steps.iter().map(step).collect::<Result<_>>().map(CpuSegment)
    }

    /// Runs all steps, one after the other. The clock is read where one kind of step follows another.
    pub fn run(&self, machine: &Machine, bound: &Bound<'_>) -> Result<Timing> {
        let mut timing = Timing { kernel: Some(Duration::ZERO), ..Timing::default() };
        let mut since = Instant::now();
        for (at, step) in self.0.iter().enumerate() {
            step.run(machine, bound)?;
            let next = self.0.get(at + 1).map(std::mem::discriminant);
            if next != Some(std::mem::discriminant(step)) {
                let now = Instant::now();
                *step.part(&mut timing) += now - since;
                since = now;
            }
        }
        Ok(timing)
    }

    /// As [`CpuSegment::run`], writing down when each step ran.
    pub fn run_recorded(&self, machine: &Machine, bound: &Bound<'_>, recorder: &Recorder) -> Result<Timing> {
        let mut timing = Timing { kernel: Some(Duration::ZERO), ..Timing::default() };
        for (at, step) in self.0.iter().enumerate() {
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
        self.0.iter().try_for_each(|step| step.run(machine, bound))
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

    fn run(&self, machine: &Machine, bound: &Bound<'_>) -> Result<()> {
        match self {
            Step::Launch(launch) => launch.run(machine, bound)?,
            Step::Upload { upload, slot } => {
                let bytes = bound.uploads.get(*upload).ok_or_else(|| unbound("upload", *upload))?;
                write(bound, *slot, bytes)?;
            }
            Step::Copy { from, to, bytes } => {
                let bytes = *bytes as usize;
                if bytes > 0 && from != to {
                    let from = bound.memory(*from)?.read()?;
                    write(bound, *to, slice(&from, bytes)?)?;
                }
            }
            Step::Download { slot, bytes, read } => {
                let from = bound.memory(*slot)?.read()?;
                let mut to = HostMemory::zeroed(*bytes as usize);
                to.copy_from_slice(slice(&from, *bytes as usize)?);
                bound.reads.get(*read).ok_or_else(|| unbound("read", *read))?.fill(to);
            }
        }
        Ok(())
    }
}

impl CpuLaunch {
    fn new(machine: &Machine, launch: &Launch) -> Result<CpuLaunch> {
        let places = |operands: Vec<&Operand>, slots: &[usize]| -> Vec<Place> {
            operands.into_iter().zip(slots).map(|(o, &slot)| Place::new(o, slot)).collect()
        };
        let out = launch.kernel.outputs()[0];
        let alike = |o: &&Operand| {
            matches!(launch.kernel, Kernel::Map(_)) && o.layout == out.layout && o.dtype.bytes() == out.dtype.bytes()
        };
        Ok(CpuLaunch {
            in_place: launch.kernel.inputs().iter().map(alike).collect(),
            kernel: compile(machine, &launch.kernel)?,
            inputs: places(launch.kernel.inputs(), &launch.inputs),
            outputs: places(launch.kernel.outputs(), &launch.outputs),
        })
    }

    fn run(&self, machine: &Machine, bound: &Bound<'_>) -> Result<()> {
        let (mut written, mut outputs) = (Few::<Writing<'_>>::new(), Few::<*mut u8>::new());
        for place in &self.outputs {
            let memory = bound.memory(place.slot)?.write()?;
            place.check(memory.bytes())?;
            outputs.push(memory.start().wrapping_add(place.offset));
            written.push(memory);
        }
        // An input may lie in the memory of an output; it is reserved already.
        let mut copies = Vec::new();
        let (mut read, mut inputs) = (Few::<Reading<'_>>::new(), Few::<*const u8>::new());
        for (place, &may) in self.inputs.iter().zip(&self.in_place) {
            let (start, bytes) = match self.reserve(bound, place, may)? {
                Some(memory) => {
                    let found = (memory.start(), memory.bytes());
                    read.push(memory);
                    found
                }
                None => (written[0].start().cast_const(), written[0].bytes()),
            };
            place.check(bytes)?;
            inputs.push(place.aligned(start, &mut copies));
        }
        let panels = self.packed(machine, &read, &inputs);
        let packed = panels.as_ref().and_then(Panels::start);
        // SAFETY: every operand's span lies in its memory, which is reserved as the kernel needs it until the guards
        // drop, and is aligned to its elements. Panels are those of what the second input holds.
        unsafe { self.kernel.run(machine, Operands { inputs: &inputs, outputs: &outputs, packed }) }
    }

    /// The second input of a product as it was packed before, or is now.
    fn packed(&self, machine: &Machine, read: &[Reading<'_>], inputs: &[*const u8]) -> Option<Panels> {
        let (product, keeps) = self.kernel.keeps()?;
        let order = Order { start: self.inputs[1].offset, ..keeps.order };
        // Only a map's inputs may lack a reservation of their own.
        panels(&machine.store, (read.get(1)?, order), keeps.bytes(), |to| {
            // SAFETY: the operand's span lies in its memory, which is reserved for reading, and there is room for the panels.
            unsafe { product.pack(machine, keeps, inputs[1], to) };
        })
    }

    /// Reserves an input for reading; `None` where it lies in the memory of output 0, which is reserved already.
    fn reserve<'a>(&self, bound: &Bound<'a>, input: &Place, in_place: bool) -> Result<Option<Reading<'a>>> {
        let memory = bound.memory(input.slot)?;
        if in_place && bound.memory(self.outputs[0].slot)?.is_same(memory) {
            return Ok(None);
        }
        memory.read().map(Some)
    }
}

impl Place {
    fn check(&self, bytes: usize) -> Result<()> {
        if self.span <= bytes as u64 {
            return Ok(());
        }
        let text = format!("slot {} holds {bytes} bytes, and its operand reaches to {}", self.slot, self.span);
        Err(DeviceError::Driver(text))
    }

    /// The first element, in a copy where host bytes are not aligned to the elements.
    fn aligned(&self, start: *const u8, copies: &mut Vec<Scratch>) -> *const u8 {
        if start.addr().is_multiple_of(self.align) || self.span == 0 {
            return start.wrapping_add(self.offset);
        }
        let mut copy = Scratch::of_bytes(self.span as usize);
        // SAFETY: the operand's span was checked against its memory, and the copy is as long.
        unsafe { std::ptr::copy_nonoverlapping(start, copy.start(), self.span as usize) };
        let place = copy.start().wrapping_add(self.offset);
        copies.push(copy);
        place
    }
}

fn slice<'a>(memory: &'a Reading<'_>, bytes: usize) -> Result<&'a [u8]> {
    if bytes > memory.bytes() {
        return Err(DeviceError::Driver(format!("{bytes} bytes were asked of a buffer of {}", memory.bytes())));
    }
    // SAFETY: the memory is reserved for reading as long as the guard lives.
    Ok(unsafe { std::slice::from_raw_parts(memory.start(), bytes) })
}

fn write(bound: &Bound<'_>, slot: usize, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let memory = bound.memory(slot)?.write()?;
    if bytes.len() > memory.bytes() {
        let text = format!("{} bytes do not fit slot {slot} of {}", bytes.len(), memory.bytes());
        return Err(DeviceError::Driver(text));
    }
    // SAFETY: the memory is reserved for writing, and long enough; what it holds is not among `bytes`, which are host
    // bytes or other reserved memory.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.start(), bytes.len()) };
    Ok(())
}

fn unbound(what: &str, index: usize) -> DeviceError {
    DeviceError::Driver(format!("{what} {index} is not bound"))
}
