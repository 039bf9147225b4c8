//! Room on the host: the one check before a number that a caller or a file gave becomes an allocation of ours.

use breakeven_device::DeviceError;
use breakeven_ir::{CallError, Spec};

use crate::{Engine, Error, Result};

impl Engine {
    /// Fails where the elements of `spec` are more than may be held.
    pub(crate) fn room(&self, spec: &Spec) -> Result<()> {
        let lacks = |source| Error::Device { device: "cpu".to_owned(), source };
        self.has_room(spec.bytes()).map_err(lacks)
    }

    /// Fails where `operation` needs a list of so many elements of so many bytes on the host, and that may not be held.
    pub(crate) fn room_for(
        &self,
        operation: &'static str,
        count: usize,
        each: usize,
    ) -> std::result::Result<(), CallError> {
        let bytes = (count as u64).saturating_mul(each as u64);
        self.has_room(bytes).map_err(|error| CallError::new(operation, format!("needs a list on the host: {error}")))
    }

    /// Fails where so many bytes on the host are more than this engine may hold: to be asked before a number of a caller's or a
    /// file's becomes memory.
    pub fn has_room(&self, bytes: u64) -> std::result::Result<(), DeviceError> {
        let limit = self.memory_limit().unwrap_or(u64::MAX).min(isize::MAX as u64);
        if bytes <= limit { Ok(()) } else { Err(DeviceError::OutOfMemory { wanted: bytes, left: Some(limit) }) }
    }
}
