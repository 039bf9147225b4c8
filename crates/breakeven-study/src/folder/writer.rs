//! Writes a run folder, one finished cell after another.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::event::{Event, Facts, Record};
use super::reader::{RecordedCell, WholeBytes, read};
use super::{names, row};
use crate::schema::EventsSchema;
use crate::{Cell, Manifest, Sample, Status, StudyError};

/// Appends to a run folder. Whatever a call returned for is on disk: ending the process keeps it.
#[derive(Debug)]
pub struct RunWriter {
    path: PathBuf,
    events: File,
    samples: File,
    next_id: u32,
    /// Cells that are begun, and how many samples each has.
    open: HashMap<u32, u64>,
    finished: BTreeSet<Cell>,
}

impl RunWriter {
    /// Makes the folder `path`, which must not hold a run yet.
    pub fn create(path: &Path, manifest: &Manifest) -> Result<RunWriter, StudyError> {
        fs::create_dir_all(path).map_err(|source| StudyError::File { path: path.into(), source })?;
        let file = path.join(names::MANIFEST);
        if file.exists() {
            let why = "there is a run already: resume it, or choose another folder".into();
            return Err(StudyError::Content { path: file, why });
        }
        let text = serde_json::to_string_pretty(manifest).expect("a manifest has text keys alone");
        write_file(&file, &(text + "\n"))?;
        RunWriter::append(path, WholeBytes { events: 0, samples: 0 }, manifest)
    }

    /// Goes on with the run at `path`, which must have been made on the same machine, as `manifest` tells. The run keeps its own
    /// manifest; when and with which arguments it was gone on with is written down beside it.
    pub fn resume(path: &Path, manifest: &Manifest) -> Result<RunWriter, StudyError> {
        let recorded = read(path)?;
        let (begun, here) = (&recorded.manifest.fingerprint, &manifest.fingerprint);
        if begun != here {
            return Err(StudyError::OtherMachine { begun: begun.clone(), here: here.clone() });
        }
        let mut writer = RunWriter::append(path, recorded.whole_bytes, manifest)?;
        writer.next_id = recorded.next_id;
        // What was not tried is tried now: the device may be there by this time.
        let is_tried = |cell: &RecordedCell| cell.facts.status != Status::Skipped;
        writer.finished = recorded.cells.into_iter().filter(is_tried).map(|cell| cell.cell).collect();
        Ok(writer)
    }

    /// Opens the logs and cuts what a killed writer left of a line.
    fn append(path: &Path, whole: WholeBytes, manifest: &Manifest) -> Result<RunWriter, StudyError> {
        let open = |name: &str, bytes: u64| {
            let path = path.join(name);
            let file = OpenOptions::new().create(true).append(true).open(&path);
            file.and_then(|file| file.set_len(bytes).map(|()| file)).map_err(|source| StudyError::File { path, source })
        };
        let events = open(names::EVENTS, whole.events)?;
        let samples = open(names::SAMPLES, whole.samples)?;
        let (open, finished) = (HashMap::new(), BTreeSet::new());
        let mut writer = RunWriter { path: path.into(), events, samples, next_id: 0, open, finished };
        if whole.samples == 0 {
            writer.write_samples(&format!("{}\n", row::HEADER))?;
        }
        writer.record(0, Event::Opened { schema: EventsSchema {}, by: Some(manifest.opening()) })?;
        Ok(writer)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The cells that need not be measured again.
    pub fn finished(&self) -> &BTreeSet<Cell> {
        &self.finished
    }

    /// Begins a cell, at `at_ns` since the run began. The number returned stands for it in the calls below.
    pub fn begin(&mut self, at_ns: u64, cell: &Cell) -> Result<u32, StudyError> {
        let id = self.next_id;
        self.next_id += 1;
        self.record(at_ns, Event::Begun { id, cell: cell.clone() })?;
        self.open.insert(id, 0);
        Ok(id)
    }

    /// Keeps samples of the cell `id`, in the order in which they were taken.
    ///
    /// # Panics
    /// If that cell is not begun, or finished already.
    pub fn samples(&mut self, id: u32, samples: &[Sample]) -> Result<(), StudyError> {
        let mut text = String::with_capacity(samples.len() * 64);
        for sample in samples {
            row::write(&mut text, id, sample);
        }
        self.write_samples(&text)?;
        *self.open.get_mut(&id).expect("a cell is begun before it has samples") += samples.len() as u64;
        Ok(())
    }

    /// Finishes the cell `id`. From here on it is part of the run, whatever happens.
    ///
    /// # Panics
    /// If that cell is not begun, or finished already.
    pub fn finish(&mut self, at_ns: u64, id: u32, cell: &Cell, facts: Facts) -> Result<(), StudyError> {
        let samples = self.open.remove(&id).expect("a cell is begun before it is finished");
        self.record(at_ns, Event::Finished { id, samples, facts: Box::new(facts) })?;
        self.finished.insert(cell.clone());
        Ok(())
    }

    /// Writes down any other event. Begin and finish cells by the methods above.
    pub fn record(&mut self, at_ns: u64, event: Event) -> Result<(), StudyError> {
        let mut line = serde_json::to_vec(&Record { at_ns, event }).expect("an event has text keys alone");
        line.push(b'\n');
        let wrong = |source| StudyError::File { path: self.path.join(names::EVENTS), source };
        // One write a line, straight to the file: nothing waits in the process's memory.
        self.events.write_all(&line).map_err(wrong)
    }

    fn write_samples(&mut self, text: &str) -> Result<(), StudyError> {
        let wrong = |source| StudyError::File { path: self.path.join(names::SAMPLES), source };
        self.samples.write_all(text.as_bytes()).map_err(wrong)
    }
}

/// Replaces the file at `path` as a whole, so that a reader sees the old or the new one and nothing between.
pub fn write_file(path: &Path, text: &str) -> Result<(), StudyError> {
    let beside = path.with_extension("new");
    let wrong = |source| StudyError::File { path: path.into(), source };
    fs::write(&beside, text).map_err(wrong)?;
    fs::rename(&beside, path).map_err(wrong)
}
