//! Verdicts on a loaded machine: what is the same gives no alarm, and what is slower is found.

mod samples;

use breakeven_study::verdict::{Blocks, ENOUGH_BLOCKS, Rule, Sides, Verdict, confirm, exit_of, judge};
use samples::noise::LoadedMachine;

/// How many of 100 comparisons, with B taking `ratio` of A's time, come out as `is_expected`.
fn count(ratio: f64, blocks: usize, is_expected: impl Fn(&Verdict) -> bool) -> usize {
    (0..100).filter(|seed| is_expected(&compare(*seed, ratio, blocks))).count()
}

/// What is slower or faster is measured once more before it is said.
fn compare(seed: u64, ratio: f64, blocks: usize) -> Verdict {
    let judged = |seed: u64, rule: &Rule| {
        let (a, b) = LoadedMachine::new(seed).turns(blocks, ratio);
        judge(&Blocks::of(&a, &b), rule)
    };
    match judged(seed, &Rule::default()) {
        first if is_alarm(&first) => confirm(first, &judged(seed + 10_000, &Rule::default().once_more())),
        first => first,
    }
}

fn is_slower(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Slower(_))
}

fn is_alarm(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Slower(_) | Verdict::Faster(_))
}

/// B03: the gate does not fire on noise, and fires on what is slower.
#[test]
fn b03_noise_is_no_regression_and_a_regression_is_found() {
    assert!(count(1.0, ENOUGH_BLOCKS, is_alarm) <= 1);
    assert!(count(1.05, ENOUGH_BLOCKS, is_slower) >= 95);
    assert!(count(1.10, ENOUGH_BLOCKS, is_slower) >= 99);
    assert!(count(1.15, 40, is_slower) >= 95);
    assert!(count(1.0, 200, |verdict| matches!(verdict, Verdict::Same(_))) >= 99);
}

#[test]
fn looking_after_every_few_blocks_gives_no_more_alarms() {
    let sequential = |seed, ratio| {
        let mut machine = LoadedMachine::new(seed);
        let mut blocks = Blocks::default();
        loop {
            let (a, b) = machine.turns(10, ratio);
            a.chunks(5).zip(b.chunks(5)).for_each(|(a_ns, b_ns)| blocks.add(Sides { a_ns, b_ns }));
            let verdict = judge(&blocks, &Rule::default());
            if !matches!(verdict, Verdict::Ambiguous { .. }) || blocks.count() >= 200 {
                return verdict;
            }
        }
    };
    let count = |ratio, is_expected: fn(&Verdict) -> bool| {
        (1000..1100).filter(|seed| is_expected(&sequential(*seed, ratio))).count()
    };
    assert!(count(1.0, is_alarm) <= 1);
    assert!(count(1.05, is_slower) >= 95);
    assert!(count(1.10, is_slower) >= 99);
}

/// The noise of these tests is one on which a common rule fails: means that differ by more than 3%.
#[test]
fn the_noise_deceives_a_rule_of_means() {
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    let is_flagged = |seed: &u64| {
        let (a, b) = LoadedMachine::new(*seed).turns(ENOUGH_BLOCKS, 1.0);
        (mean(&b) / mean(&a) - 1.0).abs() > 0.03
    };
    let flagged = (0..100).filter(is_flagged).count();
    assert!(flagged > 50, "{flagged}");
}

#[test]
fn a_comparison_of_the_same_ends_with_0_and_an_injected_change_with_1() {
    let exit = |ratio| exit_of([&compare(1, ratio, ENOUGH_BLOCKS)], Rule::default().threshold).code();
    assert_eq!((exit(1.0), exit(1.1)), (0, 1));
}
