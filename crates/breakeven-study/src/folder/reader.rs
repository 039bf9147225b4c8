//! Reads a run folder, also one whose writer was killed.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::event::{Event, Facts, Reading, Record};
use super::{names, row};
use crate::{Ceiling, Cell, EventsSchema, Manifest, Opening, Sample, StudyError, Summary};

/// What a run folder holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Where and how it was made.
    pub manifest: Manifest,
    /// Cells that are finished, in the order in which they were. Of a cell that was finished twice, the last.
    pub cells: Vec<RecordedCell>,
    /// Cells that were begun and not finished. Resuming a run measures them again.
    pub unfinished: Vec<Cell>,
    /// Each run of the sentinel.
    pub sentinels: Vec<Sentinel>,
    /// The most that each device reached.
    pub ceilings: Vec<Ceiling>,
    /// What the machine's own sensors said, in order.
    pub sensors: Vec<Reading>,
    /// What a reader should know, with what was dropped in reading.
    pub notes: Vec<String>,
    /// Who went on with it after the first, in order, as far as that was written down.
    pub resumed: Vec<Opening>,
    /// What ended the run last; `None` if it was killed.
    pub stopped: Option<String>,
    /// The next number for a cell.
    pub(crate) next_id: u32,
    /// The lengths of the two logs up to their last whole line.
    pub(crate) whole_bytes: WholeBytes,
}

/// How much of the logs can be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WholeBytes {
    pub events: u64,
    pub samples: u64,
}

/// A finished cell with everything that was recorded for it.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedCell {
    /// What was measured.
    pub cell: Cell,
    /// How it ended and what else was found.
    pub facts: Facts,
    /// All its samples in the order in which they were taken, flagged ones too.
    pub samples: Vec<Sample>,
}

/// One run of the sentinel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sentinel {
    /// The round, from 0.
    pub round: u32,
    /// Its wall time.
    pub wall_ns: u64,
}

/// Reads the run folder at `path`.
pub fn read(path: &Path) -> Result<Recorded, StudyError> {
    let manifest = read_json::<Manifest>(&path.join(names::MANIFEST))?;
    let events = Log::read(path.join(names::EVENTS))?;
    let samples = Log::read(path.join(names::SAMPLES))?;
    let attempts = attempts(&events)?;
    let has_samples = |attempt: &Attempt| attempt.finished.as_ref().is_some_and(|(count, _)| *count > 0);
    // Samples are written before their cell is finished, so no writer that was killed leaves such a folder.
    let are_lost = !events.path.exists() || attempts.iter().any(has_samples);
    if are_lost && !samples.path.exists() {
        return Err(without_samples(path));
    }
    let mut recorded = replay(manifest, &events)?;
    let mut by_id = read_samples(&samples, attempts.iter().map(|attempt| attempt.id))?;
    recorded.notes.extend(events.note().into_iter().chain(samples.note()));
    recorded.next_id = attempts.iter().map(|attempt| attempt.id + 1).max().unwrap_or(0);
    recorded.whole_bytes = WholeBytes { events: events.whole().len() as u64, samples: samples.whole().len() as u64 };
    for attempt in attempts {
        let samples = by_id.remove(&attempt.id).unwrap_or_default();
        recorded.take(attempt, samples);
    }
    let finished: std::collections::HashSet<&Cell> = recorded.cells.iter().map(|cell| &cell.cell).collect();
    recorded.unfinished.retain(|cell| !finished.contains(cell));
    Ok(recorded)
}

/// Findings that are kept without their raw samples, as in `docs/studies`: read as an empty run, a report of it would replace them by nothing.
fn without_samples(path: &Path) -> StudyError {
    let why = format!(
        "this run has no cell: its raw samples ({} and {}) are not all there, only where and how it was made{}; nothing can be computed from that",
        names::EVENTS,
        names::SAMPLES,
        if path.join("summary.md").exists() { " and what was found (summary.md)" } else { "" }
    );
    StudyError::Content { path: path.into(), why }
}

/// Reads a `summary.json`, or the one in a run folder.
pub fn read_summary(path: &Path) -> Result<Summary, StudyError> {
    if path.is_dir() { read_json(&path.join(names::SUMMARY)) } else { read_json(path) }
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, StudyError> {
    let file = fs::File::open(path).map_err(|source| StudyError::File { path: path.into(), source })?;
    let reader = std::io::BufReader::new(file);
    serde_json::from_reader(reader).map_err(|error| StudyError::Content { path: path.into(), why: error.to_string() })
}

/// A file of lines whose last one may be torn.
struct Log {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Log {
    /// A log that is not there yet is empty: the writer may have been killed before it made it.
    fn read(path: PathBuf) -> Result<Log, StudyError> {
        match fs::read(&path) {
            Ok(bytes) => Ok(Log { path, bytes }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Log { path, bytes: Vec::new() }),
            Err(source) => Err(StudyError::File { path, source }),
        }
    }

    /// All lines that end as lines do.
    fn whole(&self) -> &[u8] {
        let end = self.bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        &self.bytes[..end]
    }

    /// The lines, with their numbers from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let lines = self.whole().split(|&byte| byte == b'\n').enumerate();
        lines.map(|(index, line)| (index + 1, line)).filter(|(_, line)| !line.is_empty())
    }

    fn wrong(&self, line: usize, why: &str) -> StudyError {
        StudyError::Content { path: self.path.clone(), why: format!("line {line}: {why}") }
    }

    fn note(&self) -> Option<String> {
        let torn = self.bytes.len() - self.whole().len();
        let name = self.path.file_name().unwrap_or_default().display();
        (torn > 0).then(|| format!("{name} ended in the middle of a line: its last {torn} bytes were dropped"))
    }

    fn records(&self) -> impl Iterator<Item = Result<Record, StudyError>> {
        self.lines()
            .map(|(number, line)| serde_json::from_slice(line).map_err(|error| self.wrong(number, &error.to_string())))
    }
}

/// One attempt at a cell.
struct Attempt {
    id: u32,
    cell: Cell,
    /// How many samples it has, and what else was found; `None` if it was not finished.
    finished: Option<(u64, Facts)>,
}

fn attempts(events: &Log) -> Result<Vec<Attempt>, StudyError> {
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut place = HashMap::new();
    for record in events.records() {
        match record?.event {
            Event::Begun { id, cell } => {
                place.insert(id, attempts.len());
                attempts.push(Attempt { id, cell, finished: None });
            }
            Event::Finished { id, samples, facts } => {
                let Some(&at) = place.get(&id) else {
                    return Err(events.wrong(0, &format!("cell {id} is finished and was never begun")));
                };
                attempts[at].finished = Some((samples, *facts));
            }
            _ => {}
        }
    }
    Ok(attempts)
}

/// What the log says apart from cells.
fn replay(manifest: Manifest, events: &Log) -> Result<Recorded, StudyError> {
    let mut recorded = Recorded {
        manifest,
        cells: Vec::new(),
        unfinished: Vec::new(),
        sentinels: Vec::new(),
        ceilings: Vec::new(),
        sensors: Vec::new(),
        notes: Vec::new(),
        resumed: Vec::new(),
        stopped: None,
        next_id: 0,
        whole_bytes: WholeBytes { events: 0, samples: 0 },
    };
    let mut openings = 0;
    for record in events.records() {
        match record?.event {
            Event::Sentinel { round, wall_ns } => recorded.sentinels.push(Sentinel { round, wall_ns }),
            Event::Ceiling(ceiling) => recorded.ceilings.push(ceiling),
            Event::Sensors(reading) => recorded.sensors.push(reading),
            Event::Note { text } => recorded.notes.push(text),
            Event::Stopped { why } => recorded.stopped = Some(why),
            Event::Opened { by, .. } => {
                recorded.stopped = None;
                recorded.resumed.extend(by.filter(|_| openings > 0));
                openings += 1;
            }
            Event::Begun { .. } | Event::Finished { .. } => {}
        }
    }
    Ok(recorded)
}

impl Recorded {
    /// Takes an attempt in. One whose samples are not all there counts as not finished.
    fn take(&mut self, attempt: Attempt, samples: Vec<Sample>) {
        let Some((expected, facts)) = attempt.finished else { return self.unfinished.push(attempt.cell) };
        if expected != samples.len() as u64 {
            let found = samples.len();
            self.notes
                .push(format!("{}: {found} of {expected} samples are there, so it is measured again", attempt.cell));
            return self.unfinished.push(attempt.cell);
        }
        self.cells.retain(|earlier| earlier.cell != attempt.cell);
        self.cells.push(RecordedCell { cell: attempt.cell, facts, samples });
    }
}

/// The samples of each of the cells `known`, in the order of the file.
fn read_samples(log: &Log, known: impl Iterator<Item = u32>) -> Result<HashMap<u32, Vec<Sample>>, StudyError> {
    let mut by_id: HashMap<u32, Vec<Sample>> = known.map(|id| (id, Vec::new())).collect();
    let mut lines = log.lines();
    let Some((_, header)) = lines.next() else { return Ok(by_id) };
    if header != row::HEADER.as_bytes() {
        let found = String::from_utf8_lossy(header).into_owned();
        let wanted = format!("{}, {}", EventsSchema::ID, row::HEADER);
        return Err(StudyError::Schema { found, wanted });
    }
    for (number, line) in lines {
        let (id, sample) = row::parse(line).map_err(|why| log.wrong(number, &why))?;
        let Some(samples) = by_id.get_mut(&id) else {
            return Err(log.wrong(number, &format!("cell {id} was never begun")));
        };
        samples.push(sample);
    }
    Ok(by_id)
}
