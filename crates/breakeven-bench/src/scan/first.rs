//! First calls: of an engine that was just made, and of a process that just began.

use std::time::Duration;

use breakeven::{Deadline, Engine, Settings};
use breakeven_study::{Mode, Sample, Status, Stop};

use super::cells::Kind;
use super::child::{Bench, READY, Say, dtype, settings_of};
use super::clock::Clock;
use super::places::{names_far, places};
use super::sensors::Sensors;
use super::subject::{Operands, Subject};
use super::task::{Line, Measure};
use super::turn::Turn;
use super::{Error, Result, operation};

/// First calls of a cell at least, as far as none fails.
pub const LEAST: u32 = 3;
/// First calls of a cell at most.
pub const MOST: u32 = 5;

/// First calls of the cell in engines made for one call each, until there are enough or the time is up.
pub fn take(turn: &mut Turn, bench: &Bench<'_>, task: &Measure, operands: &Operands) {
    let (begun, budget) = (bench.clock.now(), Duration::from_millis(task.effort.budget_ms));
    for round in 0..MOST {
        if round >= LEAST && bench.clock.since(begun) > budget {
            break;
        }
        match once(turn, bench, task, operands) {
            Ok(sample) => turn.samples.push(Sample { round, ..sample }),
            Err(Error::Engine(error)) => return turn.end(&error, bench.engine),
            Err(other) => {
                (turn.facts.status, turn.facts.why) = (Status::Lost, Some(other.to_string()));
                return;
            }
        }
    }
    turn.facts.stop = Some(Stop::Budget);
}

/// The engine does the same at another size before, so that what does not depend on the size is compiled.
fn once(turn: &Turn, bench: &Bench<'_>, task: &Measure, operands: &Operands) -> Result<Sample> {
    let engine = (bench.another)()?;
    let place = places(&engine, std::slice::from_ref(&turn.place.name))?.remove(0);
    let deadline = Duration::from_millis(task.effort.deadline_ms);
    let before = place.health(&engine);
    Subject::new(&engine, operands.at(other_size(operands.size)), deadline)?.call(
        Mode::Host,
        place.device,
        bench.clock,
    )?;
    // Bytes that no device has seen: what is made of bytes lies beside them.
    let mut subject = Subject::new(&engine, operands.at(operands.size), deadline)?;
    let sample = subject.call(Mode::Host, place.device, bench.clock)?;
    match place.health(&engine) {
        after if after != before => Err(Error::Refused(format!("{} was lost in a new engine", place.name))),
        _ => Ok(sample),
    }
}

/// Another size that the operation takes.
fn other_size(size: usize) -> usize {
    if size > 1 { size / 2 } else { 2 }
}

/// The first call of this process. What comes before it is that its operands are made; after it the result is compared.
pub fn cold(task: &Measure, settings: &Settings, clock: &dyn Clock, say: Say<'_>) -> Result<()> {
    let operation = operation::find(&task.operation).ok_or_else(|| Error::operation(&task.operation))?;
    let (Some(&size), Some(device)) = (task.sizes.first(), task.devices.first()) else { return Ok(()) };
    let kind = Kind { operation, dtype: &task.dtype };
    let cell = kind.cells(size, device, &[Mode::Cold]).remove(0);
    let operands = Operands::new(operation, size, dtype(&task.dtype)?, task.seed);
    let settings = settings_of(&task.setting, settings)?;
    let deadline = Duration::from_millis(task.effort.deadline_ms);
    let begun = clock.now();
    let engine = Engine::builder().settings(settings).build()?;
    // Nobody waits for GPUs who leaves the choice to the engine.
    if names_far(&task.devices) {
        engine.ready(Deadline::after(READY))?;
    }
    let mut turn = Turn::new(cell, places(&engine, &task.devices)?.remove(0));
    let mut subject = Subject::new(&engine, operands, deadline)?;
    let another = || Ok(engine.clone());
    let bench = Bench { engine: &engine, another: &another, clock, sensors: &Sensors::of_this_machine() };
    turn.take_once(&mut subject, begun, &bench);
    let wanted = subject.references([Mode::Cold])?;
    turn.check(&mut subject, &wanted, &bench);
    let (cell, facts, samples) = turn.finish();
    say(Line::Done { cell, facts: Box::new(facts), samples })?;
    Ok(())
}
