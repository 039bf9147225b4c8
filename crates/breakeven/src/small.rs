//! Small graphs that were planned before: found again from the tensors themselves, without a graph, a list or a fingerprint.

use std::sync::{Arc, PoisonError, RwLock};

use breakeven_device::HostBytes;
use breakeven_exec::{Computed, Executable};
use breakeven_ir::{Graph, Node, NodeId, Op, RowWise, Spec};
use breakeven_plan::{Home, OutputPlace};
use smallvec::{SmallVec, smallvec};

use crate::tensor::State;
use crate::value::{Copies, Value};
use crate::{Engine, Result, Tensor};

/// Nodes of the largest graph that is looked for: comparing is quadratic in them.
const NODES: usize = 12;

/// Plans of small graphs with one output that the host reads, by [`key`].
#[derive(Debug, Default)]
pub(crate) struct Small(RwLock<Vec<(u64, Arc<Known>)>>);

/// A plan that runs in the host's memory, and exactly what it was made for.
#[derive(Debug)]
struct Known {
    graph: Graph,
    home: Home,
    version: u64,
    executable: Arc<Executable>,
}

/// The host bytes of a graph's inputs, by ascending node.
type Given = SmallVec<[(NodeId, HostBytes); 4]>;

impl Small {
    /// Keeps a plan that was made without pins, where it can be found here.
    pub fn keep(&self, graph: &Graph, home: &Home, version: u64, executable: &Arc<Executable>) {
        let [output] = graph.outputs() else { return };
        if graph.nodes().len() > NODES || !home.is_read(0) || executable.direct().is_none() {
            return;
        }
        let root = graph.node(*output);
        let key = key(&root.op, &root.spec, root.inputs.iter().map(|id| &graph.node(*id).spec));
        let known = Known { graph: graph.clone(), home: home.clone(), version, executable: executable.clone() };
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, known)| known.version == version);
        let at = all.partition_point(|(k, _)| *k < key);
        all.insert(at, (key, Arc::new(known)));
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The plan for `tensor`, which is still to be computed, and the bytes it is computed from.
    fn find(&self, tensor: &Tensor, version: u64) -> Option<(Arc<Executable>, Given)> {
        let key = match (&*tensor.0.state(), &tensor.0.spec) {
            (State::Recipe(op, inputs), Ok(spec)) => {
                key(op, spec, inputs.iter().filter_map(|t| t.0.spec.as_ref().ok()))
            }
            _ => return None,
        };
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let from = all.partition_point(|(k, _)| *k < key);
        let alike = all[from..].iter().take_while(|(k, _)| *k == key);
        let mut now = alike.filter(|(_, known)| known.version == version);
        now.find_map(|(_, known)| known.given(tensor).map(|given| (known.executable.clone(), given)))
    }
}

impl Known {
    /// The bytes of its inputs, if `tensor` is its graph, node by node.
    fn given(&self, tensor: &Tensor) -> Option<Given> {
        let nodes = self.graph.nodes();
        let mut found: SmallVec<[Option<Tensor>; NODES]> = smallvec![None; nodes.len()];
        let mut given = Given::new();
        found[self.graph.outputs()[0].index()] = Some(tensor.clone());
        // Every node is met after those that take it.
        for at in (0..nodes.len()).rev() {
            let (below, from) = found.split_at_mut(at);
            let tensor = from[0].as_ref()?;
            if tensor.0.pin.is_some() {
                return None;
            }
            match &*tensor.0.state() {
                State::Value(value) => given.push((NodeId(at as u32), self.input(at, value)?)),
                State::Recipe(op, inputs)
                    if is_same(op, tensor, &nodes[at]) && inputs.len() == nodes[at].inputs.len() =>
                {
                    for (id, input) in nodes[at].inputs.iter().zip(inputs) {
                        place(below, &from[1..], id.index(), input)?;
                    }
                }
                _ => return None,
            }
        }
        given.reverse();
        Some(given)
    }

    /// The bytes of `value`, if input `at` was in the same places in the same order of elements.
    fn input(&self, at: usize, value: &Value) -> Option<HostBytes> {
        let source = self.home.inputs.get(&NodeId(at as u32))?;
        let node = &self.graph.nodes()[at];
        let is_alike = node.op == Op::Input && node.spec == value.spec && value.lies_as(source);
        is_alike.then(|| value.copies().host.clone()).flatten()
    }
}

/// Node `id` is `input`: one tensor for one node, as in the graph that was planned.
fn place(below: &mut [Option<Tensor>], met: &[Option<Tensor>], id: usize, input: &Tensor) -> Option<()> {
    let is_input = |other: &Option<Tensor>| other.as_ref().is_some_and(|t| Arc::ptr_eq(&t.0, &input.0));
    if let Some(known) = &below[id] {
        return Arc::ptr_eq(&known.0, &input.0).then_some(());
    }
    if below.iter().chain(met).any(is_input) {
        return None;
    }
    below[id] = Some(input.clone());
    Some(())
}

/// The same operation with the same numbers, bit by bit.
fn is_same(op: &Op, tensor: &Tensor, node: &Node) -> bool {
    let alike = |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
    match (op, &node.op) {
        (Op::Map(row, a), Op::Map(other, b)) => row == other && alike(a, b),
        (Op::Fill(a), Op::Fill(b)) => alike(&[*a], &[*b]) && tensor.0.spec.as_ref() == Ok(&node.spec),
        // Rare, and compared by value: these are planned the long way.
        (Op::Custom(..) | Op::RowWise(RowWise::LayerNorm { .. } | RowWise::RmsNorm { .. }, _), _) => false,
        (op, other) => op == other,
    }
}

/// A number that equal operations over equal extents share.
fn key<'a>(op: &Op, spec: &Spec, inputs: impl Iterator<Item = &'a Spec>) -> u64 {
    // An odd constant with no pattern in its bits: the fractional part of the golden ratio.
    let mix = |key: u64, word: u64| (key.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let dims = |key: u64, spec: &Spec| spec.shape.iter().fold(mix(key, spec.dtype as u64), |k, &n| mix(k, n as u64));
    inputs.fold(dims(mix(0, op.name().as_ptr().addr() as u64), spec), dims)
}

impl Engine {
    /// Computes a tensor on the host whose plan is known and runs in the host's memory; `None` for everything else.
    pub(crate) fn read_small(&self, tensor: &Tensor) -> Option<Result<(Arc<Value>, HostBytes)>> {
        let (executable, given) = self.0.plans.small.find(tensor, self.0.devices.version())?;
        let inputs: SmallVec<[(NodeId, &[u8]); 4]> = given.iter().map(|(id, bytes)| (*id, &**bytes)).collect();
        match executable.direct()?.compute(&inputs) {
            Ok(computed) => Some(Ok(keep(tensor, &executable, computed))),
            Err(error) => Some(Err(self.0.devices.snapshot().name(error))),
        }
    }
}

/// Gives a tensor the value that was computed for it.
fn keep(tensor: &Tensor, executable: &Executable, computed: Computed) -> (Arc<Value>, HostBytes) {
    let Computed { device, buffer, host } = computed;
    let layout = match &executable.plan().outputs[0].place {
        OutputPlace::Slot { layout, .. } => layout.clone(),
        _ => breakeven_ir::Layout::dense(tensor.spec().shape.clone()),
    };
    let bytes = buffer.bytes();
    let copies = Copies { host: Some(host.clone()), resident: vec![(device, buffer)], recipe: None };
    let value = Arc::new(Value::stored(tensor.spec().clone(), layout, bytes, copies));
    tensor.0.settle(value.clone());
    (value, host)
}
