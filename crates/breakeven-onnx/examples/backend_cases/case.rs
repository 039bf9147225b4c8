//! One case: a model, and outputs for inputs.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use anyhow::Context;
use breakeven::{DeviceId, Engine};
use breakeven_onnx::{Error, Model, RunOptions, Value, pb};
use serde::Deserialize;

use crate::compare;

/// More than any case has.
const MOST_DATA_SETS: usize = 1000;

/// Cases, by the beginning of their name, whose expected values are not ones that an implementation must give.
const INCOMPARABLE: [(&str, &str); 3] = [
    (
        "test_attention_4d_causal_fp16",
        "it expects 0.46948 where the exact value is 0.46919, and allows less than the distance to the nearest f16, 0.46899",
    ),
    ("test_bernoulli", "its values were drawn by numpy, and the standard fixes no generator"),
    ("test_dft_inverse", "it expects 1.9e-7 where the exact value is 0, and allows 1e-7"),
];

/// A line of `cases.jsonl`.
#[derive(Debug, Deserialize)]
pub struct Case {
    pub kind: String,
    pub name: String,
    pub operator: String,
    /// All its inputs and outputs have types that this library promises.
    pub ours: bool,
    pub rtol: f64,
    pub atol: f64,
}

/// What a case gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// The expected values are not ones that an implementation must give, for this reason.
    Incomparable(&'static str),
    /// Refused, with the reason.
    Unsupported(String),
    /// A wrong answer, or an error that is none of the case's.
    Failed(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Passed => f.write_str("passed"),
            Outcome::Incomparable(why) => write!(f, "not comparable: {why}"),
            Outcome::Unsupported(why) => write!(f, "unsupported: {why}"),
            Outcome::Failed(why) => write!(f, "FAILED: {why}"),
        }
    }
}

/// All cases of a folder.
pub fn read(folder: &Path) -> anyhow::Result<Vec<Case>> {
    let path = folder.join("cases.jsonl");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

impl Case {
    /// Runs it on one device alone.
    pub fn run(&self, folder: &Path, engine: &Engine, device: DeviceId) -> Outcome {
        let folder = folder.join(&self.kind).join(&self.name);
        let run = || self.try_run(&folder, engine, device);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(())) => Outcome::Passed,
            Ok(Err(Outcome::Failed(why))) => {
                let reason = INCOMPARABLE.iter().find(|(start, _)| self.name.starts_with(start));
                reason.map_or(Outcome::Failed(why), |(_, reason)| Outcome::Incomparable(reason))
            }
            Ok(Err(outcome)) => outcome,
            Err(_) => Outcome::Failed("a panic".to_owned()),
        }
    }

    fn try_run(&self, folder: &Path, engine: &Engine, device: DeviceId) -> Result<(), Outcome> {
        let model = Model::load(folder.join("model.onnx")).map_err(refused)?;
        if !model.missing().is_empty() {
            return Err(refused(Error::Missing(model.missing().clone())));
        }
        for data in data_sets(folder) {
            self.check(&model, &data, engine, device)?;
        }
        Ok(())
    }

    fn check(&self, model: &Model, data: &Path, engine: &Engine, device: DeviceId) -> Result<(), Outcome> {
        let mut inputs = Vec::new();
        for (index, port) in model.inputs().iter().enumerate() {
            let path = data.join(format!("input_{index}.pb"));
            if path.exists() {
                inputs.push((port.name.as_str(), value(&path, &port.kind, engine)?));
            }
        }
        // The second time repeats the first where that can be, and must give the same.
        (0..2).try_for_each(|_| self.once(model, &inputs, data, engine, device))
    }

    fn once(
        &self,
        model: &Model,
        inputs: &[(&str, Value)],
        data: &Path,
        engine: &Engine,
        device: DeviceId,
    ) -> Result<(), Outcome> {
        let outputs = model.run_with(engine, inputs, RunOptions { device: Some(device) }).map_err(refused)?;
        let tensors: Vec<_> = outputs.tensors().into_iter().map(|tensor| tensor.on(device)).collect();
        let computed = engine.run(&tensors.iter().collect::<Vec<_>>());
        computed.map_err(|source| refused(Error::Engine { node: "the outputs".to_owned(), source }))?;
        let mut tensors = tensors.into_iter();
        for (index, (port, (name, given))) in model.outputs().iter().zip(outputs.iter()).enumerate() {
            let path = data.join(format!("output_{index}.pb"));
            let wanted = value(&path, &port.kind, engine)?;
            let given = with_tensors(given, &mut tensors);
            compare::values(&given, &wanted, self).map_err(|why| Outcome::Failed(format!("output '{name}' {why}")))?;
        }
        Ok(())
    }
}

/// The same value over the tensors that were computed.
fn with_tensors(value: &Value, tensors: &mut impl Iterator<Item = breakeven::Tensor>) -> Value {
    match value {
        Value::Tensor(_) => Value::Tensor(tensors.next().expect("as many as the value has")),
        Value::Sequence(values) => Value::Sequence(values.iter().map(|v| with_tensors(v, tensors)).collect()),
        Value::Optional(value) => Value::Optional(value.as_ref().map(|v| Box::new(with_tensors(v, tensors)))),
    }
}

fn data_sets(folder: &Path) -> Vec<PathBuf> {
    (0..MOST_DATA_SETS).map(|i| folder.join(format!("test_data_set_{i}"))).take_while(|path| path.exists()).collect()
}

fn value(path: &Path, kind: &breakeven_onnx::PortKind, engine: &Engine) -> Result<Value, Outcome> {
    let failed = |why: String| Outcome::Failed(format!("{}: {why}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    pb::read(bytes, kind, engine).map_err(failed)
}

/// A refusal that gives its reason is not a failure; anything else is.
fn refused(error: Error) -> Outcome {
    match error {
        Error::Missing(missing) => {
            Outcome::Unsupported(missing.items().iter().map(|item| item.what.clone()).collect::<Vec<_>>().join("; "))
        }
        Error::Unsupported { node, message } => Outcome::Unsupported(format!("{}: {message}", operator(&node))),
        Error::Engine { source: source @ breakeven::Error::Placement(_), .. } => {
            Outcome::Unsupported(source.to_string())
        }
        other => Outcome::Failed(other.to_string()),
    }
}

/// The operator's name in a description of a node, which tells apart what the table need not.
fn operator(node: &str) -> &str {
    node.rsplit_once(" (").map_or(node, |(_, rest)| rest.split(',').next().unwrap_or(rest))
}
