//! From tensors to a graph: what has to be computed, and what is there already.

use std::collections::BTreeMap;
use std::sync::Arc;

use breakeven_ir::{CallError, Graph, NodeId, Op};
use breakeven_plan::{DeviceId, Home, Place, Places, Source};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::devices::Snapshot;
use crate::tensor::{Inputs, Node, State};
use crate::value::{Copies, Value};
use crate::{Result, Tensor};

/// Nodes that there is room for at once.
const NODES: usize = 48;

/// A graph, and what its inputs stand for.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub graph: Graph,
    /// Values of the graph's inputs, in the order of their nodes.
    pub inputs: Vec<(NodeId, Arc<Value>)>,
    /// Nodes that the user wants on a device of their choice.
    pub pins: BTreeMap<NodeId, DeviceId>,
}

/// A tensor that has to be computed, whose inputs are looked at from the last one to the first.
struct Visit {
    tensor: Tensor,
    op: Op,
    /// Inputs that are still to be looked at.
    left: Inputs,
    /// Where the user wants it and what has to be computed for it.
    pin: Option<DeviceId>,
    /// Nodes of the inputs that were looked at, the last input first.
    found: SmallVec<[NodeId; 3]>,
}

impl Trace {
    /// Everything that `outputs` depend on, down to values that are there.
    pub fn of(outputs: &[&Tensor], devices: &Snapshot) -> Result<Trace> {
        // Growing step by step takes as long as all else that is done with it.
        let mut known = FxHashMap::default();
        known.reserve(NODES);
        let trace = Trace { graph: Graph::with_capacity(NODES), ..Trace::default() };
        let mut walk = Walk { devices, trace, pins: Vec::new(), known, stack: Vec::new() };
        for &tensor in outputs {
            let id = walk.output(tensor)?;
            walk.trace.graph.want(id);
        }
        let pins = walk.pins.into_iter().collect();
        Ok(Trace { pins, ..walk.trace })
    }

    fn input(&mut self, tensor: &Tensor, value: Arc<Value>) -> NodeId {
        let id = self.graph.input(tensor.spec().clone());
        self.inputs.push((id, value));
        id
    }
}

/// A graph that is being written. Nothing recurses: it may be a chain of a million nodes.
struct Walk<'a> {
    devices: &'a Snapshot,
    trace: Trace,
    /// In the order of their nodes: a map is made of all at once sooner than one by one.
    pins: Vec<(NodeId, DeviceId)>,
    /// By address. The tensors are held: another thread may settle one meanwhile, which frees what it was computed from,
    /// and a node that is made then must not get an address that is known.
    known: FxHashMap<*const Node, (NodeId, Tensor)>,
    stack: Vec<Visit>,
}

impl Walk<'_> {
    /// The node of a tensor, with all that it needs before it.
    fn output(&mut self, tensor: &Tensor) -> Result<NodeId> {
        let mut found = self.find(tensor.clone(), None)?;
        loop {
            let Some(visit) = self.stack.last_mut() else { return Ok(found.expect("nothing is left to look at")) };
            if let Some(id) = found {
                visit.found.push(id);
            }
            let pin = visit.pin;
            found = match visit.left.pop() {
                Some(input) => self.find(input, pin)?,
                None => self.close(),
            };
        }
    }

    /// The node of a tensor, unless it has to be looked at first.
    fn find(&mut self, tensor: Tensor, pin: Option<DeviceId>) -> Result<Option<NodeId>> {
        if let Some((id, _)) = self.known.get(&Arc::as_ptr(&tensor.0)) {
            return Ok(Some(*id));
        }
        // Pinning a tensor pins what still has to be computed for it.
        let pin = tensor.0.pin.or(pin);
        match step(&tensor, self.devices)? {
            Found::Value(value) => {
                let id = self.trace.input(&tensor, value);
                Ok(Some(self.know(tensor, id)))
            }
            Found::Same(inner) => self.find(inner, pin),
            Found::Recipe(op, left) => {
                let found = SmallVec::with_capacity(left.len());
                self.stack.push(Visit { tensor, op, left, pin, found });
                Ok(None)
            }
        }
    }

    /// Adds the node of the last visit, whose inputs are all found.
    fn close(&mut self) -> Option<NodeId> {
        let Visit { tensor, op, mut found, pin, .. } = self.stack.pop()?;
        found.reverse();
        let id = self.trace.graph.add_known(op, &found, tensor.spec().clone());
        self.pins.extend(pin.map(|device| (id, device)));
        Some(self.know(tensor, id))
    }

    fn know(&mut self, tensor: Tensor, id: NodeId) -> NodeId {
        self.known.insert(Arc::as_ptr(&tensor.0), (id, tensor));
        id
    }
}

/// Where the inputs are, as far as these devices are there; `read` for each output that the host wants.
pub(crate) fn home(inputs: &[(NodeId, Arc<Value>)], devices: &Snapshot, read: &[bool]) -> Home {
    let source = |value: &Value| Source { layout: value.layout.clone(), places: places(value, devices) };
    Home { inputs: inputs.iter().map(|(id, value)| (*id, source(value))).collect(), read: read.to_vec() }
}

/// Whether that is [`home`], which is not written down for it.
pub(crate) fn is_home(known: &Home, inputs: &[(NodeId, Arc<Value>)], devices: &Snapshot, read: &[bool]) -> bool {
    let is_same = |((id, source), (own, value)): ((&NodeId, &Source), &(NodeId, Arc<Value>))| {
        id == own
            && source.layout == value.layout
            && each_place(value, &value.copies(), devices).eq(source.places.iter().copied())
    };
    known.read == read && known.inputs.len() == inputs.len() && known.inputs.iter().zip(inputs).all(is_same)
}

fn places(value: &Value, devices: &Snapshot) -> Places {
    each_place(value, &value.copies(), devices).collect()
}

fn each_place<'a>(value: &Value, copies: &'a Copies, devices: &'a Snapshot) -> impl Iterator<Item = Place> + use<'a> {
    let host = value.host().is_some().then_some(Place::Host);
    let usable = copies.resident.iter().filter(|(d, buffer)| devices.has(*d, buffer));
    host.into_iter().chain(usable.map(|(d, _)| Place::Device(*d)))
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
    match &*tensor.0.state() {
        State::Recipe(op, inputs) => {
            tensor.0.is_wanted_again();
            return Ok(Found::Recipe(op.clone(), inputs.clone()));
        }
        State::Value(value) => return there(value, devices),
        State::Wrong => return Err(CallError::new("tensor", "has no value").into()),
        State::Deferred(..) | State::Folded(_) => {}
    }
    // Both come out as something else, which takes locks of its own.
    tensor.0.unfold();
    match tensor.written() {
        // On another device it is a node of its own.
        Some(inner) if tensor.0.pin.is_none_or(|pin| inner.0.pin == Some(pin)) => Ok(Found::Same(inner)),
        Some(inner) => step(&inner, devices),
        None => step(tensor, devices),
    }
}

/// A value, or how to compute it again.
fn there(value: &Arc<Value>, devices: &Snapshot) -> Result<Found> {
    if value.is_there(devices) {
        return Ok(Found::Value(value.clone()));
    }
    let recipe = value.copies().recipe.clone();
    match recipe {
        Some(recipe) => Ok(Found::Recipe(recipe.op, recipe.inputs)),
        None => Err(value.gone(devices)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;

    #[test]
    fn an_address_that_is_known_is_not_given_to_a_later_tensor() {
        let engine = Engine::builder().gpus(false).no_cache().build().expect("the CPU opens");
        let devices = engine.0.devices.snapshot();
        let (trace, known) = (Trace::default(), FxHashMap::default());
        let mut walk = Walk { devices: &devices, trace, pins: Vec::new(), known, stack: Vec::new() };
        let nodes: Vec<_> = (0..100)
            .map(|n| {
                // Nobody else holds it: the allocator is free to give its address to the next one.
                let tensor = engine.tensor(&[n as f32], [1]);
                walk.output(&tensor).expect("its value is there")
            })
            .collect();
        assert!(nodes.windows(2).all(|pair| pair[0] < pair[1]), "{nodes:?}");
    }
}
