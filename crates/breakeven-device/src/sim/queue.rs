//! What a simulated device has been given to do, and what each step costs in virtual time.

use std::time::Duration;

use breakeven_ir::{Kernel, Launch};

use super::SimSpeed;
use super::memory::{read, write};
use crate::{Activity, Binding, Clock, DeviceError, HostMemory, Lane, ReadCell, Result, SegmentStep, Span, Timing};

/// One submission.
#[derive(Debug)]
pub(super) struct Submission {
    pub finish: Duration,
    pub timing: Timing,
    /// Bytes that it moves between host and device.
    pub bytes: u64,
    /// Reads to be filled when it is done.
    pub reads: Vec<(ReadCell, HostMemory)>,
    pub fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Usual,
    Hangs,
    EarlyDone,
}

impl Submission {
    /// Zero where its reads have a NaN of 32 bits.
    pub fn lose_nan(&mut self) {
        for (_, memory) in &mut self.reads {
            for word in memory.chunks_exact_mut(4) {
                if f32::from_le_bytes([word[0], word[1], word[2], word[3]]).is_nan() {
                    word.fill(0);
                }
            }
        }
    }
}

/// When each lane is free again.
#[derive(Debug, Default)]
pub(super) struct Lanes([Duration; 3]);

impl Lanes {
    pub fn free(&mut self, lane: Lane) -> &mut Duration {
        &mut self.0[lane as usize]
    }
}

impl SimSpeed {
    fn kernel(&self, kernel: &Kernel) -> Duration {
        let work = kernel.work();
        let math = work.flops as f64 / self.flops_per_second;
        let memory = work.bytes as f64 / self.bytes_per_second;
        self.per_launch + Duration::from_secs_f64(math.max(memory))
    }

    fn link(&self, bytes: usize) -> Duration {
        self.link_latency + Duration::from_secs_f64(bytes as f64 / self.link_bytes_per_second)
    }
}

/// Runs all steps, one after the other from `start` on.
pub(super) fn run(speed: &SimSpeed, steps: &[SegmentStep], binding: &Binding, start: Duration) -> Result<Submission> {
    let timing = Timing { kernel: Some(Duration::ZERO), ..Timing::default() };
    let mut done = Submission { finish: start, timing, bytes: 0, reads: Vec::new(), fate: Fate::Usual };
    for (at, step) in steps.iter().enumerate() {
        let since = done.finish;
        step.run(speed, binding, &mut done)?;
        if let Some(recorder) = &binding.recorder {
            let (activity, bytes) = step.activity(binding);
            let span = Span { activity, steps: vec![at], bytes, start: since, end: done.finish, clock: Clock::Device };
            recorder.write(span);
        }
    }
    Ok(done)
}

impl SegmentStep {
    fn activity(&self, binding: &Binding) -> (Activity, u64) {
        match self {
            SegmentStep::Launch(_) => (Activity::Kernel, 0),
            SegmentStep::Copy { bytes, .. } => (Activity::Copy, *bytes),
            SegmentStep::Download { bytes, .. } => (Activity::Download, *bytes),
            SegmentStep::Upload { upload, .. } => {
                (Activity::Upload, binding.uploads.get(*upload).map_or(0, |bytes| bytes.len() as u64))
            }
        }
    }

    fn run(&self, speed: &SimSpeed, binding: &Binding, done: &mut Submission) -> Result<()> {
        let start = done.finish;
        match self {
            SegmentStep::Upload { upload, slot } => {
                let bytes = binding.uploads.get(*upload).ok_or_else(|| unbound("upload", *upload))?;
                let cost = speed.link(bytes.len());
                done.bytes += bytes.len() as u64;
                done.timing.upload += cost;
                done.finish += cost;
                write(binding, *slot, bytes, start, done.finish)
            }
            SegmentStep::Download { slot, bytes, read: cell } => {
                let cost = speed.link(*bytes as usize);
                done.bytes += bytes;
                done.timing.read += cost;
                done.finish += cost;
                let data = read(binding, *slot, start, done.finish)?;
                let mut memory = HostMemory::zeroed(*bytes as usize);
                memory.copy_from_slice(data.get(..*bytes as usize).ok_or_else(|| unbound("bytes of slot", *slot))?);
                let cell = binding.reads.get(*cell).ok_or_else(|| unbound("read", *cell))?;
                done.reads.push((cell.clone(), memory));
                Ok(())
            }
            SegmentStep::Copy { from, to, bytes } => {
                let cost = Duration::from_secs_f64(2.0 * *bytes as f64 / speed.bytes_per_second);
                done.finish += cost;
                let data = read(binding, *from, start, done.finish)?;
                write(binding, *to, &data[..*bytes as usize], start.max(done.finish), done.finish)
            }
            SegmentStep::Launch(launch) => {
                let cost = speed.kernel(&launch.kernel);
                *done.timing.kernel.get_or_insert_default() += cost;
                done.finish += cost;
                compute(launch, binding, start, done.finish)
            }
        }
    }
}

/// The reference kernel, over copies: an input that is also an output is read first.
fn compute(launch: &Launch, binding: &Binding, start: Duration, end: Duration) -> Result<()> {
    let held: Vec<Vec<u8>> =
        launch.inputs.iter().map(|&slot| read(binding, slot, start, start)).collect::<Result<_>>()?;
    let inputs: Vec<&[u8]> = held.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<Vec<u8>> =
        launch.outputs.iter().map(|&slot| read(binding, slot, start, start)).collect::<Result<_>>()?;
    let mut places: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    match &launch.kernel {
        Kernel::Custom(k) => {
            let panicked = |message| DeviceError::Custom { name: k.op.name().to_owned(), message };
            k.run(&inputs, &mut places).map_err(panicked)?;
        }
        kernel => kernel.reference(&inputs, &mut places),
    }
    for (&slot, bytes) in launch.outputs.iter().zip(&outputs) {
        write(binding, slot, bytes, start, end)?;
    }
    for &slot in &launch.inputs {
        let mut cell = super::memory::memory(binding, slot)?.lock();
        cell.read = cell.read.max(end);
    }
    // Scratch is written by nobody else meanwhile.
    launch.workspace.map_or(Ok(()), |slot| write(binding, slot, &[], start, end))
}

fn unbound(what: &str, index: usize) -> DeviceError {
    DeviceError::Driver(format!("{what} {index} is not bound"))
}
