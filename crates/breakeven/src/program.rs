//! Computations that are written down once and run with other arguments.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use breakeven_device::{Deadline, HostBytes, Lent};
use breakeven_ir::{CallError, Element, Graph, NodeId, Spec};
use breakeven_plan::{DeviceId, Home, Policy, Source};
use bytemuck::Pod;
use smallvec::SmallVec;

use crate::attempts::Attempts;
use crate::cache::Wanted;
use crate::coming::Awaits;
use crate::devices::Snapshot;
use crate::evaluate::{Ready, value_of};
use crate::failure::Failure;
use crate::patience::Patience;
use crate::planned::{MadeFor, Planned};
use crate::stale::{KeepsPlans, moment};
use crate::tensor::{Inputs, State};
use crate::trace::{Trace, is_home};
use crate::value::{Limit, Value};
use crate::{Engine, Result, Tensor};

/// Plans that one program keeps: for other devices, other places of its arguments.
const KEPT: usize = 16;

/// What some tensors compute from arguments, to be computed again from others: nothing is written down anew, and the plan is
/// found without looking at the graph. [`crate::Draft`] writes one. Clones are the same program.
#[derive(Clone, Debug)]
pub struct Program(pub(crate) Arc<Written>);

/// The parts of a program.
#[derive(Debug)]
pub(crate) struct Written {
    pub engine: Engine,
    pub graph: Graph,
    /// What each input of the graph stands for.
    pub inputs: Vec<(NodeId, Given)>,
    pub pins: BTreeMap<NodeId, DeviceId>,
    pub parameters: Vec<Parameter>,
    pub plans: Arc<Kept>,
}

/// The plans of a program.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Vec<Arc<Planned>>>);

impl KeepsPlans for Kept {
    fn drop_stale(&self, now: u64) {
        let stale: Vec<_> = self.lock().extract_if(.., |known| moment(known.made_for.version) != now).collect();
        drop(stale);
    }
}

impl Kept {
    /// The plan for values in these places.
    fn find(&self, inputs: &[(NodeId, Arc<Value>)], devices: &Snapshot, read: &[bool]) -> Option<Arc<Planned>> {
        let is_same = |known: &&Arc<Planned>| {
            let MadeFor { version, home, .. } = &known.made_for;
            *version == devices.version && is_home(home, inputs, devices, read)
        };
        self.lock().iter().find(is_same).cloned()
    }

    /// Keeps one more. Those made for other devices would keep them open.
    fn keep(&self, planned: &Arc<Planned>) {
        let version = planned.made_for.version;
        let mut plans = self.lock();
        // Several threads may have planned it at once.
        if plans.iter().any(|known| Arc::ptr_eq(known, planned)) {
            return;
        }
        let mut gone: Vec<_> = plans.extract_if(.., |known| known.made_for.version != version).collect();
        if plans.len() >= KEPT {
            gone.push(plans.remove(0));
        }
        plans.push(planned.clone());
        drop(plans);
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Planned>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an input of the graph stands for.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    Constant(Arc<Value>),
    Argument(usize),
}

/// What an argument must be.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub spec: Spec,
    /// Extents that it must not leave as an index.
    pub limits: Vec<Limit>,
}

/// The host bytes of a graph's inputs.
type Hosts<'a> = SmallVec<[(NodeId, Host<'a>); 4]>;

/// Bytes of one input.
enum Host<'a> {
    /// Of a value that its tensor was made with, or of a constant: they stay, and holding them once more would take longer
    /// than all else that a small program asks of them.
    There(&'a HostBytes),
    Held(HostBytes),
}

impl<'a> Host<'a> {
    /// What `argument` holds, if it lies as `source` says.
    fn of(argument: &'a Tensor, source: &Source) -> Option<Host<'a>> {
        if let Some(value) = &argument.0.given {
            return value.host_as(source).map(Host::There);
        }
        match &*argument.0.state() {
            State::Value(value) => value.host_as(source).cloned().map(Host::Held),
            _ => None,
        }
    }
}

impl Deref for Host<'_> {
    type Target = HostBytes;
    fn deref(&self) -> &HostBytes {
        match self {
            Host::There(bytes) => bytes,
            Host::Held(bytes) => bytes,
        }
    }
}

/// A program with its arguments.
pub(crate) struct Call {
    program: Program,
    arguments: Vec<Tensor>,
    unfolded: OnceLock<Vec<Tensor>>,
}

impl Program {
    /// The outputs for these arguments, which are computed when they are read; all of them together are computed without
    /// planning. An argument of another dtype or shape, of another engine, or an index that leaves its axis is an error.
    #[track_caller]
    pub fn call(&self, arguments: &[&Tensor]) -> Result<Vec<Tensor>> {
        let at = std::panic::Location::caller();
        self.accept(arguments).map_err(|error| error.at(at))?;
        let arguments = arguments.iter().map(|&argument| argument.clone()).collect();
        let call = Arc::new(Call { program: self.clone(), arguments, unfolded: OnceLock::new() });
        let Written { graph, engine, .. } = &*self.0;
        let one = |(index, id): (usize, &NodeId)| Tensor::deferred(engine, &graph.node(*id).spec, &call, index);
        Ok(graph.outputs().iter().enumerate().map(one).collect())
    }

    /// Computes the outputs for these arguments straight into memory of the caller's, in row-major order, or `Timeout` once the
    /// deadline has passed. No tensor is made; on the CPU, a program whose plan is known asks for no memory but the device's
    /// own pool.
    ///
    /// ```
    /// use breakeven::{Draft, Engine};
    ///
    /// # fn main() -> breakeven::Result<()> {
    /// let engine = Engine::builder().gpus(false).no_cache().build()?;
    /// let x = engine.tensor(&[1.0, 2.0], [2]);
    /// let draft = Draft::new(&[&x]).expect("its value is there");
    /// let program = draft.finish(&[&draft.stand_ins()[0].exp2()])?;
    /// let mut y = [0f32; 2];
    /// program.run_into(&[&x], &mut [&mut y], engine.deadline())?;
    /// assert_eq!(y, [2.0, 4.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn run_into<T: Element + Pod>(
        &self,
        arguments: &[&Tensor],
        outputs: &mut [&mut [T]],
        deadline: Deadline,
    ) -> Result<()> {
        let at = std::panic::Location::caller();
        self.accept(arguments).and_then(|()| self.fits(outputs)).map_err(|error| error.at(at))?;
        if let Some(done) = self.direct(arguments, outputs) {
            return done;
        }
        let tensors = self.call(arguments)?;
        let all: Vec<&Tensor> = tensors.iter().collect();
        let mut attempts = Attempts::at(&all, Patience::Callers(deadline));
        self.0.engine.compute_by(&all, &vec![true; all.len()], &mut attempts)?;
        let begun = Instant::now();
        let read = tensors.iter().zip(outputs).try_for_each(|(tensor, out)| tensor.read_into(out, deadline));
        attempts.took(begun.elapsed());
        read
    }

    /// Whether the caller's memory is what the outputs need.
    fn fits<T: Element>(&self, outputs: &[&mut [T]]) -> std::result::Result<(), CallError> {
        let wrong = |message| Err(CallError::new("run_into", message));
        let graph = &self.0.graph;
        if outputs.len() != graph.outputs().len() {
            return wrong(format!("gives {} outputs, there is memory for {}", graph.outputs().len(), outputs.len()));
        }
        for (index, (id, out)) in graph.outputs().iter().zip(outputs).enumerate() {
            let spec = &graph.node(*id).spec;
            if spec.dtype != T::DTYPE || spec.shape.elements() != out.len() {
                return wrong(format!("output {index} is {spec}, the memory is for {} of {}", out.len(), T::DTYPE));
            }
        }
        Ok(())
    }

    /// Runs a known plan over the memory of arguments and outputs; `None` where there is none that can.
    fn direct<T: Element + Pod>(&self, arguments: &[&Tensor], outputs: &mut [&mut [T]]) -> Option<Result<()>> {
        let engine = &self.0.engine;
        let version = engine.0.devices.version();
        let mut hosts = Hosts::new();
        let planned = {
            let plans = self.0.plans.lock();
            let mut now = plans.iter().filter(|known| known.made_for.version == version);
            now.find(|known| takes(&known.made_for.home, &self.0.inputs, arguments, &mut hosts))?.clone()
        };
        let side = planned.settled()?;
        let direct = planned.executable(side)?.direct()?;
        let inputs: SmallVec<[(NodeId, &HostBytes); 8]> = hosts.iter().map(|(id, bytes)| (*id, &**bytes)).collect();
        let mut outs: SmallVec<[Option<Lent<'_>>; 4]> =
            outputs.iter_mut().map(|out| Some(Lent::Write(bytemuck::cast_slice_mut(out)))).collect();
        let done = planned.timed(side, || direct.run(&inputs, &mut outs));
        if done.is_err() && planned.failed(side) {
            return None;
        }
        Some(done.map_err(|error| engine.0.devices.snapshot().name(error)))
    }

    fn accept(&self, arguments: &[&Tensor]) -> std::result::Result<(), CallError> {
        let wrong = |message| Err(CallError::new("call", message));
        let parameters = &self.0.parameters;
        if parameters.len() != arguments.len() {
            return wrong(format!("takes {} arguments, {} were given", parameters.len(), arguments.len()));
        }
        for (index, (parameter, argument)) in parameters.iter().zip(arguments).enumerate() {
            let spec = argument.0.spec.as_ref().map_err(CallError::clone)?;
            if *spec != parameter.spec {
                return wrong(format!("takes {} as argument {index}, not {spec}", parameter.spec));
            }
            if !argument.engine().is_same(&self.0.engine) {
                return wrong(format!("argument {index} belongs to another engine"));
            }
            parameter.limits.iter().try_for_each(|limit| argument.within(limit.operation, limit.extent))?;
        }
        Ok(())
    }
}

/// Whether `home` is that of values in the places where these are, with every output read; `hosts` are their bytes then.
fn takes<'a>(home: &Home, inputs: &'a [(NodeId, Given)], arguments: &[&'a Tensor], hosts: &mut Hosts<'a>) -> bool {
    hosts.clear();
    if !home.read.iter().all(|read| *read) || home.inputs.len() != inputs.len() {
        return false;
    }
    for ((id, given), (other, source)) in inputs.iter().zip(&home.inputs) {
        let bytes = match given {
            Given::Constant(value) => value.host_as(source).map(Host::There),
            Given::Argument(index) => Host::of(arguments[*index], source),
        };
        match bytes {
            Some(bytes) if id == other => hosts.push((*id, bytes)),
            _ => return false,
        }
    }
    true
}

impl Call {
    /// The plan for all outputs of one call, where these are all of them, in order, and everything is there that they need.
    pub fn whole(
        outputs: &[&Tensor],
        devices: &Snapshot,
        read: &[bool],
        awaits: Awaits,
    ) -> Option<std::result::Result<Ready, Failure>> {
        let call = match &*outputs.first()?.0.state() {
            State::Deferred(call, 0) => call.clone(),
            _ => return None,
        };
        let Written { graph, pins, .. } = &*call.program.0;
        if outputs.len() != graph.outputs().len() {
            return None;
        }
        let fits = |(index, output): (usize, &&Tensor)| {
            let is_next =
                matches!(&*output.0.state(), State::Deferred(of, at) if Arc::ptr_eq(of, &call) && *at == index);
            is_next && output.0.pin.is_none_or(|pin| pins.get(&graph.outputs()[index]) == Some(&pin))
        };
        outputs.iter().enumerate().all(fits).then_some(())?;
        let inputs = call.values(devices)?;
        Some(call.program.0.ready(inputs, devices, read, awaits))
    }

    /// The values of the graph's inputs, if all are there.
    fn values(&self, devices: &Snapshot) -> Option<Vec<(NodeId, Arc<Value>)>> {
        let one = |(id, given): &(NodeId, Given)| {
            let value = match given {
                Given::Constant(value) => value.clone(),
                Given::Argument(index) => value_of(&self.arguments[*index])?,
            };
            value.is_there(devices).then_some((*id, value))
        };
        self.program.0.inputs.iter().map(one).collect()
    }

    /// What it holds, to be dropped without recursion.
    pub fn into_tensors(self) -> Inputs {
        self.arguments.into_iter().chain(self.unfolded.into_inner().into_iter().flatten()).collect()
    }

    /// Output `index` as it was written down, with these arguments.
    pub fn written(&self, index: usize) -> Tensor {
        let outputs = self.unfolded.get_or_init(|| {
            let Written { graph, .. } = &*self.program.0;
            let all = self.program.0.unfold(&self.arguments);
            graph.outputs().iter().map(|id| all[id.index()].clone()).collect()
        });
        outputs[index].clone()
    }
}

impl Written {
    fn ready(
        &self,
        inputs: Vec<(NodeId, Arc<Value>)>,
        devices: &Snapshot,
        read: &[bool],
        awaits: Awaits,
    ) -> std::result::Result<Ready, Failure> {
        if let Some(planned) = self.plans.find(&inputs, devices, read) {
            return Ok(Ready { inputs, planned });
        }
        let trace = Trace { graph: self.graph.clone(), inputs, pins: BTreeMap::new() };
        let wanted = Wanted { devices, trace: &trace, read, policy: self.engine.policy(self.pins.clone()) };
        let planned = self.engine.executable(&wanted, awaits)?;
        if !planned.is_stand_in {
            self.plans.keep(&planned);
            // The devices may have changed while this was planned.
            let now = self.engine.0.devices.version();
            if moment(devices.version) != now {
                self.plans.drop_stale(now);
            }
        }
        Ok(Ready { inputs: trace.inputs, planned })
    }

    /// Every node as a lazy tensor of these arguments.
    pub fn unfold(&self, arguments: &[Tensor]) -> Vec<Tensor> {
        let mut given = self.inputs.iter().peekable();
        let mut tensors: Vec<Tensor> = Vec::with_capacity(self.graph.nodes().len());
        for (id, node) in self.graph.ids().zip(self.graph.nodes()) {
            tensors.push(match given.next_if(|(at, _)| *at == id) {
                Some((_, Given::Constant(value))) => Tensor::from_value(&self.engine, value.clone()),
                Some((_, Given::Argument(index))) => arguments[*index].clone(),
                None => {
                    let inputs = node.inputs.iter().map(|input| tensors[input.index()].clone()).collect();
                    let pin = self.pins.get(&id).copied();
                    Tensor::known(&self.engine, &node.spec, pin, State::Recipe(node.op.clone(), inputs))
                }
            });
        }
        tensors
    }
}

impl Engine {
    /// How work with these pins is planned.
    pub(crate) fn policy(&self, pins: BTreeMap<NodeId, DeviceId>) -> Policy {
        Policy { pins, fuse: self.0.options.fuse, ..Policy::default() }
    }
}
