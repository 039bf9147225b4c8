//! How a machine fails when the call was right.

use std::time::Duration;

use breakeven_ir::Unsupported;

/// The machine failed; the call was right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// Not enough memory, also after the pools were trimmed.
    #[error("out of memory: {wanted} bytes were wanted{}", left.map_or(String::new(), |b| format!(" and {b} are left")))]
    OutOfMemory {
        /// Bytes asked for.
        wanted: u64,
        /// Bytes that were left, where known.
        left: Option<u64>,
    },
    /// Too much work in flight: wait for some of it and try again.
    #[error("busy: too much work is in flight; wait for some of it and submit again")]
    Busy,
    /// The device is gone, and with it every buffer it had.
    #[error("the device was lost: {reason}")]
    Lost {
        /// What the driver said.
        reason: String,
    },
    /// The deadline passed first. The work may still be running; its buffers stay reserved until it ends.
    #[error("timed out after {waited:?} with {pending} submissions unfinished")]
    Timeout {
        /// How long was waited.
        waited: Duration,
        /// Submissions that had not finished.
        pending: usize,
    },
    /// The device cannot run this kernel.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The code of a custom operation panicked; the device is fine.
    #[error("the custom operation `{name}` panicked: {message}")]
    Custom {
        /// Its name.
        name: String,
        /// What the panic said.
        message: String,
    },
    /// Nobody waits for the result any more, so what was begun for it was broken off; the device is fine.
    #[error("broken off: nobody waits for the result any more")]
    Cancelled,
    /// The driver refused for a reason of its own.
    #[error("the driver refused: {0}")]
    Driver(String),
}

/// What device calls return.
pub type Result<T> = std::result::Result<T, DeviceError>;
