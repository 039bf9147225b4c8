//! How different two measurements of the same code come out on this machine, now.

use super::{CROWDED, Sorted};
use crate::NoiseVerdict;

/// From this floor on, differences of 3% cannot be seen.
pub const NOISY: f64 = 0.015;
/// From this floor on, nothing can be concluded.
pub const UNUSABLE: f64 = 0.2;
/// Samples that a row needs to say something about noise.
const LEAST: usize = 20;
/// Cells without which nothing is said of what two runs differ by.
const CELLS: usize = 4;
/// Within so many deviations of the middle half of normally distributed values lie, and within so many nine of ten.
const HALF: f64 = 0.6745;
const NINE_OF_TEN: f64 = 1.645;

/// The noise floor: each row of times, given round by round, is compared with itself, even rounds with odd ones, and nine of ten of these
/// differences are not above the floor. `None` if no row has 20 samples.
pub fn floor<'a>(rows: impl IntoIterator<Item = &'a [Vec<f64>]>) -> Option<f64> {
    let long = rows.into_iter().filter(|rounds| rounds.iter().map(Vec::len).sum::<usize>() >= LEAST);
    let with_itself = |rounds: &[Vec<f64>]| {
        let [even, odd] = halves(rounds)?;
        Some((even.q1_ns() / odd.q1_ns()).ln().abs())
    };
    let differences: Vec<f64> = long.filter_map(with_itself).collect();
    // Rows without any difference count as one in 10^9, so that they are times.
    let differences: Vec<f64> = differences.iter().map(|difference| difference.max(1e-9)).collect();
    let sorted = Sorted::new(&differences)?;
    Some(sorted.times_ns()[sorted.rank(0.9)])
}

/// The times of even rounds and those of odd ones: two measurements of the same at different times, as two devices are measured. Where all times
/// are of one round there is no such pair, and every second sample is taken.
pub fn halves(rounds: &[Vec<f64>]) -> Option<[Sorted; 2]> {
    let samples: Vec<Vec<f64>>;
    let parts = match rounds {
        [one] => {
            samples = one.iter().map(|time| vec![*time]).collect();
            &samples[..]
        }
        rounds => rounds,
    };
    let every_second = |first: usize| parts.iter().skip(first).step_by(2).flatten().copied().collect::<Vec<f64>>();
    Some([Sorted::new(&every_second(0))?, Sorted::new(&every_second(1))?])
}

/// The floor between two runs: what cells that did not change differ by, as logarithms of ratios, apart from what all have in common. Half of all cells
/// lie closest together; those tell, so that what did change does not pass for noise. Nine of ten that did not change are not further off. `None`
/// below four cells.
pub fn spread(log_ratios: &[f64]) -> Option<f64> {
    let mut sorted = log_ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    let widths = sorted.iter().zip(&sorted[half..]).map(|(low, high)| high - low);
    let narrowest = widths.fold(f64::INFINITY, f64::min);
    // Of few values the closest are closer than they are on the average (Rousseeuw and Leroy 1987).
    let of_few = 1.0 + 5.0 / (sorted.len() as f64 - 1.0);
    (sorted.len() >= CELLS).then(|| narrowest / 2.0 * of_few * NINE_OF_TEN / HALF)
}

/// How much the sentinel's time moved from its fastest to its slowest round, relative to the fastest; 0 if it ran in one round alone.
/// `rounds` are the round of each run and its time.
pub fn drift(rounds: impl IntoIterator<Item = (u32, f64)>) -> f64 {
    let mut by_round = std::collections::BTreeMap::<u32, Vec<f64>>::new();
    for (round, time) in rounds {
        by_round.entry(round).or_default().push(time);
    }
    let times = by_round.values().filter_map(|times| Some(Sorted::new(times)?.q1_ns()));
    let (fastest, slowest) = times.fold((f64::INFINITY, 0.0f64), |(low, high), time| (low.min(time), high.max(time)));
    if slowest > 0.0 { slowest / fastest - 1.0 } else { 0.0 }
}

/// What follows from a noise floor, a drift of the sentinel, and the share of rows that were measured beside other work, or of time that was stolen.
pub fn verdict(floor: f64, drift: f64, taken: f64) -> NoiseVerdict {
    match floor {
        floor if floor >= UNUSABLE => NoiseVerdict::Unusable,
        floor if floor > NOISY || drift > UNUSABLE || taken > CROWDED => NoiseVerdict::Noisy,
        _ => NoiseVerdict::Quiet,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Random;
    use super::*;

    fn rows(deviation: f64) -> Vec<Vec<f64>> {
        let mut random = Random::new(2);
        (0..30).map(|_| (0..100).map(|_| 1000.0 * (deviation * random.normal()).exp()).collect()).collect()
    }

    #[test]
    fn the_floor_grows_with_the_noise() {
        let alone = |deviation| rows(deviation).into_iter().map(|row| vec![row]).collect::<Vec<_>>();
        let floor_of = |deviation| floor(alone(deviation).iter().map(Vec::as_slice)).expect("long rows");
        let (quiet, loud) = (floor_of(0.01), floor_of(0.3));
        assert!(quiet < NOISY && loud > 0.05, "{quiet} {loud}");
        assert_eq!(floor([[vec![1.0; 5]].as_slice()]), None);
    }

    /// Samples of a round are alike where rounds are not: neighbours do not show what two measurements differ by.
    #[test]
    fn the_floor_sees_that_rounds_differ() {
        let mut random = Random::new(4);
        let round = |random: &mut Random| {
            let level = 1000.0 * (0.1 * random.normal()).exp();
            (0..5).map(|_| level * (0.001 * random.normal()).exp()).collect::<Vec<f64>>()
        };
        let rows: Vec<Vec<Vec<f64>>> = (0..30).map(|_| (0..6).map(|_| round(&mut random)).collect()).collect();
        let floor = floor(rows.iter().map(Vec::as_slice)).expect("long rows");
        assert!(floor > 0.05, "{floor}");
        let [even, odd] = halves(&[vec![1.0, 2.0], vec![10.0], vec![3.0]]).expect("times in both");
        assert_eq!((even.times_ns(), odd.times_ns()), ([1.0, 2.0, 3.0].as_slice(), [10.0].as_slice()));
        assert_eq!((halves(&[]), halves(&[vec![1.0]])), (None, None));
    }

    #[test]
    fn the_spread_between_runs_is_that_of_cells_that_did_not_change() {
        let mut random = Random::new(6);
        let mut cells = |changed: usize| -> Vec<f64> {
            let noise = |index: usize| 0.02 * random.normal() + if index < changed { 0.5 } else { 0.1 };
            (0..60).map(noise).collect()
        };
        // What all have in common is none, nor what the lesser part changed by.
        for (changed, most) in [(0, 0.06), (15, 0.06), (25, 0.1)] {
            let found = spread(&cells(changed)).expect("cells");
            assert!((0.02..most).contains(&found), "{changed}: {found}");
        }
        assert_eq!((spread(&[]), spread(&[1.0, 2.0, 3.0])), (None, None));
        assert_eq!(spread(&[0.1; 4]), Some(0.0));
    }

    #[test]
    fn the_sentinel_shows_drift() {
        assert_eq!(drift([(0, 100.0), (0, 900.0), (1, 130.0)]), 0.30000000000000004);
        assert_eq!(drift([]), 0.0);
        assert_eq!(verdict(0.001, 0.5, 0.0), NoiseVerdict::Noisy);
        assert_eq!(verdict(0.001, 0.0, 0.2), NoiseVerdict::Noisy, "times that other work made longer may agree");
        assert_eq!(verdict(0.001, 0.0, 0.05), NoiseVerdict::Quiet);
        assert_eq!(verdict(0.5, 0.0, 0.0), NoiseVerdict::Unusable);
    }
}
