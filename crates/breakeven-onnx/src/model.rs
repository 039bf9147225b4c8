//! Models: load one, ask what it takes and gives, run it.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use breakeven::{DType, DeviceId, Engine, EngineBuilder, HostBytes, Report, Spec, Tensor};
use bytes::Bytes;

use crate::error::{Error, Result};
use crate::external::Files;
use crate::graph::{Dim, Port, PortKind};
use crate::read::{self, Parsed};
use crate::repeat::Repeat;
use crate::run::{Interpreter, Scope, Written};
use crate::store::Stores;
use crate::value::{Constant, Item};
use crate::{Missing, Value};

/// An ONNX model, read and checked. It may be run on several engines, and by several threads.
///
/// ```no_run
/// use breakeven::Engine;
/// use breakeven_onnx::Model;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::detect()?;
/// let model = Model::load("model.onnx")?;
/// let outputs = model.run(&engine, &[("x", engine.tensor(&[1.0, 2.0], [1, 2]))])?;
/// let y: Vec<f32> = outputs.tensor("y").expect("the model has an output y").to_vec()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Model {
    parsed: Parsed,
    /// Inputs that are not mere defaults.
    inputs: Vec<Port>,
    folder: OnceLock<Engine>,
    stores: Stores,
}

/// How a run is carried out.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// The only device that may compute; what it cannot run is an error, never a fallback.
    pub device: Option<DeviceId>,
}

impl Model {
    /// Reads the file at `path`; tensors that lie in other files must lie in its folder.
    ///
    /// The files are mapped: while the model lives, no program may truncate them.
    pub fn load(path: impl AsRef<Path>) -> Result<Model> {
        let path = path.as_ref();
        let file = breakeven::map_file(path).map_err(|error| match error {
            breakeven::Error::File { path, message } => Error::File { path, message },
            other => Error::file(path, other.to_string()),
        })?;
        let parsed = read::parse(Bytes::from_owner(Mapped(file)), Files::beside(path));
        parsed.map(Model::of).map_err(|message| Error::file(path, message))
    }

    /// Reads a model that is in memory and needs no other file.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Model> {
        let parsed = read::parse(Bytes::from(bytes), Files::none());
        parsed.map(Model::of).map_err(|message| Error::file(Path::new("the model in memory"), message))
    }

    fn of(parsed: Parsed) -> Model {
        let is_default = |port: &Port| parsed.graph.initialisers.iter().any(|i| i.name == port.name);
        let inputs = parsed.graph.inputs.iter().filter(|port| !is_default(port)).cloned().collect();
        Model { parsed, inputs, folder: OnceLock::new(), stores: Stores::default() }
    }

    /// What must be given, in order.
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// What comes out, in order.
    pub fn outputs(&self) -> &[Port] {
        &self.parsed.graph.outputs
    }

    /// Opset of the standard domain.
    pub fn opset(&self) -> i64 {
        self.parsed.opsets.get("").copied().unwrap_or(1)
    }

    /// Which program wrote the file, as far as it says so.
    pub fn producer(&self) -> &str {
        &self.parsed.producer
    }

    /// Everything that keeps this model from running here.
    pub fn missing(&self) -> &Missing {
        &self.parsed.missing
    }

    /// Writes down what the model computes from `inputs`, by name. Nothing is computed until an output is read, but for
    /// what decides shapes or the way through the graph.
    pub fn run<V: Into<Value> + Clone>(&self, engine: &Engine, inputs: &[(&str, V)]) -> Result<Outputs> {
        self.run_with(engine, inputs, RunOptions::default())
    }

    /// [`Model::run`], carried out as `options` say.
    pub fn run_with<V: Into<Value> + Clone>(
        &self,
        engine: &Engine,
        inputs: &[(&str, V)],
        options: RunOptions,
    ) -> Result<Outputs> {
        if !self.parsed.missing.is_empty() {
            return Err(Error::Missing(self.parsed.missing.clone()));
        }
        let given = self.given(engine, inputs)?;
        let mut key = Vec::new();
        for value in &given {
            describe(value, &mut key);
        }
        let scope = Scope::top();
        let has_replaced = self.bind_defaults(engine, inputs, &scope)?;
        // What earlier runs found out followed from the defaults.
        let store = if has_replaced { Arc::default() } else { self.stores.of(engine) };
        let repeat = if has_replaced { None } else { Repeat::of(&given, &key, options.device, &store) };
        if let Some(outputs) = repeat.as_ref().and_then(Repeat::recall) {
            return Ok(self.outputs_of(engine, outputs));
        }
        let draft = repeat.as_ref().and_then(Repeat::draft);
        let items = match &draft {
            Some(draft) => draft.stand_ins().iter().cloned().map(Item::Tensor).collect(),
            None => given.iter().cloned().map(item).collect::<Vec<_>>(),
        };
        for (port, item) in self.inputs.iter().zip(items) {
            scope.bind(&port.name, item);
        }
        let written = Written { device: options.device, draft: draft.as_ref() };
        let interpreter = Interpreter::new(engine, self.folder(engine)?, &store, store.shaped(&key), written);
        let outputs = self.interpret(engine, &interpreter, &scope)?;
        let kept = repeat.zip(draft.as_ref()).zip(interpreter.deciding()).and_then(|((repeat, draft), deciding)| {
            repeat.keep(draft, &deciding, outputs.values.iter().map(|(_, value)| value))
        });
        Ok(kept.map_or(outputs, |kept| self.outputs_of(engine, kept)))
    }

    /// What is given for each input that has no default.
    fn given<V: Into<Value> + Clone>(&self, engine: &Engine, inputs: &[(&str, V)]) -> Result<Vec<Value>> {
        let one = |port: &Port| {
            let given = inputs.iter().find(|(name, _)| *name == port.name).map(|(_, value)| value.clone().into());
            let value = given.ok_or_else(|| Error::input(&port.name, format!("is not given; it is {}", port.kind)))?;
            check(port, &value, engine)?;
            Ok(value)
        };
        self.inputs.iter().map(one).collect()
    }

    /// Walks the nodes.
    fn interpret(&self, engine: &Engine, interpreter: &Interpreter<'_>, scope: &Scope<'_>) -> Result<Outputs> {
        let items = interpreter.graph(&self.parsed.graph, scope)?;
        let ports = self.parsed.graph.outputs.iter();
        let values = ports.zip(items).map(|(port, item)| Ok((port.name.clone(), value(item, engine)?)));
        Ok(Outputs { values: values.collect::<Result<_>>()?, engine: engine.clone() })
    }

    /// Tensors under the names of the outputs.
    fn outputs_of(&self, engine: &Engine, tensors: Vec<Tensor>) -> Outputs {
        let names = self.parsed.graph.outputs.iter().map(|port| port.name.clone());
        Outputs { values: names.zip(tensors.into_iter().map(Value::Tensor)).collect(), engine: engine.clone() }
    }

    /// Inputs that have a default are taken where they are given, and whether some are; a name that the model does not have is an error.
    fn bind_defaults<V: Into<Value> + Clone>(
        &self,
        engine: &Engine,
        inputs: &[(&str, V)],
        scope: &Scope<'_>,
    ) -> Result<bool> {
        let mut has_replaced = false;
        for (name, given) in inputs {
            let Some(port) = self.parsed.graph.inputs.iter().find(|port| port.name == *name) else {
                let known: Vec<&str> = self.inputs.iter().map(|port| port.name.as_str()).collect();
                return Err(Error::input(
                    name,
                    format!("the model has none of this name, but '{}'", known.join("', '")),
                ));
            };
            if !self.inputs.iter().any(|input| input.name == *name) {
                let given = given.clone().into();
                check(port, &given, engine)?;
                scope.bind(name, item(given));
                has_replaced = true;
            }
        }
        Ok(has_replaced)
    }

    /// How many runs on `engine` can be repeated.
    #[cfg(test)]
    pub(crate) fn programs(&self, engine: &Engine) -> usize {
        self.stores.of(engine).programs()
    }

    /// The engine that folds constants: a CPU alone, with the limits of the engine that ran the model first.
    fn folder(&self, engine: &Engine) -> Result<&Engine> {
        if let Some(folder) = self.folder.get() {
            return Ok(folder);
        }
        let made = Engine::builder().gpus(false).no_cache().threads(1).deadline(engine.deadline().limit());
        let made = engine.memory_limit().into_iter().fold(made, EngineBuilder::memory_limit).build();
        let made = made.map_err(|source| Error::Engine { node: "the folding of constants".to_owned(), source })?;
        Ok(self.folder.get_or_init(|| made))
    }
}

/// A mapped file, for the protobuf reader.
struct Mapped(HostBytes);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// What a run gives, in the order of the model's outputs.
#[derive(Clone, Debug)]
pub struct Outputs {
    values: Vec<(String, Value)>,
    engine: Engine,
}

impl Outputs {
    /// The output called `name`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The output called `name`, if it is a tensor.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.get(name).and_then(Value::tensor)
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Every tensor of every output.
    pub fn tensors(&self) -> Vec<&Tensor> {
        self.values.iter().flat_map(|(_, value)| value.tensors()).collect()
    }

    /// Compute all outputs together, which is what makes one plan of the whole model.
    pub fn compute(&self) -> breakeven::Result<Report> {
        self.engine.run(&self.tensors())
    }
}

/// A given value fits its port.
fn check(port: &Port, value: &Value, engine: &Engine) -> Result<()> {
    let message = mismatch(&port.kind, value, engine);
    message.map_or(Ok(()), |message| Err(Error::input(&port.name, message)))
}

fn mismatch(kind: &PortKind, value: &Value, engine: &Engine) -> Option<String> {
    match (kind, value) {
        (PortKind::Tensor { dtype, dims }, Value::Tensor(tensor)) => match tensor.check() {
            Err(error) => Some(error.to_string()),
            Ok(_) if !tensor.engine().is_same(engine) => Some("is a tensor of another engine".to_owned()),
            Ok(spec) => (!fits(spec, *dtype, dims.as_deref())).then(|| format!("is {spec}; the model takes {kind}")),
        },
        (PortKind::Sequence(of), Value::Sequence(values)) => values.iter().find_map(|v| mismatch(of, v, engine)),
        (PortKind::Optional(of), Value::Optional(value)) => value.as_ref().and_then(|v| mismatch(of, v, engine)),
        (PortKind::Unknown, _) => None,
        (PortKind::Optional(of), value) => mismatch(of, value, engine),
        (kind, _) => Some(format!("the model takes {kind}")),
    }
}

/// Dtypes and shapes, with a mark for how many values a list has.
fn describe(value: &Value, key: &mut Vec<Spec>) {
    match value {
        Value::Tensor(tensor) => key.extend(tensor.check().cloned()),
        Value::Sequence(values) => {
            key.push(Spec::new(DType::Bool, [values.len(), 0]));
            for value in values {
                describe(value, key);
            }
        }
        Value::Optional(value) => {
            key.push(Spec::new(DType::Bool, [usize::from(value.is_some()), 0, 0]));
            if let Some(value) = value {
                describe(value, key);
            }
        }
    }
}

fn fits(spec: &Spec, dtype: DType, dims: Option<&[Dim]>) -> bool {
    let extents = |dims: &[Dim]| {
        let one = |(dim, &extent): (&Dim, &usize)| !matches!(dim, Dim::Fixed(fixed) if *fixed != extent);
        dims.len() == spec.shape.rank() && dims.iter().zip(spec.shape.iter()).all(one)
    };
    spec.dtype == dtype && dims.is_none_or(extents)
}

fn item(value: Value) -> Item {
    match value {
        Value::Tensor(tensor) => Item::Tensor(tensor),
        Value::Sequence(values) => Item::Sequence(values.into_iter().map(item).collect()),
        Value::Optional(value) => Item::Optional(value.map(|value| Box::new(item(*value)))),
    }
}

fn value(item: Item, engine: &Engine) -> Result<Value> {
    let moved = |constant: Arc<Constant>| {
        let node = || "an output that does not depend on the inputs".to_owned();
        constant.on(engine).map_err(|source| Error::Engine { node: node(), source })
    };
    Ok(match item {
        Item::Tensor(tensor) => Value::Tensor(tensor),
        Item::Constant(constant) => Value::Tensor(moved(constant)?),
        Item::Sequence(items) => Value::Sequence(items.into_iter().map(|i| value(i, engine)).collect::<Result<_>>()?),
        Item::Optional(item) => Value::Optional(item.map(|i| value(*i, engine).map(Box::new)).transpose()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{AttributeProto, GraphProto, TensorProto};
    use crate::sample::{bytes, node, port, weights};

    /// `relu(x @ w)` with its columns counted by a folded shape.
    fn layer() -> GraphProto {
        GraphProto {
            node: vec![
                node("MatMul", &["x", "w"], "product"),
                node("Relu", &["product"], "positive"),
                node("Shape", &["positive"], "shape"),
                node("Reshape", &["positive", "shape"], "y"),
            ],
            initializer: vec![weights("w", &[2, 3], &[1.0, 0.0, -1.0, 0.0, 1.0, -1.0])],
            input: vec![port("x", 2)],
            output: vec![port("y", 2)],
            ..Default::default()
        }
    }

    fn engine() -> Engine {
        Engine::builder().gpus(false).no_cache().build().expect("a CPU is always there")
    }

    #[test]
    fn a_model_runs_again_with_other_shapes() {
        let (engine, model) = (engine(), Model::from_bytes(bytes(layer())).expect("well formed"));
        for rows in [1, 2, 1] {
            let x = engine.tensor(&[2.0, 3.0].repeat(rows), [rows, 2]);
            let outputs = model.run(&engine, &[("x", x)]).expect("it fits");
            let y = outputs.tensor("y").expect("it has one").to_vec::<f32>().expect("the CPU computes it");
            assert_eq!(y, [2.0, 3.0, 0.0].repeat(rows));
        }
    }

    #[test]
    fn everything_missing_is_told_at_once() {
        let mut graph = layer();
        graph.node.push(node("Teleport", &["y"], "a"));
        graph.node.push(node("Teleport", &["a"], "b"));
        let strange = AttributeProto { name: "warp".into(), r#type: 2, ..Default::default() };
        graph.node[1].attribute.push(strange);
        graph.initializer.push(TensorProto { name: "t".into(), data_type: 17, ..Default::default() });
        let model = Model::from_bytes(bytes(graph)).expect("well formed");
        let whats: Vec<&str> = model.missing().items().iter().map(|item| item.what.as_str()).collect();
        let wanted = [
            "element type float8e4m3fn",
            "attribute 'warp' of operator Relu (opset 17)",
            "operator Teleport (opset 17)",
        ];
        assert_eq!(whats, wanted);
        let engine = engine();
        let refused = model.run(&engine, &[("x", engine.tensor(&[0.0; 2], [1, 2]))]);
        let text = refused.expect_err("it cannot run").to_string();
        assert!(text.contains("operator Teleport (opset 17) (node 'a' and 1 more)"), "{text}");
    }

    #[test]
    fn wrong_inputs_are_named() {
        let (engine, model) = (engine(), Model::from_bytes(bytes(layer())).expect("well formed"));
        let error = |inputs: &[(&str, Tensor)]| model.run(&engine, inputs).expect_err("it is wrong").to_string();
        assert_eq!(error(&[]), "input 'x': is not given; it is f32[?, ?]");
        let flat = engine.tensor(&[1.0, 2.0], [2]);
        assert_eq!(error(&[("x", flat.clone())]), "input 'x': is f32[2]; the model takes f32[?, ?]");
        let x = flat.reshape([1, 2]);
        assert_eq!(error(&[("x", x.clone()), ("z", x)]), "input 'z': the model has none of this name, but 'x'");
        let narrow = engine.tensor(&[1.0], [1, 1]);
        let text = error(&[("x", narrow)]);
        assert!(text.starts_with("node 'product' (MatMul, opset 17): matmul(f32[1, 1], f32[2, 3])"), "{text}");
    }

    #[test]
    fn damaged_files_are_errors() {
        let whole = bytes(layer());
        for end in 0..whole.len() {
            // Whatever it is, it is no panic.
            let _ = Model::from_bytes(whole[..end].to_vec());
        }
        assert!(Model::from_bytes(b"not a model".to_vec()).is_err());
        assert!(Model::from_bytes(Vec::new()).is_err());
    }
}
