//! `breakeven run`: a model on its inputs, its outputs as files, and one line about where it ran.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use breakeven::{Frozen, Report, Tensor};
use breakeven_onnx::Outputs;
use serde_json::{Value, json};

use crate::cmd::devices::counts;
use crate::model::{Given, Session, files};

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  breakeven run model.onnx --input x=x.npy --output results
  breakeven run model.onnx --random --dim batch=8 --repeat 20 --on cpu")]
pub struct Run {
    #[command(flatten)]
    given: Given,
    /// Run so many times; the time told is the median.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Where each kernel runs: written to this file, or followed where the file is there already.
    #[arg(long)]
    freeze: Option<PathBuf>,
    /// A folder for all outputs, an .npz file, or NAME=FILE.npy; may be repeated.
    #[arg(long)]
    output: Vec<String>,
}

/// What running it brought.
struct Done {
    outputs: Vec<(String, Vec<Tensor>)>,
    report: Option<Report>,
    times: Vec<Duration>,
}

impl Run {
    /// Run it and tell about it.
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let session = Session::open(&self.given)?;
        let frozen = self.frozen()?;
        let done = self.repeated(&session, frozen.as_ref())?;
        let wrote = files::write(&self.output, &done.outputs)?;
        if let (Some(path), None, Some(report)) = (&self.freeze, &frozen, &done.report) {
            let text = serde_json::to_string_pretty(&report.plan.freeze())?;
            fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        if as_json {
            println!("{}", object(&session, &done, &wrote));
        } else {
            println!("{}", line(&session, &done, &wrote));
        }
        Ok(())
    }

    fn frozen(&self) -> anyhow::Result<Option<Frozen>> {
        let Some(path) = self.freeze.as_ref().filter(|path| path.exists()) else { return Ok(None) };
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let frozen = serde_json::from_str(&text);
        Ok(Some(frozen.with_context(|| format!("{} is not a frozen plan; remove it or name another", path.display()))?))
    }

    fn repeated(&self, session: &Session, frozen: Option<&Frozen>) -> anyhow::Result<Done> {
        let mut done = Done { outputs: Vec::new(), report: None, times: Vec::new() };
        for _ in 0..self.repeat {
            let inputs = session.fresh_inputs()?;
            let started = Instant::now();
            let outputs = session.write_down(&inputs)?;
            let placed = session.placed(&outputs);
            let tensors: Vec<&Tensor> = placed.iter().collect();
            done.report = match (tensors.is_empty(), frozen) {
                (true, _) => None,
                (false, Some(frozen)) => Some(session.engine.run_frozen(&tensors, frozen)?),
                (false, None) => Some(session.engine.run(&tensors).map_err(|e| session.refused(e))?),
            };
            for tensor in &placed {
                tensor.to_bytes()?;
            }
            done.times.push(started.elapsed());
            done.outputs = named(&outputs, placed);
        }
        Ok(done)
    }
}

/// One line about a run.
fn line(session: &Session, done: &Done, wrote: &[String]) -> String {
    let mut times = done.times.clone();
    times.sort_unstable();
    let median = times[times.len() / 2];
    let time = match times.len() {
        1 => format!("{median:.2?} with planning"),
        n => format!("{median:.2?} (median of {n}; first {:.2?})", done.times[0]),
    };
    let work: Vec<String> = done.report.iter().flat_map(work).map(|work| work.text()).collect();
    let work = if work.is_empty() { "nothing to compute".to_owned() } else { work.join("; ") };
    let wrote = if wrote.is_empty() { String::new() } else { format!("; wrote {}", wrote.join(", ")) };
    let note = done.report.iter().flat_map(|r| &r.replanned).fold(String::new(), |all, line| all + "\n" + line);
    format!("{}: {time}; {work}{wrote}{note}", session.name)
}

/// The same as data.
fn object(session: &Session, done: &Done, wrote: &[String]) -> Value {
    let seconds: Vec<f64> = done.times.iter().map(Duration::as_secs_f64).collect();
    let works: Vec<Work> = done.report.iter().flat_map(work).collect();
    let outputs = done.outputs.iter().flat_map(|(name, tensors)| {
        let spec = |t: &Tensor| t.check().map(|s| (s.dtype.name(), s.shape.to_vec())).ok();
        tensors.iter().map(move |t| spec(t).map(|(dtype, shape)| json!({"name": name, "dtype": dtype, "shape": shape})))
    });
    json!({
        "model": session.name,
        "seconds": seconds,
        "predicted_seconds": done.report.as_ref().map(|r| r.plan.predicted.seconds),
        "devices": works.iter().map(Work::object).collect::<Vec<_>>(),
        "counts": session.engine.monitor().iter().map(|d| (d.name.clone(), counts(d))).collect::<Value>(),
        "replanned": done.report.as_ref().map(|r| r.replanned.clone()).unwrap_or_default(),
        "outputs": outputs.flatten().collect::<Vec<_>>(),
        "wrote": wrote,
    })
}

/// The tensors of each output, as they were placed.
fn named(outputs: &Outputs, placed: Vec<Tensor>) -> Vec<(String, Vec<Tensor>)> {
    let mut placed = placed.into_iter();
    let one = |(name, value): (&str, &breakeven_onnx::Value)| {
        (name.to_owned(), placed.by_ref().take(value.tensors().len()).collect())
    };
    outputs.iter().map(one).collect()
}

/// What one device did.
struct Work {
    device: String,
    nodes: usize,
    kernels: usize,
    copied_bytes: u64,
}

impl Work {
    fn text(&self) -> String {
        let Work { device, nodes, kernels, copied_bytes } = self;
        format!("{device}: {nodes} nodes in {kernels} kernels, {copied_bytes} bytes copied")
    }

    fn object(&self) -> Value {
        let Work { device, nodes, kernels, copied_bytes } = self;
        json!({"name": device, "nodes": nodes, "kernels": kernels, "copied_bytes": copied_bytes})
    }
}

/// What each device did that did something.
fn work(report: &Report) -> Vec<Work> {
    let one = |(id, device): (usize, &String)| {
        let mine = report.plan.decisions.iter().filter(|d| d.device.0 == id);
        let nodes = mine.clone().map(|d| d.nodes.len()).sum();
        let copied_bytes = report.plan.copied_bytes(breakeven::DeviceId(id));
        Work { device: device.clone(), nodes, kernels: mine.count(), copied_bytes }
    };
    let all = report.devices.iter().enumerate().map(one);
    all.filter(|w| w.kernels > 0 || w.copied_bytes > 0).collect()
}
