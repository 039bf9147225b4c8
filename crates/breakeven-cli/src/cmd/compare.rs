//! `breakeven compare`: has anything become slower? The gate for a pipeline.

mod programs;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, bail};
use breakeven_bench::scan::duel::Contestant;
use breakeven_study::folder::Recorded;
use breakeven_study::verdict::{Comparison, Exit, Rule, Rules, Verdict, compare_runs, differences};
use breakeven_study::{Cell, CellSummary, ComparisonSchema, Mode};
use serde_json::{Value, json};

use super::progress;
use super::report::{recorded, summary};
use super::scan::{stop_on_interrupt, this_program};
use programs::Watch;

/// Arguments of `compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  breakeven compare runs/old runs/new              two runs of `scan`
  breakeven compare runs/old runs/new --again runs/new2
                                                   the same, and what is slower must be slower in a second run too
  breakeven compare --bin old/breakeven --bin new/breakeven --only gelu,matmul
                                                   two programs that take turns: finds smaller changes
  breakeven compare --self-test                    can this machine tell at all?

Exit codes: 0 nothing is slower, 1 something is (seen again in fresh processes: --bin, or --again), wrong, or where
it must not be, 2 the call is wrong, 3 nothing can be shown here, it was stopped, or two folders differ and no second run confirms it,
4 something that was measured before is missing, 5 the runs are of different machines.")]
pub struct Compare {
    /// Two run folders: what is held against, and what is judged.
    #[arg(num_args = 2, conflicts_with = "bin")]
    runs: Vec<PathBuf>,
    /// A second run of what is judged: what is slower or faster must be so in both before it counts as confirmed.
    #[arg(long, value_name = "RUN", requires = "runs")]
    again: Option<PathBuf>,
    /// Two programs that measure in turns, the one that is judged last.
    #[arg(long, num_args = 1)]
    bin: Vec<PathBuf>,
    /// This program with itself, which must be no difference, and with itself made slower, which must be found.
    #[arg(long, conflicts_with_all = ["bin", "runs"])]
    self_test: bool,
    /// Percent by which the self test makes it slower: they are waited for and added to what each call took.
    #[arg(long, default_value_t = 10.0, requires = "self_test")]
    slower: f64,
    /// The self test on a simulated device and by its clock: without noise, so that it says the same everywhere.
    #[arg(long, requires = "self_test", conflicts_with_all = ["device", "mode"])]
    simulated: bool,
    /// Percent by which a time may differ.
    #[arg(long, default_value_t = 3.0)]
    threshold: f64,
    /// Compare runs of different machines all the same.
    #[arg(long)]
    across_machines: bool,
    /// A file that says which devices may be used for which operations and sizes; the run that is judged is held against it.
    #[arg(long)]
    rules: Option<PathBuf>,
    /// Operations that programs are compared on; the five of `scan --quick` unless it is said here.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Devices that they use.
    #[arg(long, value_delimiter = ',', default_value = "cpu")]
    device: Vec<String>,
    /// Ways of calling.
    #[arg(long, value_delimiter = ',', default_value = "host")]
    mode: Vec<Mode>,
    /// Pairs of processes for each cell: 40, or 12 where the clock is simulated, unless it is said here; up to four times as many where they leave it open, but for two minutes at most, and twelve in any case. 40 show 10% on a loaded machine, 100 show 5%.
    #[arg(long, value_parser = clap::value_parser!(u32).range(3..))]
    pairs: Option<u32>,
}

/// What a progress line counts: an operation at a size.
const COMPARISONS: &str = "comparisons";

/// Verdicts and what they mean together.
struct Found {
    verdicts: Vec<(Cell, Verdict)>,
    notes: Vec<String>,
    exit: Exit,
    /// Whether what is slower or faster was seen again in fresh processes.
    is_confirmed: bool,
}

impl Compare {
    /// Judge every cell; the exit code says the worst.
    pub fn run(&self, as_json: bool) -> anyhow::Result<Exit> {
        let rule = Rule { threshold: self.threshold / 100.0, ..Rule::default() };
        if self.rules.is_some() && self.runs.is_empty() {
            bail!("--rules is held against a run folder: name two");
        }
        if self.self_test {
            return self.test_itself(&rule, as_json);
        }
        let found = match (&self.runs[..], &self.bin[..]) {
            ([a, b], []) => self.of_runs([a, b], &rule)?,
            ([], [a, b]) => {
                let [a, b] = [a, b].map(|program| contestant(program.clone(), 0.0));
                let (stop, line) = (stop_on_interrupt()?, progress::line(0, COMPARISONS, as_json));
                let watch = Watch { line: &line, stopped: &|| stop.load(Ordering::Relaxed) };
                let found = self.of_programs([&a, &b], &rule, &watch)?;
                line.finish_and_clear();
                found
            }
            _ => bail!("two run folders, or two programs by --bin, or --self-test"),
        };
        found.print(as_json);
        Ok(found.exit)
    }

    fn of_runs(&self, [a, b]: [&PathBuf; 2], rule: &Rule) -> anyhow::Result<Found> {
        let judged: Vec<&PathBuf> = std::iter::once(b).chain(&self.again).collect();
        let (base, runs) = (recorded(a)?, judged.iter().map(|run| recorded(run)).collect::<anyhow::Result<Vec<_>>>()?);
        let is_other = |run: &&Recorded| run.manifest.fingerprint != base.manifest.fingerprint;
        if let Some(other) = runs.iter().find(is_other).filter(|_| !self.across_machines) {
            return Ok(Found::refused(differences(&base, other)));
        }
        let compare = |run| compare_runs(&base, run, rule, self.across_machines);
        let mut comparison = compare(&runs[0])?;
        if let Some(second) = runs.get(1) {
            comparison = comparison.confirmed_by(&compare(second)?);
        }
        let [broken, unheld] = self.broken(b)?;
        let exit = comparison.exit(rule).and(if broken.is_empty() { Exit::Ok } else { Exit::Failed });
        // A guard that looked at nothing has guarded nothing.
        let exit = exit.and(if unheld.is_empty() { Exit::Ok } else { Exit::Inconclusive });
        let how = how_to_confirm(&comparison, [a, b]).filter(|_| !comparison.is_confirmed);
        // Nothing that could be held against is no proof of anything.
        let is_empty = comparison.verdicts.is_empty();
        let exit = exit.and(if is_empty { Exit::Inconclusive } else { Exit::Ok });
        let nothing =
            is_empty.then(|| format!("{} has no finished cell that was measured, so nothing is compared", a.display()));
        let Comparison { verdicts, notes, is_confirmed, .. } = comparison;
        let notes = [notes, broken, unheld, nothing.into_iter().chain(how).collect()].concat();
        Ok(Found { verdicts, notes, exit, is_confirmed })
    }

    /// Rows of the run that is judged that ran where they must not, and rules that no row was held against.
    fn broken(&self, run: &Path) -> anyhow::Result<[Vec<String>; 2]> {
        let Some(path) = &self.rules else { return Ok(Default::default()) };
        let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let rules = Rules::parse(&text)?;
        let summary = summary(run)?;
        let cells: Vec<CellSummary> = summary.runs.into_iter().flat_map(|run| run.cells).collect();
        let broken = rules.broken(&cells).into_iter().map(|broken| broken.what).collect();
        Ok([broken, rules.without_rows(&cells)])
    }

    /// Nothing must be found where nothing is, and what was made slower where it was.
    fn test_itself(&self, rule: &Rule, as_json: bool) -> anyhow::Result<Exit> {
        let program = this_program()?;
        let same = contestant(program.clone(), 0.0);
        let slower = contestant(program, self.slower / 100.0);
        let (stop, line) = (stop_on_interrupt()?, progress::line(0, COMPARISONS, as_json));
        let watch = Watch { line: &line, stopped: &|| stop.load(Ordering::Relaxed) };
        let none = self.of_programs([&same, &same], rule, &watch)?;
        let made_slower = self.of_programs([&same, &slower], rule, &watch)?;
        line.finish_and_clear();
        let count = |found: &Found, is: fn(&Verdict) -> bool| found.verdicts.iter().filter(|(_, v)| is(v)).count();
        let (alarms, cells) = (count(&none, is_change), none.verdicts.len());
        let caught = count(&made_slower, |verdict| matches!(verdict, Verdict::Slower(_)));
        if as_json {
            println!(
                "{}",
                json!({ "schema": ComparisonSchema {}, "cells": cells, "false_alarms": alarms, "slower_percent": self.slower, "found": caught, "stopped": (watch.stopped)() })
            );
        } else {
            none.print(false);
            made_slower.print(false);
            println!(
                "the same: {alarms} of {cells} called slower or faster; {}% slower: {caught} of {cells} found",
                self.slower
            );
        }
        if (watch.stopped)() {
            return Ok(Exit::Inconclusive);
        }
        let exit = if alarms == 0 && caught == cells && cells > 0 { Exit::Ok } else { Exit::Failed };
        Ok(if none.exit == Exit::Inconclusive { Exit::Inconclusive } else { exit })
    }
}

/// Whether a verdict is one that has to be seen again.
fn is_change(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Slower(_) | Verdict::Faster(_))
}

/// What would show whether a change is one, for whoever has two folders and no second run.
fn how_to_confirm(comparison: &Comparison, [a, b]: [&PathBuf; 2]) -> Option<String> {
    let words = |of: fn(&Cell) -> String| {
        let found: BTreeSet<String> = comparison.to_confirm().map(of).collect();
        found.into_iter().collect::<Vec<_>>().join(",")
    };
    let operations = words(|cell| cell.operation.clone());
    let (devices, modes) = (words(|cell| cell.device.clone()), words(|cell| cell.mode.to_string()));
    let (a, b) = (a.display(), b.display());
    (!operations.is_empty()).then(|| {
        format!(
            "not confirmed, so neither shown nor refuted (exit code 3): two runs measured at different times differ by more than code. Measure \
             the program of {b} once more and add it (breakeven compare {a} {b} --again RUN), or let both programs take turns (breakeven compare --bin OLD --bin NEW --only \
             {operations} --device {devices} --mode {modes})"
        )
    })
}

impl Found {
    /// Runs that are not of the same machine, and what differs between them.
    fn refused(differing: Vec<String>) -> Found {
        let why = "the runs are of different machines or devices; --across-machines compares them all the same. They differ in:";
        let notes = std::iter::once(why.to_owned()).chain(differing).collect();
        Found { verdicts: Vec::new(), notes, exit: Exit::Mismatch, is_confirmed: false }
    }

    fn print(&self, as_json: bool) {
        if as_json {
            let verdict = |(cell, verdict): &(Cell, Verdict)| json!({ "cell": cell, "found": verdict, "confirmed": self.is_confirmed && is_change(verdict) });
            let verdicts: Vec<Value> = self.verdicts.iter().map(verdict).collect();
            println!(
                "{}",
                json!({ "schema": ComparisonSchema {}, "exit": self.exit.code(), "verdicts": verdicts, "notes": self.notes })
            );
            return;
        }
        for (cell, verdict) in &self.verdicts {
            let doubt = if is_change(verdict) && !self.is_confirmed {
                ", not confirmed: measured at different times"
            } else {
                ""
            };
            println!("{cell}: {verdict}{doubt}");
        }
        self.notes.iter().for_each(|note| println!("note: {note}"));
    }
}

fn contestant(program: PathBuf, slowed: f64) -> Contestant {
    Contestant { program, arguments: vec!["scan-child".to_owned()], slowed }
}
