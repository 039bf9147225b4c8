//! Where a quantile lies, by drawing the samples anew many times.

use super::{Random, Sorted};

/// How many times samples are drawn anew. The ends of a 99% interval are the 10th from both sides.
const DRAWS: usize = 2000;

/// The part of the draws that lies inside an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interval {
    /// 95 of 100.
    Percent95,
    /// 99 of 100.
    Percent99,
}

impl Interval {
    fn outside(self) -> f64 {
        match self {
            Interval::Percent95 => 0.05,
            Interval::Percent99 => 0.01,
        }
    }

    /// How much wider an interval of a mean of so few values has to be than where their spread were known: Student's distribution over the normal one,
    /// by the expansion of its quantile (Abramowitz and Stegun, 26.7.5).
    fn wider_for(self, count: usize) -> f64 {
        let (z, freedom) = (self.normal(), count.saturating_sub(1).max(1) as f64);
        let [one, two, three] = [
            (z.powi(3) + z) / 4.0,
            (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
            (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
        ];
        1.0 + (one / freedom + two / freedom.powi(2) + three / freedom.powi(3)) / z
    }

    /// Deviations from the middle of a normal distribution to either end.
    fn normal(self) -> f64 {
        match self {
            Interval::Percent95 => 1.959_964,
            Interval::Percent99 => 2.575_829,
        }
    }

    /// The ends of the interval of `draws`, which are sorted here. `draws` is not empty.
    pub fn of(self, draws: &mut [f64]) -> [f64; 2] {
        draws.sort_by(f64::total_cmp);
        let cut = (draws.len() as f64 * self.outside() / 2.0) as usize;
        [draws[cut], draws[draws.len() - 1 - cut]]
    }
}

/// Where the quantile `part` (0 to 1) of `sorted` lies.
pub fn of_quantile(sorted: &Sorted, part: f64, interval: Interval, random: &mut Random) -> [f64; 2] {
    let mut draws: Vec<f64> = (0..DRAWS).map(|_| sorted.draw(part, random)).collect();
    interval.of(&mut draws)
}

/// The mean of `values` without the lowest and the highest fifth of them, and where it lies. None where there are none.
pub fn of_trimmed_mean(values: &[f64], interval: Interval, random: &mut Random) -> Option<(f64, [f64; 2])> {
    let mean = trimmed_mean(values.to_vec())?;
    let draw = |_| trimmed_mean((0..values.len()).map(|_| values[random.below(values.len())]).collect());
    let mut draws: Vec<f64> = (0..DRAWS).filter_map(draw).collect();
    let wider = interval.wider_for(values.len() - 2 * (values.len() / 5));
    Some((mean, interval.of(&mut draws).map(|end| mean + (end - mean) * wider)))
}

fn trimmed_mean(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let outer = values.len() / 5;
    let inner = &values[outer..values.len() - outer];
    (!inner.is_empty()).then(|| inner.iter().sum::<f64>() / inner.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often the 95% interval of the lower quartile holds the true one, for samples from 1 to 2.
    fn coverage(samples: usize) -> f64 {
        let mut random = Random::new(3);
        let runs = 400;
        let holds = |random: &mut Random| {
            let times: Vec<f64> = (0..samples).map(|_| 1.0 + random.unit()).collect();
            let sorted = Sorted::new(&times).expect("not empty");
            let [low, high] = of_quantile(&sorted, 0.25, Interval::Percent95, random);
            low <= 1.25 && 1.25 <= high
        };
        (0..runs).filter(|_| holds(&mut random)).count() as f64 / f64::from(runs)
    }

    #[test]
    fn an_interval_holds_the_truth_as_often_as_it_says() {
        for samples in [30, 200] {
            let coverage = coverage(samples);
            assert!((0.91..=0.98).contains(&coverage), "{samples} samples: {coverage}");
        }
    }

    /// How often the 99% interval of a trimmed mean of `count` normal values holds their middle.
    fn coverage_of_means(count: usize) -> f64 {
        let mut random = Random::new(7);
        let holds = |random: &mut Random| {
            let values: Vec<f64> = (0..count).map(|_| random.normal()).collect();
            let (_, [low, high]) = of_trimmed_mean(&values, Interval::Percent99, random).expect("values");
            low <= 0.0 && 0.0 <= high
        };
        (0..1000).filter(|_| holds(&mut random)).count() as f64 / 1000.0
    }

    #[test]
    fn an_interval_of_a_mean_of_few_values_holds_it_too() {
        for count in [12, 40, 100] {
            assert!(coverage_of_means(count) >= 0.98, "{count} values: {}", coverage_of_means(count));
        }
        // Of 8 values inside, t has 7 degrees of freedom: 3.499 by tables.
        assert!((Interval::Percent99.wider_for(8) * 2.575_829 - 3.499).abs() < 0.01);
    }

    /// How often the interval holds the true lower quartile, for `count` rounds of five samples whose rounds differ by 10% and samples by 1%.
    fn coverage_of_rounds(count: usize, sort: impl Fn(&[Vec<f64>]) -> Option<Sorted>) -> f64 {
        let mut random = Random::new(5);
        // Of all samples the lower quartile is 0.674 deviations below the middle.
        let truth = 1000.0 * (-0.674 * f64::hypot(0.10, 0.01)).exp();
        let holds = |random: &mut Random| {
            let round = |random: &mut Random| {
                let level = 1000.0 * (0.10 * random.normal()).exp();
                (0..5).map(|_| level * (0.01 * random.normal()).exp()).collect::<Vec<f64>>()
            };
            let rounds: Vec<Vec<f64>> = (0..count).map(|_| round(random)).collect();
            let [low, high] = of_quantile(&sort(&rounds).expect("times"), 0.25, Interval::Percent95, random);
            low <= truth && truth <= high
        };
        (0..200).filter(|_| holds(&mut random)).count() as f64 / 200.0
    }

    #[test]
    fn an_interval_sees_that_rounds_differ() {
        let of_rounds = |count| coverage_of_rounds(count, Sorted::of_rounds);
        let of_samples = |count| coverage_of_rounds(count, |rounds| Sorted::new(&rounds.concat()));
        assert!(of_rounds(24) >= 0.9 && of_samples(24) < 0.7, "{} {}", of_rounds(24), of_samples(24));
        // Nothing that was measured can hold more than 82 of 100: so often the lowest of six rounds is below the quartile.
        assert!(of_rounds(6) >= 0.78 && of_samples(6) < 0.7, "{} {}", of_rounds(6), of_samples(6));
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let sorted = Sorted::new(&[5.0, 7.0, 6.0, 9.0, 8.0]).expect("not empty");
        let once = |seed| of_quantile(&sorted, 0.25, Interval::Percent95, &mut Random::new(seed));
        assert_eq!(once(1), once(1));
    }
}
