//! Where the time of a submission went.

use std::time::Duration;

/// Time of one submission by part. Parts overlap on a device with lanes, so they need not add up to the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Moving host bytes to the device.
    pub upload: Duration,
    /// Encoding and submitting, on the host; `None` where there is no such part: the CPU does the work in the call itself.
    pub dispatch: Option<Duration>,
    /// Kernels, as the device tells; `None` where it does not, or was not asked to.
    pub kernel: Option<Duration>,
    /// Moving results to the host.
    pub read: Duration,
    /// Blocked until it was done.
    pub wait: Duration,
}

/// How much more than the host's clock a device's may count: they are not made alike.
const SKEW: f64 = 1e-3;

impl Timing {
    /// Time between two `marks` of a device's clock, whose ticks last so many nanoseconds, in work that was done within `most` by the host's.
    /// `None` for marks that cannot be: with a zero, which nobody wrote, that run backwards (as where the count began anew in between) or
    /// not at all, and further apart than `most`.
    pub fn between(marks: (u64, u64), nanoseconds: f64, most: Duration) -> Option<Duration> {
        let (start, end) = marks;
        let ticks = if start == 0 { None } else { end.checked_sub(start).filter(|ticks| *ticks > 0) };
        let time = Duration::try_from_secs_f64(ticks? as f64 * nanoseconds * 1e-9).ok()?;
        (time <= most.mul_f64(1.0 + SKEW)).then(|| time.min(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_that_cannot_be_give_no_time() {
        let us = Duration::from_micros;
        let check = |marks: (u64, u64), want: Option<u64>| {
            assert_eq!(Timing::between(marks, 1000.0, us(100)), want.map(us), "{marks:?}");
        };
        check((7, 17), Some(10));
        check((7, 107), Some(100));
        for impossible in [(0, 0), (0, 9), (5, 0), (9, 9), (9, 8), (u64::MAX - 1, 3), (10, 200), (1, u64::MAX)] {
            check(impossible, None);
        }
    }
}
