//! Computing tensors: plan, carry out, keep what was computed, and plan again when a device fails.

use std::sync::Arc;

use breakeven_device::{Deadline, Device, DeviceError, HostBytes};
use breakeven_exec::{ExecError, Executable, Inputs, Outcome, OutputValue, Running};
use breakeven_ir::{Element, Layout, NodeId, Op};
use breakeven_plan::{DeviceId, Frozen, OutputPlace, Plan, Policy};

use crate::devices::Snapshot;
use crate::program::Call;
use crate::report::Report;
use crate::tensor::State;
use crate::trace::Trace;
use crate::value::{Copies, Recipe, Resident, Value, fetch};
use crate::{Engine, Error, Result, Tensor};

impl Engine {
    /// Compute `outputs` together and leave them where they were computed.
    pub fn run(&self, outputs: &[&Tensor]) -> Result<Report> {
        self.run_small(outputs).unwrap_or_else(|| self.run_long(outputs, self.deadline()))
    }

    /// Compute `outputs` together, or `Timeout` once the deadline has passed.
    pub fn run_by(&self, outputs: &[&Tensor], deadline: Deadline) -> Result<Report> {
        self.run_small(outputs).unwrap_or_else(|| self.run_long(outputs, deadline))
    }

    fn run_long(&self, outputs: &[&Tensor], deadline: Deadline) -> Result<Report> {
        self.compute(outputs, &vec![false; outputs.len()], None, deadline)
    }

    /// Compute `outputs` exactly where `frozen` says, which [`Plan::freeze`] wrote down: the same tensors on the same
    /// devices give the same bits. What cannot run there is an error; nothing is planned anew.
    pub fn run_frozen(&self, outputs: &[&Tensor], frozen: &Frozen) -> Result<Report> {
        self.compute(outputs, &vec![false; outputs.len()], Some(frozen), self.deadline())
    }

    /// How `outputs` would be computed now, and why; nothing runs.
    pub fn explain(&self, outputs: &[&Tensor]) -> Result<Arc<Plan>> {
        let snapshot = self.0.devices.snapshot();
        let trace = Trace::of(outputs, &snapshot)?;
        let policy = self.policy(&trace.pins);
        let executable = self.executable(&snapshot, &trace, vec![true; outputs.len()], policy)?;
        let plan = executable.plan().clone();
        Ok(match self.0.devices.remark() {
            Some(remark) => Arc::new(Plan { remarks: vec![remark.to_owned()], ..(*plan).clone() }),
            None => plan,
        })
    }

    /// A value and its bytes on the host.
    pub(crate) fn read(&self, tensor: &Tensor, deadline: Deadline) -> Result<(Arc<Value>, HostBytes)> {
        self.keep_small(tensor).unwrap_or_else(|| self.read_long(tensor, deadline))
    }

    /// As [`Engine::read`], of a tensor that is not among the small ones.
    pub(crate) fn read_long(&self, tensor: &Tensor, deadline: Deadline) -> Result<(Arc<Value>, HostBytes)> {
        // Each failed round loses a device, so there are no more rounds than devices.
        for _ in self.0.devices.snapshot().ids() {
            if value_of(tensor).is_none() {
                self.compute(&[tensor], &[true], None, deadline)?;
            }
            let value = value_of(tensor).expect("a computed tensor has a value");
            if let Some(bytes) = self.host_bytes(&value, deadline)? {
                return Ok((value, bytes));
            }
        }
        Err(Error::Placement("every device that could hold the value was lost".to_owned()))
    }

    /// The elements of `tensor` in the caller's memory, which is as long.
    pub(crate) fn read_into<T: Element>(
        &self,
        tensor: &Tensor,
        out: &mut [T],
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<()> {
        if let Some(done) = self.read_small(tensor, out) {
            return done;
        }
        self.bring(tensor, out, deadline())
    }

    /// As [`Engine::read_into`], of a tensor that is not among the small ones.
    pub(crate) fn bring<T: Element>(&self, tensor: &Tensor, out: &mut [T], deadline: Deadline) -> Result<()> {
        if self.bring_straight(tensor, out, deadline).is_some() {
            return Ok(());
        }
        let (value, bytes) = self.read_long(tensor, deadline)?;
        value.elements_into(&bytes, out, |from, to| self.copy(from, to));
        Ok(())
    }

    /// A value that is on a device alone, without keeping a copy on the host. `None` where that gains nothing, and where it failed:
    /// who then reads the value meets the failure again, and knows what to do without the device.
    fn bring_straight<T: Element>(&self, tensor: &Tensor, out: &mut [T], deadline: Deadline) -> Option<()> {
        let value = value_of(tensor).filter(|value| value.host().is_none())?;
        let to = T::bytes_mut(out).filter(|_| value.layout.is_dense())?;
        let (id, buffer) = value.copies().resident.first()?.clone();
        let device = self.0.devices.snapshot().device(id)?;
        device.read_into(&buffer, to, deadline)?.ok()
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
        self.compute_on_host_by(tensors, self.deadline())
    }

    /// As [`Engine::compute_on_host`], or `Timeout` once the deadline has passed.
    pub(crate) fn compute_on_host_by(&self, tensors: &[&Tensor], deadline: Deadline) -> Result<()> {
        self.compute(tensors, &vec![true; tensors.len()], None, deadline).map(drop)
    }

    /// Start computing `tensor` for the host; `None` when it is there.
    pub(crate) fn start(&self, tensor: &Tensor, deadline: Deadline) -> Result<Option<Pending>> {
        if value_of(tensor).is_some() {
            return Ok(None);
        }
        let snapshot = self.0.devices.snapshot();
        let Ready { inputs, executable } = self.prepared(&snapshot, &[tensor], &[true], None)?;
        let running = executable.start(&Engine::inputs(&inputs), deadline).map_err(|e| snapshot.name(e))?;
        Ok(Some(Pending { running, deadline, inputs, tensor: tensor.clone(), plan: executable.plan().clone() }))
    }

    /// Plan and run, again without a device that failed, until it worked or no device is left.
    fn compute(
        &self,
        outputs: &[&Tensor],
        read: &[bool],
        frozen: Option<&Frozen>,
        deadline: Deadline,
    ) -> Result<Report> {
        let mut replanned = Vec::new();
        loop {
            let snapshot = self.0.devices.snapshot();
            match self.attempt(&snapshot, outputs, read, frozen, deadline) {
                Err(Failure::Device(error)) if frozen.is_none() && Engine::may_retry(&error, outputs, deadline) => {
                    let ExecError::Device { device, ref source } = error else { return Err(snapshot.name(error)) };
                    replanned.push(format!("{}: {source}; planned again without it", snapshot.entry(device).name));
                    self.0.devices.fail(device, source);
                }
                Err(Failure::Device(error)) => return Err(snapshot.name(error)),
                Err(Failure::Other(error)) => return Err(error),
                Ok(report) => return Ok(Report { replanned, ..report }),
            }
        }
    }

    fn attempt(
        &self,
        snapshot: &Snapshot,
        outputs: &[&Tensor],
        read: &[bool],
        frozen: Option<&Frozen>,
        deadline: Deadline,
    ) -> std::result::Result<Report, Failure> {
        let Ready { inputs, executable } = self.prepared(snapshot, outputs, read, frozen)?;
        let plan = executable.plan().clone();
        let started = std::time::Instant::now();
        let running: Running = executable.start(&Engine::inputs(&inputs), deadline).map_err(Failure::Device)?;
        let outcome = running.finish(deadline).map_err(Failure::Device)?;
        let elapsed = started.elapsed();
        for (node, device, buffer) in outcome.uploaded {
            if let Some((_, value)) = inputs.iter().find(|(id, _)| *id == node) {
                value.add_resident(device, buffer);
            }
        }
        for (index, value) in outcome.outputs.into_iter().enumerate() {
            self.settle(outputs[index], &inputs, &plan, index, value);
        }
        Ok(Report::new(plan, self.0.devices.names(), outcome.stages, elapsed))
    }

    /// A forced device is never left; a caller's own deadline is theirs to judge.
    fn may_retry(error: &ExecError, outputs: &[&Tensor], deadline: Deadline) -> bool {
        let pinned = |device: DeviceId| outputs.iter().any(|t| t.0.pin == Some(device));
        match error {
            // The fault is the user's code's, not the device's.
            ExecError::Device { source: DeviceError::Custom { .. }, .. } => false,
            ExecError::Device { device, source: DeviceError::Timeout { .. } } => {
                !deadline.has_passed() && device.0 != 0 && !pinned(*device)
            }
            ExecError::Device { device, .. } => device.0 != 0 && !pinned(*device),
            _ => false,
        }
    }

    /// The plan for `outputs`, which all outputs of one call of a program have already.
    fn prepared(
        &self,
        snapshot: &Snapshot,
        outputs: &[&Tensor],
        read: &[bool],
        frozen: Option<&Frozen>,
    ) -> Result<Ready> {
        if let Some(ready) = frozen.is_none().then(|| Call::whole(outputs, snapshot, read)).flatten() {
            return ready;
        }
        let trace = Trace::of(outputs, snapshot)?;
        let policy = Policy { frozen: frozen.cloned(), ..self.policy(&trace.pins) };
        let executable = self.executable(snapshot, &trace, read.to_vec(), policy)?;
        Ok(Ready { inputs: trace.inputs, executable })
    }

    fn inputs(given: &[(NodeId, Arc<Value>)]) -> Inputs {
        let mut inputs = Inputs::default();
        for (id, value) in given {
            let copies = value.copies();
            inputs.host.extend(value.host().map(|bytes| (*id, bytes.clone())));
            inputs.resident.extend(copies.resident.iter().map(|(d, b)| ((*id, *d), b.clone())));
        }
        inputs
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
        let copies = Copies { resident, recipe };
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
        let held =
            |t: &Tensor| value_of(t).map_or(0, |v| v.bytes + v.copies().recipe.as_ref().map_or(0, |r| r.held_bytes));
        let held_bytes = inputs.iter().map(held).sum();
        (held_bytes <= self.0.options.recovery_bytes).then(|| Box::new(Recipe { op, inputs, held_bytes }))
    }

    /// The bytes of a value on the host; `None` when the devices that had them are gone.
    fn host_bytes(&self, value: &Value, deadline: Deadline) -> Result<Option<HostBytes>> {
        if let Some(bytes) = value.host() {
            return Ok(Some(bytes.clone()));
        }
        let copies = value.copies().clone();
        let snapshot = self.0.devices.snapshot();
        for (id, buffer) in &copies.resident {
            let Some(device): Option<Arc<dyn Device>> = snapshot.device(*id) else { continue };
            match fetch(&device, buffer, value.bytes, deadline) {
                Ok(bytes) => {
                    drop(value.add_host(bytes.clone()));
                    return Ok(Some(bytes));
                }
                Err(source @ DeviceError::Lost { .. }) => {
                    self.0.devices.fail(*id, &source);
                    value.lose(*id);
                }
                Err(source) => return Err(Error::Device { device: snapshot.entry(*id).name.clone(), source }),
            }
        }
        Ok(None)
    }
}

/// A plan that is compiled, and the values of its inputs.
pub(crate) struct Ready {
    pub inputs: Vec<(NodeId, Arc<Value>)>,
    pub executable: Arc<Executable>,
}

/// Why an attempt failed.
enum Failure {
    Device(ExecError),
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Other(error)
    }
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

/// A computation that was started for a read.
pub(crate) struct Pending {
    running: Running,
    deadline: Deadline,
    inputs: Vec<(NodeId, Arc<Value>)>,
    tensor: Tensor,
    plan: Arc<Plan>,
}

impl Pending {
    /// Ends when the tensor has its value; a device that failed is left to the read that follows.
    pub async fn finish(self) {
        let outcome = self.running.watch(self.deadline).await;
        settle(outcome, &self.tensor, &self.inputs, &self.plan);
    }

    /// As [`Pending::finish`], on this thread.
    pub fn wait(self) {
        let outcome = self.running.finish(self.deadline);
        settle(outcome, &self.tensor, &self.inputs, &self.plan);
    }
}

/// Gives the tensor the value that was computed for it, if one was.
fn settle(
    outcome: std::result::Result<Outcome, ExecError>,
    tensor: &Tensor,
    inputs: &[(NodeId, Arc<Value>)],
    plan: &Plan,
) {
    if let Ok(outcome) = outcome {
        let value = outcome.outputs.into_iter().next().expect("one output was wanted");
        tensor.0.engine.settle(tensor, inputs, plan, 0, value);
    }
}
