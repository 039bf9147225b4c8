//! Tensors: lazy nodes of what the user wrote.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use breakeven_ir::{CallError, DType, Op, Shape, Spec};
use breakeven_plan::DeviceId;
use smallvec::{SmallVec, smallvec};

use crate::folded::Folded;
use crate::program::Call;
use crate::small::Known;
use crate::value::Value;
use crate::{Engine, Result};

/// An immutable tensor. Operations only write down what is wanted; reading a value computes it.
///
/// A wrong call makes a tensor that carries its error, with the operation, the shapes and the caller's line; the first
/// thing that needs a value returns it, and [`Tensor::check`] returns it at once.
#[derive(Clone)]
pub struct Tensor(pub(crate) Arc<Node>);

/// One node of the lazy graph.
pub(crate) struct Node {
    pub engine: Engine,
    pub spec: std::result::Result<Spec, CallError>,
    /// Where the user wants it computed.
    pub pin: Option<DeviceId>,
    /// The value that it was made with, to be looked at without the lock; the state tells whether that is still there.
    pub given: Option<Arc<Value>>,
    /// By what it was computed into memory of a caller's, where it was not kept.
    read_by: OnceLock<Arc<Known>>,
    state: Mutex<State>,
}

/// Where the value comes from.
#[derive(Clone)]
pub(crate) enum State {
    /// It can be computed.
    Recipe(Op, Inputs),
    /// It can be computed, and is two operations.
    Folded(Folded),
    /// It is there.
    Value(Arc<Value>),
    /// It is an output of a program, which may run as a whole.
    Deferred(Arc<Call>, usize),
    /// The call was wrong.
    Wrong,
}

pub(crate) type Inputs = SmallVec<[Tensor; 2]>;

/// Inputs that are compared with each other; of more, each counts as if it were all of them.
const FEW: usize = 4;

impl Tensor {
    /// A tensor whose value is there.
    pub(crate) fn from_value(engine: &Engine, value: Arc<Value>) -> Tensor {
        let (spec, given) = (Ok(value.spec.clone()), Some(value.clone()));
        let state = Mutex::new(State::Value(value));
        Tensor(Arc::new(Node { engine: engine.clone(), spec, pin: None, given, read_by: OnceLock::new(), state }))
    }

    /// Output `index` of a call of a program.
    pub(crate) fn deferred(engine: &Engine, spec: &Spec, call: &Arc<Call>, index: usize) -> Tensor {
        Tensor::known(engine, spec, None, State::Deferred(call.clone(), index))
    }

    /// A tensor whose spec is known to follow from its state.
    pub(crate) fn known(engine: &Engine, spec: &Spec, pin: Option<DeviceId>, state: State) -> Tensor {
        Node::tensor(engine.clone(), Ok(spec.clone()), pin, state)
    }

    /// What was written down for it, if it is an output of a program.
    pub(crate) fn written(&self) -> Option<Tensor> {
        let (call, index) = match &*self.0.state() {
            State::Deferred(call, index) => (call.clone(), *index),
            _ => return None,
        };
        Some(call.written(index))
    }

    /// A tensor that carries `error`.
    pub(crate) fn wrong(engine: &Engine, error: CallError) -> Tensor {
        Node::tensor(engine.clone(), Err(error), None, State::Wrong)
    }

    /// A number, rank 0, that is never stored.
    pub(crate) fn fill(engine: &Engine, dtype: DType, value: f64) -> Tensor {
        let spec = Ok(Spec::new(dtype, ()));
        Node::tensor(engine.clone(), spec, None, State::Recipe(Op::Fill(value), Inputs::new()))
    }

    /// Apply `op` to `inputs`, of which there is at least one.
    pub(crate) fn apply(op: Op, inputs: &[&Tensor], at: &'static Location<'static>) -> Tensor {
        Tensor::apply_to(op, inputs.iter().map(|&t| t.clone()).collect(), at)
    }

    /// As [`Tensor::apply`], for inputs that are given away.
    pub(crate) fn apply_to(op: Op, inputs: Inputs, at: &'static Location<'static>) -> Tensor {
        let engine = inputs[0].0.engine.clone();
        let spec = match given(&inputs, &engine, op.name()).and_then(|specs| specs_of(&op, &inputs, &specs)) {
            Ok(spec) => spec,
            Err(error) => return Tensor::wrong(&engine, error.at(at)),
        };
        Node::tensor(engine, Ok(spec), None, State::Recipe(op, inputs))
    }

    /// Element type and shape, or what is wrong with the calls that made this tensor.
    pub fn check(&self) -> Result<&Spec> {
        self.0.spec.as_ref().map_err(|e| e.clone().into())
    }

    /// Extents.
    ///
    /// # Panics
    /// When a call that made this tensor was wrong; [`Tensor::check`] returns that instead.
    pub fn shape(&self) -> &Shape {
        &self.spec().shape
    }

    /// Element type.
    ///
    /// # Panics
    /// When a call that made this tensor was wrong; [`Tensor::check`] returns that instead.
    pub fn dtype(&self) -> DType {
        self.spec().dtype
    }

    /// The engine it belongs to.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// The same value, computed on `device` with everything that still has to be computed for it: what the device cannot
    /// run is an error, never a fallback.
    #[must_use]
    #[track_caller]
    pub fn on(&self, device: DeviceId) -> Tensor {
        let (spec, engine) = (self.0.spec.clone(), self.0.engine.clone());
        let state = self.0.state().clone();
        engine.look_for(device);
        Node::tensor(engine, spec, Some(device), state)
    }

    /// The spec of a tensor already known to be right.
    pub(crate) fn spec(&self) -> &Spec {
        match &self.0.spec {
            Ok(spec) => spec,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Specs of the inputs, or the first error one of them carries.
pub(crate) fn given<'a>(
    inputs: &'a [Tensor],
    engine: &Engine,
    operation: &'static str,
) -> std::result::Result<SmallVec<[&'a Spec; 4]>, CallError> {
    let mut specs = SmallVec::with_capacity(inputs.len());
    for input in inputs {
        if !input.0.engine.is_same(engine) {
            return Err(CallError::new(operation, "its tensors belong to different engines"));
        }
        match &input.0.spec {
            Ok(spec) => specs.push(spec),
            Err(error) => return Err(error.clone()),
        }
    }
    Ok(specs)
}

fn specs_of(op: &Op, inputs: &[Tensor], specs: &[&Spec]) -> std::result::Result<Spec, CallError> {
    let Op::Output(index) = op else {
        return op.spec(specs);
    };
    inputs[0].0.unfold();
    let State::Recipe(source, of) = inputs[0].0.state().clone() else {
        return Err(CallError::new("output", "its source was computed already"));
    };
    let of: Vec<&Spec> = of.iter().map(Tensor::spec).collect();
    let missing = || CallError::new(source.name(), format!("has no output {index}"));
    source.specs(&of)?.get(*index as usize).cloned().ok_or_else(missing)
}

impl Node {
    #[inline]
    pub(crate) fn tensor(
        engine: Engine,
        spec: std::result::Result<Spec, CallError>,
        pin: Option<DeviceId>,
        state: State,
    ) -> Tensor {
        Tensor(Arc::new(Node { engine, spec, pin, given: None, read_by: OnceLock::new(), state: Mutex::new(state) }))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It was computed for one reader by this plan, and not kept.
    pub(crate) fn is_not_kept(&self, by: Arc<Known>) {
        drop(self.read_by.set(by));
    }

    pub(crate) fn was_read(&self) -> bool {
        self.read_by.get().is_some()
    }

    /// If its value was not kept, that was wrong, and the plan is told so.
    pub(crate) fn is_wanted_again(&self) {
        if let Some(by) = self.read_by.get() {
            by.keep();
        }
    }

    /// The value is there now; what it was computed from is no longer needed.
    pub(crate) fn settle(&self, value: Arc<Value>) {
        let old = std::mem::replace(&mut *self.state(), State::Value(value));
        if !old.is_flat() {
            drop_all(old);
        }
    }
}

/// A graph can be a chain of a million nodes: its nodes are dropped one after the other, not one inside the other.
impl Drop for Node {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !state.is_flat() {
            drop_all(std::mem::replace(state, State::Wrong));
        }
    }
}

impl State {
    /// Nothing is dropped with it that others do not hold, as far as one can see now.
    fn is_flat(&self) -> bool {
        match self {
            State::Recipe(_, inputs) | State::Folded(Folded { inputs, .. }) => are_held_elsewhere(inputs),
            State::Deferred(..) => false,
            State::Value(value) => !value.can_be_computed_again(),
            State::Wrong => true,
        }
    }
}

/// Whether none of them ends with these: what is an input twice is held twice by these alone.
fn are_held_elsewhere(inputs: &[Tensor]) -> bool {
    let here = |one: &Tensor| match inputs.len() {
        ..=FEW => inputs.iter().filter(|other| Arc::ptr_eq(&one.0, &other.0)).count(),
        many => many,
    };
    inputs.iter().all(|one| Arc::strong_count(&one.0) > here(one))
}

fn drop_all(state: State) {
    let mut left: SmallVec<[State; 2]> = smallvec![state];
    while let Some(state) = left.pop() {
        let inputs = match state {
            State::Recipe(_, inputs) | State::Folded(Folded { inputs, .. }) => inputs,
            State::Deferred(call, _) => Arc::into_inner(call).map(Call::into_tensors).unwrap_or_default(),
            // One that is on a device remembers what it was computed from, and that the same: a state of many steps is a chain, too.
            State::Value(value) => Arc::into_inner(value).and_then(Value::into_recipe).unwrap_or_default(),
            State::Wrong => continue,
        };
        for tensor in inputs {
            if let Some(mut node) = Arc::into_inner(tensor.0) {
                let inner = node.state.get_mut().unwrap_or_else(PoisonError::into_inner);
                if !inner.is_flat() {
                    left.push(std::mem::replace(inner, State::Wrong));
                }
            }
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.spec {
            Ok(spec) => write!(f, "Tensor({spec})"),
            Err(error) => write!(f, "Tensor(wrong: {error})"),
        }
    }
}
