//! One model: inputs in sets, run in order, compared with what ONNX Runtime made of them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use breakeven::{DeviceId, Engine, Tensor};
use breakeven_onnx::{Model, Outputs, Port, RunOptions, pb};
use serde::Deserialize;

use crate::compare::Errors;
use crate::peer::Peer;
use crate::read::Reading;
use crate::timing::{self, Timing};

/// `model.json`.
#[derive(Debug, Deserialize)]
pub struct Case {
    pub name: String,
    /// The package that brings it.
    pub origin: String,
    pub nodes: usize,
    pub operators: Vec<String>,
    /// What ONNX Runtime's first output says, for each set.
    texts: Vec<String>,
    /// Outputs that are inputs of the next set.
    #[serde(default)]
    carried: HashMap<String, String>,
    #[serde(flatten)]
    reading: Reading,
    #[serde(skip)]
    folder: PathBuf,
}

/// What a model gave.
#[derive(Debug, Default)]
pub struct Outcome {
    pub sets: usize,
    pub errors: Errors,
    /// Sets whose reading is the one of ONNX Runtime.
    pub equal: usize,
    pub timing: Timing,
}

impl Outcome {
    /// Everything is as near as it must be.
    pub fn is_right(&self) -> bool {
        self.errors.are_small() && self.equal == self.sets
    }
}

/// The models below `folder` whose name contains `only`.
pub fn cases(folder: &Path, only: &str) -> anyhow::Result<Vec<Case>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut folders: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<_>>()?;
    let is_chosen = |folder: &Path| folder.file_name().is_some_and(|name| name.to_string_lossy().contains(only));
    folders.retain(|folder| folder.join("model.json").exists() && is_chosen(folder));
    folders.sort();
    let cases = folders.into_iter().map(|folder| {
        let case: Case = serde_json::from_slice(&fs::read(folder.join("model.json"))?)?;
        Ok(Case { folder, ..case })
    });
    cases.collect()
}

/// The only device that computes, and what else is wanted of it.
#[derive(Clone, Copy)]
pub struct Target<'t> {
    pub engine: &'t Engine,
    pub device: DeviceId,
    /// Whether its times mean anything.
    pub is_timed: bool,
    /// Print the plan of the first inputs.
    pub explain: bool,
}

impl Case {
    /// Runs every set, in turn with `peer`; the error is a sentence.
    pub fn run(&self, target: Target<'_>, peer: Option<&mut Peer>) -> Result<Outcome, String> {
        self.try_run(target, peer).map_err(|error| format!("{error:#}"))
    }

    fn try_run(&self, target: Target<'_>, mut peer: Option<&mut Peer>) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome::default();
        let model = Model::load(self.folder.join("model.onnx"))?;
        let mut carried: HashMap<String, Tensor> = HashMap::new();
        for (set, text) in self.texts.iter().enumerate() {
            let data = self.folder.join(format!("test_data_set_{set}"));
            let run = Run { model: &model, target, carried: &carried, data: &data };
            let (outputs, first) = run.outputs(target.explain && set == 0)?;
            if set == 0 {
                outcome.timing.first = first;
            }
            run.compare(&outputs, &mut outcome.errors)?;
            outcome.sets += 1;
            outcome.equal += usize::from(self.reads(&outputs, text)?);
            if target.is_timed {
                self.time(&run, set, peer.as_deref_mut(), &mut outcome.timing)?;
            }
            let next =
                outputs.into_iter().filter_map(|(name, tensor)| Some((self.carried.get(&name)?.clone(), tensor)));
            carried = next.collect();
        }
        Ok(outcome)
    }

    /// Whether the first output says `text`.
    fn reads(&self, outputs: &[(String, Tensor)], text: &str) -> anyhow::Result<bool> {
        let (_, scores) = outputs.first().context("the model has no output")?;
        let read = self.reading.read(&scores.to_vec::<f32>()?, scores.shape());
        if read != text {
            println!("{}: read '{read}', not '{text}'", self.name);
        }
        Ok(read == text)
    }

    /// Later runs of one set, in turn with ONNX Runtime, whose first run of a set does not count either.
    fn time(&self, run: &Run<'_>, set: usize, mut peer: Option<&mut Peer>, timing: &mut Timing) -> anyhow::Result<()> {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        if let Some(peer) = peer.as_deref_mut() {
            peer.run(&self.folder, set)?;
        }
        for _ in 0..timing::RUNS {
            ours.push(run.outputs(false)?.1);
            if let Some(peer) = peer.as_deref_mut() {
                theirs.push(peer.run(&self.folder, set)?);
            }
        }
        timing.add(ours, theirs);
        Ok(())
    }
}

/// One set on one device.
struct Run<'r> {
    model: &'r Model,
    target: Target<'r>,
    carried: &'r HashMap<String, Tensor>,
    data: &'r Path,
}

impl Run<'_> {
    /// The outputs, computed and read, and how long that took.
    fn outputs(&self, explain: bool) -> anyhow::Result<(Vec<(String, Tensor)>, Duration)> {
        let mut inputs = Vec::new();
        for (index, port) in self.model.inputs().iter().enumerate() {
            let tensor = match self.carried.get(&port.name) {
                Some(tensor) => tensor.clone(),
                None => self.read(&format!("input_{index}.pb"), port)?,
            };
            inputs.push((port.name.as_str(), tensor));
        }
        let Target { engine, device, .. } = self.target;
        let started = Instant::now();
        let outputs = self.model.run_with(engine, &inputs, RunOptions { device: Some(device) })?;
        let tensors = self.placed(&outputs)?;
        let all: Vec<&Tensor> = tensors.iter().map(|(_, tensor)| tensor).collect();
        if explain {
            println!("{}", engine.explain(&all)?);
        }
        engine.run(&all)?;
        all.iter().try_for_each(|tensor| tensor.to_bytes().map(drop))?;
        Ok((tensors, started.elapsed()))
    }

    /// Compares every output with ONNX Runtime's, and with f64 where that is there.
    fn compare(&self, outputs: &[(String, Tensor)], errors: &mut Errors) -> anyhow::Result<()> {
        for (index, ((name, given), port)) in outputs.iter().zip(self.model.outputs()).enumerate() {
            let wanted = self.read(&format!("output_{index}.pb"), port)?;
            let (is, should) = (given.check()?, wanted.check()?);
            ensure!(is == should, "output '{name}' is {is}, not {should}");
            let exact = format!("exact_{index}.pb");
            let exact = if self.data.join(&exact).exists() { Some(self.read(&exact, port)?) } else { None };
            errors.add(given, &wanted, exact.as_ref())?;
        }
        Ok(())
    }

    fn placed(&self, outputs: &Outputs) -> anyhow::Result<Vec<(String, Tensor)>> {
        let one = |(name, value): (&str, &breakeven_onnx::Value)| match value.tensor() {
            Some(tensor) => Ok((name.to_owned(), tensor.on(self.target.device))),
            None => bail!("output '{name}' is no tensor"),
        };
        outputs.iter().map(one).collect()
    }

    fn read(&self, file: &str, port: &Port) -> anyhow::Result<Tensor> {
        let path = self.data.join(file);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let value = pb::read(bytes, &port.kind, self.target.engine);
        let value = value.map_err(|message| anyhow::anyhow!("{} {message}", path.display()))?;
        value.tensor().cloned().with_context(|| format!("{} holds no tensor", path.display()))
    }
}
