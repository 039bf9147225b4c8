//! Plans that are one submission in the host's memory: run without books, over memory that is lent for the call.

use std::sync::Arc;

use breakeven_device::{Device, DeviceError, HostBytes, Kept, Lent, Prepared};
use breakeven_ir::NodeId;
use breakeven_plan::{DeviceId, Output, OutputPlace, Plan};
use smallvec::SmallVec;

use crate::compile::{Given, Stage, Taken};
use crate::{ExecError, Executable};

/// A plan of one submission on a device that works in the host's memory, whose inputs are all on the host and whose outputs are
/// read or kept there, each dense in a slot of its own.
#[derive(Debug)]
pub struct Direct {
    device: Arc<dyn Device>,
    id: DeviceId,
    prepared: Arc<dyn Prepared>,
    slots: Vec<Role>,
    /// Bytes of each output.
    outputs: Vec<u64>,
}

/// What a slot of the segment stands for.
#[derive(Clone, Copy, Debug)]
enum Role {
    Input(NodeId),
    Output(usize),
    Scratch(u64),
}

impl Direct {
    /// Of a plan that allows for it.
    pub(crate) fn new(plan: &Plan, stages: &[Stage], devices: &[Option<Arc<dyn Device>>]) -> Option<Direct> {
        let [stage] = stages else { return None };
        let device = devices.get(stage.device.0)?.clone()?;
        if !device.caps().host_memory || !stage.uploads.is_empty() || !stage.reads.is_empty() {
            return None;
        }
        let outputs = plan.outputs.iter().map(|output| whole(plan, &output.place)).collect::<Option<Vec<_>>>()?;
        let slots = stage.slots.iter().map(|&slot| role(plan, stage, slot)).collect::<Option<Vec<_>>>()?;
        let is_written = |output: usize| slots.iter().any(|role| matches!(role, Role::Output(o) if *o == output));
        let is_whole = slots.iter().filter(|role| matches!(role, Role::Output(_))).count() == outputs.len();
        (is_whole && (0..outputs.len()).all(is_written)).then(|| Direct {
            device,
            id: stage.device,
            prepared: stage.prepared.clone(),
            slots,
            outputs,
        })
    }

    /// Whose memory it is.
    pub fn device(&self) -> DeviceId {
        self.id
    }

    /// Bytes of each output, in the order of the graph.
    pub fn output_bytes(&self) -> &[u64] {
        &self.outputs
    }

    /// Computes all outputs into memory of the caller's, as long as [`Direct::output_bytes`] says; each is taken out of its
    /// place. `inputs` are the bytes of every input, by ascending node.
    pub fn run(&self, inputs: &[(NodeId, &HostBytes)], outputs: &mut [Option<Lent<'_>>]) -> Result<(), ExecError> {
        let mut slot = |role: &Role| match *role {
            Role::Input(node) => {
                let at = inputs.binary_search_by_key(&node, |(id, _)| *id);
                at.map(|at| Lent::Host(inputs[at].1)).map_err(|_| ExecError::MissingInput { node })
            }
            Role::Output(output) => Ok(outputs[output].take().expect("a plan has one slot for each output")),
            Role::Scratch(bytes) => Ok(Lent::Scratch(bytes)),
        };
        let mut slots: SmallVec<[Lent<'_>; 6]> = SmallVec::new();
        for role in &self.slots {
            slots.push(slot(role)?);
        }
        let refused = || Err(DeviceError::Driver("refused memory it said it works in".to_owned()));
        self.device.run_lent(&self.prepared, &mut slots).unwrap_or_else(refused).map_err(ExecError::of(self.id))
    }

    /// Copies bytes of the host as [`Device::copy_on_host`] does.
    pub fn copy(&self, from: &[u8], to: &mut [u8]) {
        self.device.copy_on_host(from, to);
    }

    /// Computes the only output into memory that stays with the device.
    pub fn compute(&self, inputs: &[(NodeId, &HostBytes)]) -> Result<Kept, ExecError> {
        let mut kept = None;
        self.run(inputs, &mut [Some(Lent::Kept(self.outputs[0], &mut kept))])?;
        let lacking = || DeviceError::Driver("did not give out what it computed".to_owned());
        kept.ok_or_else(lacking).map_err(ExecError::of(self.id))
    }
}

impl Executable {
    /// The same work over memory that is lent, where the plan allows for it.
    pub fn direct(&self) -> Option<&Direct> {
        self.direct.as_ref()
    }
}

/// Bytes of an output that fills its slot, element by element.
fn whole(plan: &Plan, place: &OutputPlace) -> Option<u64> {
    let OutputPlace::Slot { slot, layout } = place else { return None };
    layout.is_dense().then(|| plan.slots[*slot].bytes)
}

fn role(plan: &Plan, stage: &Stage, slot: usize) -> Option<Role> {
    if let Some((given, _)) = stage.imports.iter().find(|(_, to)| *to == slot) {
        return if let Given::Input(node) = given { Some(Role::Input(*node)) } else { None };
    }
    let mut exports = stage.exports.iter().filter(|(from, ..)| *from == slot);
    let info = &plan.slots[slot];
    match (exports.next(), exports.next()) {
        (Some((_, bytes, Taken::Output(output))), None) => (*bytes == info.bytes).then_some(Role::Output(*output)),
        (None, None) if info.source.is_some() => None,
        (None, None) if info.kept => kept(plan, slot).map(Role::Output),
        (None, None) => Some(Role::Scratch(info.bytes)),
        _ => None,
    }
}

/// The only output that stays in `slot`.
fn kept(plan: &Plan, slot: usize) -> Option<usize> {
    let is_here = |output: &Output| matches!(output.place, OutputPlace::Slot { slot: other, .. } if other == slot);
    let mut all = plan.outputs.iter().enumerate().filter(|(_, output)| is_here(output));
    let (first, _) = all.next()?;
    all.next().is_none().then_some(first)
}
