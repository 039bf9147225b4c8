//! Computing tensors: plan, carry out, keep what was computed, and plan again when a device fails.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use breakeven_device::{Buffer, Deadline, HostBytes};
use breakeven_exec::{Input, Inputs, Outcome, OutputValue, StageTiming};
use breakeven_ir::{Element, Layout, NodeId, Op};
use breakeven_plan::{Cost, DeviceId, Frozen, OutputPlace, Plan, Policy, Trust};

use crate::attempts::Attempts;
use crate::coming::Awaits;
use crate::devices::Snapshot;
use crate::failure::{Failure, of_device};
use crate::patience::{Patience, limit};
use crate::planned::{Planned, Turn};
use crate::program::Call;
use crate::report::Report;
use crate::tensor::{Node, State};
use crate::trace::Trace;
use crate::value::{Copies, Recipe, Resident, Value, fetch};
use crate::{Engine, Result, Tensor};

impl Engine {
    /// Compute `outputs` together and leave them where they were computed.
    pub fn run(&self, outputs: &[&Tensor]) -> Result<Report> {
        self.run_small(outputs).unwrap_or_else(|| self.run_long(outputs, self.patience()))
    }

    /// Compute `outputs` together, or `Timeout` once the deadline has passed.
    pub fn run_by(&self, outputs: &[&Tensor], deadline: Deadline) -> Result<Report> {
        self.run_small(outputs).unwrap_or_else(|| self.run_long(outputs, Patience::Callers(deadline)))
    }

    fn run_long(&self, outputs: &[&Tensor], patience: Patience) -> Result<Report> {
        self.compute(outputs, &vec![false; outputs.len()], patience)
    }

    /// Compute `outputs` exactly where `frozen` says, which [`Plan::freeze`] wrote down: the same tensors on the same
    /// devices give the same bits. What cannot run there is an error; nothing is planned anew.
    pub fn run_frozen(&self, outputs: &[&Tensor], frozen: &Frozen) -> Result<Report> {
        let devices = self.0.devices.snapshot();
        let read = vec![false; outputs.len()];
        let way = Way { read: &read, frozen: Some(frozen), is_traced: false };
        let mut attempts = Attempts::at(outputs, self.patience());
        let ran = self.attempt(&devices, outputs, &way, &mut attempts);
        self.0.devices.tell();
        ran.map_err(|failure| failure.named(&devices))
    }

    /// How `outputs` would be computed now, and why; nothing runs. What has to be compiled for that is waited for, since it may fail.
    pub fn explain(&self, outputs: &[&Tensor]) -> Result<Arc<Plan>> {
        let snapshot = self.0.devices.snapshot();
        let mut trace = Trace::of(outputs, &snapshot)?;
        let policy = self.policy(std::mem::take(&mut trace.pins));
        let read = vec![true; outputs.len()];
        let planned = self.lift_and_plan(&mut trace, (&snapshot, &read), policy, Awaits::It(self.patience()));
        let planned = planned.map_err(|failure| failure.named(&snapshot))?;
        let plan = planned.lead().plan();
        let searching = self.0.devices.remark().map(str::to_owned);
        let remarks: Vec<String> = searching.into_iter().chain(planned.remark()).collect();
        Ok(if remarks.is_empty() { plan } else { Arc::new(Plan { remarks, ..(*plan).clone() }) })
    }

    /// A value and its bytes on the host.
    pub(crate) fn read(&self, tensor: &Tensor, patience: Patience) -> Result<(Arc<Value>, HostBytes)> {
        self.keep_small(tensor).unwrap_or_else(|| self.read_long(tensor, patience))
    }

    /// As [`Engine::read`], of a tensor that is not among the small ones.
    pub(crate) fn read_long(&self, tensor: &Tensor, patience: Patience) -> Result<(Arc<Value>, HostBytes)> {
        self.read_by(tensor, &mut Attempts::at(&[tensor], patience))
    }

    /// As [`Engine::read`], after attempts that were made already.
    pub(crate) fn read_after(&self, tensor: &Tensor, attempts: &mut Attempts) -> Result<(Arc<Value>, HostBytes)> {
        self.keep_small(tensor).unwrap_or_else(|| self.read_by(tensor, attempts))
    }

    fn read_by(&self, tensor: &Tensor, attempts: &mut Attempts) -> Result<(Arc<Value>, HostBytes)> {
        loop {
            let devices = attempts.devices(self);
            let Some(value) = value_of(tensor).filter(|value| value.is_there(&devices)) else {
                self.compute_by(&[tensor], &[true], attempts)?;
                continue;
            };
            match Engine::host_bytes(&value, &devices, attempts.patience) {
                Ok(Some(bytes)) => return Ok((value, bytes)),
                // It was lost since it was looked for.
                Ok(None) => {}
                Err(failure) => attempts.failed(self, &devices, failure)?,
            }
        }
    }

    /// The elements of `tensor` in the caller's memory, which is as long.
    pub(crate) fn read_into<T: Element>(
        &self,
        tensor: &Tensor,
        out: &mut [T],
        patience: impl FnOnce() -> Patience,
    ) -> Result<()> {
        if let Some(done) = self.read_small(tensor, out) {
            return done;
        }
        self.bring(tensor, out, patience())
    }

    /// As [`Engine::read_into`], of a tensor that is not among the small ones.
    pub(crate) fn bring<T: Element>(&self, tensor: &Tensor, out: &mut [T], patience: Patience) -> Result<()> {
        let mut attempts = Attempts::at(&[tensor], patience);
        let devices = attempts.devices(self);
        match Engine::bring_straight(tensor, out, &devices, patience) {
            Some(Ok(())) => return Ok(()),
            // The caller has waited, and the device is not asked again as if nothing had happened.
            Some(Err(failure)) => attempts.failed(self, &devices, failure)?,
            None => {}
        }
        let (value, bytes) = self.read_by(tensor, &mut attempts)?;
        let begun = Instant::now();
        value.elements_into(&bytes, out, |from, to| self.copy(from, to));
        attempts.took(begun.elapsed());
        Ok(())
    }

    /// A value that is on a device alone, without keeping a copy on the host; `None` where that gains nothing.
    fn bring_straight<T: Element>(
        tensor: &Tensor,
        out: &mut [T],
        devices: &Snapshot,
        patience: Patience,
    ) -> Option<std::result::Result<(), Failure>> {
        let value = value_of(tensor).filter(|value| value.host().is_none())?;
        let to = T::bytes_mut(out).filter(|_| value.layout.is_dense())?;
        let (id, buffer) = value.copies().resident.first()?.clone();
        let device = devices.device(id).filter(|device| device.owns(&buffer))?;
        let read = device.read_into(&buffer, to, devices.deadline_of_read(id, value.bytes, patience))?;
        Some(read.map_err(|source| of_device(id, source)))
    }

    /// Copies bytes of the host, with the CPU's threads where that pays.
    pub(crate) fn copy(&self, from: &[u8], to: &mut [u8]) {
        match self.0.devices.snapshot().device(DeviceId::HOST) {
            Some(device) => device.copy_on_host(from, to),
            None => to.copy_from_slice(from),
        }
    }

    /// Compute tensors together and bring them to the host.
    pub(crate) fn compute_on_host(&self, tensors: &[&Tensor]) -> Result<()> {
        self.compute_on_host_by(tensors, self.patience())
    }

    /// As [`Engine::compute_on_host`], or `Timeout` once the deadline has passed.
    pub(crate) fn compute_on_host_by(&self, tensors: &[&Tensor], patience: Patience) -> Result<()> {
        self.compute(tensors, &vec![true; tensors.len()], patience).map(drop)
    }

    /// Plan and run, again without a device that failed, until it worked or no device is left.
    fn compute(&self, outputs: &[&Tensor], read: &[bool], patience: Patience) -> Result<Report> {
        self.compute_by(outputs, read, &mut Attempts::at(outputs, patience))
    }

    pub(crate) fn compute_by(&self, outputs: &[&Tensor], read: &[bool], attempts: &mut Attempts) -> Result<Report> {
        self.compute_so(outputs, &Way { read, frozen: None, is_traced: false }, attempts)
    }

    /// As [`Engine::compute`], in a way that is said.
    pub(crate) fn compute_so(&self, outputs: &[&Tensor], way: &Way<'_>, attempts: &mut Attempts) -> Result<Report> {
        let done = self.try_until_done(outputs, way, attempts);
        // What the attempts had for themselves is gone.
        self.0.devices.tell();
        done
    }

    fn try_until_done(&self, outputs: &[&Tensor], way: &Way<'_>, attempts: &mut Attempts) -> Result<Report> {
        loop {
            let devices = attempts.devices(self);
            match self.attempt(&devices, outputs, way, attempts) {
                Ok(report) => return Ok(Report { replanned: attempts.replanned.clone(), ..report }),
                Err(failure) => attempts.failed(self, &devices, failure)?,
            }
        }
    }

    fn attempt(
        &self,
        devices: &Snapshot,
        outputs: &[&Tensor],
        way: &Way<'_>,
        attempts: &mut Attempts,
    ) -> std::result::Result<Report, Failure> {
        let patience = attempts.patience;
        let begun = Instant::now();
        let waits = way.is_traced || attempts.waits;
        let awaits = if waits { Awaits::It(patience) } else { Awaits::Briefly(patience) };
        let Ready { inputs, planned } = self.prepared(devices, outputs, (way.read, way.frozen), awaits)?;
        let turn = match way.is_traced {
            true => planned.lead(),
            false if patience.has_time_for_a_trial(planned.longest()) => self.turn(&planned, devices),
            false => planned.lead_on(),
        };
        let mut turn = attempts.that_fits(devices, &planned, turn)?;
        let planning = begun.elapsed();
        let given = Engine::inputs(&inputs, devices);
        // All runs of such a trial at once: between those of the leader a device would fall asleep, and threads too.
        while turn.is_apart() {
            let (trial, _, time) = self.carry_out(turn, devices, &given, (false, patience))?;
            trial.took(time);
            turn = attempts.that_fits(devices, &planned, self.turn(&planned, devices))?;
        }
        let plan = turn.plan();
        let (turn, mut outcome, elapsed) = self.carry_out(turn, devices, &given, (way.is_traced, patience))?;
        if turn.is_trial() {
            // Copies on a device would move all that is computed from them.
            outcome.uploaded.clear();
        }
        let recording = outcome.recording.take();
        let stages = self.keep_all(outcome, outputs, (&inputs, &plan), devices);
        if !way.is_traced {
            attempts.ran(turn, planning + elapsed);
        }
        let report = Report::new(plan, self.0.devices.names(), stages, elapsed);
        Ok(report.with_trace(recording.map(|recording| (recording, planning))))
    }

    /// Runs a plan; what it gave, and how long that took.
    fn carry_out(
        &self,
        turn: Turn,
        devices: &Snapshot,
        given: &Inputs,
        (is_traced, patience): (bool, Patience),
    ) -> std::result::Result<(Turn, Outcome, Duration), Failure> {
        let started = Instant::now();
        let executable = turn.executable().clone();
        let patience = if turn.is_trial() { patience.for_a_trial() } else { patience };
        let deadline = devices.deadline_of(executable.plan(), patience);
        let running =
            if is_traced { executable.start_recorded(given, deadline) } else { executable.start(given, deadline) };
        match running.and_then(|running| running.finish(deadline)) {
            Ok(outcome) => {
                let elapsed = started.elapsed();
                self.report_success(devices, &executable);
                Ok((turn, outcome, elapsed))
            }
            Err(error) => {
                let limit = limit(devices.predicted(executable.plan()));
                Err(Failure::while_running(&executable, limit, turn.failed())(error))
            }
        }
    }

    /// Gives tensors what was computed for them, and inputs what was brought to devices; the times of the submissions.
    pub(crate) fn keep_all(
        &self,
        outcome: Outcome,
        outputs: &[&Tensor],
        (inputs, plan): (&[(NodeId, Arc<Value>)], &Plan),
        devices: &Snapshot,
    ) -> Vec<StageTiming> {
        for (node, device, buffer) in outcome.uploaded {
            if let Some((_, value)) = inputs.iter().find(|(id, _)| *id == node) {
                value.add_resident(device, buffer, devices);
            }
        }
        for (index, value) in outcome.outputs.into_iter().enumerate() {
            self.settle(outputs[index], inputs, plan, index, value);
        }
        outcome.stages
    }

    /// The plan for `outputs`, which all outputs of one call of a program have already.
    pub(crate) fn prepared(
        &self,
        snapshot: &Snapshot,
        outputs: &[&Tensor],
        (read, frozen): (&[bool], Option<&Frozen>),
        awaits: Awaits,
    ) -> std::result::Result<Ready, Failure> {
        if let Some(ready) = frozen.is_none().then(|| Call::whole(outputs, snapshot, read, awaits)).flatten() {
            return ready;
        }
        let mut trace = Trace::of(outputs, snapshot)?;
        let policy = Policy { frozen: frozen.cloned(), ..self.policy(std::mem::take(&mut trace.pins)) };
        let planned = self.lift_and_plan(&mut trace, (snapshot, read), policy, awaits)?;
        Ok(Ready { inputs: trace.inputs, planned })
    }

    pub(crate) fn inputs(given: &[(NodeId, Arc<Value>)], devices: &Snapshot) -> Inputs {
        let one = |value: &Value| {
            let usable = |(device, buffer): &&(DeviceId, Buffer)| devices.has(*device, buffer);
            let resident = value.copies().resident.iter().filter(usable).cloned().collect();
            Input { host: value.host().cloned(), resident }
        };
        given.iter().map(|(id, value)| (*id, one(value))).collect()
    }

    /// Give a tensor the value that was computed for it.
    fn settle(&self, tensor: &Tensor, inputs: &[(NodeId, Arc<Value>)], plan: &Plan, index: usize, value: OutputValue) {
        let output = &plan.outputs[index];
        let (layout, bytes) = match &output.place {
            OutputPlace::Slot { slot, layout } => (layout.clone(), plan.slots[*slot].bytes),
            OutputPlace::Empty => (Layout::dense(tensor.shape().clone()), 0),
            OutputPlace::Input { input, layout } => return self.settle_view(tensor, inputs, *input, layout.clone()),
        };
        let resident: Resident = value.resident.into_iter().collect();
        let nothing = (bytes == 0).then(|| HostBytes::from_vec(Vec::<u8>::new()));
        let host = value.host.or(nothing).or_else(|| self.0.devices.snapshot().export(&resident));
        let recipe = if host.is_some() { None } else { self.recipe(tensor) };
        let copies = Copies { resident, recipe, made_by: maker(tensor), lost_with: None };
        tensor.0.settle(Arc::new(Value::stored(tensor.spec().clone(), layout, bytes, host, copies)));
    }

    /// A view of an input is that input's bytes under another layout.
    fn settle_view(&self, tensor: &Tensor, inputs: &[(NodeId, Arc<Value>)], input: NodeId, layout: Layout) {
        let (_, of) = inputs.iter().find(|(id, _)| *id == input).expect("a plan names inputs of its graph");
        let (host, copies) = (of.host().cloned(), of.copies().clone());
        let copies = Copies { recipe: if host.is_some() { None } else { self.recipe(tensor) }, ..copies };
        tensor.0.settle(Arc::new(Value::stored(tensor.spec().clone(), layout, of.bytes, host, copies)));
    }

    /// How to compute a value again that is on a device alone, if keeping that does not hold too much.
    fn recipe(&self, tensor: &Tensor) -> Option<Box<Recipe>> {
        if let Some(inner) = tensor.written() {
            return self.recipe(&inner);
        }
        let State::Recipe(op, inputs) = tensor.0.state().clone() else { return None };
        if matches!(op, Op::Output(_)) {
            return None;
        }
        let held_bytes = held_bytes(&inputs, self.0.options.recovery_bytes)?;
        Some(Box::new(Recipe { op, inputs, held_bytes }))
    }

    /// The bytes of a value on the host; `None` when the devices that had them are gone.
    fn host_bytes(
        value: &Value,
        devices: &Snapshot,
        patience: Patience,
    ) -> std::result::Result<Option<HostBytes>, Failure> {
        if let Some(bytes) = value.host() {
            return Ok(Some(bytes.clone()));
        }
        let resident = value.copies().resident.clone();
        let Some((id, buffer)) = resident.iter().find(|(id, buffer)| devices.has(*id, buffer)) else { return Ok(None) };
        let Some(device) = devices.device(*id) else { return Ok(None) };
        let deadline = devices.deadline_of_read(*id, value.bytes, patience);
        let bytes = fetch(&device, buffer, value.bytes, deadline).map_err(|source| of_device(*id, source))?;
        drop(value.add_host(bytes.clone()));
        Ok(Some(bytes))
    }
}

impl Snapshot {
    /// By when a plan should be carried out.
    pub(crate) fn deadline_of(&self, plan: &Plan, patience: Patience) -> Deadline {
        patience.deadline(self.predicted(plan))
    }

    /// How long a plan takes, where all devices that it runs on were measured.
    pub(crate) fn predicted(&self, plan: &Plan) -> Option<Cost> {
        let is_measured = |id: DeviceId| self.entry(id).profile.trust != Trust::Builtin;
        plan.decisions.iter().all(|decision| is_measured(decision.device)).then_some(plan.predicted)
    }

    /// By when so many bytes should have come from a device.
    fn deadline_of_read(&self, id: DeviceId, bytes: u64, patience: Patience) -> Deadline {
        patience.deadline(self.entry(id).profile.download.at(bytes as f64))
    }
}

/// Nodes that are looked at for what keeping them holds: to look at more would take longer than to plan them.
const LOOKED_AT: usize = 1 << 16;

/// Bytes of the values that tensors are or are computed from, and of what these remember; none if those are more than `most`.
fn held_bytes(tensors: &[Tensor], most: u64) -> Option<u64> {
    let mut seen: HashSet<*const Node> = HashSet::new();
    let mut stack = tensors.to_vec();
    let mut held = 0;
    while let Some(tensor) = stack.pop() {
        if !seen.insert(Arc::as_ptr(&tensor.0)) {
            continue;
        }
        if let Some(inner) = tensor.written() {
            stack.push(inner);
            continue;
        }
        match &*tensor.0.state() {
            State::Value(value) => {
                held += value.bytes + value.copies().recipe.as_ref().map_or(0, |recipe| recipe.held_bytes);
            }
            State::Recipe(_, inputs) => stack.extend(inputs.iter().cloned()),
            _ => {}
        }
        if held > most || seen.len() > LOOKED_AT {
            return None;
        }
    }
    Some(held)
}

/// The operation that makes a tensor, unless it was computed already.
fn maker(tensor: &Tensor) -> Option<&'static str> {
    if let Some(inner) = tensor.written() {
        return maker(&inner);
    }
    match &*tensor.0.state() {
        State::Recipe(op, _) => Some(op.name()),
        State::Value(value) => value.copies().made_by,
        _ => None,
    }
}

/// How outputs are computed.
pub(crate) struct Way<'a> {
    /// For each output, whether it is brought to the host.
    pub read: &'a [bool],
    pub frozen: Option<&'a Frozen>,
    /// Whether it is written down when each step is done.
    pub is_traced: bool,
}

/// A plan, and the values of its inputs.
pub(crate) struct Ready {
    pub inputs: Vec<(NodeId, Arc<Value>)>,
    pub planned: Arc<Planned>,
}

/// A value that is there and can be read or computed again.
pub(crate) fn value_of(tensor: &Tensor) -> Option<Arc<Value>> {
    match &*tensor.0.state() {
        State::Value(value) => {
            let is_there = value.host().is_some() || !value.copies().resident.is_empty();
            is_there.then(|| value.clone())
        }
        _ => None,
    }
}
