//! What an executable is run on.

use breakeven_device::{Buffer, HostBytes};
use breakeven_ir::NodeId;
use breakeven_plan::DeviceId;
use smallvec::SmallVec;

/// Where the bytes of the graph's inputs are, in the order of their nodes.
#[derive(Clone, Debug, Default)]
pub struct Inputs(Vec<(NodeId, Input)>);

/// Where the bytes of one input are.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// Bytes on the host.
    pub host: Option<HostBytes>,
    /// Buffers of devices: nearly always one.
    pub resident: SmallVec<[(DeviceId, Buffer); 1]>,
}

impl FromIterator<(NodeId, Input)> for Inputs {
    fn from_iter<I: IntoIterator<Item = (NodeId, Input)>>(inputs: I) -> Inputs {
        let mut inputs: Vec<(NodeId, Input)> = inputs.into_iter().collect();
        inputs.sort_by_key(|(node, _)| *node);
        Inputs(inputs)
    }
}

impl Inputs {
    /// The bytes of an input on the host.
    pub(crate) fn host(&self, node: NodeId) -> Option<&HostBytes> {
        self.get(node)?.host.as_ref()
    }

    /// The buffer of an input on a device.
    pub(crate) fn resident(&self, node: NodeId, device: DeviceId) -> Option<&Buffer> {
        let all = &self.get(node)?.resident;
        all.iter().find(|(at, _)| *at == device).map(|(_, buffer)| buffer)
    }

    fn get(&self, node: NodeId) -> Option<&Input> {
        let at = self.0.binary_search_by_key(&node, |(node, _)| *node).ok()?;
        Some(&self.0[at].1)
    }
}
