//! Which samples count: those that were disturbed or cannot be true are dropped and counted, never silently.

use std::collections::BTreeMap;

use super::warm_up::{is_first_round_warming, settled_from};
use crate::{Flag, Sample};

/// A wall time above this is no time but a clock that went wrong: half a year.
const LONGEST_NS: u64 = 15_768_000_000_000_000;

/// How much longer than its call a kernel may seem: the two clocks are not the same.
const CLOCK_TOLERANCE: f64 = 1.05;

/// What is left of a cell's samples, in the order in which they were taken.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Kept {
    /// The samples that count. Their parts are as measured, but for kernel times that cannot be true, which are taken out.
    pub samples: Vec<Sample>,
    /// What was dropped.
    pub dropped: Dropped,
}

/// Why samples, or their kernel times, were dropped, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// A clock was lowered meanwhile.
    pub throttled: u64,
    /// Taken to warm up, or before the times of their round had settled.
    pub warm_up: u64,
    /// The wall time is zero, or longer than half a year.
    pub impossible: u64,
    /// Kernel times that were dropped, while their sample counts: the device's clock gave nothing usable, or they are longer than the call.
    pub kernel_times: u64,
}

impl Dropped {
    /// Samples that were dropped as a whole.
    pub fn samples(&self) -> u64 {
        self.throttled + self.warm_up + self.impossible
    }
}

impl Kept {
    /// Drops from `samples` what does not count. If nothing but throttled samples is there, they are kept and `dropped` counts none:
    /// a result with a warning is more than no result.
    pub fn of(samples: &[Sample]) -> Kept {
        let strict = Kept::unless(samples, &[Flag::Throttled, Flag::WarmUp]);
        if strict.samples.is_empty() { Kept::unless(samples, &[Flag::WarmUp]) } else { strict }
    }

    /// Whether throttled samples had to be kept because there are no others.
    pub fn is_throttled(&self) -> bool {
        self.samples.iter().any(|sample| sample.flags.has(Flag::Throttled))
    }

    /// The wall times of what is left, without the samples that were taken for their parts: these went a longer way.
    pub fn wall_ns(&self) -> Vec<f64> {
        let whole = self.samples.iter().filter(|sample| is_whole(sample));
        whole.map(|sample| sample.wall_ns as f64).collect()
    }

    /// The wall times as in `wall_ns`, round by round.
    pub fn rounds(&self) -> Vec<Vec<f64>> {
        let mut rounds = BTreeMap::<u32, Vec<f64>>::new();
        for sample in self.samples.iter().filter(|sample| is_whole(sample)) {
            rounds.entry(sample.round).or_default().push(sample.wall_ns as f64);
        }
        rounds.into_values().collect()
    }

    /// Without the samples that were taken before times had settled: the first ones of each round, and the first round as a whole where all others
    /// are faster.
    #[must_use]
    pub fn settled(mut self) -> Kept {
        let recorded = self.samples.len();
        let mut rounds = BTreeMap::<u32, Vec<Sample>>::new();
        for sample in self.samples.drain(..) {
            rounds.entry(sample.round).or_default().push(sample);
        }
        self.samples = rounds.into_values().flat_map(settled_round).collect();
        if is_first_round_warming(&self.rounds()) {
            let first = self.samples[0].round;
            self.samples.retain(|sample| sample.round != first);
        }
        self.dropped.warm_up += (recorded - self.samples.len()) as u64;
        self
    }

    fn unless(samples: &[Sample], flags: &[Flag]) -> Kept {
        let mut kept = Kept::default();
        for sample in samples {
            match kept.dropped.reason(sample, flags) {
                Some(count) => *count += 1,
                None => kept.take(*sample),
            }
        }
        kept
    }

    fn take(&mut self, mut sample: Sample) {
        let longest = sample.wall_ns as f64 * CLOCK_TOLERANCE;
        let is_true = |kernel: u64| kernel > 0 && kernel as f64 <= longest && !sample.flags.has(Flag::BadClock);
        if sample.kernel_ns.is_some_and(|kernel| !is_true(kernel)) {
            sample.kernel_ns = None;
            self.dropped.kernel_times += 1;
        }
        self.samples.push(sample);
    }
}

/// Whether the wall time of `sample` is one of a call: those that were taken for their parts went a longer way.
fn is_whole(sample: &Sample) -> bool {
    !sample.flags.has(Flag::InParts)
}

/// One round without its warm-up. Samples that were taken for their parts lie between, and go with what they were taken beside.
fn settled_round(mut samples: Vec<Sample>) -> Vec<Sample> {
    let whole = samples.iter().filter(|sample| is_whole(sample));
    let warm_up = settled_from(&whole.map(|sample| sample.wall_ns as f64).collect::<Vec<_>>());
    let mut passed = 0;
    let settled = samples.iter().position(|sample| {
        passed += usize::from(is_whole(sample));
        passed > warm_up
    });
    samples.drain(..settled.filter(|_| warm_up > 0).unwrap_or(0));
    samples
}

impl Dropped {
    /// What counts `sample` if it is dropped, for one of `flags` or because its time cannot be true.
    fn reason(&mut self, sample: &Sample, flags: &[Flag]) -> Option<&mut u64> {
        if sample.wall_ns == 0 || sample.wall_ns > LONGEST_NS {
            return Some(&mut self.impossible);
        }
        match flags.iter().find(|flag| sample.flags.has(**flag))? {
            Flag::Throttled => Some(&mut self.throttled),
            Flag::WarmUp => Some(&mut self.warm_up),
            Flag::BadClock | Flag::InParts => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flags;

    fn sample(wall_ns: u64, flag: Option<Flag>) -> Sample {
        Sample { wall_ns, flags: flag.map_or(Flags::NONE, |flag| Flags::NONE.with(flag)), ..Sample::default() }
    }

    #[test]
    fn disturbed_samples_are_dropped_and_counted() {
        let kept = Kept::of(&[
            sample(10, None),
            sample(11, Some(Flag::Throttled)),
            sample(13, Some(Flag::WarmUp)),
            sample(0, None),
            sample(u64::MAX, None),
        ]);
        assert_eq!(kept.wall_ns(), [10.0]);
        let dropped = Dropped { throttled: 1, warm_up: 1, impossible: 2, kernel_times: 0 };
        assert_eq!((kept.dropped, dropped.samples()), (dropped, 4));
    }

    /// Rounds of five samples each, every fifth of which is taken for its parts after it.
    fn rounds(levels: &[u64]) -> Vec<Sample> {
        let round = |(round, level): (usize, &u64)| {
            let at = |wall_ns, flag| Sample { round: round as u32, ..sample(wall_ns, flag) };
            let whole = [3 * level, 2 * level, *level, *level, *level].map(|wall_ns| at(wall_ns, None));
            whole.into_iter().chain([at(9 * level, Some(Flag::InParts))]).collect::<Vec<_>>()
        };
        levels.iter().enumerate().flat_map(round).collect()
    }

    #[test]
    fn rounds_that_differ_are_noise_and_no_warm_up() {
        let kept = Kept::of(&rounds(&[1000, 1500, 1200, 2000, 1100, 900])).settled();
        let expected: Vec<Vec<f64>> =
            [1000.0, 1500.0, 1200.0, 2000.0, 1100.0, 900.0].map(|level| vec![level; 3]).to_vec();
        assert_eq!((kept.rounds(), kept.samples.len(), kept.dropped.warm_up), (expected, 6 * 4, 6 * 2));
    }

    #[test]
    fn what_is_dropped_and_what_is_kept_is_what_was_recorded() {
        let recorded = rounds(&[5000, 1000, 1010, 990]);
        let kept = Kept::of(&recorded).settled();
        assert_eq!(kept.samples.len() as u64 + kept.dropped.samples(), recorded.len() as u64);
        assert_eq!(
            (kept.rounds().len(), kept.dropped.warm_up),
            (3, 6 + 3 * 2),
            "the first round is warm-up as a whole"
        );
        assert_eq!(Kept::default().settled(), Kept::default());
    }

    #[test]
    fn there_is_a_result_when_everything_is_throttled() {
        let kept = Kept::of(&[sample(11, Some(Flag::Throttled)), sample(12, Some(Flag::Throttled))]);
        assert!(kept.is_throttled());
        assert_eq!((kept.samples.len(), kept.dropped.samples()), (2, 0));
    }

    #[test]
    fn kernel_times_that_cannot_be_true_are_taken_out_and_the_call_stays() {
        let with = |kernel_ns, flag| Sample { kernel_ns: Some(kernel_ns), ..sample(1000, flag) };
        let kept = Kept::of(&[with(0, None), with(5000, None), with(7, Some(Flag::BadClock)), with(900, None)]);
        let kernels: Vec<_> = kept.samples.iter().map(|sample| sample.kernel_ns).collect();
        assert_eq!((kernels, kept.dropped.kernel_times), (vec![None, None, None, Some(900)], 3));
    }
}
