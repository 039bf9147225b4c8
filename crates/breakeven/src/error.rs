//! What can go wrong, from the user's side.

use std::path::Path;

use breakeven_device::DeviceError;
use breakeven_ir::CallError;

/// What a call to the engine returns when it has no value.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call is wrong on any machine; the message names operation, shapes and the caller's line.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The call was right and a device failed.
    #[error("{device}: {source}")]
    Device {
        /// Which device.
        device: String,
        /// How it failed.
        source: DeviceError,
    },
    /// A value was on a device alone that was lost, and can neither be read nor computed again.
    #[error(
        "{tensor} was lost with {device}, which alone had it, and computing it again would hold more than the recovery limit"
    )]
    DeviceLost {
        /// Which device.
        device: String,
        /// Which value: what made it, and its element type and shape.
        tensor: String,
    },
    /// The work cannot be placed as asked: a forced device is missing or cannot run it.
    #[error("{0}")]
    Placement(String),
    /// A file is not what it should be.
    #[error("{path}: {message}")]
    File {
        /// Which file.
        path: String,
        /// What is wrong with it and what to do.
        message: String,
    },
    /// A setting from the environment is not understood.
    #[error("{variable}: {message}")]
    Setting {
        /// Which variable.
        variable: &'static str,
        /// What is wrong with it.
        message: String,
    },
}

impl Error {
    pub(crate) fn file(path: &Path, message: impl Into<String>) -> Error {
        Error::File { path: path.display().to_string(), message: message.into() }
    }
}

/// What calls to the engine return.
pub type Result<T> = std::result::Result<T, Error>;
