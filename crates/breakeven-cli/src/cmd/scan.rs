//! `breakeven scan`: the break-even study of this machine.

mod outcome;

use std::io::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use breakeven::Settings;
use breakeven_bench::scan::preset::{Filter, Group, Preset, effort, groups, sizes_in_words};
use breakeven_bench::scan::study::{Progress, Seen, Study, look, nearer, run};
use breakeven_bench::scan::task::{Effort, Limit, Setting, Task};
use breakeven_bench::scan::{HostClock, child, end_with_parent, fingerprint};
use breakeven_study::folder::{Event, RunWriter, read};
use breakeven_study::verdict::Exit;
use breakeven_study::{Manifest, ManifestSchema, Mode};
use clap::Parser;
use indicatif::ProgressBar;
use serde_json::json;

use super::progress;
use super::report::{all, recorded, say, summary};
use outcome::Outcome;

/// Arguments of `scan`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  breakeven scan                                   five operations in a minute, on every device of this machine
  breakeven scan --only matmul --sizes 100..1000 --seconds 120 --output runs/products
                                                   one operation at fewer sizes, for longer
  breakeven scan --seeds --device cpu,wgpu:0       what was measured by the reports that this project began with, on these devices
  breakeven scan --resume runs/products            goes on with a run that was stopped
  breakeven report runs/products                   what a run says, again

Exit codes: 0 all that was asked for is measured, or left out for want of time, 1 a result is wrong, or something crashed, hung or was lost,
2 the call is wrong, 3 it was stopped (--resume goes on), 4 something that was asked for could be measured nowhere, or nothing was,
5 the run to go on with was begun on another machine.")]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line, which exclude each other")]
pub struct Scan {
    /// Five operations in a minute: the default.
    #[arg(long, group = "preset")]
    quick: bool,
    /// The operations and sizes of the reports that this project began with; some ten minutes.
    #[arg(long, group = "preset")]
    seeds: bool,
    /// Layers of models.
    #[arg(long, group = "preset")]
    models: bool,
    /// Only these operations: gelu,matmul.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Which sizes are measured; what they count is derived from the operations.
    #[arg(long, value_name = "FROM..TO", value_parser = sizes, help = sizes_help())]
    sizes: Option<RangeInclusive<usize>>,
    /// Types of elements: f32 (unless it is said here),f16,bf16,f64.
    #[arg(long, value_delimiter = ',')]
    dtype: Vec<String>,
    /// Ways of calling: host, upload, resident, chain-16, idle-100, copy, kernel, first, cold.
    #[arg(long, value_delimiter = ',', value_parser = Mode::asked)]
    mode: Vec<Mode>,
    /// Only these devices, by the names that `breakeven devices` shows; `auto` is the engine's own choice, `scalar` a plain loop on one thread.
    #[arg(long, value_delimiter = ',')]
    device: Vec<String>,
    /// Drivers that compute on the processor take part too.
    #[arg(long)]
    software: bool,
    /// Look for GPUs through this interface alone: vulkan, metal, dx12 or gl.
    #[arg(long)]
    backend: Option<String>,
    /// Threads of the CPU.
    #[arg(long)]
    threads: Option<usize>,
    /// Seconds that it may take, about: 55 with --quick and 600 else, unless it is said here.
    #[arg(long)]
    seconds: Option<u64>,
    /// From which order and operands follow.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for the run; a new one under `runs` otherwise.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Go on with this run, with what it was begun with.
    #[arg(long, conflicts_with_all = ["quick", "seeds", "models", "only", "sizes", "dtype", "mode", "device", "software", "backend", "threads", "seconds", "seed", "output"])]
    resume: Option<PathBuf>,
}

/// Share of its time that a study measures for at least, however long it took to look at the machine.
const LEAST: f64 = 0.3;

fn sizes_help() -> String {
    format!(
        "Of the sizes that there are for an operation only those from one to another, as in 1000..100000. They count {}. \
         --quick has every second one where there are more than four",
        sizes_in_words()
    )
}

/// Two sizes with dots between, both counted in.
fn sizes(text: &str) -> Result<RangeInclusive<usize>, String> {
    let wrong = || format!("`{text}` is not two sizes like 1000..100000");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.trim_start_matches('=').replace('_', "").parse::<usize>().map_err(|_| wrong());
    Ok(number(from)?..=number(to)?)
}

impl Scan {
    /// Measure, write the run folder, say what was found.
    pub fn run(&self, as_json: bool) -> anyhow::Result<Exit> {
        match &self.resume {
            Some(folder) => Scan::of_run(folder)?.measure(Some(folder), as_json),
            None => self.measure(None, as_json),
        }
    }

    /// What a run was asked for when it began: it goes on with that and with nothing else.
    fn of_run(folder: &Path) -> anyhow::Result<Scan> {
        #[derive(clap::Parser)]
        struct Given {
            #[command(subcommand)]
            command: super::Command,
            #[arg(long, global = true)]
            json: bool,
        }
        let manifest = recorded(folder)?.manifest;
        let given = std::iter::once("breakeven".to_owned()).chain(manifest.arguments);
        let Given { command, .. } = Given::try_parse_from(given).context("the run was begun by another version")?;
        let super::Command::Scan(scan) = command else { bail!("{} is no run of `scan`", folder.display()) };
        Ok(scan)
    }

    fn measure(&self, resumed: Option<&Path>, as_json: bool) -> anyhow::Result<Exit> {
        let (begun, mut study) = (Instant::now(), self.study()?);
        let stop = stop_on_interrupt()?;
        let stopped = || stop.load(Ordering::Relaxed);
        let waiting = progress::waiting("looking at the machine and its devices", as_json);
        let seen = look(&study, resumed.is_none(), &stopped);
        waiting.finish_and_clear();
        let Some(seen) = seen? else { return Ok(stopped_early(resumed)) };
        study.seen = seen.places();
        // What looking at the machine took is gone, and how long a cell may take depends on what was seen.
        let left = self.total().saturating_sub(begun.elapsed()).max(self.total().mul_f64(LEAST));
        study.effort = self.effort(&study.groups, left, seen.others());
        let mut writer = self.writer(seen, resumed)?;
        let bar = Bar::new(&study, (begun, self.total()), as_json);
        let mut incomplete = run(&study, &mut writer, &stopped, &mut |progress| bar.show(&progress))?;
        let left = self.total().saturating_sub(begun.elapsed());
        let near = nearer(&study.groups, &read(writer.path())?);
        if !near.is_empty() && left > Duration::from_secs(2) {
            let effort = Effort { limit: study.effort.limit, ..effort(&near, left) };
            study = Study { effort, groups: near, ..study };
            bar.line.set_length(study.groups.len() as u64);
            incomplete += run(&study, &mut writer, &stopped, &mut |progress| bar.show(&progress))?;
        }
        bar.line.finish_and_clear();
        let why = if stopped() { "stopped by the user" } else { "done" };
        writer.record(bar.elapsed_ns(), Event::Stopped { why: why.to_owned() })?;
        let folder = writer.path().to_path_buf();
        let summary = summary(&folder)?;
        let files = all(&summary, &folder)?;
        // Of the whole folder: a run that was gone on with is no better than what it had before.
        let outcome = Outcome::of(&read(&folder)?.cells);
        let Outcome { cells, failed, left_out, .. } = outcome;
        let nowhere = outcome.nowhere();
        if as_json {
            println!(
                "{}",
                json!({ "folder": folder, "cells": cells, "failed": failed, "left_out": left_out, "nowhere": nowhere, "incomplete": incomplete, "stopped": stopped() })
            );
        } else {
            outcome.say(incomplete, stopped());
            say(&summary, &files);
        }
        if stopped() {
            return Ok(stopped_early(Some(&folder)));
        }
        Ok(if incomplete > 0 { Exit::Failed } else { outcome.exit() })
    }

    /// The preset that is asked for.
    fn preset(&self) -> Preset {
        match (self.seeds, self.models) {
            (true, _) => Preset::Seeds,
            (_, true) => Preset::Models,
            _ => Preset::Quick,
        }
    }

    /// Time that it may take, about.
    fn total(&self) -> Duration {
        let usual = if self.preset() == Preset::Quick { 55 } else { 600 };
        Duration::from_secs(self.seconds.unwrap_or(usual))
    }

    /// A quick study keeps to its time, and leaves out what takes too long for it; of other presets each size is wanted on each device.
    fn effort(&self, groups: &[Group], left: Duration, others: usize) -> Effort {
        // A part is left for sizes near what is found.
        let within = |time: Duration| effort(groups, time.mul_f64(0.8));
        // By what was asked for, and not by what is left: what a study leaves out must not depend on how long it took to look at the machine.
        let limit = match self.preset() {
            Preset::Quick => Limit::of(&within(self.total()), self.total(), others),
            Preset::Seeds | Preset::Models => Limit::of_plain_loops(&within(self.total()), self.total()),
        };
        Effort { limit: Some(limit), ..within(left) }
    }

    fn study(&self) -> anyhow::Result<Study> {
        let (operations, sizes, dtypes) = (self.only.clone(), self.sizes.clone(), self.dtype.clone());
        let groups = groups(self.preset(), &Filter { operations, sizes, dtypes, modes: self.mode.clone() })?;
        let setting =
            Setting { threads: self.threads, software: self.software, backend: self.backend.clone(), simulated: false };
        let (program, arguments) = (this_program()?, vec!["scan-child".to_owned()]);
        let effort = self.effort(&groups, self.total(), 1);
        let (devices, seen) = (self.device.clone(), Vec::new());
        // The claims of those reports are about plain loops.
        let scalar = devices.is_empty() && self.preset() == Preset::Seeds;
        Ok(Study { program, arguments, groups, devices, scalar, seen, effort, setting, seed: self.seed })
    }

    /// A new run folder, or the one to go on with.
    fn writer(&self, seen: Seen, resumed: Option<&Path>) -> anyhow::Result<RunWriter> {
        let manifest = Manifest {
            schema: ManifestSchema {},
            started: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            arguments: std::env::args().skip(1).collect(),
            seed: self.seed,
            fingerprint: fingerprint(&seen.environment),
            environment: seen.environment,
        };
        if let Some(folder) = resumed {
            return RunWriter::resume(folder, &manifest).context("this run cannot be gone on with");
        }
        let usual = || PathBuf::from("runs").join(manifest.started.replace(':', ""));
        let folder = self.output.clone().unwrap_or_else(usual);
        let mut writer = RunWriter::create(&folder, &manifest)?;
        let notes = seen.notes.into_iter().map(|text| Event::Note { text });
        for event in seen.ceilings.into_iter().map(Event::Ceiling).chain(notes) {
            writer.record(0, event)?;
        }
        Ok(writer)
    }
}

/// What a user is told who asked to stop: how to go on with the run, or that there is none yet.
fn stopped_early(run: Option<&Path>) -> Exit {
    match run {
        Some(folder) => eprintln!("breakeven: stopped; go on with: breakeven scan --resume {}", folder.display()),
        None => eprintln!("breakeven: stopped before anything was measured"),
    }
    Exit::Inconclusive
}

/// This very program, for its children: the file may be replaced or removed while a study runs, by whoever installs or builds another version, and a run
/// must not end by that, nor be of two programs.
pub fn this_program() -> std::io::Result<PathBuf> {
    let own = Path::new("/proc/self/exe");
    if own.exists() { Ok(own.to_path_buf()) } else { std::env::current_exe() }
}

/// Set once the user or the system asks to stop (an interrupt, a request to end, a terminal that is closed); the child that is running is ended then,
/// and what is finished stays.
pub(super) fn stop_on_interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    ctrlc::set_handler(move || seen.store(true, Ordering::Relaxed)).context("interrupts cannot be seen")?;
    Ok(stop)
}

/// What a user sees meanwhile.
struct Bar {
    begun: Instant,
    /// Seconds that the study may take.
    total: Duration,
    line: ProgressBar,
}

impl Bar {
    fn new(study: &Study, (begun, total): (Instant, Duration), as_json: bool) -> Bar {
        let line = progress::line(study.groups.len() as u64, "operations", as_json);
        Bar { begun, total, line }
    }

    fn show(&self, progress: &Progress) {
        match progress {
            Progress::At { cell, done, .. } => {
                self.line.set_position(*done as u64);
                // By its time and not by what is done: a study measures as long as it may.
                let left = match self.total.saturating_sub(self.begun.elapsed()).as_secs() {
                    0 => "at its end".to_owned(),
                    left => format!("about {left} s left"),
                };
                self.line.set_message(format!("{left}: {cell}"));
            }
            Progress::Done(..) => {}
            Progress::Note(text) => self.line.println(text),
        }
    }

    fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Carries out one task for `scan`: read from the standard input, answered in lines of JSON.
#[derive(Debug, clap::Args)]
pub struct ScanChild {}

impl ScanChild {
    /// Read the task and do it.
    pub fn run() -> anyhow::Result<()> {
        let clock = HostClock::start();
        let mut lines = std::io::stdin().lines();
        let task = lines.next().context("no task for `scan` on the standard input")??;
        let task: Task = serde_json::from_str(&task).context("the task is not understood")?;
        let mut out = std::io::stdout().lock();
        let mut say = |line| {
            serde_json::to_writer(&mut out, &line)?;
            out.write_all(b"\n")?;
            out.flush()
        };
        let settings = Settings::from_env()?;
        if task.takes_turns() {
            let mut go_on = || lines.next().is_some_and(|line| line.is_ok());
            child::carry_out(&task, &settings, &clock, &mut say, &mut go_on)?;
        } else {
            drop(lines);
            end_with_parent();
            child::carry_out(&task, &settings, &clock, &mut say, &mut || false)?;
        }
        Ok(())
    }
}
