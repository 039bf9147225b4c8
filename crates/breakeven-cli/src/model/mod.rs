//! What the commands about models share: the arguments, the engine, the inputs.

mod archive;
pub mod files;
mod random;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use breakeven::{Deadline, DeviceId, DeviceKind, Engine, Graphics, HostBytes, Settings, Spec, Tensor};
use breakeven_onnx::{Model, Outputs, RunOptions};

/// Which model, on what, where.
#[derive(Debug, clap::Args)]
pub struct Given {
    /// The model, an .onnx file.
    model: PathBuf,
    /// NAME=FILE.npy, or an .npz file that holds inputs by name; may be repeated.
    #[arg(long)]
    input: Vec<String>,
    /// Make the inputs that are not given: normal floats, integers of 0 and 1.
    #[arg(long)]
    random: bool,
    /// Seed of the random inputs.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// NAME=EXTENT of a dimension that the model leaves open, for random inputs; 1 where it is not given.
    #[arg(long)]
    dim: Vec<String>,
    /// auto, cpu, or another device as `breakeven devices` names it; a device that is named is never left.
    #[arg(long, default_value = "auto")]
    on: String,
    /// Look for GPUs through this interface alone: vulkan, metal, dx12 or gl.
    #[arg(long, value_parser = crate::graphics)]
    backend: Option<Graphics>,
    /// Seconds to wait for drivers, and for each result.
    #[arg(long, default_value_t = 60)]
    deadline: u64,
}

/// A model, ready to run.
pub struct Session {
    pub name: String,
    pub engine: Engine,
    model: Model,
    device: Option<DeviceId>,
    inputs: Vec<(String, Spec, HostBytes)>,
}

impl Session {
    /// Everything that the arguments say, read and checked.
    pub fn open(given: &Given) -> anyhow::Result<Session> {
        let name = given.model.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let model = Model::load(&given.model)?;
        if !model.missing().is_empty() {
            bail!("{}: {}", given.model.display(), model.missing());
        }
        let (engine, device) = engine(given)?;
        let host = Engine::builder().gpus(false).no_cache().threads(1).build()?;
        let mut inputs = files::read(&given.input, &model, &host)?;
        if given.random {
            random::fill(&mut inputs, &model, &host, given.seed, &extents(&given.dim)?)?;
        }
        Session { name, engine, model, device, inputs: Vec::new() }.with(inputs)
    }

    /// Inputs as bytes of the host, so that each run brings them anew.
    fn with(mut self, inputs: HashMap<String, Tensor>) -> anyhow::Result<Session> {
        let missing: Vec<&str> =
            self.model.inputs().iter().map(|p| p.name.as_str()).filter(|name| !inputs.contains_key(*name)).collect();
        if !missing.is_empty() {
            let kinds = self.model.inputs().iter().filter(|p| missing.contains(&p.name.as_str()));
            let kinds: Vec<String> = kinds.map(|p| format!("'{}' ({})", p.name, p.kind)).collect();
            bail!("no input is given for {}: say --input NAME=FILE.npy for each, or --random", kinds.join(", "));
        }
        for (name, tensor) in inputs {
            let spec = tensor.check()?.clone();
            self.inputs.push((name, spec, tensor.to_bytes()?.into()));
        }
        Ok(self)
    }

    /// The inputs as tensors that no device has seen.
    pub fn fresh_inputs(&self) -> anyhow::Result<Vec<(&str, Tensor)>> {
        let tensor = |spec: &Spec, bytes: &HostBytes| self.engine.tensor_from_bytes(spec.clone(), bytes.clone());
        let all = self.inputs.iter().map(|(name, spec, bytes)| Ok((name.as_str(), tensor(spec, bytes)?)));
        all.collect()
    }

    /// What the model computes from them, not computed yet.
    pub fn write_down(&self, inputs: &[(&str, Tensor)]) -> anyhow::Result<Outputs> {
        Ok(self.model.run_with(&self.engine, inputs, RunOptions { device: self.device })?)
    }

    /// Every tensor of the outputs, on the device that is forced if there is one.
    pub fn placed(&self, outputs: &Outputs) -> Vec<Tensor> {
        let one = |tensor: &Tensor| self.device.map_or_else(|| tensor.clone(), |device| tensor.on(device));
        outputs.tensors().into_iter().map(one).collect()
    }

    /// An error that lists everything that the forced device cannot run.
    pub fn refused(&self, error: breakeven::Error) -> anyhow::Error {
        let (Some(device), breakeven::Error::Placement(first)) = (self.device, &error) else { return error.into() };
        let others = self.unsupported(device).unwrap_or_default();
        let others = others.iter().filter(|line| !first.contains(*line));
        let others = others.fold(String::new(), |all, line| all + "\n  also " + line);
        let advice = "run it with --on auto or --on cpu, or convert the model to types that the device has";
        anyhow::anyhow!("{first}{others}\n{advice}")
    }

    /// What `device` cannot run of the model when nothing is forced, kernel by kernel. Of a software adapter it is not known:
    /// the planner does not ask it unless it must.
    fn unsupported(&self, device: DeviceId) -> anyhow::Result<Vec<String>> {
        if self.engine.devices().iter().any(|d| d.id == device && d.info.kind == DeviceKind::Software) {
            return Ok(Vec::new());
        }
        let outputs = self.model.run(&self.engine, &self.fresh_inputs()?)?;
        let plan = self.engine.explain(&outputs.tensors())?;
        let why = |d: &breakeven::Decision| {
            d.excluded.iter().find(|(id, _)| *id == device).map(|(_, why)| format!("{}: {why}", d.what))
        };
        let mut all: Vec<String> = plan.decisions.iter().filter_map(why).collect();
        all.dedup();
        Ok(all)
    }
}

/// The engine, and the device that everything is forced to.
fn engine(given: &Given) -> anyhow::Result<(Engine, Option<DeviceId>)> {
    let wait = Duration::from_secs(given.deadline);
    let settings = Settings::from_env()?;
    let settings = Settings { graphics: given.backend.or(settings.graphics), ..settings };
    let builder = Engine::builder().settings(settings).deadline(wait);
    let builder = match given.on.as_str() {
        "auto" => builder,
        "cpu" => builder.gpus(false),
        _ => builder.gpus(true).software(true),
    };
    let engine = builder.build()?;
    engine.ready(Deadline::after(wait)).context("some drivers did not answer; --on cpu does without them")?;
    if given.on == "auto" {
        return Ok((engine, None));
    }
    let devices = engine.devices();
    let found = devices.iter().find(|device| device.name == given.on);
    match found.map(|device| (device.id, device.state.problem())) {
        Some((id, None)) => Ok((engine, Some(id))),
        Some((_, Some(why))) => bail!("{} cannot be used: {why}", given.on),
        None => {
            let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
            bail!("there is no device '{}'; there are auto, {}", given.on, names.join(", "))
        }
    }
}

/// Extents by name.
fn extents(dims: &[String]) -> anyhow::Result<HashMap<String, usize>> {
    let one = |dim: &String| {
        let (name, extent) = dim.split_once('=').with_context(|| format!("--dim takes NAME=EXTENT, not '{dim}'"))?;
        let extent = extent.parse().with_context(|| format!("--dim {dim}: '{extent}' is not a whole number"))?;
        Ok((name.to_owned(), extent))
    };
    dims.iter().map(one).collect()
}
