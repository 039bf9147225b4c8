//! What can fail while a plan is carried out.

use std::ops::Range;

use breakeven_device::DeviceError;
use breakeven_ir::NodeId;
use breakeven_plan::DeviceId;

/// A plan could not be carried out to its end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExecError {
    /// A device failed; the others may be fine.
    #[error("device {}: {source}", device.0)]
    Device {
        /// Which one.
        device: DeviceId,
        /// How.
        source: DeviceError,
        /// The steps of the plan that it was doing; none where it failed outside of a submission.
        during: Range<usize>,
    },
    /// An input's bytes were not given where the plan needs them.
    #[error("input {} was not given", node.0)]
    MissingInput {
        /// The input node.
        node: NodeId,
    },
    /// The plan names a device that is not there.
    #[error("device {} is not there", device.0)]
    MissingDevice {
        /// Which one.
        device: DeviceId,
    },
}

impl ExecError {
    /// A failure of `device`.
    pub fn of(device: DeviceId) -> impl Fn(DeviceError) -> ExecError {
        ExecError::during(device, 0..0)
    }

    /// A failure of `device` during these steps of the plan.
    pub fn during(device: DeviceId, steps: Range<usize>) -> impl Fn(DeviceError) -> ExecError {
        move |source| ExecError::Device { device, source, during: steps.clone() }
    }
}
