//! Running a segment on a device, over memory that was really written.

use std::sync::Arc;
use std::time::{Duration, Instant};

use breakeven_device::{
    Binding, Buffer, Deadline, Device, DeviceError, HostBytes, Lane, MemoryKind, Prepared, ReadCell, Segment,
    SegmentStep,
};
use breakeven_ir::{DType, Kernel, Launch, Operand};

use super::Effort;
use super::rounds::{BRIEF, Rounds, Run, Sample};

/// A device on the bench.
pub(super) struct Bench<'a> {
    pub device: &'a Arc<dyn Device>,
    pub effort: Effort,
    /// False once nobody waits for the result.
    pub go_on: &'a dyn Fn() -> bool,
}

/// How long a device is kept busy before it is measured: GPUs that idled take some tens of milliseconds to raise their clocks.
const WAKING: Duration = Duration::from_millis(100);

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
        let (launch, binding) = self.launch(kernel)?;
        self.once_and_often(&launch, &binding, times)
    }

    /// As [`Bench::kernel`], without what is launched `times` where a lone launch takes longer than `lone_from` seconds.
    pub fn kernel_or_lone(
        &self,
        kernel: &Kernel,
        times: usize,
        lone_from: Option<f64>,
    ) -> Result<(Sample, Option<Sample>), DeviceError> {
        let (launch, binding) = self.launch(kernel)?;
        self.in_rounds(&launch, &binding, Rounds::new(self.effort, times, lone_from))
    }

    /// A launch of `kernel`, and the memory that it works on.
    fn launch(&self, kernel: &Kernel) -> Result<(SegmentStep, Binding), DeviceError> {
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
        Ok((SegmentStep::Launch(Box::new(launch)), Binding { buffers, ..Binding::default() }))
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

    fn once_and_often(
        &self,
        step: &SegmentStep,
        binding: &Binding,
        times: usize,
    ) -> Result<(Sample, Sample), DeviceError> {
        let (one, many) = self.in_rounds(step, binding, Rounds::new(self.effort, times, None))?;
        Ok((one, many.expect("no lone run is enough")))
    }

    /// In turns, so that both meet the same weather.
    fn in_rounds(
        &self,
        step: &SegmentStep,
        binding: &Binding,
        mut rounds: Rounds,
    ) -> Result<(Sample, Option<Sample>), DeviceError> {
        self.is_wanted()?;
        let prepare = |times: usize| self.device.prepare(&Segment { steps: vec![step.clone(); times] });
        let (one, many) = (prepare(1)?, prepare(rounds.times())?);
        let mut arrived = Vec::new();
        while rounds.want_more() {
            rounds.add_one(self.run(&one, binding, &mut arrived)?);
            if rounds.wants_many() {
                rounds.add_many(self.run(&many, binding, &mut arrived)?);
            }
        }
        Ok(rounds.said())
    }

    /// An error once nobody waits for what is measured.
    pub fn is_wanted(&self) -> Result<(), DeviceError> {
        (self.go_on)().then_some(()).ok_or(DeviceError::Cancelled)
    }

    /// Runs it once. What came is copied to `arrived`.
    fn run(&self, work: &Arc<dyn Prepared>, binding: &Binding, arrived: &mut Vec<u8>) -> Result<Run, DeviceError> {
        let started = Instant::now();
        let before = self.device.now();
        let ticket = self.device.submit(work, binding.clone(), Lane::Compute, &[])?;
        let submitted = self.device.now();
        self.device.wait(ticket, limit())?;
        if let Some(bytes) = binding.reads.first().and_then(ReadCell::take) {
            arrived.resize(bytes.len(), 0);
            self.device.copy_on_host(&bytes, arrived);
        }
        let seconds = |until| seconds(before, until);
        Ok(Run { seconds: seconds(self.device.now()), submit_seconds: seconds(submitted), wall: started.elapsed() })
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

#[cfg(test)]
mod tests {
    use breakeven_device::sim::{SimClock, SimDevice, SimOptions, SimSpeed};
    use breakeven_ir::Caps;

    use super::super::kernels;
    use super::*;

    #[test]
    fn long_kernels_are_run_alone() {
        let (slow, none) = (Duration::from_millis(1), Duration::ZERO);
        let speed = SimSpeed {
            per_submit: none,
            per_launch: slow,
            per_wait: none,
            flops_per_second: 1e12,
            bytes_per_second: 1e12,
            link_latency: none,
            link_bytes_per_second: 1e12,
        };
        let options = SimOptions { caps: Caps::host(), ..SimOptions::new("sim", speed) };
        let check = |lone_from: Option<f64>, is_alone: bool| {
            let sim = Arc::new(SimDevice::new(options.clone(), &SimClock::new()));
            let device: Arc<dyn Device> = sim.clone();
            let bench = Bench { device: &device, effort: Effort::QUICK, go_on: &|| true };
            let (_, many) = bench.kernel_or_lone(&kernels::smallest(), 8, lone_from).unwrap();
            // Three operands were written.
            let submits = sim.submits() as u64 - 3;
            assert_eq!((many.is_none(), sim.launches() == submits), (is_alone, is_alone), "{lone_from:?}");
        };
        check(Some(1e-4), true);
        check(Some(1e-2), false);
        check(None, false);
    }
}
