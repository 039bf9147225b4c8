//! `breakeven report`: what a run folder says, as pages and tables.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use breakeven_study::folder::{Recorded, names, read, read_summary, write_file};
use breakeven_study::merge::merge;
use breakeven_study::report::{REPORTS, Taken, criterion, report, taken};
use breakeven_study::{Run, SCALAR, Source, Summary, SummarySchema, published, summarize};
use serde_json::json;

/// Arguments of `report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  breakeven report runs/new                        every report, into the run folder
  breakeven report runs/new --format markdown --output -
  breakeven report runs/new --criterion target/criterion
                                                   the raw samples as criterion writes them: critcmp and others read that")]
pub struct Report {
    /// A run folder, or a summary.json.
    run: PathBuf,
    /// Only this one: html, markdown, rows, csv or json. All are written when none is named.
    #[arg(long)]
    format: Option<String>,
    /// Write it here; into the run folder otherwise. `-` is the standard output.
    #[arg(long)]
    output: Option<PathBuf>,
    /// Set the tables that others published beside it, marked as theirs.
    #[arg(long)]
    published: bool,
    /// Write what criterion writes (`benchmark.json` and `estimates.json` for each row that has a time) below this folder, and nothing else; what it wrote before is kept as `base` beside it.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["format", "output", "published"])]
    criterion: Option<PathBuf>,
}

impl Report {
    /// Compute the summary anew from the raw samples, and write what is asked for.
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        if let Some(folder) = &self.criterion {
            return self.write_criterion(folder, as_json);
        }
        // A name that there is not is told before anything is read.
        self.format.as_deref().map(|name| self.place(name)).transpose()?;
        let mut summary = summary(&self.run)?;
        if self.published {
            summary = merge(vec![summary, Summary { schema: SummarySchema {}, runs: published::runs() }])?;
        }
        let files = match &self.format {
            Some(name) => vec![one(name, &summary, &self.place(name)?)?],
            None if self.output.is_some() => bail!("--output wants a --format: html, markdown, rows, csv or json"),
            None => all(&summary, &folder_of(&self.run))?,
        };
        if as_json {
            let cells: usize = summary.runs.iter().map(|run| run.cells.len()).sum();
            println!("{}", json!({ "files": files, "cells": cells }));
        } else if self.output.as_deref() != Some(Path::new("-")) {
            say(&summary, &files);
        }
        Ok(())
    }

    /// Estimates are drawn from raw samples, which a summary has no longer.
    fn write_criterion(&self, folder: &Path, as_json: bool) -> anyhow::Result<()> {
        let files = criterion::of_run(&recorded(&self.run).context("--criterion is made of raw samples")?);
        let places: Vec<PathBuf> = files.iter().map(|file| folder.join(&file.path)).collect();
        let folders: BTreeSet<&Path> = places.iter().filter_map(|place| place.parent()).collect();
        folders.into_iter().try_for_each(renew)?;
        for (place, file) in places.iter().zip(&files) {
            write_file(place, &file.text)?;
        }
        if as_json {
            println!("{}", json!({ "folder": folder, "files": files.len() }));
        } else {
            println!("wrote {} files below {}", files.len(), folder.display());
        }
        Ok(())
    }

    fn place(&self, name: &str) -> anyhow::Result<PathBuf> {
        let known = || REPORTS.iter().map(|r| r.name).collect::<Vec<_>>().join(", ");
        let report = report(name).with_context(|| format!("there is no report `{name}`; known are {}", known()))?;
        Ok(self.output.clone().unwrap_or_else(|| folder_of(&self.run).join(report.file)))
    }
}

/// An empty folder; what was in it is in `base` beside it then, as criterion does it, so that its tools compare both.
fn renew(folder: &Path) -> anyhow::Result<()> {
    let base = folder.with_file_name("base");
    if folder.exists() {
        if base.exists() {
            std::fs::remove_dir_all(&base).with_context(|| format!("{} cannot be replaced", base.display()))?;
        }
        std::fs::rename(folder, &base).with_context(|| format!("{} cannot be kept", folder.display()))?;
    }
    std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))
}

fn folder_of(run: &Path) -> PathBuf {
    let beside = || run.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if run.is_dir() { run.to_path_buf() } else { beside().to_path_buf() }
}

/// The summary of a run folder, computed from its raw samples, or one that was written before.
pub fn summary(run: &Path) -> anyhow::Result<Summary> {
    if !run.is_dir() {
        return Ok(read_summary(run)?);
    }
    if !run.join(names::MANIFEST).exists() {
        // What `merge` writes is a folder with a summary alone.
        return read_summary(run).with_context(|| format!("{} is no run folder", run.display()));
    }
    let recorded = read(run)?;
    let id = format!("{}-{}", recorded.manifest.started.replace(':', ""), &recorded.manifest.fingerprint);
    let held = |cells: &[_]| published::held_against("", cells);
    Ok(Summary { schema: SummarySchema {}, runs: vec![summarize(&recorded, &id, Source::Measured, held)] })
}

/// The run at `path` with its raw samples, of which verdicts are made and which a summary has no longer.
pub fn recorded(path: &Path) -> anyhow::Result<Recorded> {
    let has_run = |folder: &Path| folder.join(names::MANIFEST).exists();
    if !path.is_file() {
        if path.is_dir() && !has_run(path) {
            bail!("{} is no run folder, as `breakeven scan` writes one: it has no {}", path.display(), names::MANIFEST);
        }
        return Ok(read(path)?);
    }
    let folder = folder_of(path);
    let advice = if has_run(&folder) { format!(": name {}", folder.display()) } else { String::new() };
    let wanted = format!("a run folder, which has the raw samples ({}, {})", names::SAMPLES, names::EVENTS);
    bail!("{} is a file, and what is wanted here is {wanted}{advice}", path.display())
}

/// Every report, into `folder`.
pub fn all(summary: &Summary, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    REPORTS.iter().map(|report| one(report.name, summary, &folder.join(report.file))).collect()
}

fn one(name: &str, summary: &Summary, to: &Path) -> anyhow::Result<PathBuf> {
    let text = (report(name).context("it was looked up")?.make)(summary);
    if to == Path::new("-") {
        print!("{text}");
    } else {
        write_file(to, &text)?;
    }
    Ok(to.to_path_buf())
}

/// It is infinite where no row is long enough to show it.
fn floor(floor: f64) -> String {
    if floor.is_finite() { format!("noise floor {:.1}%", 100.0 * floor) } else { "noise floor not known".to_owned() }
}

/// The findings, and where to read more.
pub fn say(summary: &Summary, files: &[PathBuf]) {
    for run in &summary.runs {
        println!("{} ({:?}, {})", run.id, run.noise.verdict, floor(run.noise.floor));
        if run.cells.is_empty() {
            println!(
                "  no cell of it is finished, so there is nothing to report: breakeven scan --resume goes on with a run"
            );
        }
        for found in &run.break_even {
            println!(
                "  {:<18} {:<5} {:<9} {:<10} {}",
                found.operation,
                found.dtype,
                found.mode.to_string(),
                found.gpu,
                found.verdict
            );
        }
        say_times(run);
    }
    for file in files {
        println!("wrote {}", file.display());
    }
}

/// What operations take, where that is all that was found.
fn say_times(run: &Run) {
    let taken = taken(run);
    let is_plain = |taken: &Taken| taken.device == SCALAR;
    let plain =
        if taken.iter().any(is_plain) { ", scalar: a plain loop on one thread, so many times the CPU's" } else { "" };
    if !taken.is_empty() {
        println!(
            "  no break-even: no size was measured on the CPU and on another device; what operations take (lower quartile{plain}):"
        );
    }
    for Taken { operation, dtype, mode, device, sizes } in &taken {
        let sizes: Vec<String> = sizes.values().map(|at| format!("{}: {}", at.shape, at.time)).collect();
        println!("  {operation:<18} {dtype:<5} {:<9} {device:<10} {}", mode.to_string(), sizes.join("; "));
    }
}
