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
    /// So many bytes that the device makes, writes and gives out here, to be read by everybody and never written again.
    Kept(u64, &'a mut Option<Kept>),
    /// So many bytes of unknown content, which nobody wants afterwards.
    Scratch(u64),
}

/// Memory of a device that works in the host's.
#[derive(Debug)]
pub struct Kept {
    /// For the device.
    pub buffer: Buffer,
    /// The same bytes for the host.
    pub host: HostBytes,
}
