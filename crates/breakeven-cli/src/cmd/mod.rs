//! The commands, one file each.

mod compare;
mod devices;
mod explain;
mod merge;
mod progress;
mod report;
mod run;
mod scan;
mod trace;

use breakeven_study::verdict::Exit;
use clap::Subcommand;

/// What the command line can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// What was found, and why something is not used.
    Devices(devices::Devices),
    /// Run an ONNX model and say in one line where and how long.
    Run(run::Run),
    /// Say for each step of an ONNX model where it would run and why.
    Explain(explain::Explain),
    /// Run an ONNX model and write down when each of its steps was done, for Perfetto and Chrome.
    Trace(trace::Trace),
    /// The break-even study: from which sizes on a GPU pays, for which operation, on this machine.
    Scan(scan::Scan),
    /// What a run of `scan` says: a page, tables, and the findings in words.
    Report(report::Report),
    /// Runs of several machines side by side.
    Merge(merge::Merge),
    /// Has anything become slower? Verdicts for two runs, and an exit code.
    Compare(compare::Compare),
    /// One process of a study.
    #[command(hide = true)]
    ScanChild(scan::ScanChild),
}

impl Command {
    /// Carry it out; what it found, as an exit code.
    pub fn run(&self, json: bool) -> anyhow::Result<Exit> {
        match self {
            Command::Devices(command) => command.run(json)?,
            Command::Run(command) => command.run(json)?,
            Command::Explain(command) => command.run(json)?,
            Command::Trace(command) => command.run(json)?,
            Command::Scan(command) => return command.run(json),
            Command::Report(command) => command.run(json)?,
            Command::Merge(command) => command.run(json)?,
            Command::Compare(command) => return command.run(json),
            Command::ScanChild(_) => scan::ScanChild::run()?,
        }
        Ok(Exit::Ok)
    }
}
