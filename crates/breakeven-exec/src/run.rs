//! One run of an executable: buffers are bound, stages submitted, results taken.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use breakeven_device::{
    Binding, Buffer, Deadline, Device, DeviceError, HostBytes, Lane, MemoryKind, ReadCell, Recorder, Status, Ticket,
    Timing,
};
use breakeven_ir::NodeId;
use breakeven_plan::{DeviceId, OutputPlace};
use rustc_hash::FxHashMap;

use crate::compile::{Given, Stage, Taken};
use crate::log::{Log, Recording, What};
use crate::{ExecError, Executable, Inputs};

/// Predicted time from which on devices measure their kernels: on an H200 the marks take 14 us of a submission, of which the
/// rest takes 33.
const TIMED_FROM: Duration = Duration::from_millis(1);

/// What a run gave.
#[derive(Debug)]
pub struct Outcome {
    /// One for each output of the graph, in order.
    pub outputs: Vec<OutputValue>,
    /// Inputs that are now resident on a device besides where they were.
    pub uploaded: Vec<(NodeId, DeviceId, Buffer)>,
    /// Where the time of each submission went.
    pub stages: Vec<StageTiming>,
    /// When each step was done, where that was to be recorded.
    pub recording: Option<Recording>,
}

/// Where the bytes of one output are.
#[derive(Clone, Debug, Default)]
pub struct OutputValue {
    /// On the host, when the plan reads it.
    pub host: Option<HostBytes>,
    /// On a device, when the plan keeps it.
    pub resident: Option<(DeviceId, Buffer)>,
}

/// Time of one submission.
#[derive(Clone, Copy, Debug)]
pub struct StageTiming {
    /// Who did it.
    pub device: DeviceId,
    /// Where the time went.
    pub timing: Timing,
}

/// A run whose submissions are all made and perhaps not done.
#[derive(Debug)]
pub struct Running {
    pub(crate) executable: Arc<Executable>,
    pub(crate) pending: Vec<Submitted>,
    outputs: Vec<OutputValue>,
    uploaded: Vec<(NodeId, DeviceId, Buffer)>,
    stages: Vec<StageTiming>,
    log: Option<Box<Log>>,
}

/// One submission and the cells it fills.
#[derive(Debug)]
pub(crate) struct Submitted {
    pub device: DeviceId,
    /// The steps of the plan that it does.
    pub steps: Range<usize>,
    pub ticket: Ticket,
    pub reads: Vec<(Taken, ReadCell)>,
    recorded: Option<Recorded>,
}

/// What a submission that is recorded writes to, and when it was made.
#[derive(Debug)]
struct Recorded {
    /// Which stage it is.
    stage: usize,
    recorder: Recorder,
    start: Duration,
}

impl Executable {
    /// Submit everything and wait for the results.
    pub fn run(self: &Arc<Self>, inputs: &Inputs, deadline: Deadline) -> Result<Outcome, ExecError> {
        self.start(inputs, deadline)?.finish(deadline)
    }

    /// Submit everything; waits only where one device needs another's bytes.
    pub fn start(self: &Arc<Self>, inputs: &Inputs, deadline: Deadline) -> Result<Running, ExecError> {
        self.begin(inputs, deadline, None)
    }

    /// As [`Executable::start`], writing down when each step is done. Devices measure their kernels one by one then, which takes
    /// longer than to run them.
    pub fn start_recorded(self: &Arc<Self>, inputs: &Inputs, deadline: Deadline) -> Result<Running, ExecError> {
        self.begin(inputs, deadline, Some(Box::new(Log::new(self))))
    }

    fn begin(
        self: &Arc<Self>,
        inputs: &Inputs,
        deadline: Deadline,
        log: Option<Box<Log>>,
    ) -> Result<Running, ExecError> {
        let plan = &self.plan;
        let mut run = Run {
            executable: self,
            inputs,
            deadline,
            buffers: vec![None; plan.slots.len()],
            moved: FxHashMap::default(),
            running: Running {
                executable: self.clone(),
                pending: Vec::new(),
                outputs: vec![OutputValue::default(); plan.outputs.len()],
                uploaded: Vec::new(),
                stages: Vec::new(),
                log,
            },
        };
        for (at, stage) in self.stages.iter().enumerate() {
            run.stage(at, stage)?;
        }
        run.keep();
        Ok(run.running)
    }

    /// Devices measure the kernels of long runs alone.
    fn is_timed(&self) -> bool {
        self.plan.predicted.seconds >= TIMED_FROM.as_secs_f64()
    }

    pub(crate) fn device(&self, device: DeviceId) -> &Arc<dyn Device> {
        self.devices[device.0].as_ref().expect("every stage was prepared by its device")
    }
}

struct Run<'a> {
    executable: &'a Arc<Executable>,
    inputs: &'a Inputs,
    deadline: Deadline,
    buffers: Vec<Option<Buffer>>,
    moved: FxHashMap<usize, HostBytes>,
    running: Running,
}

impl Run<'_> {
    fn stage(&mut self, at: usize, stage: &Stage) -> Result<(), ExecError> {
        let begun = self.running.now(stage.device);
        for (nth, &(given, slot)) in stage.imports.iter().enumerate() {
            let bytes = self.given(given)?;
            self.import(stage, nth, slot, &bytes)?;
        }
        let uploads = stage.uploads.iter().map(|&(given, _)| self.given(given)).collect::<Result<Vec<_>, _>>()?;
        let buffers = stage.slots.iter().map(|&slot| self.buffer(slot)).collect::<Result<Vec<_>, _>>()?;
        self.keep_uploads(stage);
        if stage.alone {
            self.settle_all(stage.device)?;
        }
        let reads: Vec<(Taken, ReadCell)> = stage.reads.iter().map(|&t| (t, ReadCell::new())).collect();
        let cells = reads.iter().map(|(_, cell)| cell.clone()).collect();
        self.running.log(stage, What::Bind, begun);
        let start = self.running.now(stage.device);
        let recorder = start.map(|_| Recorder::default());
        let timed = self.executable.is_timed();
        let ticket =
            self.submit(stage, &Binding { buffers, uploads, reads: cells, timed, recorder: recorder.clone() })?;
        self.running.log(stage, What::Submit, start);
        let recorded = recorder.zip(start).map(|(recorder, start)| Recorded { stage: at, recorder, start });
        let (device, steps) = (stage.device, stage.steps.clone());
        self.running.pending.push(Submitted { device, steps, ticket, reads, recorded });
        if stage.alone {
            self.settle(self.running.pending.len() - 1)?;
        }
        for (nth, &(slot, bytes, taken)) in stage.exports.iter().enumerate() {
            let begun = self.running.now(stage.device);
            self.export(stage, slot, bytes, taken)?;
            self.running.share(stage.device, stage.origins.exports[nth], false, begun);
        }
        self.release(stage.steps.end);
        Ok(())
    }

    /// Host bytes in the place of a slot.
    fn import(&mut self, stage: &Stage, nth: usize, slot: usize, bytes: &HostBytes) -> Result<(), ExecError> {
        let begun = self.running.now(stage.device);
        let buffer = self.executable.device(stage.device).import(bytes);
        let refused = || DeviceError::Driver("refused host memory it said it works in".to_owned());
        self.buffers[slot] = Some(buffer.ok_or_else(refused).map_err(ExecError::of(stage.device))?);
        let is_rest = matches!(stage.imports[nth], (Given::Moved(_), _));
        self.running.share(stage.device, stage.origins.imports[nth], is_rest, begun);
        Ok(())
    }

    /// Submit, waiting for earlier work of the same device as long as it is busy.
    fn submit(&mut self, stage: &Stage, binding: &Binding) -> Result<Ticket, ExecError> {
        let device = self.executable.device(stage.device).clone();
        loop {
            match device.submit(&stage.prepared, binding.clone(), Lane::Compute, &[]) {
                Err(DeviceError::Busy) => {
                    let oldest = self.running.pending.iter().position(|s| s.device == stage.device);
                    match oldest {
                        Some(at) => self.settle(at)?,
                        None if self.deadline.has_passed() => {
                            return Err(ExecError::of(stage.device)(DeviceError::Busy));
                        }
                        None => std::thread::sleep(Duration::from_micros(50)),
                    }
                }
                result => return result.map_err(ExecError::during(stage.device, stage.steps.clone())),
            }
        }
    }

    /// Bytes that an upload reads; waits for the stage that sends them.
    fn given(&mut self, given: Given) -> Result<HostBytes, ExecError> {
        match given {
            Given::Input(node) => self.inputs.host(node).cloned().ok_or(ExecError::MissingInput { node }),
            Given::Moved(moved) => {
                let sends = |s: &Submitted| s.reads.iter().any(|(t, _)| *t == Taken::Moved(moved));
                if let Some(at) = self.running.pending.iter().position(sends) {
                    self.settle(at)?;
                }
                Ok(self.moved[&moved].clone())
            }
        }
    }

    /// Wait for everything of a device, so that a failure of it is not taken for one of what comes next.
    fn settle_all(&mut self, device: DeviceId) -> Result<(), ExecError> {
        while let Some(at) = self.running.pending.iter().position(|s| s.device == device) {
            self.settle(at)?;
        }
        Ok(())
    }

    /// Wait for one submission and keep what it read.
    fn settle(&mut self, at: usize) -> Result<(), ExecError> {
        let submitted = self.running.pending.remove(at);
        for (taken, bytes) in self.running.wait(&submitted, self.deadline)? {
            self.put(taken, bytes);
        }
        Ok(())
    }

    fn put(&mut self, taken: Taken, bytes: HostBytes) {
        match taken {
            Taken::Output(output) => self.running.outputs[output].host = Some(bytes),
            Taken::Moved(moved) => drop(self.moved.insert(moved, bytes)),
        }
    }

    /// Bytes as they lie: a plan writes nothing else into a slot whose bytes it hands out.
    fn export(&mut self, stage: &Stage, slot: usize, bytes: u64, taken: Taken) -> Result<(), ExecError> {
        let slot_buffer = self.buffer(slot)?;
        let refused = || DeviceError::Driver("did not give host memory it works in".to_owned());
        let all = self.executable.device(stage.device).export(&slot_buffer).ok_or_else(refused);
        let all = all.map_err(ExecError::of(stage.device))?;
        self.put(taken, all.slice(0..(bytes as usize).min(all.len())));
        Ok(())
    }

    /// The buffer of a slot: bound already, given with the inputs, or new.
    fn buffer(&mut self, slot: usize) -> Result<Buffer, ExecError> {
        if let Some(buffer) = &self.buffers[slot] {
            return Ok(buffer.clone());
        }
        let info = &self.executable.plan.slots[slot];
        let given = info.source.and_then(|node| self.inputs.resident(node, info.device));
        let buffer = match given {
            Some(buffer) => buffer.clone(),
            None => alloc(&**self.executable.device(info.device), info.bytes).map_err(ExecError::of(info.device))?,
        };
        Ok(self.buffers[slot].insert(buffer).clone())
    }

    /// Buffers whose last step is past go back as soon as the device is done with them.
    fn release(&mut self, end: usize) {
        for (slot, info) in self.executable.plan.slots.iter().enumerate() {
            if info.last < end && !info.kept && info.source.is_none() {
                self.buffers[slot] = None;
            }
        }
    }

    /// Inputs that this stage brings to its device, in memory that nothing else will use.
    fn keep_uploads(&mut self, stage: &Stage) {
        for (given, slot) in &stage.uploads {
            let info = &self.executable.plan.slots[*slot];
            if let (Given::Input(node), true, Some(buffer)) = (given, info.is_upload, &self.buffers[*slot]) {
                self.running.uploaded.push((*node, info.device, buffer.clone()));
            }
        }
    }

    /// Outputs that stay on a device.
    fn keep(&mut self) {
        let plan = self.executable.plan.clone();
        for (output, value) in plan.outputs.iter().zip(&mut self.running.outputs) {
            let OutputPlace::Slot { slot, .. } = output.place else { continue };
            if plan.slots[slot].kept {
                value.resident = self.buffers[slot].clone().map(|b| (plan.slots[slot].device, b));
            }
        }
    }
}

/// Memory, trimming the device's pool once if there is none.
pub(crate) fn alloc(device: &dyn Device, bytes: u64) -> Result<Buffer, DeviceError> {
    match device.alloc(bytes, MemoryKind::Resident) {
        Err(DeviceError::OutOfMemory { .. }) => {
            device.trim(Duration::ZERO);
            device.alloc(bytes, MemoryKind::Resident)
        }
        result => result,
    }
}

impl Running {
    /// Wait for the results.
    pub fn finish(mut self, deadline: Deadline) -> Result<Outcome, ExecError> {
        for submitted in std::mem::take(&mut self.pending) {
            for (taken, bytes) in self.wait(&submitted, deadline)? {
                if let Taken::Output(output) = taken {
                    self.outputs[output].host = Some(bytes);
                }
            }
        }
        let recording = self.log.map(|log| log.end());
        Ok(Outcome { outputs: self.outputs, uploaded: self.uploaded, stages: self.stages, recording })
    }

    /// The time, where it is written down.
    fn now(&self, device: DeviceId) -> Option<Duration> {
        self.log.as_ref().map(|log| log.now(device))
    }

    fn log(&mut self, stage: &Stage, what: What, begun: Option<Duration>) {
        if let Some((log, begun)) = self.log.as_mut().zip(begun) {
            log.host(stage, what, begun);
        }
    }

    fn share(&mut self, device: DeviceId, step: usize, is_rest: bool, begun: Option<Duration>) {
        if let Some((log, begun)) = self.log.as_mut().zip(begun) {
            log.shared(device, step, is_rest, begun);
        }
    }

    /// True when no result has to be waited for any more.
    pub fn is_done(&self) -> bool {
        let device = |s: &Submitted| self.executable.device(s.device).poll(s.ticket);
        self.pending.iter().all(|s| device(s) != Status::Pending)
    }

    fn wait(&mut self, submitted: &Submitted, deadline: Deadline) -> Result<Vec<(Taken, HostBytes)>, ExecError> {
        let device = submitted.device;
        let failed = ExecError::during(device, submitted.steps.clone());
        let begun = self.now(device);
        let timing = self.executable.device(device).wait(submitted.ticket, deadline).map_err(&failed)?;
        self.stages.push(StageTiming { device, timing });
        if let (Some(log), Some(recorded), Some(begun)) = (&mut self.log, &submitted.recorded, begun) {
            let stage = &self.executable.stages[recorded.stage];
            log.host(stage, What::Wait, begun);
            log.told(stage, &recorded.recorder, recorded.start);
        }
        let early = || DeviceError::Driver("said it was done before the bytes it reads had arrived".to_owned());
        let one = |(taken, cell): &(Taken, ReadCell)| Ok((*taken, cell.take().ok_or_else(early).map_err(&failed)?));
        submitted.reads.iter().map(one).collect()
    }
}
