//! Why there is no plan.

use breakeven_ir::NodeId;

use crate::DeviceId;

/// Why a graph cannot be planned as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A device was asked for by name and cannot do it. Nothing falls back silently.
    #[error("{device} was asked for, but cannot run {what}: {reason}")]
    Pinned {
        /// Name of the device.
        device: String,
        /// The kernel, in words.
        what: String,
        /// What stands in the way.
        reason: String,
    },
    /// No device can run a kernel, the CPU included.
    #[error("no device can run {what}: {reason}")]
    Nowhere {
        /// The kernel, in words.
        what: String,
        /// What stands in the way, for each device.
        reason: String,
    },
    /// A pin names a device that is not there.
    #[error("device {} was asked for, but there are only {devices} devices", device.0)]
    NoDevice {
        /// The device that was named.
        device: DeviceId,
        /// How many there are.
        devices: usize,
    },
    /// Kernels that write one tensor together are pinned to different devices.
    #[error("nodes that share a kernel or a tensor are pinned to different devices, {} and {}", a.0, b.0)]
    Conflict {
        /// One of the devices.
        a: DeviceId,
        /// The other.
        b: DeviceId,
    },
    /// A frozen plan is of another graph.
    #[error(
        "the frozen plan was made from another graph: operations, shapes, dtypes or numbers in it differ; freeze this one"
    )]
    FrozenGraph,
    /// A frozen plan is of the same graph, fused otherwise.
    #[error("the frozen plan does not say where {what} runs; it was made under another policy of fusion")]
    Frozen {
        /// The kernel, in words.
        what: String,
    },
    /// What is said of an input does not fit it.
    #[error("input {} is said to lie where it cannot: {reason}", input.0)]
    Input {
        /// Which input.
        input: NodeId,
        /// What is wrong.
        reason: String,
    },
}
