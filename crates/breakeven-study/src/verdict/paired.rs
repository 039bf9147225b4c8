//! Two things timed in turns: blocks of five samples, the lower quartile of each, and the ratio of neighbours.
//!
//! What disturbs a machine lasts longer than a block, so it meets both of a pair; what is shorter is above the lower quartile; and what meets
//! one block of a pair is one ratio among many, of which the outer ones are left out and the mean of the others is taken. Two programs are timed in
//! many pairs of processes: where its memory happens to lie makes a process slower than another of the same program, so what two processes show is
//! one ratio, whose interval follows from how such ratios differ.

use super::{Change, Verdict};
use crate::stats::{Interval, Random, Sorted, of_trimmed_mean};

/// Samples in a block.
pub const BLOCK: usize = 5;

/// Pairs of blocks that tell a change of 5% from none on a loaded machine with two cores, simulated with heavy tails, drift and bursts: of 100 comparisons
/// at most one is a false alarm, and at least 95 changes by 5% and 99 by 10% are found.
pub const ENOUGH_BLOCKS: usize = 100;

/// How a comparison is judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// A change that matters, relative: 0.03 is 3%.
    pub threshold: f64,
    /// Pairs of blocks without which nothing is said.
    pub least_blocks: usize,
    /// From which resampling follows.
    pub seed: u64,
}

impl Default for Rule {
    /// 3%, from 12 pairs of blocks on.
    fn default() -> Rule {
        Rule { threshold: 0.03, least_blocks: 12, seed: 1 }
    }
}

/// A change beyond the threshold is confirmed from this part of it on.
const CONFIRMS: f64 = 0.5;

impl Rule {
    /// By what fresh processes are judged that are to show a change once more. It is to be there; to ask again that the whole interval is
    /// beyond the threshold, which 97 of 100 changes by 5% pass, loses as many once more.
    #[must_use]
    pub fn once_more(&self) -> Rule {
        Rule { threshold: self.threshold * CONFIRMS, ..*self }
    }
}

/// One pair: the times of A and of B, taken next to each other.
#[derive(Debug, Clone, Copy)]
pub struct Sides<'a> {
    /// Times of A.
    pub a_ns: &'a [f64],
    /// Times of B.
    pub b_ns: &'a [f64],
}

/// Pairs of blocks as logarithms of ratios.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Blocks {
    /// ln of B's lower quartile over A's, one for each pair.
    log_ratios: Vec<f64>,
}

impl Blocks {
    /// Adds a pair. One whose sides have no times is left out.
    pub fn add(&mut self, sides: Sides<'_>) {
        if let (Some(a), Some(b)) = (Sorted::new(sides.a_ns), Sorted::new(sides.b_ns)) {
            self.log_ratios.push((b.q1_ns() / a.q1_ns()).ln());
        }
    }

    /// Adds what two processes showed in turns as one pair: their median.
    pub fn add_meeting(&mut self, turns: &Blocks) {
        let mut sorted = turns.log_ratios.clone();
        sorted.sort_by(f64::total_cmp);
        if let Some(last) = sorted.len().checked_sub(1) {
            self.log_ratios.push(f64::midpoint(sorted[last / 2], sorted[last.div_ceil(2)]));
        }
    }

    /// Pairs from two rows of times that were taken in turns, block by block.
    pub fn of(a_ns: &[f64], b_ns: &[f64]) -> Blocks {
        let mut blocks = Blocks::default();
        for (a_ns, b_ns) in a_ns.chunks_exact(BLOCK).zip(b_ns.chunks_exact(BLOCK)) {
            blocks.add(Sides { a_ns, b_ns });
        }
        blocks
    }

    /// How many pairs there are.
    pub fn count(&self) -> usize {
        self.log_ratios.len()
    }

    /// The ratio and its 99% interval; `None` without pairs.
    pub fn change(&self, seed: u64) -> Option<Change> {
        let (log, [low, high]) = of_trimmed_mean(&self.log_ratios, Interval::Percent99, &mut Random::new(seed))?;
        Some(Change { ratio: log.exp(), low: low.exp(), high: high.exp(), blocks: self.count() })
    }
}

/// What `blocks` show. FASTER and SLOWER need the whole 99% interval beyond the threshold, SAME needs it inside.
pub fn judge(blocks: &Blocks, rule: &Rule) -> Verdict {
    let change = blocks.change(rule.seed);
    let Some(change) = change.filter(|change| change.blocks >= rule.least_blocks) else {
        let why = format!("{} pairs are too few, {} are needed", blocks.count(), rule.least_blocks);
        return Verdict::Ambiguous { change, why };
    };
    decide(change, rule)
}

/// What `change` shows, whatever it rests on.
pub(super) fn decide(change: Change, rule: &Rule) -> Verdict {
    let (slower, faster) = (1.0 + rule.threshold, 1.0 / (1.0 + rule.threshold));
    if change.low > slower {
        return Verdict::Slower(change);
    }
    if change.high < faster {
        return Verdict::Faster(change);
    }
    if faster < change.low && change.high < slower {
        return Verdict::Same(change);
    }
    let percent = (rule.threshold * 1000.0).round() / 10.0;
    let why = format!("the interval reaches over {percent}%: more measurements, or a quieter machine");
    Verdict::Ambiguous { change: Some(change), why }
}

/// What two measurements in processes of their own say together: SLOWER and FASTER must be seen again.
pub fn confirm(first: Verdict, again: &Verdict) -> Verdict {
    let is_seen_again = match &first {
        Verdict::Slower(_) => matches!(again, Verdict::Slower(_)),
        Verdict::Faster(_) => matches!(again, Verdict::Faster(_)),
        _ => true,
    };
    match (first, again) {
        // A program that fails would pass for a fast one.
        (Verdict::Slower(change) | Verdict::Faster(change), Verdict::Invalid { why }) => {
            Verdict::Invalid { why: format!("{change} at first, and in fresh processes: {why}") }
        }
        (Verdict::Slower(change) | Verdict::Faster(change), again) if !is_seen_again => Verdict::Ambiguous {
            change: Some(change),
            why: format!("not seen again in fresh processes, where it was {again}"),
        },
        (first, _) => first,
    }
}

/// Whether a floor leaves differences of the threshold visible: it is at most half of it.
pub fn passes_gate(floor: f64, rule: &Rule) -> bool {
    floor <= rule.threshold / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(ratios: impl Iterator<Item = f64>) -> Verdict {
        let mut blocks = Blocks::default();
        ratios.for_each(|ratio| blocks.add(Sides { a_ns: &[100.0], b_ns: &[100.0 * ratio] }));
        judge(&blocks, &Rule::default())
    }

    fn around(ratio: f64, spread: f64) -> impl Iterator<Item = f64> {
        (0..40).map(move |index| ratio * (1.0 + spread * (f64::from(index) / 39.0 - 0.5)))
    }

    #[test]
    fn each_verdict_has_its_place() {
        let name = |verdict: Verdict| verdict.to_string().split(' ').next().map(str::to_string);
        let check = |ratio, spread, expected: &str| {
            let verdict = judged(around(ratio, spread));
            assert_eq!(name(verdict.clone()).as_deref(), Some(expected), "{verdict}");
        };
        check(1.10, 0.02, "SLOWER");
        check(0.90, 0.02, "FASTER");
        check(1.00, 0.02, "SAME");
        check(1.03, 0.02, "AMBIGUOUS");
        check(1.00, 0.50, "AMBIGUOUS");
        assert!(judged(around(2.0, 0.0).take(11)).to_string().contains("11 pairs are too few"));
        assert!(judged([].into_iter()).to_string().starts_with("AMBIGUOUS: 0 pairs"));
    }

    #[test]
    fn slower_must_be_seen_again() {
        let (slower, same) = (judged(around(1.1, 0.0)), judged(around(1.0, 0.0)));
        assert_eq!(confirm(slower.clone(), &slower), slower);
        assert_eq!(confirm(same.clone(), &slower), same);
        let broken = Verdict::Invalid { why: "it crashed".to_owned() };
        assert_eq!(confirm(same.clone(), &broken), same);
        let confirmed = confirm(slower.clone(), &broken);
        assert!(matches!(&confirmed, Verdict::Invalid { why } if why.contains("it crashed")), "{confirmed}");
        assert!(confirm(slower, &same).to_string().contains("not seen again"));
    }

    #[test]
    fn the_gate_closes_when_the_floor_is_above_half_the_threshold() {
        assert_eq!([0.0, 0.015, 0.016].map(|floor| passes_gate(floor, &Rule::default())), [true, true, false]);
    }
}
