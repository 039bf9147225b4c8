//! Buffers: memory of one device.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Memory of one device, shared by its holders and given back to the device's pool by the last of them. Its bytes are
/// never assumed to be zero.
#[derive(Clone)]
pub struct Buffer {
    memory: Arc<dyn Any + Send + Sync>,
    bytes: u64,
}

/// Where memory lies and who may touch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum MemoryKind {
    /// The device's own, for kernels.
    #[default]
    Resident,
    /// Written by the host, read by the device's copies.
    Upload,
    /// Written by the device's copies, read by the host.
    Read,
}

impl Buffer {
    /// `memory` is the device's own type; dropping it gives the memory back.
    pub fn new(memory: impl Any + Send + Sync, bytes: u64) -> Buffer {
        Buffer::of(Arc::new(memory), bytes)
    }

    /// As [`Buffer::new`], of memory that is shared already.
    pub fn of(memory: Arc<impl Any + Send + Sync>, bytes: u64) -> Buffer {
        Buffer { memory, bytes }
    }

    /// Bytes that were asked for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The device's own memory; `None` when the buffer belongs to a device of another kind.
    pub fn memory<T: Any>(&self) -> Option<&T> {
        self.memory.downcast_ref()
    }

    /// As [`Buffer::memory`], held on its own.
    pub fn shared<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.memory.clone().downcast().ok()
    }

    /// Two handles of one memory.
    pub fn is_same(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.memory, &other.memory)
    }

    /// True when nobody else holds this memory.
    pub fn is_unique(&self) -> bool {
        Arc::strong_count(&self.memory) == 1
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.bytes)
    }
}
