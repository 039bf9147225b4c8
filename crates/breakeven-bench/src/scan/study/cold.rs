//! Cold calls: a process for each, until there are enough or the time is up.

use std::time::{Duration, Instant};

use breakeven_study::folder::Facts;
use breakeven_study::{Cell, Mode, Sample, Status, Stop};

use super::{Progress, Runner, hung, silence};
use crate::scan::Result;
use crate::scan::first::{LEAST, MOST};
use crate::scan::preset::Group;
use crate::scan::process::{self, Ending, Watch};
use crate::scan::task::{Line, Measure, Task};

/// A cell and what its processes said so far.
struct Row {
    cell: Cell,
    samples: Vec<Sample>,
    facts: Option<Facts>,
}

impl Row {
    fn is_open(&self) -> bool {
        self.facts.as_ref().is_none_or(|facts| facts.status == Status::Ok)
    }

    /// What one more process found.
    fn take(&mut self, round: u32, facts: Facts, samples: &[Sample]) {
        self.samples.extend(samples.iter().map(|sample| Sample { round, ..*sample }));
        if facts.status != Status::Ok || self.facts.is_none() {
            self.facts = Some(Facts { stop: Some(Stop::Budget), ..facts });
        }
    }
}

impl Runner<'_> {
    /// The cold calls of a group, size by size.
    pub fn cold(&mut self, group: &Group, done: usize) -> Result<()> {
        self.open.clear();
        for &size in &group.sizes {
            let cells = self.missing(&Group { sizes: vec![size], modes: vec![Mode::Cold], ..group.clone() });
            let is_cold = group.modes.contains(&Mode::Cold);
            let row = |cell| Row { cell, samples: Vec::new(), facts: None };
            self.cold_size(group, size, done, cells.into_iter().filter(|_| is_cold).map(row).collect())?;
        }
        Ok(())
    }

    /// In turns, in random order. What is not finished when the study is stopped is measured anew when it goes on.
    fn cold_size(&mut self, group: &Group, size: usize, done: usize, mut rows: Vec<Row>) -> Result<()> {
        let (begun, mut seed) = (Instant::now(), self.study.seed | 1);
        let budget = Duration::from_millis(self.study.effort.budget_ms);
        let mut order: Vec<usize> = (0..rows.len()).collect();
        for round in (0..MOST).take_while(|round| *round < LEAST || begun.elapsed() < budget) {
            crate::shuffle(&mut order, &mut seed);
            for &i in &order {
                if rows[i].is_open() && !(self.stopped)() {
                    self.begin(&rows[i].cell)?;
                    (self.tell)(Progress::At { cell: rows[i].cell.clone(), done, all: self.study.groups.len() });
                    self.call(group, (size, round), &mut rows[i])?;
                }
            }
        }
        if (self.stopped)() {
            return Ok(());
        }
        for Row { cell, samples, facts } in rows {
            let nothing = || Facts::failed(Status::Skipped, "no process was begun");
            self.finish(&cell, facts.unwrap_or_else(nothing), &samples)?;
        }
        Ok(())
    }

    /// One process and its first call.
    fn call(&mut self, group: &Group, (size, round): (usize, u32), row: &mut Row) -> Result<()> {
        self.processes += 1;
        let (devices, modes) = (vec![row.cell.device.clone()], vec![Mode::Cold]);
        let task = Measure { sizes: vec![size], devices, modes, without: Vec::new(), ..self.task(group) };
        let watch = Watch { silence: silence(self.study), stopped: self.stopped };
        let (mut found, mut notes) = (None, Vec::new());
        let (program, arguments) = (&self.study.program, &self.study.arguments);
        let ending = process::run(program, arguments, &Task::Cold(task), &watch, &mut |line| match line {
            Line::Done { facts, samples, .. } => found = Some((*facts, samples)),
            Line::Note { text } => notes.push(text),
            _ => {}
        })?;
        match (ending, found) {
            (Ending::Stopped, _) => {}
            (Ending::Refused(why), _) => row.take(round, Facts::failed(Status::Skipped, why), &[]),
            (Ending::Crashed(how), _) => row.take(round, Facts::failed(Status::Crash, how), &[]),
            (Ending::Hung(silence), _) => row.take(round, Facts::failed(Status::Timeout, hung(silence)), &[]),
            (Ending::Done, Some((facts, samples))) => row.take(round, facts, &samples),
            (Ending::Done, None) => row.take(round, Facts::failed(Status::Crash, "it ended without a word"), &[]),
        }
        notes.into_iter().try_for_each(|text| self.note(text))
    }
}
