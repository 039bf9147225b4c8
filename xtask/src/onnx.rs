//! `cargo xtask onnx`: the backend tests of ONNX, brought by pip, run on this machine's CPU and software GPUs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::python::{Environment, must};
use crate::{example, workspace};

/// What brings the tests.
const ENVIRONMENT: Environment<'_> =
    Environment { name: "onnx-env", packages: &["onnx==1.23.2", "numpy==2.4.6"], alone: &[] };

/// The page that is written, or checked.
const PAGE: &str = "docs/onnx.md";

/// Writes the page from what the CPU and the software GPUs give, or with `--check` compares it. With `--gpu` the cases run on
/// the software GPUs alone, and nothing is written. Further arguments go to the program that runs the cases.
pub fn run(args: &[String]) -> Result<u8> {
    let root = workspace::root();
    let cases = bring(&root)?;
    let mut command = example::command(&root, &[], "backend_cases")?;
    command.arg(&cases).args(example::rest(args));
    match example::wanted(args) {
        example::Wanted::Gpus => command.args(example::GPUS),
        example::Wanted::Check => command.args(["--on", "cpu"]).args(example::GPUS).arg("--check").arg(root.join(PAGE)),
        example::Wanted::Page => command.args(["--on", "cpu"]).args(example::GPUS).arg("--write").arg(root.join(PAGE)),
    };
    example::finish(&mut command)
}

/// The folder of the cases, made where it is not there.
fn bring(root: &Path) -> Result<PathBuf> {
    let cases = root.join("target/onnx-cases");
    if !cases.join("cases.jsonl").exists() {
        let script = root.join("crates/breakeven-onnx/tests/make_cases.py");
        must(Command::new(ENVIRONMENT.bring(root)?).arg(script).arg(&cases), "write the cases")?;
    }
    Ok(cases)
}
