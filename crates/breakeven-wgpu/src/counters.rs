//! What a device did so far, for tests and reports.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::staging::Staging;

/// The counters and their names, for whoever shows all of them: each is written down once.
macro_rules! counters {
    ($($(#[$about:meta])* $name:ident,)*) => {
        /// How often a device did what.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$about])* pub $name: u64,)*
        }

        impl Counters {
            /// All of them by name.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Command buffers given to the queue.
    submits,
    /// Compute passes.
    passes,
    /// Kernels dispatched.
    dispatches,
    /// Copies from the host.
    uploads,
    /// Copies to the host.
    reads,
    /// Of both, those that the device copied nothing for: its own memory was written or read by the host.
    in_place,
    /// Reads whose bytes were lent where they lie.
    lent,
    /// Bytes that are lent now.
    lent_bytes,
    /// Buffers made for copies from and to the host.
    staging,
    /// Copies from and to the host that found a buffer which was made before.
    staging_hits,
    /// Bytes of all such buffers now, in use and waiting.
    staging_bytes,
    /// Pipelines compiled.
    pipelines,
    /// Dispatches of prepared segments whose pipeline was there already.
    pipeline_hits,
    /// Pipelines that are kept now for who asks for them next.
    pipelines_kept,
    /// Pipelines that were let go for others.
    pipelines_let_go,
    /// Bytes of the texts of those that are kept: drivers do not tell how much they hold.
    pipeline_text_bytes,
    /// Bind groups made.
    bind_groups,
    /// Bind groups that are kept now, each for the buffers that a dispatch binds.
    bind_groups_kept,
    /// Bind groups of submissions that were found as they were made for an earlier one with the same buffers.
    bind_group_hits,
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
