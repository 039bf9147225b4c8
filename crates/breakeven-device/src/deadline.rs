//! Deadlines: how long a wait may take.

use std::time::{Duration, Instant};

/// A moment after which nobody waits any longer. Every wait takes one.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    start: Instant,
    limit: Duration,
}

impl Deadline {
    /// `limit` from now.
    pub fn after(limit: Duration) -> Deadline {
        Deadline { start: Instant::now(), limit }
    }

    /// What is left of the limit; zero once it has passed.
    pub fn remaining(&self) -> Duration {
        self.limit.saturating_sub(self.start.elapsed())
    }

    /// The whole limit. A simulated device holds it against its own clock.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// How long it has been running.
    pub fn waited(&self) -> Duration {
        self.start.elapsed()
    }

    /// True once it has passed.
    pub fn has_passed(&self) -> bool {
        self.remaining().is_zero()
    }
}
