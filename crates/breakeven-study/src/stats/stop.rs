//! When a cell has been measured enough.

use super::{Interval, Random, Sorted, of_quantile};
use crate::Stop;

/// When to stop measuring a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StopRule {
    /// Never before that many samples.
    pub least: usize,
    /// The half width of the lower quartile's 95% interval, relative to it, that is narrow enough: 0.01 is 1%.
    pub narrow: f64,
    /// If half of the samples gave an interval at most that much wider, more of them no longer help.
    pub stable: f64,
    /// The time that may be spent.
    pub budget_ns: u64,
}

/// Whether the samples so far, in order, are enough after `spent_ns`; and if so, why.
pub fn should_stop(wall_ns: &[f64], spent_ns: u64, rule: &StopRule, seed: u64) -> Option<Stop> {
    if wall_ns.len() >= rule.least {
        let all = width_ns(wall_ns, seed)?;
        if all <= 2.0 * rule.narrow * Sorted::new(wall_ns)?.q1_ns() {
            return Some(Stop::Narrow);
        }
        let half = width_ns(&wall_ns[..wall_ns.len() / 2], seed)?;
        if wall_ns.len() >= 4 * rule.least && half <= all * (1.0 + rule.stable) {
            return Some(Stop::StableNoise);
        }
    }
    (spent_ns >= rule.budget_ns).then_some(Stop::Budget)
}

/// The width of the lower quartile's 95% interval.
fn width_ns(wall_ns: &[f64], seed: u64) -> Option<f64> {
    let [low, high] = of_quantile(&Sorted::new(wall_ns)?, 0.25, Interval::Percent95, &mut Random::new(seed));
    Some(high - low)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: StopRule = StopRule { least: 20, narrow: 0.01, stable: 0.1, budget_ns: 1_000_000 };

    fn noise(count: usize, deviation: f64) -> Vec<f64> {
        let mut random = Random::new(5);
        (0..count).map(|_| 1000.0 * (deviation * random.normal()).exp()).collect()
    }

    #[test]
    fn it_stops_for_one_of_three_reasons() {
        let check = |times: &[f64], spent, expected| assert_eq!(should_stop(times, spent, &RULE, 1), expected);
        check(&noise(10, 0.001), 0, None);
        check(&noise(40, 0.001), 0, Some(Stop::Narrow));
        check(&noise(40, 0.2), 0, None);
        check(&noise(40, 0.2), 1_000_000, Some(Stop::Budget));
        check(&[], 1_000_000, Some(Stop::Budget));
    }

    #[test]
    fn noise_that_more_samples_do_not_tame_ends_it() {
        // Two values in turn: the quartile's interval stays as wide as they are apart.
        let mut times: Vec<f64> = vec![1000.0; 100];
        for (index, time) in times.iter_mut().enumerate() {
            *time = if index % 4 == 0 { 1000.0 } else { 1300.0 };
        }
        assert_eq!(should_stop(&times, 0, &RULE, 1), Some(Stop::StableNoise));
    }
}
