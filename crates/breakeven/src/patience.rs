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
    fn a_deadline_of_the_callers_is_kept_as_it_is() {
        let patience = Patience::Callers(Deadline::after(Duration::from_millis(7)));
        assert_eq!(patience.deadline(Some(Cost { seconds: 9.0, spread: 0.0 })).limit(), Duration::from_millis(7));
    }
}
