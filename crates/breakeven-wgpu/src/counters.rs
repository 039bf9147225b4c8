//! What a device did so far, for tests and reports.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How often a device did what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Command buffers given to the queue.
    pub submits: u64,
    /// Compute passes.
    pub passes: u64,
    /// Kernels dispatched.
    pub dispatches: u64,
    /// Copies from the host.
    pub uploads: u64,
    /// Copies to the host.
    pub reads: u64,
    /// Of both, those that the device copied nothing for: its own memory was written or read by the host.
    pub in_place: u64,
    /// Reads whose bytes were lent where they lie.
    pub lent: u64,
    /// Bytes that are lent now.
    pub lent_bytes: u64,
    /// Buffers made for copies from and to the host.
    pub staging: u64,
    /// Pipelines compiled.
    pub pipelines: u64,
    /// Pipelines that are kept now for who asks for them next.
    pub pipelines_kept: u64,
    /// Pipelines that were let go for others.
    pub pipelines_let_go: u64,
    /// Bytes of the texts of those that are kept: drivers do not tell how much they hold.
    pub pipeline_text_bytes: u64,
    /// Bind groups made.
    pub bind_groups: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub submits: AtomicU64,
    pub passes: AtomicU64,
    pub dispatches: AtomicU64,
    pub uploads: AtomicU64,
    pub reads: AtomicU64,
    pub in_place: AtomicU64,
    pub lent: AtomicU64,
    pub staging: AtomicU64,
    pub pipelines: AtomicU64,
    pub bind_groups: AtomicU64,
}

impl Counts {
    pub fn read(&self, lent_bytes: u64) -> Counters {
        Counters {
            submits: self.submits.load(Relaxed),
            passes: self.passes.load(Relaxed),
            dispatches: self.dispatches.load(Relaxed),
            uploads: self.uploads.load(Relaxed),
            reads: self.reads.load(Relaxed),
            in_place: self.in_place.load(Relaxed),
            lent: self.lent.load(Relaxed),
            lent_bytes,
            staging: self.staging.load(Relaxed),
            pipelines: self.pipelines.load(Relaxed),
            bind_groups: self.bind_groups.load(Relaxed),
            ..Counters::default()
        }
    }
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
