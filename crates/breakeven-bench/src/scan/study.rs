//! The parent: one child process after another, every finished cell on disk at once, and what failed as rows.

mod cold;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use breakeven_study::folder::{Event, Facts, Recorded, RunWriter};
use breakeven_study::{AUTOMATIC, Ceiling, Cell, Environment, Mode, SCALAR, Sample, Status, sizes_to_add};

use super::cells::{Kind, is_of_new_engines};
use super::preset::Group;
use super::process::{self, Ending, Watch};
use super::sensors::Sensors;
use super::task::{Effort, Line, Look, Measure, Setting, Task};
use super::{Error, Result, operation};

/// What a study measures and how its processes are started.
#[derive(Debug, Clone)]
pub struct Study {
    /// The program that carries out a [`Task`] given on its standard input, and the arguments that make it do so.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// What is measured.
    pub groups: Vec<Group>,
    /// Devices by name; all, and the engine's own choice, when there are none.
    pub devices: Vec<String>,
    /// Whether plain loops on one thread are measured too.
    pub scalar: bool,
    /// Devices that [`look`] saw, by name: what a group has on them is said also when its processes say nothing.
    pub seen: Vec<String>,
    /// How long and how often.
    pub effort: Effort,
    /// How engines are built.
    pub setting: Setting,
    /// From which order and operands follow.
    pub seed: u64,
}

/// What happens while a study runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// A cell is worked on; so many sizes of all are done.
    At {
        /// The cell.
        cell: Cell,
        /// Groups done.
        done: usize,
        /// All groups.
        all: usize,
    },
    /// A cell ended, and is on disk.
    Done(Cell, Status),
    /// Something that a reader should know.
    Note(String),
}

/// Sizes that are added near each crossing.
const NEARER: usize = 2;
/// How often a group is begun again without the cell that ended its process.
const ATTEMPTS: usize = 8;
/// How many processes of a group may end before they work on any cell: nothing says what to leave out, so it would happen again.
const OUTSIDE: usize = 2;
/// What a child says of the machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// What it is.
    pub environment: Environment,
    /// The most that each device reaches, where that was asked for.
    pub ceilings: Vec<Ceiling>,
    /// What a reader of the run should know.
    pub notes: Vec<String>,
}

/// Asks a child what machine this is; `None` if `stopped` said so before it knew. A child that has said it and then crashes or hangs, as drivers do when
/// a process ends, has done its work: that is a note.
pub fn look(study: &Study, ceilings: bool, stopped: &dyn Fn() -> bool) -> Result<Option<Seen>> {
    let task = Task::Look(Look { devices: study.devices.clone(), ceilings, setting: study.setting.clone() });
    let (mut machine, mut found, mut notes) = (None, Vec::new(), Vec::new());
    let watch = Watch { silence: silence(study), stopped };
    let ending = process::run(&study.program, &study.arguments, &task, &watch, &mut |line| match line {
        Line::Machine { environment } => machine = Some(environment),
        Line::Ceiling { ceiling } => found.push(ceiling),
        Line::Note { text } => notes.push(text),
        _ => {}
    })?;
    let how = match ending {
        Ending::Done => None,
        Ending::Stopped => return Ok(None),
        Ending::Refused(why) => return Err(Error::Refused(why)),
        Ending::Crashed(how) => Some(how),
        Ending::Hung(silence) => Some(hung(silence)),
    };
    let how = how.map(|how| format!("the process that looks at this machine ended before it was done: {how}"));
    let Some(environment) = machine else {
        let nothing = || "the process that looks at this machine said nothing".to_owned();
        return Err(Error::Refused(how.unwrap_or_else(nothing)));
    };
    notes.extend(how);
    Ok(Some(Seen { environment, ceilings: found, notes }))
}

/// Measures every group of `study` that `writer` does not have yet; ends early, with what there is, once `stopped` says so. Returns how many
/// groups are incomplete because their processes ended before they were done, or left cells out.
pub fn run(
    study: &Study,
    writer: &mut RunWriter,
    stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(Progress),
) -> Result<usize> {
    let mut runner = Runner {
        study,
        writer,
        begun: Instant::now(),
        processes: 0,
        incomplete: 0,
        open: Vec::new(),
        sensors: Sensors::of_this_machine(),
        stopped,
        tell,
    };
    runner.groups(&study.groups)?;
    Ok(runner.incomplete)
}

/// The groups again, with sizes near where the faster device changes, as the run folder shows them so far.
pub fn nearer(groups: &[Group], recorded: &Recorded) -> Vec<Group> {
    let sizes = sizes_to_add(recorded, NEARER);
    let near = |group: &Group| {
        let elements = sizes.get(&(group.operation.to_owned(), group.dtype.clone()))?;
        let operation = operation::find(group.operation)?;
        let most = *group.sizes.iter().max()?;
        let sizes: BTreeSet<usize> = elements.iter().map(|n| operation.size_of(*n, most)).collect();
        let new: Vec<usize> = sizes.into_iter().filter(|size| !group.sizes.contains(size)).collect();
        (!new.is_empty()).then(|| Group { sizes: new, ..group.clone() })
    };
    let are_compared = |group: &&Group| group.modes.iter().any(|mode| !is_of_new_engines(*mode));
    groups.iter().filter(are_compared).filter_map(near).collect()
}

impl Seen {
    /// How many devices there are beside the CPU.
    pub fn others(&self) -> usize {
        self.environment.devices.iter().filter(|device| device.kind != "cpu").count()
    }

    /// Names of what cells are measured on when no device is asked for.
    pub fn places(&self) -> Vec<String> {
        let names = self.environment.devices.iter().map(|device| device.name.clone());
        let automatic = (self.environment.devices.len() > 1).then(|| AUTOMATIC.to_owned());
        names.chain(automatic).collect()
    }
}

fn hung(silence: Duration) -> String {
    format!("silent for {silence:.1?}")
}

fn silence(study: &Study) -> Duration {
    Duration::from_millis(study.effort.silence_ms)
}

struct Runner<'a> {
    study: &'a Study,
    writer: &'a mut RunWriter,
    begun: Instant,
    /// Processes begun so far.
    processes: u32,
    /// Groups whose processes ended before they were done, or left cells out.
    incomplete: usize,
    /// Cells of the child that is running, the one that it works on last, with their numbers in the folder.
    open: Vec<(Cell, u32)>,
    sensors: Sensors,
    stopped: &'a dyn Fn() -> bool,
    tell: &'a mut dyn FnMut(Progress),
}

impl Runner<'_> {
    /// One after the other, in random order.
    fn groups(&mut self, groups: &[Group]) -> Result<()> {
        let mut order: Vec<usize> = (0..groups.len()).collect();
        crate::shuffle(&mut order, &mut (self.study.seed | 1));
        for (done, &i) in order.iter().enumerate() {
            if (self.stopped)() {
                break;
            }
            self.group(&groups[i], done)?;
        }
        Ok(())
    }

    fn group(&mut self, group: &Group, done: usize) -> Result<()> {
        self.sense("before", group)?;
        let is_warm = |mode: &Mode| *mode != Mode::Cold;
        let warm = Group { modes: group.modes.iter().copied().filter(is_warm).collect(), ..group.clone() };
        if !warm.modes.is_empty() {
            self.warm(&warm, done)?;
        }
        self.cold(group, done)?;
        self.sense("after", group)
    }

    /// What the machine's sensors say is put down.
    fn sense(&mut self, when: &str, group: &Group) -> Result<()> {
        let reading = self.sensors.read(format!("{when} {} {}", group.operation, group.dtype));
        Ok(self.writer.record(self.at(), Event::Sensors(reading))?)
    }

    /// Everything but cold calls.
    fn warm(&mut self, group: &Group, done: usize) -> Result<()> {
        let mut outside = 0;
        for _ in 0..ATTEMPTS {
            let (status, how) = match self.attempt(group, done)? {
                Ending::Done => return self.complete(group),
                Ending::Stopped => return Ok(()),
                Ending::Refused(why) => return self.give_up(group, &why),
                Ending::Crashed(how) => (Status::Crash, how),
                Ending::Hung(silence) => (Status::Timeout, hung(silence)),
            };
            if !self.blame(status, &how)? {
                outside += 1;
                self.note(format!("{} {}: its process ended before any cell: {how}", group.operation, group.dtype))?;
            }
            if outside == OUTSIDE {
                self.incomplete += 1;
                return self
                    .give_up(group, &format!("given up after {outside} processes that ended before any cell: {how}"));
            }
        }
        self.incomplete += 1;
        self.give_up(group, &format!("given up after {ATTEMPTS} processes"))
    }

    /// A process that ended as if all were done may have left cells out: the devices it saw were others, or it is at fault.
    fn complete(&mut self, group: &Group) -> Result<()> {
        if self.missing(group).is_empty() {
            return Ok(());
        }
        self.incomplete += 1;
        self.give_up(group, "left out: its process ended as if all were done and said nothing of it")
    }

    /// What is not measured of the group is rows that say why.
    fn give_up(&mut self, group: &Group, why: &str) -> Result<()> {
        for cell in self.missing(group) {
            self.finish(&cell, Facts::failed(Status::Skipped, why), &[])?;
        }
        self.note(format!("{} {}: {why}", group.operation, group.dtype))
    }

    /// Cells of the group that are not finished.
    fn missing(&self, group: &Group) -> Vec<Cell> {
        let Some(operation) = operation::find(group.operation) else { return Vec::new() };
        let kind = Kind { operation, dtype: &group.dtype };
        let devices = if self.study.devices.is_empty() { &self.study.seen } else { &self.study.devices };
        let scalar = self.study.scalar.then(|| SCALAR.to_owned());
        let devices = || devices.iter().chain(&scalar);
        let of_size = |size: &usize| devices().flat_map(|device| kind.cells(*size, device, &group.modes)).collect();
        let cells = group.sizes.iter().flat_map(|size| -> Vec<Cell> { of_size(size) });
        cells.filter(|cell| !self.writer.finished().contains(cell)).collect()
    }

    /// One child over everything of the group that is not finished.
    fn attempt(&mut self, group: &Group, done: usize) -> Result<Ending> {
        self.open.clear();
        self.processes += 1;
        let task = Task::Measure(self.task(group));
        let watch = Watch { silence: silence(self.study), stopped: self.stopped };
        let (program, arguments) = (self.study.program.clone(), self.study.arguments.clone());
        let (all, mut wrong) = (self.study.groups.len(), None);
        let ending = process::run(&program, &arguments, &task, &watch, &mut |line| {
            if wrong.is_none() {
                wrong = self.hear(line, done, all).err();
            }
        })?;
        match wrong {
            Some(error) => Err(error),
            None if (self.stopped)() => Ok(Ending::Stopped),
            None => Ok(ending),
        }
    }

    fn task(&self, group: &Group) -> Measure {
        let is_of_it = |cell: &&Cell| cell.operation == group.operation && cell.dtype == group.dtype;
        Measure {
            operation: group.operation.to_owned(),
            dtype: group.dtype.clone(),
            sizes: group.sizes.clone(),
            devices: self.study.devices.clone(),
            scalar: self.study.scalar,
            modes: group.modes.clone(),
            without: self.writer.finished().iter().filter(is_of_it).cloned().collect(),
            seed: self.study.seed,
            effort: self.study.effort,
            setting: self.study.setting.clone(),
        }
    }

    fn hear(&mut self, line: Line, done: usize, all: usize) -> Result<()> {
        match line {
            Line::Begun { cell } => {
                self.begin(&cell)?;
                (self.tell)(Progress::At { cell, done, all });
            }
            Line::Done { cell, facts, samples } => self.finish(&cell, *facts, &samples)?,
            Line::Sentinel { wall_ns, .. } => {
                // Rounds begin anew in each process; what is to be seen is how the machine changes over all of them.
                let round = self.processes;
                self.writer.record(self.at(), Event::Sentinel { round, wall_ns })?;
            }
            Line::Ceiling { ceiling } => self.writer.record(self.at(), Event::Ceiling(ceiling))?,
            Line::Note { text } => self.note(text)?,
            Line::Machine { .. } | Line::Turn { .. } | Line::Ready => {}
        }
        Ok(())
    }

    /// The cell that is worked on now moves to the end of the open ones.
    fn begin(&mut self, cell: &Cell) -> Result<()> {
        let known = self.open.iter().position(|(open, _)| open == cell);
        let entry = match known {
            Some(i) => self.open.remove(i),
            None => (cell.clone(), self.writer.begin(self.at(), cell)?),
        };
        self.open.push(entry);
        Ok(())
    }

    fn finish(&mut self, cell: &Cell, facts: Facts, samples: &[Sample]) -> Result<()> {
        self.begin(cell)?;
        let (_, id) = self.open.pop().expect("it was begun");
        let status = facts.status;
        self.writer.samples(id, samples)?;
        self.writer.finish(self.at(), id, cell, facts)?;
        (self.tell)(Progress::Done(cell.clone(), status));
        Ok(())
    }

    /// The cell that a process was working on when it ended is a row of its own; the others are measured by another process. False if it
    /// was working on none.
    fn blame(&mut self, status: Status, why: &str) -> Result<bool> {
        let Some((cell, id)) = self.open.pop() else { return Ok(false) };
        self.writer.finish(self.at(), id, &cell, Facts::failed(status, why))?;
        (self.tell)(Progress::Done(cell, status));
        Ok(true)
    }

    fn note(&mut self, text: String) -> Result<()> {
        self.writer.record(self.at(), Event::Note { text: text.clone() })?;
        (self.tell)(Progress::Note(text));
        Ok(())
    }

    fn at(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
