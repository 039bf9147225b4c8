//! A child process: one operation at some sizes, on all devices and in all modes, in turns.

use std::num::NonZero;
use std::time::Duration;

use breakeven::{DType, Deadline, Engine, Settings};
use breakeven_study::folder::Facts;
use breakeven_study::{Mode, Status};

use super::cells::{Kind, is_of_new_engines};
use super::clock::Clock;
use super::operation::Operation;
use super::places::{Place, needs_look, places, scalar};
use super::rounds::{Cells, Rounds};
use super::sensors::Sensors;
use super::subject::{Operands, References, Subject};
use super::task::{Line, Measure, Setting, Task};
use super::turn::Turn;
use super::{Error, Result, first, machine, operation, simulated};

/// How long drivers and calibration may take before a child goes on without them.
pub const READY: Duration = Duration::from_mins(2);

/// Says what it finds; `say` fails when nobody listens any more.
pub type Say<'a> = &'a mut dyn FnMut(Line) -> std::io::Result<()>;

/// What cells are measured with.
pub struct Bench<'a> {
    /// Computes everything but first calls.
    pub engine: &'a Engine,
    /// Makes another engine like it, whose devices are open.
    pub another: &'a dyn Fn() -> breakeven::Result<Engine>,
    /// Times calls.
    pub clock: &'a dyn Clock,
    /// Tells when the processor's clock was lowered.
    pub sensors: &'a Sensors,
}

/// Does what `task` asks for on an engine of its own, built by `settings` but for what the task says; `clock` runs since the process
/// began, and `go_on` waits for the parent.
pub fn carry_out(
    task: &Task,
    settings: &Settings,
    clock: &dyn Clock,
    say: Say<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<()> {
    if let Task::Cold(task) = task {
        return first::cold(task, settings, clock, say);
    }
    if task.setting().simulated {
        let (engine, clock) = simulated::machine()?;
        let another = || Ok(engine.clone());
        let bench = Bench { engine: &engine, another: &another, clock: &clock, sensors: &Sensors::of_this_machine() };
        return carry_out_on(&bench, task, say, go_on);
    }
    let settings = settings_of(task.setting(), settings)?;
    let engine = Engine::builder().settings(settings.clone()).build()?;
    if let Err(late) = engine.ready(Deadline::after(READY)) {
        say(Line::Note { text: format!("measured without devices that were not ready: {late}") })?;
    }
    let another = || {
        let another = Engine::builder().settings(settings.clone()).profile(engine.profile()).build()?;
        if needs_look(task.devices()) {
            another.ready(Deadline::after(READY))?;
        }
        Ok(another)
    };
    let bench = Bench { engine: &engine, another: &another, clock, sensors: &Sensors::of_this_machine() };
    carry_out_on(&bench, task, say, go_on)
}

fn carry_out_on(bench: &Bench<'_>, task: &Task, say: Say<'_>, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
    match task {
        Task::Look(look) => machine::look(look, bench.engine, bench.clock, say),
        Task::Measure(task) => measure(bench, task, say),
        Task::Turns(task) => turn_by_turn(bench, task, say, go_on),
        Task::Cold(_) => Ok(()),
    }
}

/// Which part of the work before a first turn comes before each later one: the other program's turn in between is of milliseconds, after which little sleeps.
const STILL_AWAKE: u64 = 10;

/// One block of samples of each cell whenever `go_on` says so, which says no at the end.
fn turn_by_turn(bench: &Bench<'_>, task: &Measure, say: Say<'_>, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
    let operation = operation::find(&task.operation).ok_or_else(|| Error::operation(&task.operation))?;
    let (dtype, places) = (dtype(&task.dtype)?, places(bench.engine, &task.devices)?);
    if let Some(mode) = task.modes.iter().find(|mode| is_of_new_engines(**mode)) {
        let why = format!("`{mode}` makes an engine for each call and cannot take turns: compare two runs of `scan`");
        return Err(Error::Refused(why));
    }
    let deadline = Duration::from_millis(task.effort.deadline_ms);
    let Some(&size) = task.sizes.first() else { return Ok(()) };
    let mut subject = Subject::new(bench.engine, Operands::new(operation, size, dtype, task.seed), deadline)?;
    let mut turns = turns(task, operation, size, &places);
    let wanted = subject.references(turns.iter().map(|turn| turn.cell.mode))?;
    for turn in &mut turns {
        turn.check(&mut subject, &wanted, bench);
    }
    say(Line::Ready)?;
    let (mut round, mut effort) = (0, task.effort);
    while go_on() {
        for turn in &mut turns {
            turn.samples.clear();
            if turn.is_open() {
                turn.take(&mut subject, round, &effort, bench);
            }
            let counted = turn.samples.iter().filter(|sample| sample.flags.is_empty());
            let wall_ns = counted.map(|sample| sample.wall_ns).collect();
            say(Line::Turn { cell: turn.cell.clone(), wall_ns, wrong: turn.wrong() })?;
        }
        say(Line::Ready)?;
        (round, effort.warm_up_ms) = (round + 1, task.effort.warm_up_ms / STILL_AWAKE);
    }
    Ok(())
}

/// Measures what `task` asks for with this bench.
pub fn measure(bench: &Bench<'_>, task: &Measure, say: Say<'_>) -> Result<()> {
    let operation = operation::find(&task.operation).ok_or_else(|| Error::operation(&task.operation))?;
    measure_this(bench, operation, task, say)
}

/// As [`measure`], for an operation that need not be in the table.
pub fn measure_this(bench: &Bench<'_>, operation: &'static Operation, task: &Measure, say: Say<'_>) -> Result<()> {
    let dtype = dtype(&task.dtype)?;
    let mut places = places(bench.engine, &task.devices)?;
    places.extend(task.scalar.then(scalar));
    let deadline = Duration::from_millis(task.effort.deadline_ms);
    let (mut rounds, mut open) = (Rounds::new(task.seed), Vec::new());
    for &size in &task.sizes {
        let turns = turns(task, operation, size, &places);
        if turns.is_empty() {
            continue;
        }
        let operands = Operands::new(operation, size, dtype, task.seed);
        let modes: Vec<Mode> = turns.iter().map(|turn| turn.cell.mode).collect();
        let ready = Subject::new(bench.engine, operands, deadline).and_then(|s| Ok((s.references(modes)?, s)));
        match ready {
            Ok((wanted, subject)) => {
                let cells = checked(bench, task, turns, (subject, wanted), say)?;
                open.extend(rounds.least(bench, task, cells, say)?);
            }
            Err(error) => refuse(turns, &error, say)?,
        }
    }
    rounds.rest(bench, task, open, say)
}

/// All cells of one size after their first calls.
fn checked<'a>(
    bench: &Bench<'_>,
    task: &Measure,
    mut turns: Vec<Turn>,
    (mut subject, wanted): (Subject<'a>, References),
    say: Say<'_>,
) -> Result<Cells<'a>> {
    for turn in &mut turns {
        say(Line::Begun { cell: turn.cell.clone() })?;
        turn.foresee(&subject, &task.effort);
        turn.check(&mut subject, &wanted, bench);
        turn.look_back(&task.effort);
        if turn.cell.mode == Mode::First && turn.is_open() {
            first::take(turn, bench, task, subject.operands());
        }
    }
    Ok(Cells { turns, subject, spent: Duration::ZERO })
}

/// Work that the engine does not take, or of which there is no reference, is measured nowhere: each cell is a row that says why.
fn refuse(turns: Vec<Turn>, error: &breakeven::Error, say: Say<'_>) -> Result<()> {
    for turn in turns {
        let facts = Box::new(Facts::failed(Status::Skipped, error.to_string()));
        say(Line::Done { cell: turn.cell, facts, samples: Vec::new() })?;
    }
    Ok(())
}

/// These settings, with what a task says instead.
pub fn settings_of(setting: &Setting, settings: &Settings) -> Result<Settings> {
    let graphics = match &setting.backend {
        Some(name) => Some(name.parse().map_err(|known| Error::Backend { name: name.clone(), known })?),
        None => settings.graphics,
    };
    let threads = setting.threads.and_then(NonZero::new).or(settings.threads);
    Ok(Settings { graphics, threads, software: setting.software || settings.software, ..settings.clone() })
}

fn turns(task: &Measure, operation: &Operation, size: usize, places: &[Place]) -> Vec<Turn> {
    let kind = Kind { operation, dtype: &task.dtype };
    let of_place = |place: &Place| {
        let cells = kind.cells(size, &place.name, &task.modes).into_iter();
        cells.map(|cell| Turn::new(cell, place.clone())).collect::<Vec<Turn>>()
    };
    places.iter().flat_map(of_place).filter(|turn| !task.without.contains(&turn.cell)).collect()
}

/// The types that the study measures.
pub fn dtype(name: &str) -> Result<DType> {
    let known = [DType::F32, DType::F64, DType::F16, DType::BF16];
    known.into_iter().find(|dtype| dtype.name() == name).ok_or_else(|| Error::dtype(name))
}
