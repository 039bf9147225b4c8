//! What planning is asked with: the machine, where inputs live, and what the caller insists on.

use std::collections::BTreeMap;
use std::fmt;

use breakeven_ir::{Caps, Kernel, Layout, NodeId, Unsupported};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::{DeviceProfile, Frozen};

/// Index into [`Machine::devices`]; 0 is always the CPU of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeviceId(pub usize);

impl DeviceId {
    /// The CPU of the host.
    pub const HOST: DeviceId = DeviceId(0);
}

/// The devices that a plan may use.
#[derive(Clone, Debug)]
pub struct Machine<'a> {
    /// The host's CPU first.
    pub devices: Vec<DeviceView<'a>>,
}

impl<'a> Machine<'a> {
    /// One of its devices.
    pub fn device(&self, id: DeviceId) -> &DeviceView<'a> {
        &self.devices[id.0]
    }
}

/// What a device says of every kernel that has no instructions of lower precision: for [`DeviceView::lowers`].
pub fn never_lowers(_: &Kernel) -> Option<&'static str> {
    None
}

/// A device as the planner sees it.
#[derive(Clone)]
pub struct DeviceView<'a> {
    /// As explanations name it.
    pub name: String,
    /// Its limits.
    pub caps: &'a Caps,
    /// What has been measured on it.
    pub profile: &'a DeviceProfile,
    /// Whether it can run a kernel.
    pub supports: &'a (dyn Fn(&Kernel) -> Result<(), Unsupported> + Sync),
    /// How it makes products of lower precision that a kernel allows, in words; `None` where it makes them as at the highest.
    pub lowers: &'a (dyn Fn(&Kernel) -> Option<&'static str> + Sync),
    /// It may be chosen without being named; false for software adapters.
    pub automatic: bool,
}

impl fmt::Debug for DeviceView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceView")
            .field("name", &self.name)
            .field("automatic", &self.automatic)
            .finish_non_exhaustive()
    }
}

/// Where a copy of an input lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// In the host's memory, outside any device's buffers.
    Host,
    /// In a buffer of a device.
    Device(DeviceId),
}

/// Where all copies of one value live.
pub type Places = SmallVec<[Place; 2]>;

/// An input of a graph: how its bytes are ordered and where copies of them are.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Where the elements lie in the bytes; dense unless an earlier run stored them in another order.
    pub layout: Layout,
    /// Every copy there is; at least one.
    pub places: Places,
}

/// Where things are before a plan runs, and where they are wanted after it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Home {
    /// Inputs of the graph. One that is not listed is dense and on the host.
    pub inputs: BTreeMap<NodeId, Source>,
    /// For each output of the graph, whether the host wants its bytes; outputs that are not listed are wanted.
    pub read: Vec<bool>,
}

impl Home {
    /// Whether the host wants output `output`.
    pub fn is_read(&self, output: usize) -> bool {
        self.read.get(output).copied().unwrap_or(true)
    }
}

/// What the caller insists on. Tuned numbers are not here but in the profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Everything runs on this device, or the plan is an error.
    pub pin: Option<DeviceId>,
    /// Everything runs on this device, where it can, whatever is predicted: its time is to be compared with that of another plan. Of no effect
    /// where something is pinned or frozen.
    pub probe: Option<DeviceId>,
    /// These nodes run on these devices, or the plan is an error.
    pub pins: BTreeMap<NodeId, DeviceId>,
    /// Whether operations share kernels.
    pub fuse: bool,
    /// Rows one kernel may apply, which bounds the size of generated code.
    pub max_rows_per_kernel: usize,
    /// Tensors one kernel may read, before devices with fewer bindings split it further.
    pub max_inputs_per_kernel: usize,
    /// No launch on a device of its own memory is predicted to take longer; longer ones are split.
    pub max_launch_seconds: f64,
    /// Where an earlier plan of the same graph ran each kernel: it runs there again, or the plan is an error.
    pub frozen: Option<Frozen>,
}

impl Policy {
    /// Whether the caller insists on no device.
    pub fn is_free(&self) -> bool {
        self.pin.is_none() && self.probe.is_none() && self.pins.is_empty() && self.frozen.is_none()
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            pin: None,
            probe: None,
            pins: BTreeMap::new(),
            fuse: true,
            max_rows_per_kernel: 64,
            max_inputs_per_kernel: 16,
            max_launch_seconds: 0.25,
            frozen: None,
        }
    }
}
