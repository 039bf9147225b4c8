//! The method of comparing on the machine that runs this, however loaded it is, with its real clock.

use std::hint::black_box;
use std::time::Instant;

use breakeven_study::stats::Random;
use breakeven_study::verdict::{Blocks, Rule, Sides, Verdict, judge};

/// Steps of a call that takes some 50 microseconds.
const STEPS: u64 = 30_000;
/// Comparisons of each kind.
const RUNS: usize = 100;

/// The times of a block of five calls of so many steps.
fn block(steps: u64) -> [f64; 5] {
    [(); 5].map(|()| {
        let start = Instant::now();
        let mut random = Random::new(steps);
        black_box((0..steps).fold(0, |sum: u64, _| sum ^ random.bits()));
        start.elapsed().as_nanos() as f64
    })
}

/// A and B in turns, until the verdict is clear or after 200 pairs.
fn compare(ratio: f64) -> (Verdict, usize) {
    let mut blocks = Blocks::default();
    loop {
        for pair in 0..20 {
            let (a, b) = if pair % 2 == 0 {
                let a = block(STEPS);
                (a, block((STEPS as f64 * ratio) as u64))
            } else {
                let b = block((STEPS as f64 * ratio) as u64);
                (block(STEPS), b)
            };
            blocks.add(Sides { a_ns: &a, b_ns: &b });
        }
        let verdict = judge(&blocks, &Rule::default());
        if !matches!(verdict, Verdict::Ambiguous { .. }) || blocks.count() >= 200 {
            return (verdict, blocks.count());
        }
    }
}

/// How many comparisons came out SLOWER, FASTER, SAME and AMBIGUOUS, and how many pairs they took in all.
fn tally(ratio: f64) -> ([usize; 4], usize) {
    let (mut counts, mut pairs) = ([0; 4], 0);
    for _ in 0..RUNS {
        let (verdict, blocks) = compare(ratio);
        pairs += blocks;
        counts[match verdict {
            Verdict::Slower(_) => 0,
            Verdict::Faster(_) => 1,
            Verdict::Same(_) => 2,
            _ => 3,
        }] += 1;
    }
    (counts, pairs)
}

#[test]
#[ignore = "takes a minute of real time: cargo test --release -p breakeven-study --test this_machine -- --ignored --nocapture"]
fn what_is_the_same_gives_no_alarm_and_what_is_slower_is_found() {
    let found = [1.0, 1.05, 1.10].map(|ratio| {
        let (counts, pairs) = tally(ratio);
        println!("ratio {ratio}: slower, faster, same, ambiguous {counts:?}, {} pairs each", pairs / RUNS);
        counts
    });
    assert!(found[0][0] + found[0][1] <= 1 && found[1][0] >= 95 && found[2][0] >= 99, "{found:?}");
}
