//! The commands, one file each.

mod devices;
mod explain;
mod run;
mod trace;

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
}

impl Command {
    /// Carry it out.
    pub fn run(&self, json: bool) -> anyhow::Result<()> {
        match self {
            Command::Devices(command) => command.run(json),
            Command::Run(command) => command.run(json),
            Command::Explain(command) => command.run(json),
            Command::Trace(command) => command.run(json),
        }
    }
}
