//! How long a call waits for devices.

use std::time::Duration;

use breakeven_device::Deadline;
use breakeven_plan::Cost;

use crate::Engine;

/// A wait may take so many times what was predicted.
const TIMES: f64 = 20.0;
/// And is never cut off before this.
const LEAST: Duration = Duration::from_secs(10);
/// Where nothing was measured, nothing can be predicted.
const UNPREDICTED: Duration = Duration::from_mins(1);

/// Nor of compiling: drivers that compute on the processor take minutes for a large model.
const COMPILING: Duration = Duration::from_mins(10);

/// Whose deadline it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// The caller's: when it has passed, the call has failed.
    Callers(Deadline),
    /// The engine's, as it was told or as is predicted: when it has passed, the work goes elsewhere.
    Engines(Option<Duration>),
}

impl Patience {
    /// The deadline for work that begins now and is predicted to take so long.
    pub fn deadline(self, predicted: Option<Cost>) -> Deadline {
        match self {
            Patience::Callers(deadline) => deadline,
            Patience::Engines(Some(limit)) => Deadline::after(limit),
            Patience::Engines(None) => Deadline::after(limit(predicted)),
        }
    }

    /// The deadline for compiling that began so long ago: whoever comes later does not wait for all of it once more.
    pub fn deadline_of_compiling(self, since: Duration) -> Deadline {
        match self {
            Patience::Engines(None) => Deadline::after(COMPILING.saturating_sub(since)),
            told => told.deadline(None),
        }
    }

    /// The caller named a deadline, and it has passed.
    pub fn is_spent(self) -> bool {
        matches!(self, Patience::Callers(deadline) if deadline.has_passed())
    }

    /// Whether there is time to try a plan of which a device makes nothing, and for another after it; either is predicted to take so long.
    pub fn has_time_for_a_trial(self, predicted: f64) -> bool {
        let left = match self {
            Patience::Callers(deadline) => deadline.remaining(),
            Patience::Engines(Some(limit)) => limit,
            Patience::Engines(None) => return true,
        };
        predicted * TIMES <= left.as_secs_f64() / 2.0
    }

    /// A trial gets half of the time, so that the other half is left when it fails.
    pub fn for_a_trial(self) -> Patience {
        match self {
            Patience::Callers(deadline) => Patience::Callers(Deadline::after(deadline.remaining() / 2)),
            Patience::Engines(limit) => Patience::Engines(limit.map(|limit| limit / 2)),
        }
    }

    /// The caller named the deadline.
    pub fn is_callers(self) -> bool {
        matches!(self, Patience::Callers(_))
    }
}

/// How long work may take that is predicted to take so long.
pub(crate) fn limit(predicted: Option<Cost>) -> Duration {
    let seconds = predicted.map(|cost| (cost.seconds * TIMES).clamp(0.0, 1e9));
    seconds.map_or(UNPREDICTED, |seconds| LEAST.max(Duration::from_secs_f64(seconds)))
}

impl Engine {
    /// For calls that name no deadline.
    pub(crate) fn patience(&self) -> Patience {
        Patience::Engines(self.0.options.deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_times_what_was_predicted_and_ten_seconds_at_least() {
        let limit = |seconds| limit(Some(Cost { seconds, spread: 0.0 })).as_secs();
        assert_eq!([1e-6, 0.5, 3.0].map(limit), [10, 10, 60]);
        assert_eq!(super::limit(None).as_secs(), 60);
    }

    #[test]
    fn a_trial_takes_half_of_the_callers_time_where_that_is_plenty() {
        let patience = Patience::Callers(Deadline::after(Duration::from_mins(1)));
        assert!(patience.has_time_for_a_trial(1.0) && !patience.has_time_for_a_trial(2.0));
        let half = patience.for_a_trial().deadline(None).limit();
        assert!((25.0..=30.0).contains(&half.as_secs_f64()), "{half:?}");
        assert!(Patience::Engines(None).has_time_for_a_trial(1e3));
        assert!(!Patience::Engines(Some(Duration::from_millis(10))).has_time_for_a_trial(1e-3));
    }

    #[test]
    fn compiling_is_waited_for_once_and_not_by_each_call_anew() {
        let left = |since| Patience::Engines(None).deadline_of_compiling(since).limit();
        assert_eq!([0, 60, 6000].map(Duration::from_secs).map(left), [600, 540, 0].map(Duration::from_secs));
        let told = Patience::Engines(Some(Duration::from_secs(3)));
        assert_eq!(told.deadline_of_compiling(Duration::from_mins(1)).limit(), Duration::from_secs(3));
    }

    #[test]
    fn a_deadline_of_the_callers_is_kept_as_it_is() {
        let patience = Patience::Callers(Deadline::after(Duration::from_millis(7)));
        assert_eq!(patience.deadline(Some(Cost { seconds: 9.0, spread: 0.0 })).limit(), Duration::from_millis(7));
    }
}
