//! How long batches take on each device and where the engine would place them.

use std::time::{Duration, Instant};

use breakeven::{Decision, DeviceId, Plan};

use crate::batch::Batch;
use crate::check::{TOLERANCE, distance};
use crate::failure::Failure;
use crate::model::Model;
use crate::progress::Progress;
use crate::report::{Choice, Row};
use crate::targets::Target;

/// Batch and length of each row.
const SIZES: [(usize, usize); 4] = [(1, 16), (8, 32), (32, 64), (32, 128)];

/// A row is measured until this has passed, within the bounds on rounds.
const ROW_TIME: Duration = Duration::from_secs(5);
const ROUNDS: std::ops::RangeInclusive<usize> = 2..=10;

/// A device works this long at a stretch, and only runs of the later half are counted: an idle GPU has lowered its clock
/// and takes some tenths of a second of work to raise it again.
const STRETCH: Duration = Duration::from_millis(600);

/// Times every size on every target.
pub fn table(model: &Model, targets: &[Target]) -> Result<Vec<Row>, Failure> {
    let targets: Vec<&Target> = targets.iter().filter(|target| !target.is_software).collect();
    let progress = Progress::new("measuring", SIZES.len());
    let row = |(index, &(texts, length)): (usize, &(usize, usize))| {
        progress.at(index, &format!("{texts} x {length}"));
        measure(model, &targets, &sample(texts, length.min(model.longest()), model.vocabulary()))
    };
    SIZES.iter().enumerate().map(row).collect()
}

/// Tokens that differ from place to place.
fn sample(texts: usize, length: usize, vocabulary: usize) -> Batch {
    let id = |at: usize| (at * 7919 % vocabulary) as i64;
    let text = |index: usize| (0..length).map(|at| id(index * length + at + 1)).collect::<Vec<i64>>();
    Batch::new(&(0..texts).map(text).collect::<Vec<_>>())
}

/// Rounds over all targets, so that a machine that slows down slows all of them.
fn measure(model: &Model, targets: &[&Target], batch: &Batch) -> Result<Row, Failure> {
    let expected = run(model, targets[0], batch)?.vectors;
    let mut times = vec![Vec::new(); targets.len()];
    let started = Instant::now();
    for round in 1..=*ROUNDS.end() {
        for (target, times) in targets.iter().zip(&mut times) {
            times.extend(stretch(model, target, batch, &expected)?);
        }
        if round >= *ROUNDS.start() && started.elapsed() > ROW_TIME {
            break;
        }
    }
    let times = targets.iter().zip(times).map(|(target, times)| (target.name.clone(), lower_quartile(times)));
    let plan = model.engine.explain(&[&model.embed(batch)])?;
    Ok(Row::new(batch, times.collect(), choice(&plan, targets)))
}

/// One device at work, until half of the time has passed without being counted, and at least once each way.
fn stretch(model: &Model, target: &Target, batch: &Batch, expected: &[f32]) -> Result<Vec<Duration>, Failure> {
    let (started, mut times) = (Instant::now(), Vec::new());
    let mut is_warm = false;
    while times.is_empty() || started.elapsed() < STRETCH {
        let Run { vectors, time } = run(model, target, batch)?;
        agree(target, batch, &vectors, expected)?;
        times.extend(is_warm.then_some(time));
        is_warm = started.elapsed() >= STRETCH / 2;
    }
    Ok(times)
}

struct Run {
    vectors: Vec<f32>,
    time: Duration,
}

/// From token ids on the host to vectors on the host, planning included.
fn run(model: &Model, target: &Target, batch: &Batch) -> Result<Run, Failure> {
    let started = Instant::now();
    let vectors = target.embed(model, batch).to_vec::<f32>()?;
    Ok(Run { vectors, time: started.elapsed() })
}

/// The devices of a plan, the one with most work first, and why its heaviest kernel runs there.
fn choice(plan: &Plan, targets: &[&Target]) -> Choice {
    let seconds = |decision: &Decision| decision.predicted.map_or(0.0, |parts| parts.seconds());
    let mut decisions: Vec<&Decision> = plan.decisions.iter().collect();
    decisions.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
    let name = |id: DeviceId| targets.iter().find(|t| t.device == Some(id)).map_or("?", |target| target.name.as_str());
    let mut devices: Vec<&str> = Vec::new();
    for decision in &decisions {
        if !devices.contains(&name(decision.device)) {
            devices.push(name(decision.device));
        }
    }
    let reason = decisions.first().map_or("", |decision| decision.reason.code());
    Choice { devices: devices.join(" and "), reason: reason.into() }
}

/// A wrong answer has no time.
fn agree(target: &Target, batch: &Batch, vectors: &[f32], expected: &[f32]) -> Result<(), Failure> {
    let off = distance(vectors, expected);
    if off <= TOLERANCE {
        return Ok(());
    }
    let Batch { texts, length, .. } = batch;
    Err(Failure::Check(format!("{texts} x {length} on {} is {off:.1e} off the CPU's result", target.name)))
}

/// A quarter of the runs was faster: steadier than the mean under load, and no lucky shot.
fn lower_quartile(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 4).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_quartile_ignores_outliers() {
        let milliseconds = [9, 1, 5, 900, 4, 3, 6, 7].map(Duration::from_millis);
        assert_eq!(lower_quartile(milliseconds.to_vec()), Duration::from_millis(4));
        assert_eq!(lower_quartile(vec![Duration::from_millis(2)]), Duration::from_millis(2));
    }

    #[test]
    fn sample_tokens_are_known_and_differ() {
        let batch = sample(2, 3, 30);
        assert!(batch.ids.iter().all(|id| (0..30).contains(id)));
        assert_ne!(batch.ids[..3], batch.ids[3..]);
    }
}
