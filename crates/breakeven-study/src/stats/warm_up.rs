//! How times move from the first sample to the last: warm-up is found, not assumed.

use crate::WarmUp;

use super::Sorted;

/// A quarter of the samples without which nothing is said of how they move.
const WINDOW: usize = 5;
/// What is further than this above what comes later is still warming up.
const SETTLED: f64 = 0.05;
/// Rounds that a first round must be slower than.
const ROUNDS: usize = 3;
/// A change between the two halves by more than this is drift.
const DRIFT: f64 = 0.05;
/// Two clusters are two when the gap between them is that much of the lower, and many times what is inside them.
const GAP: f64 = 0.15;

/// How many of the first samples of one round, in order, are its warm-up: each window of them (a tenth of the round, of a short one each sample)
/// is more than 5% above everything in the last third of the round. Never more than two thirds.
pub fn settled_from(wall_ns: &[f64]) -> usize {
    let window = (wall_ns.len() / 10).max(1);
    let low = |window: &[f64]| Sorted::new(window).map_or(0.0, |times| times.q1_ns());
    let (first, last) = wall_ns.split_at(wall_ns.len() * 2 / 3);
    let end = last.chunks(window).map(low).fold(0.0, f64::max);
    let is_warming = |window: &&[f64]| end > 0.0 && low(window) > end * (1.0 + SETTLED);
    first.chunks(window).take_while(is_warming).map(<[f64]>::len).sum()
}

/// Whether the first of `rounds`, each of them in order, is warm-up as a whole: it is more than 5% slower than each other one, of which there are
/// at least three. Later rounds are never warm-up: what makes them differ is noise that a reader must see.
pub fn is_first_round_warming(rounds: &[Vec<f64>]) -> bool {
    let quartile = |round: &Vec<f64>| Some(Sorted::new(round)?.q1_ns());
    let Some((first, others)) = rounds.split_first().filter(|(_, others)| others.len() >= ROUNDS) else { return false };
    let slowest = others.iter().filter_map(quartile).fold(0.0, f64::max);
    slowest > 0.0 && quartile(first).is_some_and(|first| first > slowest * (1.0 + SETTLED))
}

/// How `wall_ns`, without the warm-up, move in time; `None` if there are too few to tell.
pub fn classify(wall_ns: &[f64]) -> Option<WarmUp> {
    if wall_ns.len() < 4 * WINDOW {
        return None;
    }
    if is_bimodal(wall_ns) {
        return Some(WarmUp::Bimodal);
    }
    let thirds = wall_ns.len() / 3;
    let quartile = |part: &[f64]| Sorted::new(part).map_or(0.0, |times| times.q1_ns());
    let (first, last) = (quartile(&wall_ns[..thirds]), quartile(&wall_ns[wall_ns.len() - thirds..]));
    let change = (last / first).ln().abs();
    Some(if change > DRIFT { WarmUp::Drift } else { WarmUp::Steady })
}

/// Whether times jump between two values: each of two clusters has a fifth of the samples, they are far apart compared with their own width,
/// and samples change from one to the other more than once.
fn is_bimodal(wall_ns: &[f64]) -> bool {
    let Some(sorted) = Sorted::new(wall_ns) else { return false };
    let times = sorted.times_ns();
    let fifth = times.len() / 5;
    let gaps = (fifth.max(1)..times.len() - fifth.max(1)).map(|at| (at, times[at] - times[at - 1]));
    let Some((at, gap)) = gaps.max_by(|a, b| a.1.total_cmp(&b.1)) else { return false };
    let (low, high) = times.split_at(at);
    // Half of each cluster lies within this.
    let width = |cluster: &[f64]| cluster[cluster.len() * 3 / 4] - cluster[cluster.len() / 4];
    let is_apart = gap > GAP * low[low.len() / 2] && gap > 3.0 * width(low).max(width(high));
    let border = f64::midpoint(times[at - 1], times[at]);
    let changes = wall_ns.windows(2).filter(|pair| (pair[0] > border) != (pair[1] > border)).count();
    is_apart && changes > 1
}

#[cfg(test)]
mod tests {
    use super::super::Random;
    use super::*;

    /// 200 times around what `level` says for each sample, with a deviation of 2%.
    fn times(level: impl Fn(usize, &mut Random) -> f64) -> Vec<f64> {
        let mut random = Random::new(11);
        (0..200).map(|index| level(index, &mut random) * (0.02 * random.normal()).exp()).collect()
    }

    #[test]
    fn times_are_classified() {
        assert_eq!(classify(&times(|_, _| 1000.0)), Some(WarmUp::Steady));
        assert_eq!(classify(&times(|index, _| 1000.0 + 2.0 * index as f64)), Some(WarmUp::Drift));
        let jumps = |_, random: &mut Random| if random.unit() < 0.4 { 1500.0 } else { 1000.0 };
        assert_eq!(classify(&times(jumps)), Some(WarmUp::Bimodal));
        assert_eq!(classify(&[1000.0; 19]), None);
    }

    #[test]
    fn a_few_long_times_are_not_a_second_value() {
        let tail = |_, random: &mut Random| if random.unit() < 0.05 { 5000.0 } else { 1000.0 };
        assert_eq!(classify(&times(tail)), Some(WarmUp::Steady));
    }

    #[test]
    fn the_warm_up_ends_where_times_have_settled() {
        assert_eq!(settled_from(&times(|_, _| 1000.0)), 0);
        let settled = settled_from(&times(|index, _| if index < 45 { 2000.0 } else { 1000.0 }));
        assert!((40..=60).contains(&settled), "{settled}");
        assert_eq!(settled_from(&[]), 0);
    }

    #[test]
    fn of_a_short_round_the_first_samples_are_dropped_that_still_fall() {
        let check = |times: &[f64], expected| assert_eq!(settled_from(times), expected, "{times:?}");
        check(&[300.0, 150.0, 100.0, 101.0, 99.0], 2);
        check(&[100.0, 300.0, 100.0, 101.0, 99.0], 0);
        check(&[103.0, 100.0, 100.0, 101.0, 99.0], 0);
        check(&[300.0, 100.0, 100.0, 400.0, 99.0], 0);
        check(&[300.0], 0);
        check(&[300.0, 100.0], 1);
    }

    #[test]
    fn no_round_but_the_first_is_warm_up() {
        let check = |levels: &[f64], expected| {
            let rounds: Vec<Vec<f64>> = levels.iter().map(|level| vec![*level; 5]).collect();
            assert_eq!(is_first_round_warming(&rounds), expected, "{levels:?}");
        };
        check(&[200.0, 100.0, 102.0, 99.0], true);
        check(&[200.0, 100.0, 210.0, 99.0], false);
        check(&[104.0, 100.0, 102.0, 99.0], false);
        check(&[200.0, 100.0, 99.0], false);
        check(&[], false);
    }
}
