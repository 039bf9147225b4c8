//! Quantiles without interpolation: each number printed was measured.

use super::Random;

/// Samples that the 90th percentile needs.
pub const P90_SAMPLES: usize = 50;
/// Samples that the 99th percentile needs.
pub const P99_SAMPLES: usize = 500;

/// Rounds from which on they are what is drawn anew: of two there are too few draws to say anything.
const ROUNDS: usize = 3;

/// Times in nanoseconds from the shortest to the longest, at least one, all above 0 and finite.
#[derive(Debug, Clone, PartialEq)]
pub struct Sorted {
    times: Vec<f64>,
    /// The round of each time, from 0, and how many times each round has; empty if they are taken as independent of each other.
    rounds: Vec<usize>,
    sizes: Vec<usize>,
}

impl Sorted {
    /// Sorts `times_ns`; `None` if there are none. Those that are not above 0 and finite are left out.
    pub fn new(times_ns: &[f64]) -> Option<Sorted> {
        let mut times: Vec<f64> = times_ns.iter().copied().filter(|time| *time > 0.0 && time.is_finite()).collect();
        times.sort_by(f64::total_cmp);
        (!times.is_empty()).then_some(Sorted { times, rounds: Vec::new(), sizes: Vec::new() })
    }

    /// Sorts the times of `rounds`, as `new` does. Times of a round have its state of the machine in common, so from three rounds on whole rounds
    /// are drawn anew.
    pub fn of_rounds(rounds: &[Vec<f64>]) -> Option<Sorted> {
        let of_round = |(round, times): (usize, &Vec<f64>)| times.iter().map(|time| (*time, round)).collect::<Vec<_>>();
        let mut times: Vec<(f64, usize)> = rounds.iter().enumerate().flat_map(of_round).collect();
        times.retain(|(time, _)| *time > 0.0 && time.is_finite());
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let sizes: Vec<usize> =
            (0..rounds.len()).map(|round| times.iter().filter(|time| time.1 == round).count()).collect();
        let (times, rounds): (Vec<f64>, Vec<usize>) = times.into_iter().unzip();
        let is_drawn = sizes.len() >= ROUNDS && sizes.iter().all(|size| *size > 0);
        let (rounds, sizes) = if is_drawn { (rounds, sizes) } else { (Vec::new(), Vec::new()) };
        (!times.is_empty()).then_some(Sorted { times, rounds, sizes })
    }

    /// The quantile `part` (0 to 1) of these times drawn anew with replacement: of their rounds, or of them where rounds are not known.
    pub fn draw(&self, part: f64, random: &mut Random) -> f64 {
        if self.rounds.is_empty() {
            return self.times[random.place_of_rank(self.rank(part), self.times.len())];
        }
        let (rounds, mut drawn, mut count) = (self.sizes.len(), vec![0; self.sizes.len()], 0);
        // One fewer than there are: of few rounds as many would differ too little among themselves (Rao and Wu 1988).
        for _ in 1..rounds {
            let round = random.below(rounds);
            drawn[round] += 1;
            count += self.sizes[round];
        }
        let (rank, mut passed) = (rank(count, part), 0);
        let place = self.rounds.iter().position(|round| {
            passed += drawn[*round];
            passed > rank
        });
        self.times[place.expect("the rank is below the count of what was drawn")]
    }

    /// All of them, ascending.
    pub fn times_ns(&self) -> &[f64] {
        &self.times
    }

    /// The shortest.
    pub fn min_ns(&self) -> f64 {
        self.times[0]
    }

    /// The lower quartile: of five the second.
    pub fn q1_ns(&self) -> f64 {
        self.times[self.rank(0.25)]
    }

    /// The median.
    pub fn median_ns(&self) -> f64 {
        self.times[self.rank(0.5)]
    }

    /// Nine of ten are not above it; `None` below 50 samples.
    pub fn p90_ns(&self) -> Option<f64> {
        (self.times.len() >= P90_SAMPLES).then(|| self.times[self.rank(0.9)])
    }

    /// 99 of 100 are not above it; `None` below 500 samples.
    pub fn p99_ns(&self) -> Option<f64> {
        (self.times.len() >= P99_SAMPLES).then(|| self.times[self.rank(0.99)])
    }

    /// The place of the quantile `part` (0 to 1): the nearest of those that divide the samples evenly.
    pub fn rank(&self, part: f64) -> usize {
        rank(self.times.len(), part)
    }

    /// Up to `count` of them, evenly drawn, the shortest and the longest among them.
    pub fn dots_ns(&self, count: usize) -> Vec<f64> {
        let last = self.times.len() - 1;
        let taken = count.min(self.times.len());
        (0..taken).map(|index| self.times[if taken == 1 { 0 } else { index * last / (taken - 1) }]).collect()
    }
}

fn rank(count: usize, part: f64) -> usize {
    ((count - 1) as f64 * part).round() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(count: usize) -> Sorted {
        let times: Vec<f64> = (1..=count).rev().map(|time| time as f64).collect();
        Sorted::new(&times).expect("not empty")
    }

    #[test]
    fn quantiles_are_samples() {
        let five = sorted(5);
        assert_eq!((five.min_ns(), five.q1_ns(), five.median_ns()), (1.0, 2.0, 3.0));
        assert_eq!(sorted(1).q1_ns(), 1.0);
    }

    #[test]
    fn high_percentiles_need_their_samples() {
        assert_eq!((sorted(49).p90_ns(), sorted(50).p90_ns()), (None, Some(45.0)));
        assert_eq!((sorted(499).p99_ns(), sorted(500).p99_ns()), (None, Some(495.0)));
    }

    #[test]
    fn what_is_no_time_is_left_out() {
        assert_eq!(Sorted::new(&[0.0, -1.0, f64::NAN, f64::INFINITY]), None);
    }

    #[test]
    fn dots_reach_from_the_shortest_to_the_longest() {
        assert_eq!(sorted(3).dots_ns(40), [1.0, 2.0, 3.0]);
        let dots = sorted(1000).dots_ns(40);
        assert_eq!((dots.len(), dots[0], dots[39]), (40, 1.0, 1000.0));
    }
}
