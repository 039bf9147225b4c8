//! Runs the backend tests of ONNX on one or several devices and writes the table of `docs/onnx.md`; `cargo xtask onnx`.
#![forbid(unsafe_code)]

mod case;
mod compare;
#[path = "../shared/devices.rs"]
mod devices;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use breakeven::Engine;
use clap::Parser;

use case::{Case, Outcome};

/// Runs the cases that `make_cases.py` wrote.
#[derive(Debug, Parser)]
struct Args {
    /// The folder that `make_cases.py` wrote.
    cases: PathBuf,
    /// A device by name, as `cpu` or `wgpu:0`; several make several columns.
    #[arg(long, default_value = "cpu")]
    on: Vec<String>,
    /// Only cases whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Print each case that did not pass.
    #[arg(long)]
    list: bool,
    /// Write the table to this file.
    #[arg(long)]
    write: Option<PathBuf>,
    /// Compare the table with this file; a difference is a failure.
    #[arg(long)]
    check: Option<PathBuf>,
}

/// A device and what each case gave on it.
struct Column {
    device: String,
    outcomes: Vec<Outcome>,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let mut cases = case::read(&args.cases)?;
    cases.retain(|case| case.name.contains(&args.only));
    let engine = devices::engine(&args.on)?;
    let columns = columns(&engine, &cases, &args)?;
    let table = table::write(&cases, &columns);
    if let Some(path) = &args.write {
        std::fs::write(path, &table).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut passed = columns.iter().all(|column| column.outcomes.iter().all(|o| !matches!(o, Outcome::Failed(_))));
    if let Some(path) = &args.check {
        let kept = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        if kept != table {
            println!("{} differs from what the cases gave now: run cargo xtask onnx", path.display());
            passed = false;
        }
    }
    Ok(ExitCode::from(u8::from(!passed)))
}

/// All devices at once.
fn columns(engine: &Engine, cases: &[Case], args: &Args) -> anyhow::Result<Vec<Column>> {
    std::thread::scope(|scope| {
        let running: Vec<_> =
            args.on.iter().map(|name| scope.spawn(move || column(name, engine, cases, args))).collect();
        running.into_iter().map(|column| column.join().expect("a case's panic is caught")).collect()
    })
}

fn column(name: &str, engine: &Engine, cases: &[Case], args: &Args) -> anyhow::Result<Column> {
    let device = devices::id(engine, name)?;
    let mut outcomes = Vec::new();
    for case in cases {
        let outcome = case.run(&args.cases, engine, device);
        if args.list && outcome != Outcome::Passed {
            println!("{name} {}: {outcome}", case.name);
        }
        outcomes.push(outcome);
    }
    let count = |is: fn(&Outcome) -> bool| outcomes.iter().filter(|o| is(o)).count();
    let (passed, failed) = (count(|o| *o == Outcome::Passed), count(|o| matches!(o, Outcome::Failed(_))));
    let ours = cases.iter().zip(&outcomes).filter(|(case, _)| case.ours);
    let (ours, all) = (ours.clone().filter(|(_, o)| **o == Outcome::Passed).count(), ours.count());
    println!("{name}: {passed} of {} passed, {failed} failed; {ours} of {all} of our types", cases.len());
    let device = devices::describe(engine, name);
    Ok(Column { device, outcomes })
}
