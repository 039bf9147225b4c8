//! A job: its parts, cut into one range for each thread that is called to it.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// What the first part that panicked left behind.
pub(super) type Panic = Mutex<Option<Box<dyn Any + Send>>>;

/// What is to be done. Both pointers outlive the time in which the job is open or somebody inside.
#[derive(Clone, Copy)]
pub(super) struct Job {
    pub work: NonNull<dyn Fn(usize) + Sync>,
    pub panic: NonNull<Panic>,
    pub parts: usize,
    /// Threads with a range each, the caller's included.
    pub ranges: usize,
}

impl Job {
    /// The parts of one thread: neighbours, and the same ones in every job that is cut alike, so that they find in their
    /// core's cache what they left there.
    pub fn range(&self, place: usize) -> Range<usize> {
        let edge = |place: usize| (self.parts as u128 * place as u128 / self.ranges as u128) as usize;
        edge(place)..edge(place + 1)
    }

    /// Does one part; a panic is kept for the caller.
    ///
    /// # Safety
    /// Both pointers must be valid.
    pub unsafe fn part(&self, part: usize) {
        // SAFETY: the caller's contract.
        let (work, panic) = unsafe { (self.work.as_ref(), self.panic.as_ref()) };
        if let Err(why) = catch_unwind(AssertUnwindSafe(|| work(part))) {
            *panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        }
    }
}
