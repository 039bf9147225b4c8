//! A desk: what one thread of the team and the others tell each other.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;

use super::pause::Pause;

/// Two parts, since what changes with each job would take with it what seldom does.
#[derive(Default)]
pub(super) struct Desk {
    pub now: Now,
    pub rest: Rest,
}

/// On cache lines of its own: two, since they are fetched in pairs.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Now {
    /// The number of the last job that took parts from this desk, and how many: in the upper and the lowest bits.
    claimed: AtomicU64,
    /// Its worker works, or looks whether it may.
    pub is_inside: AtomicBool,
}

/// Changes when a worker falls asleep or wakes.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Rest {
    /// It has to be woken.
    pub is_asleep: AtomicBool,
    pub thread: OnceLock<Thread>,
}

/// Bits that count the parts taken of one range.
const COUNT_BITS: u32 = 16;

/// Parts of the longest range.
pub(super) const LONGEST_RANGE: usize = (1 << COUNT_BITS) - 1;

impl Now {
    /// How many of the desk's parts job `number` has taken.
    fn taken(claimed: u64, number: u64) -> usize {
        let mask = (1 << COUNT_BITS) - 1;
        // The upper bits of a number come again after 2^48 jobs, which take years.
        if claimed >> COUNT_BITS == number & (u64::MAX >> COUNT_BITS) { (claimed & mask) as usize } else { 0 }
    }

    /// The next of the `all` parts that this desk has in job `number`. Whoever is inside may ask, also for another's desk.
    pub fn claim(&self, number: u64, all: usize) -> Option<usize> {
        let mut claimed = self.claimed.load(Ordering::Relaxed);
        loop {
            let taken = Now::taken(claimed, number);
            if taken >= all {
                return None;
            }
            let next = number << COUNT_BITS | (taken + 1) as u64;
            // The job was acquired with its number, and results are released with `is_inside`.
            match self.claimed.compare_exchange_weak(claimed, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(taken),
                Err(other) => claimed = other,
            }
        }
    }

    /// Whether all parts were taken.
    pub fn is_used_up(&self, number: u64, all: usize) -> bool {
        Now::taken(self.claimed.load(Ordering::Relaxed), number) >= all
    }

    /// Until the worker has let go of the job. One that lost its core in a part may wait for this one.
    pub fn wait_outside(&self) {
        let mut pause = Pause::after(8 * Pause::ROUND);
        while self.is_inside.load(Ordering::SeqCst) {
            pause.take();
        }
    }
}

impl Rest {
    pub fn wake(&self) {
        if self.is_asleep.load(Ordering::SeqCst) {
            self.thread.get().into_iter().for_each(Thread::unpark);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_claimed_once_in_each_job() {
        let desk = Now::default();
        let claims = |number: u64, all: usize| (0..all + 2).map_while(|_| desk.claim(number, all)).collect::<Vec<_>>();
        assert!(!desk.is_used_up(1, 3));
        assert_eq!(claims(1, 3), [0, 1, 2]);
        assert!(desk.is_used_up(1, 3));
        assert_eq!(claims(3, 2), [0, 1]);
        assert_eq!(claims(5, 0), [0; 0]);
        let last = (1 << 48) - 1;
        assert_eq!(claims(last, LONGEST_RANGE).len(), LONGEST_RANGE);
        assert_eq!(claims(last + 2, 2), [0, 1]);
    }
}
