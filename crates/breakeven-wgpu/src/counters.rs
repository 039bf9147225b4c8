//! What a device did so far, for tests and reports.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::staging::Staging;

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
    /// Copies from and to the host that found a buffer which was made before.
    pub staging_hits: u64,
    /// Bytes of all such buffers now, in use and waiting.
    pub staging_bytes: u64,
    /// Pipelines compiled.
    pub pipelines: u64,
    /// Dispatches of prepared segments whose pipeline was there already.
    pub pipeline_hits: u64,
    /// Pipelines that are kept now for who asks for them next.
    pub pipelines_kept: u64,
    /// Pipelines that were let go for others.
    pub pipelines_let_go: u64,
    /// Bytes of the texts of those that are kept: drivers do not tell how much they hold.
    pub pipeline_text_bytes: u64,
    /// Bind groups made.
    pub bind_groups: u64,
    /// Bind groups of submissions that were found as they were made for an earlier one with the same buffers.
    pub bind_group_hits: u64,
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
    /// Dispatches that were given a pipeline.
    pub pipelines_given: AtomicU64,
    pub bind_groups: AtomicU64,
    pub bind_group_hits: AtomicU64,
}

impl Counts {
    pub fn read(&self, staging: &Staging) -> Counters {
        let (pipelines, pools) = (self.pipelines.load(Relaxed), staging.counters());
        Counters {
            submits: self.submits.load(Relaxed),
            passes: self.passes.load(Relaxed),
            dispatches: self.dispatches.load(Relaxed),
            uploads: self.uploads.load(Relaxed),
            reads: self.reads.load(Relaxed),
            in_place: self.in_place.load(Relaxed),
            lent: self.lent.load(Relaxed),
            lent_bytes: staging.loans.bytes(),
            staging: self.staging.load(Relaxed),
            staging_hits: pools.iter().map(|pool| pool.hits).sum(),
            staging_bytes: pools.iter().map(|pool| pool.live_bytes + pool.pooled_bytes).sum(),
            pipelines,
            pipeline_hits: self.pipelines_given.load(Relaxed).saturating_sub(pipelines),
            bind_groups: self.bind_groups.load(Relaxed),
            bind_group_hits: self.bind_group_hits.load(Relaxed),
            ..Counters::default()
        }
    }
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    count_all(counter, 1);
}

/// So many more.
pub(crate) fn count_all(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Relaxed);
}
