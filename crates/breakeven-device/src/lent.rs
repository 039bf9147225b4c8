//! Memory of the host that is lent to a device for one call.

use crate::{Buffer, HostBytes};

/// What one slot of a segment stands for in [`crate::Device::run_lent`].
#[derive(Debug)]
pub enum Lent<'a> {
    /// Bytes that are only read.
    Read(&'a [u8]),
    /// The same, of an owner who can tell whether they ever change.
    Host(&'a HostBytes),
    /// Bytes that are written, and read only where they were written before.
    Write(&'a mut [u8]),
    /// Memory of the device's own.
    Held(&'a Buffer),
    /// So many bytes of unknown content, which nobody wants afterwards.
    Scratch(u64),
}
