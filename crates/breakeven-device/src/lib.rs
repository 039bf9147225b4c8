//! How to talk to a machine: devices, buffers, tickets, deadlines, failures, pools and the simulated device.
//!
//! A device knows kernels and buffers; it knows no operation, no graph, no plan and no price. Only [`Device::wait`]
//! blocks, and only until its [`Deadline`].
#![forbid(unsafe_code)]

mod buffer;
mod copier;
mod deadline;
mod derived;
mod device;
mod error;
mod host;
mod lent;
mod pool;
mod recorded;
mod segment;
pub mod sim;
mod timing;
mod touch;

pub use buffer::{Buffer, MemoryKind};
pub use copier::Copier;
pub use deadline::Deadline;
pub use derived::Derived;
pub use device::{Backend, Device, DeviceInfo, DeviceKind, Lane, Memory, Prepared, Status, Ticket};
pub use error::{DeviceError, Result};
pub use host::{HostBytes, HostMemory, ReadCell};
pub use lent::{Kept, Lent};
pub use pool::{Pool, PoolClass, PoolCounters, size_class};
pub use recorded::{Activity, Clock, Recorded, Recorder, Span};
pub use segment::{Binding, Segment, SegmentStep};
pub use timing::Timing;
pub use touch::{Touch, are_independent, touches};
