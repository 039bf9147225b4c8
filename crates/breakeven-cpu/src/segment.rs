//! Segments compiled for the CPU, and how a submission binds and runs them.

use std::time::{Duration, Instant};

use breakeven_device::{Binding, DeviceError, HostMemory, Prepared, Result, Segment, SegmentStep, Timing};
use breakeven_ir::{Kernel, Launch, Operand};

use crate::kernels::{Compiled, Machine, compile};
use crate::memory::{CpuMemory, Reading, Writing};
use crate::program::Scratch;

/// A segment whose kernels are compiled.
#[derive(Debug)]
pub(crate) struct CpuSegment(Vec<Step>);

impl Prepared for CpuSegment {}

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

    /// Runs all steps, one after the other.
    pub fn run(&self, machine: &Machine, binding: &Binding) -> Result<Timing> {
        let mut timing = Timing { kernel: Some(Duration::ZERO), ..Timing::default() };
        for step in &self.0 {
            let start = Instant::now();
            match step {
                Step::Launch(launch) => {
                    launch.run(machine, binding)?;
                    *timing.kernel.get_or_insert_default() += start.elapsed();
                }
                Step::Upload { upload, slot } => {
                    let bytes = binding.uploads.get(*upload).ok_or_else(|| unbound("upload", *upload))?;
                    write(binding, *slot, bytes)?;
                    timing.upload += start.elapsed();
                }
                Step::Copy { from, to, bytes } => {
                    let bytes = *bytes as usize;
                    if bytes > 0 && from != to {
                        let from = memory(binding, *from)?.read()?;
                        write(binding, *to, slice(&from, bytes)?)?;
                    }
                    *timing.kernel.get_or_insert_default() += start.elapsed();
                }
                Step::Download { slot, bytes, read } => {
                    let from = memory(binding, *slot)?.read()?;
                    let mut to = HostMemory::zeroed(*bytes as usize);
                    to.copy_from_slice(slice(&from, *bytes as usize)?);
                    binding.reads.get(*read).ok_or_else(|| unbound("read", *read))?.fill(to);
                    timing.read += start.elapsed();
                }
            }
        }
        Ok(timing)
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

    fn run(&self, machine: &Machine, binding: &Binding) -> Result<()> {
        let written: Vec<Writing<'_>> =
            self.outputs.iter().map(|p| memory(binding, p.slot)?.write()).collect::<Result<_>>()?;
        let mut outputs = Vec::with_capacity(written.len());
        for (place, memory) in self.outputs.iter().zip(&written) {
            place.check(memory.bytes())?;
            outputs.push(memory.start().wrapping_add(place.offset));
        }
        // An input may lie in the memory of an output; it is reserved already.
        let places = self.inputs.iter().zip(&self.in_place);
        let read: Vec<Option<Reading<'_>>> =
            places.map(|(place, &may)| self.reserve(binding, place, may)).collect::<Result<_>>()?;
        let mut copies = Vec::new();
        let mut inputs = Vec::with_capacity(read.len());
        for (place, memory) in self.inputs.iter().zip(&read) {
            let (start, bytes) = match memory {
                Some(memory) => (memory.start(), memory.bytes()),
                None => (written[0].start().cast_const(), written[0].bytes()),
            };
            place.check(bytes)?;
            inputs.push(place.aligned(start, &mut copies));
        }
        // SAFETY: every operand's span lies in its memory, which is reserved as the kernel needs it until the guards
        // drop, and is aligned to its elements.
        unsafe { self.kernel.run(machine, &inputs, &outputs) }
    }

    /// Reserves an input for reading; `None` where it lies in the memory of output 0, which is reserved already.
    fn reserve<'a>(&self, binding: &'a Binding, input: &Place, in_place: bool) -> Result<Option<Reading<'a>>> {
        let buffer = binding.buffers.get(input.slot).ok_or_else(|| unbound("slot", input.slot))?;
        if in_place && binding.buffers[self.outputs[0].slot].is_same(buffer) {
            return Ok(None);
        }
        memory(binding, input.slot)?.read().map(Some)
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

/// The memory bound to `slot`.
fn memory(binding: &Binding, slot: usize) -> Result<&CpuMemory> {
    let buffer = binding.buffers.get(slot).ok_or_else(|| unbound("slot", slot))?;
    buffer.memory().ok_or_else(|| DeviceError::Driver(format!("the buffer in slot {slot} is of another device")))
}

fn slice<'a>(memory: &'a Reading<'_>, bytes: usize) -> Result<&'a [u8]> {
    if bytes > memory.bytes() {
        return Err(DeviceError::Driver(format!("{bytes} bytes were asked of a buffer of {}", memory.bytes())));
    }
    // SAFETY: the memory is reserved for reading as long as the guard lives.
    Ok(unsafe { std::slice::from_raw_parts(memory.start(), bytes) })
}

fn write(binding: &Binding, slot: usize, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let memory = memory(binding, slot)?.write()?;
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
