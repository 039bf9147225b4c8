//! One model: inputs in sets, run in order, compared with what ONNX Runtime made of them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use breakeven::{DType, DeviceId, Engine, Tensor};
use breakeven_onnx::{Model, Outputs, Port, RunOptions, pb};
use serde::Deserialize;

use crate::read::Reading;

/// The relative tolerance that the backend tests of ONNX allow real models, here of the largest element of an output.
const TOLERANCE: f64 = 1e-3;

/// How often the inputs of a model with few of them are run, to time later runs.
const RUNS: usize = 5;

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
    /// Seconds of ONNX Runtime.
    pub reference_first: f64,
    pub reference_later: f64,
    #[serde(skip)]
    folder: PathBuf,
}

/// What a model gave.
#[derive(Debug, Default)]
pub struct Outcome {
    pub sets: usize,
    /// The largest error of any element.
    pub error: f64,
    /// The largest error as a share of the largest element of its output; against f64, where that is there.
    pub relative: f64,
    /// The largest errors against f64, of ours and of ONNX Runtime's.
    pub exact: Option<[f64; 2]>,
    /// Sets whose reading is the one of ONNX Runtime.
    pub equal: usize,
    pub loading: Duration,
    pub first: Duration,
    /// Median of the others.
    pub later: Duration,
}

impl Outcome {
    /// Everything is as near as it must be.
    pub fn is_right(&self) -> bool {
        self.relative <= TOLERANCE && self.equal == self.sets
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

impl Case {
    /// Runs every set on one device alone; the error is a sentence.
    pub fn run(&self, engine: &Engine, device: DeviceId, explain: bool) -> Result<Outcome, String> {
        self.try_run(engine, device, explain).map_err(|error| format!("{error:#}"))
    }

    fn try_run(&self, engine: &Engine, device: DeviceId, explain: bool) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome::default();
        let started = Instant::now();
        let model = Model::load(self.folder.join("model.onnx"))?;
        outcome.loading = started.elapsed();
        let mut times = Vec::new();
        let mut carried: HashMap<String, Tensor> = HashMap::new();
        let repeats = RUNS.div_ceil(self.texts.len());
        for set in 0..self.texts.len() {
            let data = self.folder.join(format!("test_data_set_{set}"));
            let mut run = Run { model: &model, engine, device, carried: &carried, data: &data };
            let mut outputs = Vec::new();
            for repeat in 0..repeats {
                let started = Instant::now();
                outputs = run.outputs(explain && set == 0 && repeat == 0)?;
                times.push(started.elapsed());
            }
            self.compare(&mut run, &outputs, &self.texts[set], &mut outcome)?;
            let next =
                outputs.into_iter().filter_map(|(name, tensor)| Some((self.carried.get(&name)?.clone(), tensor)));
            carried = next.collect();
        }
        outcome.first = times.remove(0);
        times.sort();
        outcome.later = times.get(times.len() / 2).copied().unwrap_or(outcome.first);
        Ok(outcome)
    }

    fn compare(
        &self,
        run: &mut Run<'_>,
        outputs: &[(String, Tensor)],
        text: &str,
        outcome: &mut Outcome,
    ) -> anyhow::Result<()> {
        outcome.sets += 1;
        for (index, (name, given)) in outputs.iter().enumerate() {
            let wanted = run.read(&format!("output_{index}.pb"), &run.model.outputs()[index])?;
            let (is, should) = (given.check()?, wanted.check()?);
            ensure!(is == should, "output '{name}' is {is}, not {should}");
            let (given, wanted) = (elements(given)?, elements(&wanted)?);
            let (error, mut relative) = difference(&given, &wanted);
            outcome.error = outcome.error.max(error);
            let exact = format!("exact_{index}.pb");
            if run.data.join(&exact).exists() {
                let exact = elements(&run.read(&exact, &run.model.outputs()[index])?)?;
                let (ours, theirs) = (difference(&given, &exact), difference(&wanted, &exact).0);
                let before = outcome.exact.unwrap_or_default();
                outcome.exact = Some([before[0].max(ours.0), before[1].max(theirs)]);
                relative = ours.1;
            }
            outcome.relative = outcome.relative.max(relative);
        }
        let (_, scores) = outputs.first().context("the model has no output")?;
        let read = self.reading.read(&scores.to_vec::<f32>()?, scores.shape());
        outcome.equal += usize::from(read == text);
        if read != text {
            println!("{}: read '{read}', not '{text}'", run.data.display());
        }
        Ok(())
    }
}

fn elements(tensor: &Tensor) -> anyhow::Result<Vec<f64>> {
    Ok(match tensor.check()?.dtype {
        DType::F32 => tensor.to_vec::<f32>()?.into_iter().map(f64::from).collect(),
        _ => tensor.to_vec()?,
    })
}

/// The largest difference, and the share of the largest element that it is; NaN counts as an endless error.
fn difference(given: &[f64], wanted: &[f64]) -> (f64, f64) {
    let off = |(a, b): (&f64, &f64)| if (a - b).is_nan() { f64::INFINITY } else { (a - b).abs() };
    let error = given.iter().zip(wanted).map(off).fold(0.0, f64::max);
    (error, error / wanted.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs())))
}

/// One set on one device.
struct Run<'r> {
    model: &'r Model,
    engine: &'r Engine,
    device: DeviceId,
    carried: &'r HashMap<String, Tensor>,
    data: &'r Path,
}

impl Run<'_> {
    /// The outputs, computed and read.
    fn outputs(&self, explain: bool) -> anyhow::Result<Vec<(String, Tensor)>> {
        let mut inputs = Vec::new();
        for (index, port) in self.model.inputs().iter().enumerate() {
            let tensor = match self.carried.get(&port.name) {
                Some(tensor) => tensor.clone(),
                None => self.read(&format!("input_{index}.pb"), port)?,
            };
            inputs.push((port.name.as_str(), tensor));
        }
        let outputs = self.model.run_with(self.engine, &inputs, RunOptions { device: Some(self.device) })?;
        let tensors = self.placed(&outputs)?;
        let all: Vec<&Tensor> = tensors.iter().map(|(_, tensor)| tensor).collect();
        if explain {
            println!("{}", self.engine.explain(&all)?);
        }
        self.engine.run(&all)?;
        all.iter().try_for_each(|tensor| tensor.to_vec::<f32>().map(drop))?;
        Ok(tensors)
    }

    fn placed(&self, outputs: &Outputs) -> anyhow::Result<Vec<(String, Tensor)>> {
        let one = |(name, value): (&str, &breakeven_onnx::Value)| match value.tensor() {
            Some(tensor) => Ok((name.to_owned(), tensor.on(self.device))),
            None => bail!("output '{name}' is no tensor"),
        };
        outputs.iter().map(one).collect()
    }

    fn read(&self, file: &str, port: &Port) -> anyhow::Result<Tensor> {
        let path = self.data.join(file);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let value = pb::read(bytes, &port.kind, self.engine);
        let value = value.map_err(|message| anyhow::anyhow!("{} {message}", path.display()))?;
        value.tensor().cloned().with_context(|| format!("{} holds no tensor", path.display()))
    }
}
