//! Where the time of a submission went.

use std::time::Duration;

/// Time of one submission by part. Parts overlap on a device with lanes, so they need not add up to the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Moving host bytes to the device.
    pub upload: Duration,
    /// Encoding and submitting, on the host; `None` where there is no such part: the CPU does the work in the call itself.
    pub dispatch: Option<Duration>,
    /// Kernels, as the device tells; `None` where it does not, or was not asked to.
    pub kernel: Option<Duration>,
    /// Moving results to the host.
    pub read: Duration,
    /// Blocked until it was done.
    pub wait: Duration,
}
