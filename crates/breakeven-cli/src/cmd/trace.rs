//! `breakeven trace`: when each step of a run of a model was done, as a file for Perfetto and Chrome.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail};
use breakeven::{Report, RunTrace, Tensor};
use serde_json::json;

use crate::model::{Given, Session};

/// Arguments of `trace`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  breakeven trace model.onnx --input x=x.npy --output trace.json
  breakeven trace model.onnx --random --dim batch=8 --warm-up 0 --output first.json

Open the file at https://ui.perfetto.dev or in chrome://tracing. Each device is a process: what the host did for it, its kernels, its copies.")]
pub struct Trace {
    #[command(flatten)]
    given: Given,
    /// Runs before the one that is traced; 0 shows the first, in which kernels are compiled.
    #[arg(long, default_value_t = 1)]
    warm_up: u32,
    /// The file that is written.
    #[arg(long, default_value = "trace.json")]
    output: PathBuf,
}

impl Trace {
    /// Run it and write down when each step was done.
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let session = Session::open(&self.given)?;
        for _ in 0..self.warm_up {
            once(&session)?;
        }
        let Some(report) = once(&session)? else { bail!("{}: there is nothing to compute", session.name) };
        let trace = report.trace().context("the run was not traced")?;
        fs::write(&self.output, trace.to_chrome_json())
            .with_context(|| format!("cannot write {}", self.output.display()))?;
        if as_json {
            println!("{}", self.object(&session, &report, trace));
        } else {
            let seconds = report.elapsed;
            println!("{}: {seconds:.2?} traced; {trace}; wrote {}", session.name, self.output.display());
            report.replanned.iter().for_each(|line| println!("{line}"));
        }
        Ok(())
    }

    fn object(&self, session: &Session, report: &Report, trace: &RunTrace) -> serde_json::Value {
        json!({
            "model": session.name,
            "seconds": report.elapsed.as_secs_f64(),
            "predicted_seconds": report.plan.predicted.seconds,
            "events": trace.events().len(),
            "dropped_times": trace.dropped_times(),
            "replanned": report.replanned,
            "wrote": self.output.display().to_string(),
        })
    }
}

/// One run; none where nothing is to be computed.
fn once(session: &Session) -> anyhow::Result<Option<Report>> {
    let outputs = session.write_down(&session.fresh_inputs()?)?;
    let placed = session.placed(&outputs);
    let tensors: Vec<&Tensor> = placed.iter().collect();
    if tensors.is_empty() {
        return Ok(None);
    }
    session.engine.read_traced(&tensors).map(Some).map_err(|e| session.refused(e))
}
