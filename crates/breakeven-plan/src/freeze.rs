//! Frozen plans: where each kernel ran, to be run there again.

use std::collections::BTreeMap;

use breakeven_ir::NodeId;
use serde::{Deserialize, Serialize};

use crate::{DeviceId, Plan};

/// Where each kernel of a plan runs and how finely it is split, by the nodes it computes. A plan of the same graph under it
/// runs every kernel there or is an error; with the same policy and devices its results are the same bit for bit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Frozen {
    graph: u64,
    lifted: Vec<u32>,
    kernels: BTreeMap<Vec<u32>, (DeviceId, u64)>,
}

/// A frozen plan as it is written down; the fingerprint in hexadecimal digits, since many readers of JSON know no integers
/// of 64 bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Written {
    graph: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    lifted: Vec<u32>,
    kernels: Vec<FrozenKernel>,
}

/// One kernel of a frozen plan, as it is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FrozenKernel {
    nodes: Vec<u32>,
    device: DeviceId,
    largest_launch: u64,
}

impl Frozen {
    /// [`Graph::fingerprint`](breakeven_ir::Graph::fingerprint) of the graph that it is for.
    pub fn graph(&self) -> u64 {
        self.graph
    }

    /// Numbers of the graph as it is written which have to be [lifted](breakeven_ir::Graph::lift) before.
    pub fn lifted(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.lifted.iter().map(|id| NodeId(*id))
    }

    /// Whether all of it runs on the CPU.
    pub fn is_on_host(&self) -> bool {
        self.kernels.values().all(|(device, _)| *device == DeviceId::HOST)
    }

    /// Where the kernel that computes these nodes runs.
    pub fn device(&self, nodes: &[NodeId]) -> Option<DeviceId> {
        Some(self.kernel(nodes)?.0)
    }

    /// Elements of the largest result of one of its launches there.
    pub fn largest_launch(&self, nodes: &[NodeId]) -> Option<u64> {
        Some(self.kernel(nodes)?.1)
    }

    fn kernel(&self, nodes: &[NodeId]) -> Option<&(DeviceId, u64)> {
        let nodes: Vec<u32> = nodes.iter().map(|id| id.0).collect();
        self.kernels.get(&nodes)
    }
}

impl Plan {
    /// The decisions of this plan, for [`crate::Policy::frozen`].
    pub fn freeze(&self) -> Frozen {
        let kernels = self.decisions.iter().map(|d| (d.nodes.clone(), (d.device, d.largest_launch))).collect();
        Frozen { graph: self.graph, lifted: self.lifted.iter().map(|id| id.0).collect(), kernels }
    }
}

impl TryFrom<Written> for Frozen {
    type Error = String;

    fn try_from(written: Written) -> Result<Frozen, String> {
        let wrong = |e| format!("a frozen plan names its graph by 16 hexadecimal digits, not '{}': {e}", written.graph);
        let graph = u64::from_str_radix(&written.graph, 16).map_err(wrong)?;
        let kernels = written.kernels.into_iter().map(|k| (k.nodes, (k.device, k.largest_launch))).collect();
        Ok(Frozen { graph, lifted: written.lifted, kernels })
    }
}

impl From<Frozen> for Written {
    fn from(frozen: Frozen) -> Written {
        let one = |(nodes, (device, largest_launch))| FrozenKernel { nodes, device, largest_launch };
        let kernels = frozen.kernels.into_iter().map(one).collect();
        Written { graph: format!("{:016x}", frozen.graph), lifted: frozen.lifted, kernels }
    }
}
