//! The commands, one file each.

mod devices;

use clap::Subcommand;

/// What the command line can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// What was found, and why something is not used.
    Devices(devices::Devices),
}

impl Command {
    /// Carry it out.
    pub fn run(&self, json: bool) -> anyhow::Result<()> {
        match self {
            Command::Devices(command) => command.run(json),
        }
    }
}
