//! What an operator sees of its node: inputs, attributes, engines.

use std::sync::Arc;

use breakeven::{DType, Element, Engine, Shape, Tensor};

use crate::attribute::Attribute;
use crate::error::{Fault, unsupported, wrong};
use crate::graph::{Graph, Node};
use crate::host;
use crate::literal::{Literal, dtype};
use crate::ops::WRITTEN_DOWN;
use crate::run::{Interpreter, Scope};
use crate::value::Item;

pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// One call of an operator.
pub(crate) struct Call<'c> {
    pub node: &'c Node,
    interpreter: &'c Interpreter<'c>,
    scope: &'c Scope<'c>,
    inputs: Vec<Option<Item>>,
    engine: &'c Engine,
}

impl<'c> Call<'c> {
    /// A call whose result depends on inputs of the model if one of its own inputs does, or if it `is_random`.
    pub fn new(
        interpreter: &'c Interpreter<'c>,
        node: &'c Node,
        scope: &'c Scope<'c>,
        inputs: Vec<Option<Item>>,
        is_random: bool,
    ) -> Call<'c> {
        let is_constant = !is_random && inputs.iter().flatten().all(Item::is_constant);
        let engine = if is_constant { interpreter.folder } else { interpreter.target };
        Call { node, interpreter, scope, inputs, engine }
    }

    /// The result depends on the model alone.
    pub fn is_fixed(&self) -> bool {
        self.inputs.iter().flatten().all(Item::is_fixed)
    }

    /// The engine of this call's result.
    pub fn engine(&self) -> &Engine {
        self.engine
    }

    /// Opset of the operator's domain.
    pub fn opset(&self) -> i64 {
        self.node.opset
    }

    /// Inputs named, present or not.
    pub fn count(&self) -> usize {
        self.inputs.len()
    }

    /// Whether somebody reads output `index`.
    pub fn wants(&self, index: usize) -> bool {
        self.node.outputs.get(index).is_some_and(|name| !name.is_empty())
    }

    /// How many outputs the node names.
    pub fn outputs(&self) -> usize {
        self.node.outputs.len()
    }

    /// Whether input `index` is given.
    pub fn has(&self, index: usize) -> bool {
        self.inputs.get(index).is_some_and(Option::is_some)
    }

    /// Input `index`, whatever it is.
    pub fn item(&self, index: usize) -> Result<&Item> {
        let missing = || Fault::Wrong(format!("its input {index} is missing"));
        self.inputs.get(index).and_then(Option::as_ref).ok_or_else(missing)
    }

    /// Input `index`, a tensor of this call's engine.
    pub fn tensor(&self, index: usize) -> Result<Tensor> {
        self.to_tensor(self.item(index)?)
    }

    /// Input `index` if it is given.
    pub fn optional(&self, index: usize) -> Result<Option<Tensor>> {
        if self.has(index) { self.tensor(index).map(Some) } else { Ok(None) }
    }

    /// All inputs, tensors of this call's engine.
    pub fn tensors(&self) -> Result<Vec<Tensor>> {
        (0..self.count()).map(|index| self.tensor(index)).collect()
    }

    /// `item` as a tensor of this call's engine.
    pub fn to_tensor(&self, item: &Item) -> Result<Tensor> {
        match item {
            Item::Tensor(tensor) => Ok(tensor.clone()),
            Item::Constant(constant) if self.engine.is_same(self.interpreter.folder) => Ok(constant.tensor.clone()),
            Item::Constant(constant) => Ok(constant.on(self.engine)?),
            Item::Optional(Some(item)) => self.to_tensor(item),
            Item::Optional(None) => wrong("takes a tensor, and the optional is empty"),
            Item::Sequence(_) => wrong("takes a tensor, not a sequence"),
        }
    }

    /// `item` as a tensor of the engine that runs the model.
    pub fn on_target(&self, item: &Item) -> Result<Tensor> {
        match item {
            Item::Constant(constant) => Ok(constant.on(self.interpreter.target)?),
            item => self.to_tensor(item),
        }
    }

    /// The engine that runs the model.
    pub fn target(&self) -> &Engine {
        self.interpreter.target
    }

    /// A tensor as a value that nodes of a subgraph may take.
    pub fn settled(&self, tensor: Tensor) -> Item {
        self.interpreter.settled(Item::Tensor(tensor), false)
    }

    /// Fails where a list of so many elements of so many bytes is more than may be held.
    pub fn room(&self, count: usize, each: usize) -> Result<()> {
        self.interpreter.room(count, each)
    }

    /// Fails where step `turn` of a loop comes too late, or what all steps wrote down is more than may be held.
    pub fn step(&self, turn: usize) -> Result<()> {
        self.interpreter.in_time()?;
        self.room(turn, WRITTEN_DOWN)
    }

    /// The elements of input `index` as integers, which are known or computed now.
    pub fn ints(&self, index: usize) -> Result<Vec<i64>> {
        Ok(host::ints(&self.listable(index)?)?)
    }

    /// Input `index`, whose elements may be read as a list of wide numbers.
    fn listable(&self, index: usize) -> Result<Tensor> {
        let tensor = self.readable(self.item(index)?)?;
        self.room(tensor.check()?.shape.elements(), size_of::<i64>())?;
        Ok(tensor)
    }

    /// The elements of input `index` as integers, if it is given.
    pub fn optional_ints(&self, index: usize) -> Result<Option<Vec<i64>>> {
        if self.has(index) { self.ints(index).map(Some) } else { Ok(None) }
    }

    /// The elements of input `index` as numbers, which are known or computed now.
    pub fn floats(&self, index: usize) -> Result<Vec<f64>> {
        Ok(host::floats(&self.listable(index)?)?)
    }

    /// The only element of input `index`, as an integer.
    pub fn one_int(&self, index: usize) -> Result<i64> {
        only(index, &self.ints(index)?)
    }

    /// The only element of input `index`, as a number.
    pub fn one_float(&self, index: usize) -> Result<f64> {
        only(index, &self.floats(index)?)
    }

    /// A tensor whose elements may be read now: one that depends on inputs is computed where the run is forced to.
    pub fn readable(&self, item: &Item) -> Result<Tensor> {
        match item {
            Item::Constant(constant) => Ok(constant.tensor.clone()),
            Item::Tensor(tensor) => {
                self.interpreter.note_read(tensor);
                Ok(tensor.clone())
            }
            Item::Optional(Some(item)) => self.readable(item),
            other => self.to_tensor(other),
        }
    }

    /// Compute these tensors together, since one of them is about to be read.
    pub fn compute(&self, tensors: &[&Tensor]) -> Result<()> {
        if !tensors.is_empty() {
            // They are values from here on, which nobody can trace to inputs.
            self.interpreter.note_unique();
            self.interpreter.target.run(tensors)?;
        }
        Ok(())
    }

    /// Dtype and shape of input `index`.
    pub fn spec(&self, index: usize) -> Result<breakeven::Spec> {
        let tensor = match self.item(index)? {
            Item::Constant(constant) => constant.tensor.clone(),
            item => self.to_tensor(item)?,
        };
        Ok(tensor.check()?.clone())
    }

    /// A tensor that is known now and depends on shapes at most.
    pub fn known<T: Element>(&self, elements: Vec<T>, shape: impl Into<Shape>) -> Tensor {
        self.interpreter.folder.from_vec(elements, shape)
    }

    /// Elements that were computed on the host, on this call's engine.
    pub fn made<T: Element>(&self, elements: Vec<T>, shape: impl Into<Shape>) -> Tensor {
        self.engine.from_vec(elements, shape)
    }

    /// `literal` as a constant.
    pub fn literal(&self, literal: &Literal) -> Tensor {
        self.interpreter.folder.from_bytes(literal.bytes.clone(), literal.spec.clone())
    }

    /// The attribute `name`, if it is given here or by the caller of the surrounding function.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        match self.node.attributes.get(name) {
            Some(Attribute::Reference(outer)) => self.scope.reference(outer),
            attribute => attribute,
        }
    }

    /// An integer.
    pub fn int(&self, name: &str, default: i64) -> Result<i64> {
        match self.attribute(name) {
            None => Ok(default),
            Some(Attribute::Int(value)) => Ok(*value),
            Some(other) => bad(name, "an integer", other),
        }
    }

    /// An integer that holds or not.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool> {
        Ok(self.int(name, i64::from(default))? != 0)
    }

    /// A number.
    pub fn float(&self, name: &str, default: f32) -> Result<f64> {
        match self.attribute(name) {
            None => Ok(f64::from(default)),
            Some(Attribute::Float(value)) => Ok(f64::from(*value)),
            Some(other) => bad(name, "a number", other),
        }
    }

    /// A text.
    pub fn text(&self, name: &str, default: &'static str) -> Result<&str> {
        match self.attribute(name) {
            None => Ok(default),
            Some(Attribute::Text(value)) => Ok(value),
            Some(other) => bad(name, "a text", other),
        }
    }

    /// Integers, if given.
    pub fn list(&self, name: &str) -> Result<Option<&[i64]>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Ints(values)) => Ok(Some(values)),
            Some(other) => bad(name, "integers", other),
        }
    }

    /// Numbers, if given.
    pub fn float_list(&self, name: &str) -> Result<Option<&[f32]>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Floats(values)) => Ok(Some(values)),
            Some(other) => bad(name, "numbers", other),
        }
    }

    /// An integer, if given.
    pub fn given_int(&self, name: &str) -> Result<Option<i64>> {
        self.attribute(name).map(|_| self.int(name, 0)).transpose()
    }

    /// Texts, if given.
    pub fn texts(&self, name: &str) -> Result<Option<&[String]>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Texts(values)) => Ok(Some(values)),
            Some(other) => bad(name, "texts", other),
        }
    }

    /// Integers that are an attribute in old opsets and an input in newer ones.
    pub fn list_or_input(&self, name: &str, index: usize) -> Result<Option<Vec<i64>>> {
        match self.list(name)? {
            Some(list) => Ok(Some(list.to_vec())),
            None => self.optional_ints(index),
        }
    }

    /// An element type, if given.
    pub fn dtype(&self, name: &str) -> Result<Option<DType>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Int(number)) => {
                let number = i32::try_from(*number).unwrap_or(-1);
                dtype(number).map(Some).or_else(|name| unsupported(format!("{name} is not there")))
            }
            Some(other) => bad(name, "an element type", other),
        }
    }

    /// A subgraph.
    pub fn graph(&self, name: &str) -> Result<Arc<Graph>> {
        match self.attribute(name) {
            Some(Attribute::Graph(graph)) => Ok(graph.clone()),
            _ => wrong(format!("its attribute '{name}' must be a graph")),
        }
    }

    /// The outputs of a subgraph of this node.
    pub fn run_graph(&self, graph: &Graph, inputs: Vec<Item>) -> Result<Vec<Item>> {
        Ok(self.interpreter.subgraph(graph, inputs, self.scope)?)
    }
}

fn only<T: Copy>(index: usize, all: &[T]) -> Result<T> {
    match all {
        [one] => Ok(*one),
        all => wrong(format!("its input {index} must be one number, not {}", all.len())),
    }
}

fn bad<T>(name: &str, wanted: &str, given: &Attribute) -> Result<T> {
    wrong(format!("its attribute '{name}' must be {wanted}, not {}", given.kind()))
}
