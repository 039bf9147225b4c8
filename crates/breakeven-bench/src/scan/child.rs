//! A child process: one operation at some sizes, on all devices and in all modes in turns.

use std::num::NonZero;
use std::time::Duration;

use breakeven::{DType, Deadline, DeviceId, DeviceKind, DeviceReport, DeviceState, Engine, Settings};
use breakeven_study::{Cell, Mode};

use super::clock::Clock;
use super::operation::Operation;
use super::subject::Subject;
use super::task::{Line, Measure, Setting, Task};
use super::turn::{Place, Turn};
use super::{Error, Result, machine, operation, sentinel, simulated};

/// How long drivers and calibration may take before a child goes on without them.
const READY: Duration = Duration::from_mins(2);

/// Says what it finds; `say` fails when nobody listens any more.
pub type Say<'a> = &'a mut dyn FnMut(Line) -> std::io::Result<()>;

/// Does what `task` asks for on an engine of its own, built by `settings` but for what the task says; `clock` runs since the process
/// began, and `go_on` waits for the parent.
pub fn carry_out(
    task: &Task,
    settings: &Settings,
    clock: &dyn Clock,
    say: Say<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<()> {
    if task.setting().simulated {
        let (engine, clock) = simulated::machine()?;
        return carry_out_on(&engine, task, &clock, say, go_on);
    }
    let settings = settings_of(task.setting(), settings)?;
    let engine = Engine::builder().settings(settings).build()?;
    if let Err(late) = engine.ready(Deadline::after(READY)) {
        say(Line::Note { text: format!("measured without devices that were not ready: {late}") })?;
    }
    carry_out_on(&engine, task, clock, say, go_on)
}

fn carry_out_on(
    engine: &Engine,
    task: &Task,
    clock: &dyn Clock,
    say: Say<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<()> {
    match task {
        Task::Look(look) => machine::look(look, engine, clock, say),
        Task::Measure(task) => measure(engine, task, clock, say),
        Task::Turns(task) => turn_by_turn(engine, task, clock, say, go_on),
    }
}

/// One block of samples of each cell whenever `go_on` says so, which says no at the end.
fn turn_by_turn(
    engine: &Engine,
    task: &Measure,
    clock: &dyn Clock,
    say: Say<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<()> {
    let operation = operation::find(&task.operation).ok_or_else(|| Error::operation(&task.operation))?;
    let (dtype, places) = (dtype(&task.dtype)?, places(engine, &task.devices)?);
    let deadline = Duration::from_millis(task.effort.deadline_ms);
    let Some(&size) = task.sizes.first() else { return Ok(()) };
    let mut subject = Subject::new(engine, operation, size, dtype, task.seed, deadline)?;
    let wanted = subject.wanted()?;
    let mut turns = turns(task, &subject, &places);
    for turn in &mut turns {
        turn.check(&mut subject, engine, &wanted, clock);
    }
    say(Line::Ready)?;
    let mut round = 0;
    while go_on() {
        for turn in &mut turns {
            turn.samples.clear();
            if turn.is_open() {
                turn.take(&mut subject, round, &task.effort, clock);
            }
            let counted = turn.samples.iter().filter(|sample| sample.flags.is_empty());
            let wall_ns = counted.map(|sample| sample.wall_ns).collect();
            say(Line::Turn { cell: turn.cell.clone(), wall_ns, wrong: turn.wrong() })?;
        }
        say(Line::Ready)?;
        round += 1;
    }
    Ok(())
}

/// Measures what `task` asks for on this engine.
pub fn measure(engine: &Engine, task: &Measure, clock: &dyn Clock, say: Say<'_>) -> Result<()> {
    let operation = operation::find(&task.operation).ok_or_else(|| Error::operation(&task.operation))?;
    measure_this(engine, operation, task, clock, say)
}

/// As [`measure`], for an operation that need not be in the table.
pub fn measure_this(
    engine: &Engine,
    operation: &'static Operation,
    task: &Measure,
    clock: &dyn Clock,
    say: Say<'_>,
) -> Result<()> {
    let dtype = dtype(&task.dtype)?;
    let places = places(engine, &task.devices)?;
    let mut order = Order(task.seed | 1);
    for &size in &task.sizes {
        let deadline = Duration::from_millis(task.effort.deadline_ms);
        let mut subject = Subject::new(engine, operation, size, dtype, task.seed, deadline)?;
        let mut turns = turns(task, &subject, &places);
        if turns.is_empty() {
            continue;
        }
        let wanted = subject.wanted()?;
        // First calls come before any other call of the size on their device.
        turns.sort_by_key(|turn| turn.cell.mode != Mode::First);
        for turn in &mut turns {
            say(Line::Begun { cell: turn.cell.clone() })?;
            if turn.cell.mode == Mode::First {
                turn.take_once(&mut subject, clock.now(), clock);
            }
            turn.check(&mut subject, engine, &wanted, clock);
        }
        rounds(task, &mut subject, &mut turns, &mut order, clock, say)?;
        for turn in turns {
            let (cell, facts, samples) = turn.finish();
            say(Line::Done { cell, facts: Box::new(facts), samples })?;
        }
    }
    Ok(())
}

/// These settings, with what a task says instead.
fn settings_of(setting: &Setting, settings: &Settings) -> Result<Settings> {
    let graphics = match &setting.backend {
        Some(name) => Some(name.parse().map_err(|known| Error::Backend { name: name.clone(), known })?),
        None => settings.graphics,
    };
    let threads = setting.threads.and_then(NonZero::new).or(settings.threads);
    Ok(Settings { graphics, threads, software: setting.software || settings.software, ..settings.clone() })
}

/// Rounds of turns in random order, until every cell is known well enough or the time is up.
fn rounds(
    task: &Measure,
    subject: &mut Subject<'_>,
    turns: &mut [Turn],
    order: &mut Order,
    clock: &dyn Clock,
    say: Say<'_>,
) -> Result<()> {
    let end = clock.now() + Duration::from_millis(task.effort.budget_ms);
    let mut round = 0;
    while turns.iter().any(Turn::is_open) && (round < task.effort.rounds || clock.now() < end) {
        say(Line::Sentinel { round, wall_ns: sentinel::time(clock) })?;
        for i in order.of(turns.len()) {
            if turns[i].is_open() {
                say(Line::Begun { cell: turns[i].cell.clone() })?;
                turns[i].take(subject, round, &task.effort, clock);
            }
        }
        round += 1;
        if round >= task.effort.rounds {
            turns.iter_mut().filter(|turn| turn.is_open()).for_each(|turn| turn.settle(clock.now() >= end, task.seed));
        }
    }
    Ok(())
}

fn turns(task: &Measure, subject: &Subject<'_>, places: &[Place]) -> Vec<Turn> {
    let pairs = places.iter().flat_map(|place| task.modes.iter().map(move |mode| (place, *mode)));
    let pairs = pairs.filter(|(place, mode)| is_measured(place, *mode));
    let all = pairs.map(|(place, mode)| Turn::new(cell(task, subject, place, mode), place.clone()));
    all.filter(|turn| !task.without.contains(&turn.cell)).collect()
}

/// Copies and kernels by themselves are those of a device that the caller names and that is not the host.
fn is_measured(place: &Place, mode: Mode) -> bool {
    let is_far = place.device.is_some_and(|device| device != DeviceId::HOST);
    is_far || !matches!(mode, Mode::Copy | Mode::Kernel)
}

fn cell(task: &Measure, subject: &Subject<'_>, place: &Place, mode: Mode) -> Cell {
    Cell {
        operation: task.operation.clone(),
        elements: subject.elements(),
        shape: subject.shape(),
        dtype: task.dtype.clone(),
        device: place.name.clone(),
        mode,
    }
}

/// The types that the study measures.
pub fn dtype(name: &str) -> Result<DType> {
    let known = [DType::F32, DType::F64, DType::F16, DType::BF16];
    known.into_iter().find(|dtype| dtype.name() == name).ok_or_else(|| Error::dtype(name))
}

/// The devices of these names; all that are ready, and the engine's own choice, when there are none.
pub fn places(engine: &Engine, names: &[String]) -> Result<Vec<Place>> {
    if !names.is_empty() {
        return places_asked(engine, names);
    }
    let ready = engine.devices().into_iter().filter(|d| d.state == DeviceState::Ready);
    let mut places: Vec<Place> = ready.map(|report| place(&report)).collect();
    if places.len() > 1 {
        places.push(automatic());
    }
    Ok(places)
}

fn places_asked(engine: &Engine, names: &[String]) -> Result<Vec<Place>> {
    // Looking at the devices loads drivers; a program of small work on the CPU does not.
    let needs_look = names.iter().any(|name| name != "cpu" && name != "auto");
    let reports = if needs_look { engine.devices() } else { Vec::new() };
    let find = |name: &String| match name.as_str() {
        "auto" => Ok(automatic()),
        "cpu" => Ok(Place { name: name.clone(), device: Some(DeviceId::HOST), rests: false }),
        _ => reports.iter().find(|r| r.name == *name).map(place).ok_or_else(|| Error::device(name, &reports)),
    };
    names.iter().map(find).collect()
}

fn automatic() -> Place {
    Place { name: "auto".to_owned(), device: None, rests: true }
}

fn place(report: &DeviceReport) -> Place {
    let rests = !matches!(report.info.kind, DeviceKind::Cpu | DeviceKind::Software | DeviceKind::Simulated);
    Place { name: report.name.clone(), device: Some(report.id), rests }
}

/// Random orders that follow from a seed.
struct Order(u64);

impl Order {
    /// The numbers below `count` in another order each time.
    fn of(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        crate::shuffle(&mut order, &mut self.0);
        order
    }
}
