//! Timing that can be trusted: outputs are checked before they are timed, comparisons are interleaved, and the lower
//! quartile counts.
#![forbid(unsafe_code)]

pub mod scan;

use std::time::{Duration, Instant};

/// Times of one thing that was measured, sorted.
#[derive(Clone, Debug)]
pub struct Samples(Vec<Duration>);

impl Samples {
    /// Sorts them.
    ///
    /// # Panics
    /// When there are none.
    pub fn new(mut samples: Vec<Duration>) -> Samples {
        assert!(!samples.is_empty(), "nothing was measured");
        samples.sort_unstable();
        Samples(samples)
    }

    /// Lower quartile: far steadier than the median on a machine that others use too.
    pub fn lower_quartile(&self) -> Duration {
        self.0[self.0.len() / 4]
    }

    /// The fastest.
    pub fn least(&self) -> Duration {
        self.0[0]
    }

    /// 95th percentile: the stalls a user meets.
    pub fn p95(&self) -> Duration {
        self.0[(self.0.len() - 1) * 95 / 100]
    }
}

/// Work before anything counts: an idle GPU has lowered its clock and takes some tenths of a second to raise it again.
pub const WARM_UP: Duration = Duration::from_millis(600);

/// Runs each thing in turn, so that all meet the same weather: untimed for at least one round and until `warm_up` has
/// passed, then `rounds` times. Each round has an order of its own: what comes after a GPU always would always find the CPU's
/// threads asleep and its caches full of transfers.
pub fn interleave(rounds: usize, warm_up: Duration, things: &mut [&mut dyn FnMut()]) -> Vec<Samples> {
    let begun = Instant::now();
    let mut is_cold = true;
    while std::mem::take(&mut is_cold) || begun.elapsed() < warm_up {
        for thing in &mut *things {
            thing();
        }
    }
    let mut times = vec![Vec::with_capacity(rounds); things.len()];
    let mut order: Vec<usize> = (0..things.len()).collect();
    let mut seed = 1;
    for _ in 0..rounds {
        shuffle(&mut order, &mut seed);
        for &i in &order {
            let started = Instant::now();
            things[i]();
            times[i].push(started.elapsed());
        }
    }
    times.into_iter().map(Samples::new).collect()
}

/// Stretches that [`stretches`] cuts the calls of each thing into.
const STRETCHES: usize = 2;

/// As [`interleave`], with several calls of one thing after the other, each stretch after a warm-up of its own: for things that
/// use different devices, which lower their clocks and lose their context while others work.
pub fn stretches(rounds: usize, warm_up: Duration, things: &mut [&mut dyn FnMut()]) -> Vec<Samples> {
    let mut times = vec![Vec::with_capacity(rounds); things.len()];
    let mut order: Vec<usize> = (0..things.len()).collect();
    let mut seed = 1;
    for _ in 0..STRETCHES {
        shuffle(&mut order, &mut seed);
        for &i in &order {
            let of_one = interleave(rounds.div_ceil(STRETCHES), warm_up, &mut [&mut *things[i]]);
            times[i].extend(of_one.into_iter().flat_map(|samples| samples.0));
        }
    }
    times.into_iter().map(Samples::new).collect()
}

/// Another order, the same in every run.
fn shuffle(order: &mut [usize], seed: &mut u64) {
    for last in (1..order.len()).rev() {
        // Knuth's multiplier for 64 bits; the upper half of the product is what is random enough.
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        order.swap(last, (*seed >> 33) as usize % (last + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_of_sorted_samples() {
        let samples = Samples::new((1..=100).rev().map(Duration::from_millis).collect());
        assert_eq!(samples.least(), Duration::from_millis(1));
        assert_eq!(samples.lower_quartile(), Duration::from_millis(26));
        assert_eq!(samples.p95(), Duration::from_millis(95));
    }

    #[test]
    fn stretches_are_of_one_thing_each() {
        let calls = std::cell::RefCell::new(Vec::new());
        let samples =
            stretches(8, Duration::ZERO, &mut [&mut || calls.borrow_mut().push(0), &mut || calls.borrow_mut().push(1)]);
        assert_eq!(samples.iter().map(|s| s.0.len()).collect::<Vec<_>>(), [8, 8]);
        let runs = calls.borrow().chunk_by(|a, b| a == b).map(<[i32]>::len).collect::<Vec<_>>();
        assert!(runs.iter().all(|calls| calls % 5 == 0), "a warm-up and four calls each: {runs:?}");
    }

    #[test]
    fn every_order_comes() {
        let (mut order, mut seed, mut met) = ([0, 1, 2], 1, std::collections::HashSet::new());
        for _ in 0..60 {
            shuffle(&mut order, &mut seed);
            met.insert(order);
        }
        assert_eq!(met.len(), 6);
    }

    #[test]
    fn everything_runs_once_a_round() {
        let (mut a, mut b) = (0, 0);
        let samples = interleave(5, Duration::ZERO, &mut [&mut || a += 1, &mut || b += 1]);
        assert_eq!((a, b, samples.len()), (6, 6, 2));
    }
}
