//! What a device writes down of one submission, when it is asked to: what it did, when, and for which steps.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where a device writes what it did. A submission without one writes nothing, and pays nothing.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<Recorded>>);

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// As they were written, not sorted. Each step of the segment is in one of them at most, transfers not counted.
    pub spans: Vec<Span>,
    /// Times that the device told and that cannot be: 0, backwards, or outside of the submission.
    pub dropped: usize,
}

/// A stretch of time, by [`Device::now`](crate::Device::now).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// What was done.
    pub activity: Activity,
    /// Steps of the segment that it was done for.
    pub steps: Vec<usize>,
    /// Bytes that were moved; 0 of kernels.
    pub bytes: u64,
    /// When it began.
    pub start: Duration,
    /// When it ended.
    pub end: Duration,
    /// Who looked at which clock.
    pub clock: Clock,
}

/// What a device does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// It computes.
    Kernel,
    /// Bytes are brought from the host's memory to where the device reads them, or to where it fetches them from.
    Upload,
    /// Bytes are brought to the host's memory from where the device wrote them, or lent there.
    Download,
    /// Bytes of one of its buffers go to another.
    Copy,
    /// It fetches what was uploaded to a place on the way, or writes what will be downloaded to one.
    Transfer,
}

/// Where times come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// The host looked at its clock before and after.
    Host,
    /// The device counted. Its count starts anywhere, so the first time of a submission is taken to be when that was handed over, or
    /// when the one before had ended: lengths are exact to the device's ticks, and all of them may have happened somewhat later.
    Device,
}

impl Recorder {
    /// Writes something down. Pieces of one upload that follow each other are one.
    pub fn write(&self, span: Span) {
        let mut recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match recorded.spans.last_mut() {
            Some(last) if last.is_continued_by(&span) => {
                (last.end, last.bytes) = (span.end, last.bytes + span.bytes);
            }
            _ => recorded.spans.push(span),
        }
    }

    /// So many times cannot be.
    pub fn drop_times(&self, count: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).dropped += count;
    }

    /// Everything that was written so far.
    pub fn take(&self) -> Recorded {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Span {
    fn is_continued_by(&self, next: &Span) -> bool {
        self.activity == Activity::Upload
            && (self.activity, self.clock, &self.steps) == (next.activity, next.clock, &next.steps)
    }
}
