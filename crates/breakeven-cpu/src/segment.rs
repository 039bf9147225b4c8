//! Segments compiled for the CPU, and how a submission binds and runs them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use breakeven_device::{
    Activity, Binding, Clock, DeviceError, HostBytes, HostMemory, Prepared, ReadCell, Recorder, Result, Segment,
    SegmentStep, Span, Timing,
};

use crate::kernels::Machine;
use crate::launch::CpuLaunch;
use crate::slots::{Refusal, Slot, Slots, Use};
use crate::together::{Group, Together};

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
    pub fn memory(&self, slot: usize) -> std::result::Result<&Slot<'a>, Refusal> {
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
pub(crate) enum Step {
    Upload { upload: usize, slot: usize },
    Launch(Box<CpuLaunch>),
    Together(Box<Together>),
    Copy { from: usize, to: usize, bytes: u64 },
    Download { slot: usize, bytes: u64, read: usize },
}

impl CpuSegment {
    /// Compiles every kernel.
    pub fn new(machine: &Machine, segment: &Segment) -> Result<CpuSegment> {
        let (mut steps, mut group) = (Vec::new(), Group::default());
        for step in &segment.steps {
            if let SegmentStep::Launch(launch) = step {
                let nanoseconds = machine.nanoseconds(&launch.kernel);
                steps.extend(group.add(CpuLaunch::new(machine, launch)?, launch, nanoseconds));
            } else {
                steps.extend(group.end());
                steps.extend(Step::of(step));
            }
        }
        steps.extend(group.end());
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
        let mut at = 0;
        for step in &self.steps {
            let mut timed = |count: usize, run: &dyn Fn() -> Result<()>| -> Result<()> {
                let start = machine.store.now();
                run()?;
                let end = machine.store.now();
                *step.part(&mut timing) += end.saturating_sub(start);
                let (activity, bytes) = step.activity(bound);
                let steps = (at..at + count).collect();
                recorder.write(Span { activity, steps, bytes, start, end, clock: Clock::Host });
                at += count;
                Ok(())
            };
            match step {
                Step::Together(group) if !group.is_side_by_side(machine, bound) => {
                    group.launches.iter().try_for_each(|launch| timed(1, &|| launch.run(machine, bound)))?;
                }
                step => timed(step.count(), &|| step.run(machine, bound))?,
            }
        }
        Ok(timing)
    }

    /// Runs all steps without looking at the clock.
    pub fn run_untimed(&self, machine: &Machine, bound: &Bound<'_>) -> Result<()> {
        self.steps.iter().try_for_each(|step| step.run(machine, bound))
    }
}

impl Step {
    /// What is no launch.
    fn of(step: &SegmentStep) -> Option<Step> {
        Some(match *step {
            SegmentStep::Upload { upload, slot } => Step::Upload { upload, slot },
            SegmentStep::Copy { from, to, bytes } => Step::Copy { from, to, bytes },
            SegmentStep::Download { slot, bytes, read } => Step::Download { slot, bytes, read },
            SegmentStep::Launch(_) => return None,
        })
    }

    /// Steps of the segment that it carries out.
    fn count(&self) -> usize {
        if let Step::Together(launches) = self { launches.count() } else { 1 }
    }

    /// What it is, and how many bytes it moves.
    fn activity(&self, bound: &Bound<'_>) -> (Activity, u64) {
        match self {
            Step::Launch(_) | Step::Together(_) => (Activity::Kernel, 0),
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
            Step::Launch(_) | Step::Together(_) | Step::Copy { .. } => timing.kernel.get_or_insert_default(),
            Step::Download { .. } => &mut timing.read,
        }
    }

    #[inline]
    fn run(&self, machine: &Machine, bound: &Bound<'_>) -> Result<()> {
        match self {
            Step::Launch(launch) => launch.run(machine, bound),
            Step::Together(launches) => launches.run(machine, bound),
            Step::Upload { upload, slot } => bound.upload(*upload, *slot),
            Step::Copy { from, to, bytes } => bound.copy(*from, *to, *bytes as usize),
            Step::Download { slot, bytes, read } => bound.download(*slot, *bytes as usize, *read),
        }
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
            Step::Launch(launch) => launch.slots().for_each(|(slot, is_written)| take(slot, is_written)),
            Step::Together(launches) => launches.slots().for_each(|(slot, is_written)| take(slot, is_written)),
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

#[cold]
fn unbound(what: &str, index: usize) -> DeviceError {
    DeviceError::Driver(format!("{what} {index} is not bound"))
}
