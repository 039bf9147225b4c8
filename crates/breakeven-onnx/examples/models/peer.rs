//! ONNX Runtime in a process of its own, which runs a set of inputs once for each question.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::Context;

/// The process; it ends when this is dropped.
pub struct Peer {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts `tests/time_models.py` under `python`, which must have ONNX Runtime.
    pub fn start(python: &Path) -> anyhow::Result<Peer> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/time_models.py");
        let mut command = Command::new(python);
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {}", python.display()))?;
        let questions = child.stdin.take().context("its stdin is a pipe")?;
        let answers = BufReader::new(child.stdout.take().context("its stdout is a pipe")?);
        Ok(Peer { child, questions, answers })
    }

    /// How long one run of set `set` of the model in `folder` takes.
    pub fn run(&mut self, folder: &Path, set: usize) -> anyhow::Result<Duration> {
        writeln!(self.questions, "{}\t{set}", folder.display())?;
        self.questions.flush()?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        let seconds: f64 = answer.trim().parse().context("ONNX Runtime did not run the model")?;
        Ok(Duration::try_from_secs_f64(seconds)?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // What is not there any more needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
