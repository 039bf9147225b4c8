//! The clock by which calls are timed: the machine's, or a simulated one in tests.

use std::time::{Duration, Instant};

/// Tells the time and lets it pass.
pub trait Clock {
    /// Since some moment that stays the same.
    fn now(&self) -> Duration;
    /// Time since then; none where the clock went backwards, which whoever reads it drops.
    fn since(&self, then: Duration) -> Duration {
        self.now().saturating_sub(then)
    }
    /// The same in nanoseconds.
    fn nanoseconds_since(&self, then: Duration) -> u64 {
        u64::try_from(self.since(then).as_nanos()).unwrap_or(u64::MAX)
    }
    /// Does nothing for so long.
    fn rest(&self, time: Duration);
    /// Keeps the processor for so long, as slower code would.
    fn work(&self, time: Duration) {
        let begun = self.now();
        while self.since(begun) < time {
            std::hint::spin_loop();
        }
    }
}

/// The machine's own.
pub struct HostClock(Instant);

impl HostClock {
    /// Counts from now on.
    pub fn start() -> HostClock {
        HostClock(Instant::now())
    }
}

impl Clock for HostClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn rest(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
