//! From tensors to a graph: what has to be computed, and what is there already.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use breakeven_ir::{CallError, Graph, NodeId, Op};
use breakeven_plan::{DeviceId, Home, Place, Source};

use crate::devices::Snapshot;
use crate::tensor::{Inputs, Node, State};
use crate::value::Value;
use crate::{Result, Tensor};

/// A graph, and what its inputs stand for.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub graph: Graph,
    /// Values of the graph's inputs.
    pub inputs: Vec<(NodeId, Arc<Value>)>,
    /// Nodes that the user wants on a device of their choice.
    pub pins: BTreeMap<NodeId, DeviceId>,
}

impl Trace {
    /// Everything that `outputs` depend on, down to values that are there.
    pub fn of(outputs: &[&Tensor], devices: &Snapshot) -> Result<Trace> {
        let mut trace = Trace::default();
        let mut known: HashMap<*const Node, NodeId> = HashMap::new();
        // A node is met twice: first to visit what it needs, then to be added after it.
        let mut stack: Vec<(Tensor, bool, Option<DeviceId>)> =
            outputs.iter().rev().map(|&t| (t.clone(), false, None)).collect();
        while let Some((tensor, needs_met, pin)) = stack.pop() {
            if known.contains_key(&Arc::as_ptr(&tensor.0)) {
                continue;
            }
            let (op, inputs) = match step(&tensor, devices)? {
                Found::Value(value) => {
                    known.insert(Arc::as_ptr(&tensor.0), trace.input(&tensor, value));
                    continue;
                }
                Found::Same(inner) => {
                    match known.get(&Arc::as_ptr(&inner.0)) {
                        Some(&id) => drop(known.insert(Arc::as_ptr(&tensor.0), id)),
                        None => stack.extend([(tensor.clone(), true, pin), (inner, false, tensor.0.pin.or(pin))]),
                    }
                    continue;
                }
                Found::Recipe(op, inputs) => (op, inputs),
            };
            // Pinning a tensor pins what still has to be computed for it.
            let pin = tensor.0.pin.or(pin);
            if needs_met {
                let ids: Vec<NodeId> = inputs.iter().map(|t| known[&Arc::as_ptr(&t.0)]).collect();
                let id = trace.node(&tensor, op, &ids)?;
                trace.pins.extend(pin.map(|device| (id, device)));
                known.insert(Arc::as_ptr(&tensor.0), id);
            } else {
                stack.push((tensor, true, pin));
                stack.extend(inputs.into_iter().map(|t| (t, false, pin)));
            }
        }
        for tensor in outputs {
            trace.graph.want(known[&Arc::as_ptr(&tensor.0)]);
        }
        Ok(trace)
    }

    fn input(&mut self, tensor: &Tensor, value: Arc<Value>) -> NodeId {
        let id = self.graph.input(tensor.spec().clone());
        self.inputs.push((id, value));
        id
    }

    fn node(&mut self, tensor: &Tensor, op: Op, inputs: &[NodeId]) -> Result<NodeId> {
        Ok(match op {
            Op::Fill(value) => self.graph.fill(tensor.dtype(), value),
            op => self.graph.add(op, inputs)?,
        })
    }
}

/// Where the inputs are, as far as these devices are there; `read` for each output that the host wants.
pub(crate) fn home(inputs: &[(NodeId, Arc<Value>)], devices: &Snapshot, read: Vec<bool>) -> Home {
    let source = |value: &Value| {
        let copies = value.copies();
        let host = value.host().is_some().then_some(Place::Host);
        let usable = copies.resident.iter().filter(|(d, buffer)| devices.has(*d, buffer));
        let resident = usable.map(|(d, _)| Place::Device(*d));
        Source { layout: value.layout.clone(), places: host.into_iter().chain(resident).collect() }
    };
    Home { inputs: inputs.iter().map(|(id, value)| (*id, source(value))).collect(), read }
}

enum Found {
    Value(Arc<Value>),
    Recipe(Op, Inputs),
    /// What another tensor is.
    Same(Tensor),
}

/// How the value of a tensor comes about: it is there, or it must be computed, perhaps again after a loss.
fn step(tensor: &Tensor, devices: &Snapshot) -> Result<Found> {
    tensor.check()?;
    tensor.0.unfold();
    if let Some(inner) = tensor.written() {
        // On another device it is a node of its own.
        let is_same = tensor.0.pin.is_none_or(|pin| inner.0.pin == Some(pin));
        return if is_same { Ok(Found::Same(inner)) } else { step(&inner, devices) };
    }
    match &*tensor.0.state() {
        State::Recipe(op, inputs) => {
            tensor.0.is_wanted_again();
            Ok(Found::Recipe(op.clone(), inputs.clone()))
        }
        State::Wrong | State::Deferred(..) | State::Folded(_) => Err(CallError::new("tensor", "has no value").into()),
        State::Value(value) => {
            if value.is_there(devices) {
                return Ok(Found::Value(value.clone()));
            }
            let recipe = value.copies().recipe.clone();
            match recipe {
                Some(recipe) => Ok(Found::Recipe(recipe.op, recipe.inputs)),
                None => Err(value.gone(devices)),
            }
        }
    }
}
