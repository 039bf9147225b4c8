//! Frozen plans: where each kernel ran, to be run there again.

use std::collections::BTreeMap;

use breakeven_ir::NodeId;
use serde::{Deserialize, Serialize};

use crate::{DeviceId, Plan};

/// Where each kernel of a plan runs and how finely it is split, by the nodes it computes. A plan under it runs every kernel there or is an error;
/// with the same graph, policy and devices its results are the same bit for bit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<FrozenKernel>", into = "Vec<FrozenKernel>")]
pub struct Frozen {
    kernels: BTreeMap<Vec<u32>, (DeviceId, u64)>,
}

/// One kernel of a frozen plan, as it is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FrozenKernel {
    nodes: Vec<u32>,
    device: DeviceId,
    largest_launch: u64,
}

impl Frozen {
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
        Frozen { kernels: self.decisions.iter().map(|d| (d.nodes.clone(), (d.device, d.largest_launch))).collect() }
    }
}

impl From<Vec<FrozenKernel>> for Frozen {
    fn from(kernels: Vec<FrozenKernel>) -> Frozen {
        Frozen { kernels: kernels.into_iter().map(|k| (k.nodes, (k.device, k.largest_launch))).collect() }
    }
}

impl From<Frozen> for Vec<FrozenKernel> {
    fn from(frozen: Frozen) -> Vec<FrozenKernel> {
        let one = |(nodes, (device, largest_launch))| FrozenKernel { nodes, device, largest_launch };
        frozen.kernels.into_iter().map(one).collect()
    }
}
