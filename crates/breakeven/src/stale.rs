//! Plans for devices that are not as they were: they are never used again, and each keeps the devices open that it was made for.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Who keeps plans.
pub(crate) trait KeepsPlans: Debug + Send + Sync {
    /// Drops all plans that were made for devices at another moment than `now`.
    fn drop_stale(&self, now: u64);
}

/// All who keep plans of one engine.
#[derive(Debug, Default)]
pub(crate) struct Keepers(Mutex<Vec<Weak<dyn KeepsPlans>>>);

impl Keepers {
    /// One more, for as long as it lives.
    pub fn add(&self, keeper: &Arc<impl KeepsPlans + 'static>) {
        let keeper = Arc::downgrade(keeper);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|keeper| keeper.strong_count() > 0);
        all.push(keeper);
    }

    /// The devices changed: `now` counts that.
    pub fn drop_stale(&self, now: u64) {
        let all: Vec<_> = {
            let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter().filter_map(Weak::upgrade).collect()
        };
        for keeper in all {
            keeper.drop_stale(now);
        }
    }
}

/// The count of changes in the version of a call's devices, which may also say what the call does without.
pub(crate) fn moment(version: u64) -> u64 {
    version & u64::from(u32::MAX)
}
