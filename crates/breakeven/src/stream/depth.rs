//! How many batches of a stream are on their way: what the caller said, or the least depth that is nearly as fast as any.

use std::time::Duration;

/// How many batches may be on their way now.
pub(super) enum Depth {
    /// The caller said it, or it was measured.
    Settled(usize),
    Measuring(Trials),
}

/// The depths of [`TRIED`], one after the other.
#[derive(Default)]
pub(super) struct Trials {
    /// What each took that was tried.
    totals: Vec<Duration>,
    /// From one result to the next, at the depth that is tried now.
    periods: Vec<Duration>,
}

/// A short stream stays at the first: one batch is used, one computed and read, and one brought. Each holds its memory.
const TRIED: [usize; 3] = [3, 4, 2];
/// Periods that do not count: so many until each batch that was sent at the depth before has come, and two for what is new.
const LEFT_OUT: usize = 6;
/// Periods that count.
const WINDOW: usize = 8;
/// The longest of these do not.
const OUTLIERS: usize = 2;
/// A depth that takes so many times the least is fast enough.
const NEARLY: f64 = 1.03;

impl Depth {
    pub fn measured() -> Depth {
        Depth::Measuring(Trials::default())
    }

    pub fn now(&self) -> usize {
        match self {
            Depth::Settled(depth) => *depth,
            Depth::Measuring(trials) => TRIED[trials.totals.len()],
        }
    }

    /// One result came so long after the one before.
    pub fn observe(&mut self, period: Duration) {
        let Depth::Measuring(trials) = self else { return };
        trials.periods.push(period);
        if trials.periods.len() == LEFT_OUT + WINDOW {
            trials.totals.push(total(&mut trials.periods[LEFT_OUT..]));
            trials.periods.clear();
        }
        if trials.totals.len() == TRIED.len() {
            *self = Depth::Settled(least(&trials.totals));
        }
    }
}

/// All but the longest: where the queue is too short, periods are short and long in turn, and the short ones alone would not tell.
fn total(periods: &mut [Duration]) -> Duration {
    periods.sort_unstable();
    periods[..WINDOW - OUTLIERS].iter().sum()
}

/// The least depth that is fast enough, by what each of [`TRIED`] took.
fn least(totals: &[Duration]) -> usize {
    let enough = totals.iter().min().map_or(Duration::MAX, |best| best.mul_f64(NEARLY));
    let is_enough = TRIED.iter().zip(totals).filter(|(_, total)| **total <= enough);
    is_enough.map(|(depth, _)| *depth).min().unwrap_or(TRIED[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The depth for each of `count` batches, when the time of one follows from its depth and its place.
    fn depths(count: usize, micros: impl Fn(usize, usize) -> u64) -> Vec<usize> {
        let mut depth = Depth::measured();
        let one = |place| {
            let now = depth.now();
            depth.observe(Duration::from_micros(micros(now, place)));
            now
        };
        (0..count).map(one).collect()
    }

    /// Microseconds at the depths 2, 3 and 4, and where that ends, with one outlier at any place of each window or with none.
    fn check(micros: [u64; 3], expected: usize) {
        for slow in 0..=LEFT_OUT + WINDOW {
            let place = |place| place % (LEFT_OUT + WINDOW) == slow;
            let all = depths(60, |depth, at| micros[depth - 2] * if place(at) { 10 } else { 1 });
            assert_eq!(all.last(), Some(&expected), "{micros:?}, slow at {slow}: {all:?}");
        }
    }

    #[test]
    fn the_least_depth_that_is_nearly_as_fast_as_any_stays() {
        check([3000, 3000, 3000], 2);
        check([3080, 3000, 3000], 2);
        check([3240, 3000, 3000], 3);
        check([3240, 3000, 2950], 3);
        check([3300, 3300, 3000], 4);
        check([3000, 3300, 3300], 2);
        check([0, 0, 0], 2);
    }

    #[test]
    fn each_depth_is_tried_once_and_a_short_stream_stays_at_the_first() {
        let each = LEFT_OUT + WINDOW;
        let tried = TRIED.into_iter().flat_map(|depth| vec![depth; each]);
        let expected: Vec<usize> = tried.chain(vec![3; 100]).collect();
        assert_eq!(depths(expected.len(), |depth, _| if depth == 2 { 3300 } else { 3000 }), expected);
        assert_eq!(depths(each, |_, _| 3000), vec![3; each]);
    }

    #[test]
    fn periods_that_are_short_and_long_in_turn_are_not_taken_for_short_ones() {
        let in_turn = |depth, place| if depth == 2 && place % 2 == 0 { 4400 } else { 2200 };
        assert_eq!(depths(60, in_turn).last(), Some(&3));
    }

    #[test]
    fn what_comes_while_the_queue_adapts_does_not_count() {
        let adapting = |depth, place| if depth == 3 && place % (LEFT_OUT + WINDOW) < LEFT_OUT { 90_000 } else { 3000 };
        assert_eq!(
            depths(60, |depth, place| adapting(depth, place) + if depth == 2 { 300 } else { 0 }).last(),
            Some(&3)
        );
    }

    #[test]
    fn what_the_caller_said_stays() {
        let mut depth = Depth::Settled(7);
        (0..100).for_each(|micros| depth.observe(Duration::from_micros(micros)));
        assert_eq!(depth.now(), 7);
    }
}
