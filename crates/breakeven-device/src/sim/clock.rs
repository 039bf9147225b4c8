//! A clock that moves only when told.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Virtual time of the host, shared by the simulated devices of one test.
#[derive(Clone, Debug, Default)]
pub struct SimClock(Arc<Mutex<Duration>>);

impl SimClock {
    /// A clock at zero.
    pub fn new() -> SimClock {
        SimClock::default()
    }

    /// Time since the clock was made.
    pub fn now(&self) -> Duration {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Let time pass.
    pub fn advance(&self, by: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }

    /// Let time pass until `moment`, if it has not come yet.
    pub fn advance_to(&self, moment: Duration) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *now = now.max(moment);
    }
}
