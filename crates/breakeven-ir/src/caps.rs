//! What a device can hold and bind, as plain data that lowering reads.

use crate::DType;

/// Limits of one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Caps {
    /// Largest single buffer, in bytes.
    pub max_buffer_bytes: u64,
    /// Largest part of a buffer that one launch can see, in bytes.
    pub max_binding_bytes: u64,
    /// Buffers that one launch can see, outputs and workspace counted, the device's own needs already taken off.
    pub max_bindings: usize,
    /// Highest element index a kernel can reckon with.
    pub max_index: u64,
    /// Element types its kernels work on.
    pub dtypes: Vec<DType>,
    /// Element types that its kernels move and pick, but do not compute with.
    pub moved: Vec<DType>,
    /// Its memory is the host's: uploads and reads need no copy.
    pub host_memory: bool,
    /// Memory it may use in all, in bytes, where known.
    pub memory_bytes: Option<u64>,
}

impl Caps {
    /// A device without limits of its own, working in the host's memory.
    pub fn host() -> Caps {
        Caps {
            max_buffer_bytes: isize::MAX as u64,
            max_binding_bytes: isize::MAX as u64,
            max_bindings: usize::MAX,
            max_index: isize::MAX as u64,
            dtypes: DType::ALL.to_vec(),
            moved: Vec::new(),
            host_memory: true,
            memory_bytes: None,
        }
    }
}
