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
            times[i].push(timed(things[i]));
        }
    }
    times.into_iter().map(Samples::new).collect()
}

/// Stretches that [`stretches`] cuts the calls of each thing into.
const STRETCHES: usize = 2;
/// How long a stretch is at least: twenty calls of 20 us end within what other work takes of the cores at a time.
const LEAST_STRETCH: Duration = Duration::from_millis(30);

/// As [`interleave`], with several calls of one thing after the other, each stretch after a warm-up of its own: for things that
/// use different devices, which lower their clocks and lose their context while others work. Of short calls there are more, and each
/// second time the order is the other one: what always came after a GPU would be measured with threads that had slept. What differs
/// between the two counts at its faster.
pub fn stretches(rounds: usize, warm_up: Duration, things: &mut [&mut dyn FnMut()]) -> Vec<Samples> {
    let mut times = vec![Vec::with_capacity(rounds); things.len()];
    let mut order: Vec<usize> = (0..things.len()).collect();
    for _ in 0..STRETCHES {
        for &i in &order {
            times[i].extend(stretch(rounds.div_ceil(STRETCHES), warm_up, things[i]));
        }
        order.reverse();
    }
    times.into_iter().map(Samples::new).collect()
}

/// At least `rounds` calls after a warm-up, and as many as take [`LEAST_STRETCH`].
fn stretch(rounds: usize, warm_up: Duration, thing: &mut dyn FnMut()) -> Vec<Duration> {
    let mut times = interleave(rounds, warm_up, &mut [thing]).swap_remove(0).0;
    let mut whole: Duration = times.iter().sum();
    while whole < LEAST_STRETCH {
        let took = timed(thing);
        times.push(took);
        whole += took.max(Duration::from_nanos(1));
    }
    times
}

fn timed(thing: &mut dyn FnMut()) -> Duration {
    let started = Instant::now();
    thing();
    started.elapsed()
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
        let call = |which: i32, time: Duration| {
            std::thread::sleep(time);
            calls.borrow_mut().push(which);
        };
        let (short, long) = (Duration::from_millis(2), Duration::from_millis(10));
        let samples = stretches(8, Duration::ZERO, &mut [&mut || call(0, short), &mut || call(1, long)]);
        assert_eq!(samples[1].0.len(), 8, "40 ms each are long enough");
        assert!(samples[0].0.iter().sum::<Duration>() >= 2 * LEAST_STRETCH, "{samples:?}");
        // A warm-up of a call each, and neighbours of one stretch.
        let runs: Vec<i32> = calls.borrow().chunk_by(|a, b| a == b).map(|run| run[0]).collect();
        assert_eq!(runs, [0, 1, 0], "the second time in the other order");
        assert!(calls.borrow().len() == 2 * STRETCHES + samples[0].0.len() + 8, "{calls:?}");
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
