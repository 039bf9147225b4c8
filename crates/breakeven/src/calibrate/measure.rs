//! Running a segment many times and keeping the lower quartile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use breakeven_device::{
    Binding, Buffer, Deadline, Device, DeviceError, HostBytes, Lane, MemoryKind, Prepared, ReadCell, Segment,
    SegmentStep,
};
use breakeven_ir::{DType, Kernel, Launch, Operand};

use super::Effort;

/// A device on the bench.
pub(super) struct Bench<'a> {
    pub device: &'a Arc<dyn Device>,
    pub effort: Effort,
    /// False once nobody waits for the result.
    pub go_on: &'a dyn Fn() -> bool,
}

/// Time of one segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Lower quartile, on the device's clock, from submit to done.
    pub seconds: f64,
    /// Of that, until submit returned.
    pub submit_seconds: f64,
    /// Standard deviation of the logarithm.
    pub spread: f64,
    /// Runs behind it.
    pub count: u32,
    /// The longest run of the fastest round on the wall clock.
    pub wall: Duration,
}

/// How long rounds took so far.
#[derive(Debug, Default)]
struct Pace {
    fastest: Option<Duration>,
    rounds: usize,
}

/// Rounds after which it is the size that takes long, where all of them did. One or two may be stalls of the host, or rounds in which a
/// device makes code.
const SLOW: usize = 3;

impl Pace {
    fn add(&mut self, round: Duration) {
        self.fastest = Some(self.fastest.map_or(round, |fastest| fastest.min(round)));
        self.rounds += 1;
    }

    fn is_too_slow(&self, longest: Duration) -> bool {
        self.rounds >= SLOW && self.fastest.is_some_and(|fastest| fastest >= longest)
    }
}

/// How long a device is kept busy before it is measured: GPUs that idled take some tens of milliseconds to raise their clocks.
const WAKING: Duration = Duration::from_millis(100);
/// Runs shorter than this in all are repeated more often, which costs little.
const BRIEF: Duration = Duration::from_millis(2);

impl Bench<'_> {
    /// Compiles kernels, which are not run.
    pub fn compile(&self, kernels: &[Kernel]) -> Result<(), DeviceError> {
        self.is_wanted()?;
        let mut slots = 0..;
        let mut step = |kernel: &Kernel| {
            let inputs: Vec<usize> = slots.by_ref().take(kernel.inputs().len()).collect();
            let outputs = slots.by_ref().take(kernel.outputs().len()).collect();
            SegmentStep::Launch(Box::new(Launch { kernel: kernel.clone(), inputs, outputs, workspace: None }))
        };
        self.device.prepare(&Segment { steps: kernels.iter().map(&mut step).collect() }).map(drop)
    }

    /// Keeps the device busy until it is as fast as it becomes: by the largest of these kernels that it does in a moment.
    pub fn wake(&self, sized: fn(usize) -> Kernel) -> Result<(), DeviceError> {
        let (started, mut size) = (Instant::now(), 64);
        while self.device.supports(&sized(size)).is_ok() && started.elapsed() < WAKING {
            let (one, _) = self.kernel(&sized(size), 1)?;
            size = if one.wall < BRIEF { (2 * size).min(1024) } else { size };
        }
        Ok(())
    }

    /// A segment of one launch of `kernel` and one of `times`, over data that was really written.
    pub fn kernel(&self, kernel: &Kernel, times: usize) -> Result<(Sample, Sample), DeviceError> {
        let mut buffers = Vec::new();
        let mut slots = |operands: Vec<&Operand>| -> Result<Vec<usize>, DeviceError> {
            let one = |o: &&Operand| {
                buffers.push(self.filled(o.span_bytes(), o.dtype)?);
                Ok(buffers.len() - 1)
            };
            operands.iter().map(one).collect()
        };
        let (inputs, outputs) = (slots(kernel.inputs())?, slots(kernel.outputs())?);
        let launch = Launch { kernel: kernel.clone(), inputs, outputs, workspace: None };
        let binding = Binding { buffers, ..Binding::default() };
        self.once_and_often(&SegmentStep::Launch(Box::new(launch)), &binding, times)
    }

    /// As [`Bench::kernel`], over inputs that hold these bytes.
    pub fn kernel_over(
        &self,
        kernel: &Kernel,
        inputs: &[HostBytes],
        times: usize,
    ) -> Result<(Sample, Sample), DeviceError> {
        let given = inputs.iter().map(|bytes| self.holding(bytes.clone()));
        let outputs = kernel.outputs().into_iter().map(|o| self.filled(o.span_bytes(), o.dtype));
        let buffers = given.chain(outputs).collect::<Result<Vec<Buffer>, DeviceError>>()?;
        let slots: Vec<usize> = (0..buffers.len()).collect();
        let (inputs, outputs) = slots.split_at(inputs.len());
        let (inputs, outputs) = (inputs.to_vec(), outputs.to_vec());
        let launch = Launch { kernel: kernel.clone(), inputs, outputs, workspace: None };
        let binding = Binding { buffers, ..Binding::default() };
        self.once_and_often(&SegmentStep::Launch(Box::new(launch)), &binding, times)
    }

    /// A segment that brings `bytes` to the device once, and one that does so `times`.
    pub fn upload(&self, bytes: usize, times: usize) -> Result<(Sample, Sample), DeviceError> {
        let uploads = vec![HostBytes::from_vec(vec![0x3Fu8; bytes])];
        let binding = Binding { buffers: vec![self.room(bytes)?], uploads, ..Binding::default() };
        self.once_and_often(&SegmentStep::Upload { upload: 0, slot: 0 }, &binding, times)
    }

    /// A segment that brings `bytes` to the host once, where whoever wants them copies them to memory of its own, and one that
    /// does so `times`.
    pub fn download(&self, bytes: usize, times: usize) -> Result<(Sample, Sample), DeviceError> {
        let binding = Binding { buffers: vec![self.room(bytes)?], reads: vec![ReadCell::new()], ..Binding::default() };
        self.once_and_often(&SegmentStep::Download { slot: 0, bytes: bytes as u64, read: 0 }, &binding, times)
    }

    fn room(&self, bytes: usize) -> Result<Buffer, DeviceError> {
        self.device.alloc(bytes as u64, MemoryKind::Resident)
    }

    /// In turns, so that both meet the same weather.
    fn once_and_often(
        &self,
        step: &SegmentStep,
        binding: &Binding,
        times: usize,
    ) -> Result<(Sample, Sample), DeviceError> {
        self.is_wanted()?;
        let prepare = |times: usize| self.device.prepare(&Segment { steps: vec![step.clone(); times] });
        let works = [prepare(1)?, prepare(times)?];
        let mut runs = [Vec::new(), Vec::new()];
        let (mut pace, mut arrived) = (Pace::default(), Vec::new());
        // The first round compiles and touches memory; it is thrown away.
        let mut begun = Instant::now();
        for round in 0..=4 * self.effort.repeats {
            if round > self.effort.repeats && begun.elapsed() > BRIEF {
                break;
            }
            let mut wall = Duration::ZERO;
            for (work, runs) in works.iter().zip(&mut runs) {
                let started = Instant::now();
                let run = self.run(work, binding, &mut arrived)?;
                wall = wall.max(started.elapsed());
                if round > 0 {
                    runs.push(run);
                }
            }
            if round == 0 {
                begun = Instant::now();
                continue;
            }
            pace.add(wall);
            if pace.is_too_slow(self.effort.longest) {
                break;
            }
        }
        let (wall, [one, many]) = (pace.fastest.unwrap_or_default(), runs);
        Ok((summary(one, wall), summary(many, wall)))
    }

    /// An error once nobody waits for what is measured.
    pub fn is_wanted(&self) -> Result<(), DeviceError> {
        (self.go_on)().then_some(()).ok_or(DeviceError::Cancelled)
    }

    /// Seconds from submit to done, and until submit returned, on the device's clock. What came is copied to `arrived`.
    fn run(
        &self,
        work: &Arc<dyn Prepared>,
        binding: &Binding,
        arrived: &mut Vec<u8>,
    ) -> Result<(f64, f64), DeviceError> {
        let before = self.device.now();
        let ticket = self.device.submit(work, binding.clone(), Lane::Compute, &[])?;
        let submitted = self.device.now();
        self.device.wait(ticket, limit())?;
        if let Some(bytes) = binding.reads.first().and_then(ReadCell::take) {
            arrived.resize(bytes.len(), 0);
            self.device.copy_on_host(&bytes, arrived);
        }
        Ok((seconds(before, self.device.now()), seconds(before, submitted)))
    }

    /// A buffer whose numbers do not decay to denormals: every byte is 0x3F, which is 0.747 as f32. Indices are 0.
    fn filled(&self, bytes: u64, dtype: DType) -> Result<Buffer, DeviceError> {
        let byte: u8 = if dtype.is_float() { 0x3F } else { 0 };
        self.holding(HostBytes::from_vec(vec![byte; bytes as usize]))
    }

    /// A buffer that holds `bytes`.
    fn holding(&self, bytes: HostBytes) -> Result<Buffer, DeviceError> {
        let buffer = self.device.alloc(bytes.len() as u64, MemoryKind::Resident)?;
        let work = self.device.prepare(&Segment { steps: vec![SegmentStep::Upload { upload: 0, slot: 0 }] })?;
        let binding =
            Binding { buffers: vec![buffer.clone()], uploads: vec![bytes], reads: vec![], ..Binding::default() };
        let ticket = self.device.submit(&work, binding, Lane::Compute, &[])?;
        self.device.wait(ticket, limit())?;
        Ok(buffer)
    }
}

fn limit() -> Deadline {
    Deadline::after(Duration::from_secs(10))
}

fn seconds(from: Duration, to: Duration) -> f64 {
    to.saturating_sub(from).as_secs_f64().max(super::SHORTEST)
}

fn summary(mut runs: Vec<(f64, f64)>, wall: Duration) -> Sample {
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (seconds, submit_seconds) = runs[runs.len() / 4];
    let logs: Vec<f64> = runs.iter().map(|(s, _)| (s / seconds).ln()).collect();
    // Only the quiet half: a stall of the host says nothing about the device.
    let quiet = &logs[..logs.len().div_ceil(2)];
    let spread = (quiet.iter().map(|x| x * x).sum::<f64>() / quiet.len() as f64).sqrt();
    Sample { seconds, submit_seconds, spread, count: runs.len() as u32, wall }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_rounds_end_nothing_where_any_was_fast_and_do_not_count_as_the_sizes_own() {
        let ms = Duration::from_millis;
        let after = |rounds: &[u64]| {
            let mut pace = Pace::default();
            for round in rounds {
                pace.add(ms(*round));
            }
            (pace.is_too_slow(ms(4)), pace.fastest)
        };
        assert_eq!(after(&[9, 8]), (false, Some(ms(8))), "it may have been the host");
        assert_eq!(after(&[9, 8, 4]), (true, Some(ms(4))));
        assert_eq!(after(&[9, 8, 1, 7, 9]), (false, Some(ms(1))));
    }
}
