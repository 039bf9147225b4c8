//! `cargo xtask onnx`: the backend tests of ONNX, brought by pip, run on this machine's CPU and software GPUs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::test::drivers;
use crate::workspace;

/// What brings the tests; other versions bring other tests.
const PACKAGES: [&str; 2] = ["onnx==1.23.2", "numpy==2.4.6"];

/// The page that is written, or checked.
const PAGE: &str = "docs/onnx.md";

/// Writes the page from what the CPU gives, or with `--check` compares it. With `--gpu` the cases run on the software GPUs
/// instead, and nothing is written. Further arguments go to the program that runs the cases.
pub fn run(args: &[String]) -> Result<u8> {
    let root = workspace::root();
    let has = |name: &str| args.iter().any(|arg| arg == name);
    let rest = args.iter().filter(|arg| !["--check", "--gpu"].contains(&arg.as_str()));
    let cases = bring(&root)?;
    let mut command = Command::new("cargo");
    command.envs(drivers::prepare(false)?.environment(false)).current_dir(&root);
    command.args(["run", "--quiet", "-p", "breakeven-onnx", "--example", "backend_cases", "--"]).arg(&cases).args(rest);
    match (has("--gpu"), has("--check")) {
        (true, _) => command.args(["--on", "wgpu:0", "--on", "wgpu:1"]),
        (false, true) => command.arg("--check").arg(root.join(PAGE)),
        (false, false) => command.arg("--write").arg(root.join(PAGE)),
    };
    let status = command.status().context("cannot start cargo")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// The folder of the cases, made where it is not there.
fn bring(root: &Path) -> Result<PathBuf> {
    let cases = root.join("target/onnx-cases");
    if cases.join("cases.jsonl").exists() {
        return Ok(cases);
    }
    let environment = root.join("target/onnx-env");
    let python = environment.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if !python.exists() {
        must(Command::new("python3").args(["-m", "venv"]).arg(&environment), "make a Python environment")?;
    }
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"];
    must(Command::new(&python).args(pip).args(PACKAGES), "bring onnx and numpy")?;
    let script = root.join("crates/breakeven-onnx/tests/make_cases.py");
    must(Command::new(&python).arg(script).arg(&cases), "write the cases")?;
    Ok(cases)
}

fn must(command: &mut Command, what: &str) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot {what}: {command:?} does not start"))?;
    if !status.success() {
        bail!("cannot {what}: {command:?} failed ({status}); is there a network?");
    }
    Ok(())
}
