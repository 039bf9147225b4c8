//! Small graphs that were planned before: found again from the tensors themselves, without a graph, a list or a fingerprint.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use breakeven_device::{HostBytes, Kept, Lent, Timing};
use breakeven_exec::{Direct, ExecError, StageTiming};
use breakeven_ir::{Element, Layout, Node, NodeId, Op, Row, Shape, Spec};
use breakeven_plan::{DeviceId, OutputPlace};
use smallvec::{SmallVec, smallvec};

use crate::contest::Side;
use crate::folded::Folded;
use crate::numbers::bytes_of;
use crate::planned::{MadeFor, Planned};
use crate::report::Report;
use crate::stale::moment;
use crate::tensor::{Node as TensorNode, State};
use crate::value::{Copies, Value};
use crate::{Engine, Error, Result, Tensor};

/// Nodes of the largest graph that is looked for: comparing is quadratic in them.
const NODES: usize = 32;

/// Plans of small graphs with one output, by [`key`].
#[derive(Debug, Default)]
pub(crate) struct Small(RwLock<Vec<(u64, Arc<Known>)>>);

/// A plan that runs in the host's memory, or may come to do so.
#[derive(Debug)]
pub(crate) struct Known {
    planned: Arc<Planned>,
    /// All of it was asked for on the host by name; a plan that came out there by itself does not stand for it, nor the reverse.
    is_pinned: bool,
    /// Names of the devices that there were.
    devices: Arc<[String]>,
    /// A value of it was wanted again that had been computed for one reader and not kept.
    keeps: AtomicBool,
}

/// The host bytes of a graph's inputs, by ascending node.
type Given = SmallVec<[(NodeId, HostBytes); 4]>;

/// A plan for a tensor, and the bytes that it is computed from.
struct Found {
    known: Arc<Known>,
    given: Given,
    side: Side,
}

impl Small {
    /// Keeps a plan that was made without pins, or with all of it pinned to the host, where it can be found here.
    pub fn keep(&self, planned: &Arc<Planned>, devices: Arc<[String]>, is_pinned: bool) {
        let MadeFor { graph, version, .. } = &planned.made_for;
        let [output] = graph.outputs() else { return };
        if graph.nodes().len() > NODES || !planned.may_be_direct() {
            return;
        }
        let root = graph.node(*output);
        let key = key(tag(&root.op), &root.spec, root.inputs.iter().map(|id| &graph.node(*id).spec.shape));
        let known = Known { planned: planned.clone(), is_pinned, devices, keeps: AtomicBool::new(false) };
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, known)| known.planned.made_for.version == *version);
        let at = all.partition_point(|(k, _)| *k < key);
        all.insert(at, (key, Arc::new(known)));
    }

    /// Forgets what was made for devices at another moment than `now`.
    pub fn drop_stale(&self, now: u64) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(_, known)| moment(known.planned.made_for.version) == now);
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The plan for `tensor`, which is still to be computed, to be read or to be left where it is.
    fn find(&self, tensor: &Tensor, version: u64, is_read: bool) -> Option<Found> {
        tensor.0.is_wanted_again();
        // Held while it is compared, so that what it is computed from stays. Nobody waits for a tensor that holds one of its inputs.
        let state = tensor.0.state();
        let (Ok(spec), None | Some(DeviceId::HOST)) = (&tensor.0.spec, tensor.0.pin) else { return None };
        let is_pinned = tensor.0.pin.is_some();
        let key = match &*state {
            State::Recipe(op, inputs) => key(tag(op), spec, inputs.iter().filter_map(shape_of)),
            // A row's result has the shape of what it takes.
            State::Folded(folded) => key(folded.reduce.fold as usize, spec, shape_of(&folded.inputs[0]).into_iter()),
            _ => return None,
        };
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let from = all.partition_point(|(k, _)| *k < key);
        let alike = all[from..].iter().take_while(|(k, _)| *k == key).map(|(_, known)| known);
        let is_now = |known: &&Arc<Known>| {
            let planned = &known.planned;
            planned.made_for.version == version && planned.made_for.home.is_read(0) == is_read
        };
        let mut now = alike.filter(|known| known.is_pinned == is_pinned && is_now(known));
        let mut given = Given::new();
        let known = now.find(|known| {
            given.clear();
            Search { known, met: SmallVec::new(), given: &mut given }.whole(&state, spec).is_some()
        })?;
        let side = known.planned.settled()?;
        known.planned.executable(side)?.direct()?;
        Some(Found { known: known.clone(), given, side })
    }
}

/// A walk from a tensor down the nodes of a known graph.
struct Search<'a> {
    known: &'a Known,
    /// What stands for each node.
    met: SmallVec<[Option<Met>; 8]>,
    given: &'a mut Given,
}

/// A tensor that stands for a node: it is kept while what it is computed from is still to be compared.
#[derive(Clone)]
struct Met {
    at: *const TensorNode,
    recipe: Option<Tensor>,
}

impl Search<'_> {
    /// Whether what computes a tensor is its graph, node by node; the bytes of the graph's inputs are given then.
    fn whole(&mut self, state: &State, spec: &Spec) -> Option<()> {
        self.met.resize(self.known.planned.made_for.graph.nodes().len(), None);
        let root = self.known.planned.made_for.graph.outputs()[0].index();
        self.inside(root, state, spec)?;
        // Every node is met after those that take it, and the output is taken by none.
        for at in (0..self.met.len()).rev().filter(|&at| at != root) {
            let Some(tensor) = self.met[at].as_mut()?.recipe.take() else { continue };
            self.inside(at, &tensor.0.state(), tensor.0.spec.as_ref().ok()?)?;
        }
        self.given.sort_unstable_by_key(|(id, _)| *id);
        Some(())
    }

    /// What is computed as `state` says is node `at`.
    fn inside(&mut self, at: usize, state: &State, spec: &Spec) -> Option<()> {
        let node = &self.known.planned.made_for.graph.nodes()[at];
        match state {
            State::Recipe(op, inputs) if is_same(op, spec, node) => self.meet_all(node, inputs),
            State::Folded(folded) if matches!(&node.op, Op::Reduce(reduce) if *reduce == folded.reduce) => {
                let id = node.inputs[0];
                let node = self.known.planned.made_for.graph.node(id);
                let is_alike = matches!(&node.op, Op::Map(row, params) if is_same_row(folded, *row, params));
                (is_alike && self.met[id.index()].is_none()).then_some(())?;
                // No tensor stands for it: one that did would be another node.
                self.met[id.index()] = Some(Met { at: std::ptr::null(), recipe: None });
                self.meet_all(node, &folded.inputs)
            }
            _ => None,
        }
    }

    /// What `node` takes are `inputs`.
    fn meet_all(&mut self, node: &Node, inputs: &[Tensor]) -> Option<()> {
        (inputs.len() == node.inputs.len()).then_some(())?;
        node.inputs.iter().zip(inputs).try_for_each(|(id, input)| self.meet(*id, input))
    }

    /// Node `id` is `input`: one tensor for one node, as in the graph that was planned.
    fn meet(&mut self, id: NodeId, input: &Tensor) -> Option<()> {
        let at = Arc::as_ptr(&input.0);
        if let Some(met) = &self.met[id.index()] {
            return std::ptr::eq(met.at, at).then_some(());
        }
        let is_here = input.0.pin.is_none_or(|pin| self.known.is_pinned && pin == DeviceId::HOST);
        if !is_here || self.met.iter().flatten().any(|met| std::ptr::eq(met.at, at)) {
            return None;
        }
        let recipe = match &input.0.given {
            Some(value) => {
                self.give(id, value)?;
                None
            }
            None => match &*input.0.state() {
                State::Value(value) => {
                    self.give(id, value)?;
                    None
                }
                // It is another one at every call, so that the plan takes it as an input.
                State::Recipe(Op::Fill(number), _) if self.is_lifted(id) => {
                    let spec = input.0.spec.clone().ok()?;
                    let bytes = bytes_of(spec.dtype, *number);
                    self.give(id, &Value::on_host(spec, bytes))?;
                    None
                }
                State::Recipe(..) | State::Folded(_) => {
                    input.0.is_wanted_again();
                    Some(input.clone())
                }
                _ => return None,
            },
        };
        self.met[id.index()] = Some(Met { at, recipe });
        Some(())
    }

    /// Whether the plan takes a number as this input; one that was planned with a tensor is not frozen for a number.
    fn is_lifted(&self, id: NodeId) -> bool {
        self.known.planned.made_for.graph.lifted().contains(&id)
    }

    /// Input `id` is there.
    fn give(&mut self, id: NodeId, value: &Value) -> Option<()> {
        self.given.push((id, self.known.input(id, value)?));
        Some(())
    }
}

impl Known {
    /// From now on its values are kept.
    pub fn keep(&self) {
        self.keeps.store(true, Ordering::Relaxed);
    }

    /// The bytes of `value`, if input `id` was in the same places in the same order of elements.
    fn input(&self, id: NodeId, value: &Value) -> Option<HostBytes> {
        let node = self.planned.made_for.graph.node(id);
        let is_alike = node.op == Op::Input && node.spec == value.spec;
        is_alike.then(|| value.host_as(self.planned.made_for.home.inputs.get(&id)?)).flatten().cloned()
    }
}

impl Found {
    fn inputs(&self) -> SmallVec<[(NodeId, &HostBytes); 4]> {
        self.given.iter().map(|(id, bytes)| (*id, bytes)).collect()
    }

    fn compute(&self) -> std::result::Result<Kept, ExecError> {
        self.known.planned.timed(self.side, || self.direct().compute(&self.inputs()))
    }

    /// What was computed, as the value of the tensor.
    fn value(&self, tensor: &Tensor, kept: Kept) -> Value {
        let layout = match &self.known.planned.plan(self.side).outputs[0].place {
            OutputPlace::Slot { layout, .. } => layout.clone(),
            _ => Layout::dense(tensor.spec().shape.clone()),
        };
        let Kept { buffer, host } = kept;
        let bytes = buffer.bytes();
        let copies = Copies { resident: smallvec![(self.direct().device(), buffer)], ..Copies::default() };
        Value::stored(tensor.spec().clone(), layout, bytes, Some(host), copies)
    }

    /// The value may be given to the only one who can ask for it, and to nobody else.
    fn is_apart(&self, tensor: &Tensor) -> bool {
        Arc::strong_count(&tensor.0) == 1 && !tensor.0.was_read() && !self.known.keeps.load(Ordering::Relaxed)
    }

    fn direct(&self) -> &Direct {
        let executable = self.known.planned.executable(self.side);
        executable.and_then(|executable| executable.direct()).expect("no other plans are found")
    }
}

/// The same operation with the same numbers, bit by bit.
fn is_same(op: &Op, spec: &Spec, node: &Node) -> bool {
    match (op, &node.op) {
        (Op::Map(row, a), Op::Map(other, b)) => row == other && are_alike(a, b),
        (Op::Fill(a), Op::Fill(b)) => are_alike(&[*a], &[*b]) && *spec == node.spec,
        // Rare, and compared by value: these are planned the long way.
        (Op::Custom(..), _) => false,
        (op, other) => op == other,
    }
}

fn is_same_row(folded: &Folded, row: Row, params: &[f64]) -> bool {
    folded.row == row && are_alike(&folded.params, params)
}

fn are_alike(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

fn shape_of(tensor: &Tensor) -> Option<&Shape> {
    tensor.0.spec.as_ref().ok().map(|spec| &spec.shape)
}

/// A number that equal operations share.
fn tag(op: &Op) -> usize {
    match op {
        Op::Reduce(reduce) => reduce.fold as usize,
        op => op.name().as_ptr().addr(),
    }
}

/// A number that equal operations over equal extents share.
fn key<'a>(tag: usize, spec: &Spec, inputs: impl Iterator<Item = &'a Shape>) -> u64 {
    // An odd constant with no pattern in its bits: the fractional part of the golden ratio.
    let mix = |key: u64, word: u64| (key.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let dims = |key: u64, shape: &Shape| shape.iter().fold(key, |k, &n| mix(k, n as u64));
    inputs.fold(dims(mix(mix(0, tag as u64), spec.dtype as u64), &spec.shape), dims)
}

impl Engine {
    /// The elements of a tensor whose plan is known and runs in the host's memory; `None` for everything else.
    pub(crate) fn vec_small<T: Element>(&self, tensor: &Tensor) -> Option<Result<Vec<T>>> {
        let found = self.find(tensor, true)?;
        if !found.is_apart(tensor) {
            let kept = self.keep_found(tensor, &found)?;
            return Some(kept.map(|(value, bytes)| value.elements(&bytes, |from, to| found.direct().copy(from, to))));
        }
        let mut all = vec![T::default(); tensor.spec().shape.elements()];
        self.fill(tensor, found, &mut all).map(|done| done.map(|()| all))
    }

    /// The elements of a tensor whose plan is known and runs in the host's memory, in memory that is as long; `None` for
    /// everything else.
    pub(crate) fn read_small<T: Element>(&self, tensor: &Tensor, out: &mut [T]) -> Option<Result<()>> {
        let found = self.find(tensor, true)?;
        self.fill(tensor, found, out)
    }

    /// Computes a tensor on the host whose plan is known and runs in the host's memory, and keeps its value; `None` for
    /// everything else.
    pub(crate) fn keep_small(&self, tensor: &Tensor) -> Option<Result<(Arc<Value>, HostBytes)>> {
        let found = self.find(tensor, true)?;
        self.keep_found(tensor, &found)
    }

    /// A value that nothing else holds is computed straight into the caller's memory and not kept, unless a value of that plan
    /// was ever wanted again. `None` where that failed, and another plan has to do it.
    fn fill<T: Element>(&self, tensor: &Tensor, found: Found, out: &mut [T]) -> Option<Result<()>> {
        let straight = if found.is_apart(tensor) { T::bytes_mut(out) } else { None };
        let Some(straight) = straight else {
            let kept = self.keep_found(tensor, &found)?;
            let copy = |from: &[u8], to: &mut [u8]| found.direct().copy(from, to);
            return Some(kept.map(|(value, bytes)| value.elements_into(&bytes, out, copy)));
        };
        let run = || found.direct().run(&found.inputs(), &mut [Some(Lent::Write(straight))]);
        let done = found.known.planned.timed(found.side, run);
        let done = self.unless_optional(&found, done);
        tensor.0.is_not_kept(found.known);
        done
    }

    fn keep_found(&self, tensor: &Tensor, found: &Found) -> Option<Result<(Arc<Value>, HostBytes)>> {
        let kept = match self.unless_optional(found, found.compute())? {
            Ok(kept) => kept,
            Err(error) => return Some(Err(error)),
        };
        let host = kept.host.clone();
        let value = Arc::new(found.value(tensor, kept));
        tensor.0.settle(value.clone());
        Some(Ok((value, host)))
    }

    /// `None` where a plan failed that another one can take the place of.
    fn unless_optional<T>(&self, found: &Found, done: std::result::Result<T, ExecError>) -> Option<Result<T>> {
        match done {
            Err(_) if found.known.planned.failed(found.side) => None,
            done => Some(done.map_err(|error| self.name(error))),
        }
    }

    /// Computes a tensor whose plan is known and runs in the host's memory, and leaves it there; `None` for everything else.
    pub(crate) fn run_small(&self, outputs: &[&Tensor]) -> Option<Result<Report>> {
        let [tensor] = outputs else { return None };
        let found = self.find(tensor, false)?;
        let started = Instant::now();
        let kept = match self.unless_optional(&found, found.compute())? {
            Ok(kept) => kept,
            Err(error) => return Some(Err(error)),
        };
        let elapsed = started.elapsed();
        tensor.0.settle(Arc::new(found.value(tensor, kept)));
        let timing = Timing { kernel: Some(elapsed), ..Timing::default() };
        let stage = StageTiming { device: found.direct().device(), timing };
        let Known { planned, devices, .. } = &*found.known;
        Some(Ok(Report::new(planned.plan(found.side).clone(), devices.clone(), [stage], elapsed)))
    }

    fn find(&self, tensor: &Tensor, is_read: bool) -> Option<Found> {
        self.0.plans.small.find(tensor, self.0.devices.version(), is_read)
    }

    fn name(&self, error: ExecError) -> Error {
        self.0.devices.snapshot().name(error)
    }
}
