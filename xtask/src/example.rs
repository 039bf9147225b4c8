//! Examples of `breakeven-onnx` that write a page: how they are started, and the options that they share.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::test::drivers;

/// Both software GPUs.
pub const GPUS: [&str; 4] = ["--on", "wgpu:0", "--on", "wgpu:1"];

/// What is asked of the page.
pub enum Wanted {
    /// Write it.
    Page,
    /// `--check`: compare it.
    Check,
    /// `--gpu`: leave it, and run on the software GPUs.
    Gpus,
}

/// What `args` ask for.
pub fn wanted(args: &[String]) -> Wanted {
    let has = |name: &str| args.iter().any(|arg| arg == name);
    match (has("--gpu"), has("--check")) {
        (true, _) => Wanted::Gpus,
        (false, true) => Wanted::Check,
        (false, false) => Wanted::Page,
    }
}

/// The arguments that the example itself reads.
pub fn rest(args: &[String]) -> impl Iterator<Item = &String> {
    args.iter().filter(|arg| !["--check", "--gpu"].contains(&arg.as_str()))
}

/// The command that builds and runs the example `name` where the Vulkan loader lists the software GPUs; arguments follow.
pub fn command(root: &Path, how: &[&str], name: &str) -> Result<Command> {
    let mut command = Command::new("cargo");
    command.envs(drivers::prepare(false)?.environment(false)).current_dir(root);
    command.args(["run", "--quiet"]).args(how).args(["-p", "breakeven-onnx", "--example", name, "--"]);
    Ok(command)
}

/// Runs it; its exit code is ours.
pub fn finish(command: &mut Command) -> Result<u8> {
    let status = command.status().context("cannot start cargo")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
