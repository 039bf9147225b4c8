//! Rounds that sizes share: in which order turns are given, and what a device takes with it that is lost meanwhile.

mod simulated;

use std::collections::{BTreeMap, BTreeSet};

use breakeven_bench::scan::child::{Bench, measure};
use breakeven_bench::scan::task::{Effort, Line, Measure};
use breakeven_device::sim::{Fault, SimClock};
use breakeven_study::{Mode, Status};
use simulated::{Simulated, all_measured, engine, engine_on, no_sensors, submissions_of_a_cell, task};

/// Where there is time for more rounds than the least, sizes share them: the cell whose turn it was is lost, and the others are what they were.
#[test]
fn a_device_that_is_lost_in_rounds_that_sizes_share_takes_one_cell_with_it() {
    let clock = Simulated(SimClock::new());
    let engine = engine_on(&clock.0, &[Fault::LostAt(3 * submissions_of_a_cell() + 10)]);
    let device = engine.devices()[1].name.clone();
    let one = task(Mode::Host, &device);
    let effort = Effort { budget_ms: 3_600_000, ..one.effort };
    let found = all_measured((&engine, &clock), None, &Measure { sizes: vec![1000, 2000, 3000], effort, ..one });
    let lost: Vec<_> = found.iter().filter(|(_, facts, _)| facts.status == Status::Lost).collect();
    let [(_, facts, _)] = &lost[..] else { panic!("{found:?}") };
    assert!(facts.why.as_ref().unwrap().contains("lost"), "{:?}", facts.why);
    let kept = found.iter().filter(|(_, facts, samples)| facts.status == Status::Ok && samples.len() >= 30);
    assert_eq!(kept.count(), 2, "{found:?}");
}

/// Sizes by turns in one round after another, once each has its least.
#[test]
fn sizes_share_the_rounds_beyond_the_least() {
    let (engine, clock) = engine();
    let device = engine.devices()[1].name.clone();
    let one = task(Mode::Host, &device);
    let effort = Effort { budget_ms: 3_600_000, ..one.effort };
    let task = Measure { sizes: vec![1000, 2000], effort, ..one };
    let (another, sensors, mut turns) = (|| Ok(engine.clone()), no_sensors(), Vec::new());
    let bench = Bench { engine: &engine, another: &another, clock: &clock, sensors: &sensors };
    let mut rounds = BTreeMap::new();
    let mut say = |line: Line| {
        match line {
            Line::Begun { cell } => turns.push(cell.elements),
            Line::Done { cell, samples, .. } => rounds.extend([(cell.elements, samples.last().map(|last| last.round))]),
            _ => {}
        }
        Ok(())
    };
    measure(&bench, &task, &mut say).unwrap();
    // One call that is compared and five rounds each, and then seven more in turns.
    assert_eq!(turns[..12], [[1000; 6], [2000; 6]].concat()[..]);
    assert!(turns[12..].chunks(2).all(|pair| pair.contains(&1000) && pair.contains(&2000)), "{turns:?}");
    assert_eq!(rounds, BTreeMap::from([(1000, Some(11)), (2000, Some(11))]));
}

/// What happens while a study lasts must not meet one way of calling alone, and the same arithmetic in each round tells of it.
#[test]
fn each_round_has_a_sentinel_and_an_order_of_its_own() {
    let (engine, clock) = engine();
    let one = task(Mode::Host, &engine.devices()[1].name);
    let effort = Effort { rounds: 12, ..one.effort };
    let task = Measure { modes: vec![Mode::Host, Mode::Upload, Mode::Resident, Mode::Kernel], effort, ..one };
    let (another, sensors) = (|| Ok(engine.clone()), no_sensors());
    let bench = Bench { engine: &engine, another: &another, clock: &clock, sensors: &sensors };
    let mut rounds: Vec<(u32, Vec<Mode>)> = Vec::new();
    let mut say = |line: Line| {
        match line {
            Line::Sentinel { round, .. } => rounds.push((round, Vec::new())),
            Line::Begun { cell } => rounds.last_mut().into_iter().for_each(|(_, order)| order.push(cell.mode)),
            _ => {}
        }
        Ok(())
    };
    measure(&bench, &task, &mut say).unwrap();
    assert_eq!(rounds.iter().map(|(round, _)| *round).collect::<Vec<_>>(), (0..12).collect::<Vec<_>>());
    let orders: BTreeSet<String> = rounds.iter().map(|(_, order)| format!("{order:?}")).collect();
    assert!(rounds.iter().all(|(_, order)| order.len() == 4), "each cell has its turn: {rounds:?}");
    assert!(orders.len() >= 6, "12 random orders of 24: {orders:?}");
}
