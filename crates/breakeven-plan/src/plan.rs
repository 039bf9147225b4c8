//! Plans: what an executor carries out, and why it came out so.

use breakeven_ir::{DType, Launch, Layout, NodeId};

use crate::{Cost, Decision, DeviceId};

/// Steps over slots, in an order in which they can run one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// [`Graph::fingerprint`](breakeven_ir::Graph::fingerprint) of the graph that it computes.
    pub graph: u64,
    /// Numbers of that graph as it was written which it takes as inputs, by node.
    pub lifted: Vec<NodeId>,
    /// Names of the machine's devices, by id.
    pub devices: Vec<String>,
    /// Memory that the steps use.
    pub slots: Vec<Slot>,
    /// What to do.
    pub steps: Vec<Step>,
    /// Where the outputs of the graph are afterwards, in the graph's order.
    pub outputs: Vec<Output>,
    /// Why each kernel runs where it does, in the order of fusion.
    pub decisions: Vec<Decision>,
    /// For each [`Step::Run`], in order, which decision it carries out: a kernel that was split has several.
    pub decided: Vec<usize>,
    /// Predicted time of the whole plan; zero where nothing was measured.
    pub predicted: Cost,
    /// The best other plan that uses one device alone: the device, and what was predicted for it. None where everything was pinned or
    /// frozen, or no other device can do it all.
    pub rival: Option<(DeviceId, Cost)>,
    /// What the steps amount to.
    pub counts: Counts,
    /// What else a reader of the plan should know; none as planned.
    pub remarks: Vec<String>,
}

/// Memory on one device. Several values may use it one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Whose memory.
    pub device: DeviceId,
    /// Bytes of the largest value in it, without padding.
    pub bytes: u64,
    /// The step that writes it first, or the first that reads it where the caller binds it.
    pub first: usize,
    /// The last step that touches it.
    pub last: usize,
    /// An input that already lives on the device: the caller binds its buffer, and no step writes it.
    pub source: Option<NodeId>,
    /// It holds an uploaded input and nothing else, since no launch writes it: the executor may keep it as a resident copy
    /// of the input, and on a device that works in the host's memory bind the caller's own bytes instead.
    pub is_upload: bool,
    /// An output of the graph stays in it.
    pub kept: bool,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Bring an input from the host's memory to a device.
    Upload {
        /// Which input.
        input: NodeId,
        /// Where to.
        slot: usize,
    },
    /// Bring a value from one device to another.
    Copy {
        /// Slot to read.
        from: usize,
        /// Slot to write.
        to: usize,
        /// How much of it.
        bytes: u64,
    },
    /// Run a kernel; the launch numbers slots of the plan.
    Run {
        /// Where.
        device: DeviceId,
        /// What; boxed, since kernels are large and other steps are small.
        launch: Box<Launch>,
    },
    /// Bring an output of the graph to the host's memory, as it is stored.
    Download {
        /// Slot to read.
        slot: usize,
        /// Which output of the graph.
        output: usize,
        /// How much of it.
        bytes: u64,
    },
}

/// An output of the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The node it is the value of.
    pub node: NodeId,
    /// Type of its elements.
    pub dtype: DType,
    /// Where it is.
    pub place: OutputPlace,
}

/// Where an output of the graph is after the steps.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputPlace {
    /// Nowhere: it has no elements.
    Empty,
    /// In a slot, which is kept.
    Slot {
        /// Which one.
        slot: usize,
        /// Where its elements lie there; also in the bytes of its download.
        layout: Layout,
    },
    /// In the bytes of an input, of which it is a mere view. It is downloaded only if the host has no copy.
    Input {
        /// Which input.
        input: NodeId,
        /// Where its elements lie there.
        layout: Layout,
    },
}

/// What the steps of a plan amount to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Launches on each device.
    pub launches: Vec<usize>,
    /// Runs of launches on each device without one on another between them: each is one submission.
    pub submits: Vec<usize>,
    /// Launches that only bring elements into another order.
    pub layout_copies: usize,
    /// Inputs brought from the host's memory, to each device.
    pub uploads: Vec<usize>,
    /// Outputs brought to the host's memory, from each device.
    pub downloads: Vec<usize>,
    /// Values brought from one device to another.
    pub copies: usize,
    /// Bytes that uploads, copies and downloads move; those of devices in the host's memory not counted.
    pub moved_bytes: u64,
    /// Highest sum of the bytes of slots in use at one time, on each device.
    pub peak_bytes: Vec<u64>,
    /// What has to be taken for the plan at one time, on each device: slots but for inputs that lie there already, each for as long as the
    /// submissions that touch it, which bind all their slots at once.
    pub taken_bytes: Vec<u64>,
    /// Bytes of all slots of each device: what it takes to bind them all at once.
    pub slot_bytes: Vec<u64>,
}

impl Plan {
    /// Bytes that go to a device or come from it: uploads, downloads and copies. Device 0 is the CPU, which works in the host's memory and
    /// takes uploads where they lie.
    pub fn copied_bytes(&self, device: DeviceId) -> u64 {
        let mine = |slot: usize| self.slots[slot].device == device;
        let one = |step: &Step| match step {
            Step::Upload { slot, .. } if mine(*slot) && device.0 != 0 => self.slots[*slot].bytes,
            Step::Copy { from, to, bytes } if mine(*from) || mine(*to) => *bytes,
            Step::Download { slot, bytes, .. } if mine(*slot) && device.0 != 0 => *bytes,
            _ => 0,
        };
        self.steps.iter().map(one).sum()
    }
}
