//! Computing one tensor for a read that comes later: planned, begun, ended.

use std::sync::Arc;
use std::time::Duration;

use breakeven_device::Deadline;
use breakeven_exec::{ExecError, Executable, Outcome, Running};
use breakeven_ir::NodeId;
use breakeven_plan::{Cost, DeviceId};

use crate::attempts::Attempts;
use crate::coming::Awaits;
use crate::devices::Snapshot;
use crate::evaluate::{Ready, value_of};
use crate::failure::Failure;
use crate::patience::{Patience, limit};
use crate::value::Value;
use crate::{Engine, Result, Tensor};

/// A computation that is planned and not begun.
pub(crate) struct PlannedRead {
    tensor: Tensor,
    inputs: Vec<(NodeId, Arc<Value>)>,
    executable: Arc<Executable>,
    devices: Snapshot,
}

/// A computation that was begun.
pub(crate) struct Pending {
    of: PlannedRead,
    running: Running,
}

impl Engine {
    /// Plans `tensor` for the host; `None` when it is there, when a device failed, and while what it needs is compiled, which are left to
    /// the read that follows.
    pub(crate) fn plan_read(&self, tensor: &Tensor) -> Result<Option<PlannedRead>> {
        let devices = self.0.devices.snapshot();
        if value_of(tensor).is_some_and(|value| value.is_there(&devices)) {
            return Ok(None);
        }
        let at_once = Awaits::Briefly(Patience::Callers(Deadline::after(Duration::ZERO)));
        match self.prepared(&devices, &[tensor], (&[true], None), at_once) {
            Ok(Ready { inputs, planned }) => {
                let executable = planned.lead().executable().clone();
                Ok(Some(PlannedRead { tensor: tensor.clone(), inputs, executable, devices }))
            }
            Err(Failure::Device(_) | Failure::Late(..) | Failure::Short(..)) => Ok(None),
            Err(Failure::Other(error)) => Err(error),
        }
    }

    /// As [`Engine::plan_read`], begun.
    pub(crate) fn start(&self, tensor: &Tensor, patience: Patience) -> Result<Option<Pending>> {
        Ok(self.plan_read(tensor)?.and_then(|planned| planned.start(patience)))
    }
}

impl PlannedRead {
    /// Brings what is needed to the devices and submits the work; `None` when a device failed.
    pub fn start(self, patience: Patience) -> Option<Pending> {
        let deadline = self.devices.deadline_of(self.executable.plan(), patience);
        match self.executable.start(&Engine::inputs(&self.inputs, &self.devices), deadline) {
            Ok(running) => Some(Pending { of: self, running }),
            Err(error) => {
                self.note(error);
                None
            }
        }
    }

    /// How long it takes, where that is known.
    pub fn predicted(&self) -> Option<Cost> {
        self.devices.predicted(self.executable.plan())
    }

    /// Seconds that it is predicted to take where all of it runs on other devices than the CPU; `None` otherwise.
    pub fn seconds_elsewhere(&self) -> Option<f64> {
        let plan = self.executable.plan();
        let is_elsewhere = plan.decisions.iter().all(|decision| decision.device != DeviceId::HOST);
        (is_elsewhere && !plan.decisions.is_empty()).then_some(plan.predicted.seconds)
    }
}

impl Pending {
    /// Ends when the tensor has its value; a device that failed is left to the read that follows.
    pub async fn finish(self, patience: Patience) {
        let Pending { of, running } = self;
        let deadline = of.devices.deadline_of(of.executable.plan(), patience);
        match running.watch(deadline).await {
            Ok(outcome) => of.keep(outcome),
            Err(error) => of.note(error),
        }
    }

    /// As [`Pending::finish`], on this thread and as the first attempt of a read. Work on a device that failed meanwhile is not waited for.
    pub fn wait(self, attempts: &mut Attempts) -> Result<()> {
        let Pending { of, running } = self;
        if of.is_in_vain() {
            return Ok(());
        }
        let deadline = of.devices.deadline_of(of.executable.plan(), attempts.patience);
        match running.finish(deadline) {
            Ok(outcome) => of.keep(outcome),
            Err(error) => attempts.failed(&of.tensor.0.engine, &of.devices, of.failure(error))?,
        }
        Ok(())
    }
}

impl PlannedRead {
    /// Keeps what it gave.
    fn keep(self, outcome: Outcome) {
        let engine = &self.tensor.0.engine;
        engine.report_success(&self.devices, &self.executable);
        engine.keep_all(outcome, &[&self.tensor], (&self.inputs, self.executable.plan()), &self.devices);
        engine.0.devices.tell();
    }

    /// The read that follows plans without a device that is known to have failed, and does not wait for it again.
    fn note(&self, error: ExecError) {
        self.tensor.0.engine.note_failure(&self.devices, self.failure(error));
    }

    fn failure(&self, error: ExecError) -> Failure {
        Failure::while_running(&self.executable, limit(self.predicted()), false)(error)
    }

    /// Whether a device that it runs on failed since it was planned.
    fn is_in_vain(&self) -> bool {
        let now = self.tensor.0.engine.0.devices.snapshot();
        let has_problem = |id: DeviceId| now.entry(id).state.problem().is_some();
        self.executable.plan().decisions.iter().any(|decision| has_problem(decision.device))
    }
}
