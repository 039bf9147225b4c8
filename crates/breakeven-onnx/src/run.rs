//! The interpreter: walks the nodes in order and writes down what they compute, on lazy tensors.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use breakeven::{Deadline, DeviceError, DeviceId, Draft, Engine, Spec, Tensor};

use crate::attribute::{Attribute, Attributes};
use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::graph::{Action, Function, Graph, Initialiser, Node};
use crate::ops::Run as OperatorRun;
use crate::store::{Known, Store};
use crate::value::{Constant, Item};

/// Graphs inside graphs inside functions; more is no model but an attack.
const DEEPEST: usize = 64;

/// One run of a model.
pub(crate) struct Interpreter<'m> {
    /// Where the model runs.
    pub target: &'m Engine,
    /// A CPU alone, for what does not depend on inputs.
    pub folder: &'m Engine,
    /// The device that everything is forced to.
    pub device: Option<DeviceId>,
    /// What earlier runs found out.
    store: &'m Store,
    /// What runs with inputs of the same shapes found out.
    known: Arc<Known>,
    /// An element that depends on an input was read: from here on, constants may differ from run to run.
    has_read: Cell<bool>,
    /// What the run is written down with, so that later runs need not walk the nodes.
    draft: Option<&'m Draft>,
    /// Inputs that decided the way through the graph.
    deciding: RefCell<BTreeSet<usize>>,
    /// More decided it than inputs whose elements could be looked at again.
    is_unique: Cell<bool>,
    depth: Cell<usize>,
    /// When the walk must have ended: loops and functions that call functions may ask for any number of steps.
    deadline: Deadline,
}

/// How a run is written down.
#[derive(Clone, Copy)]
pub(crate) struct Written<'m> {
    /// The device that everything is forced to.
    pub device: Option<DeviceId>,
    /// Stand-ins for the inputs, if the run may be kept.
    pub draft: Option<&'m Draft>,
}

/// Names and their values in one graph.
pub(crate) struct Scope<'s> {
    values: RefCell<HashMap<String, Item>>,
    /// The graph around a subgraph, whose names it sees.
    outer: Option<&'s Scope<'s>>,
    /// What the caller of a function gave.
    attributes: Option<&'s Attributes>,
}

impl<'s> Scope<'s> {
    /// The scope of a model's own graph.
    pub fn top() -> Scope<'s> {
        Scope { values: RefCell::default(), outer: None, attributes: None }
    }

    fn inside(outer: &'s Scope<'s>) -> Scope<'s> {
        Scope { values: RefCell::default(), outer: Some(outer), attributes: outer.attributes }
    }

    fn of_function(attributes: &'s Attributes) -> Scope<'s> {
        Scope { values: RefCell::default(), outer: None, attributes: Some(attributes) }
    }

    /// Give a name its value.
    pub fn bind(&self, name: &str, item: Item) {
        self.values.borrow_mut().insert(name.to_owned(), item);
    }

    fn get(&self, name: &str) -> Option<Item> {
        let mut scope = Some(self);
        while let Some(at) = scope {
            if let Some(item) = at.values.borrow().get(name) {
                return Some(item.clone());
            }
            scope = at.outer;
        }
        None
    }

    /// What the caller of the surrounding function gave under `name`.
    pub fn reference(&self, name: &str) -> Option<&'s Attribute> {
        self.attributes.and_then(|attributes| attributes.get(name))
    }
}

impl<'m> Interpreter<'m> {
    /// A run on `target`.
    pub fn new(target: &'m Engine, folder: &'m Engine, store: &'m Store, known: Arc<Known>, run: Written<'m>) -> Self {
        let Written { device, draft } = run;
        let (has_read, is_unique, depth) = (Cell::new(false), Cell::new(false), Cell::new(0));
        let (deciding, deadline) = (RefCell::default(), target.deadline());
        Interpreter { target, folder, device, store, known, has_read, draft, deciding, is_unique, depth, deadline }
    }

    /// The inputs whose elements decided what was written down; none where a run with the same ones may do something else.
    pub fn deciding(&self) -> Option<BTreeSet<usize>> {
        (!self.is_unique.get()).then(|| self.deciding.borrow().clone())
    }

    /// The outputs of `graph`, whose inputs `scope` holds already.
    pub fn graph(&self, graph: &Graph, scope: &Scope<'_>) -> Result<Vec<Item>> {
        for initialiser in &graph.initialisers {
            // An input of the same name takes the place of an initialiser, which is its default.
            if !scope.values.borrow().contains_key(initialiser.name.as_str()) {
                scope.bind(&initialiser.name, self.initialiser(initialiser));
            }
        }
        self.nodes(&graph.nodes, scope)?;
        graph.outputs.iter().map(|port| output(&port.name, scope)).collect()
    }

    /// The outputs of a subgraph that is given `inputs` and sees the names of `outer`.
    pub fn subgraph(&self, graph: &Graph, inputs: Vec<Item>, outer: &Scope<'_>) -> Result<Vec<Item>> {
        let scope = Scope::inside(outer);
        for (port, item) in graph.inputs.iter().zip(inputs) {
            scope.bind(&port.name, item.given());
        }
        self.deeper(|| self.graph(graph, &scope))
    }

    /// An element of `tensor`, which depends on an input, is about to be read.
    pub fn note_read(&self, tensor: &Tensor) {
        self.has_read.set(true);
        match self.draft.map(|draft| draft.arguments_of(tensor)) {
            Some(Ok(arguments)) => self.deciding.borrow_mut().extend(arguments),
            _ => self.note_unique(),
        }
    }

    /// What is written down holds for this run alone.
    pub fn note_unique(&self) {
        self.is_unique.set(true);
    }

    fn deeper<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.depth.get() >= DEEPEST {
            let message = format!("graphs lie inside graphs, more than {DEEPEST} deep");
            return Err(Error::Node { node: "the model".to_owned(), message });
        }
        self.depth.set(self.depth.get() + 1);
        let outcome = run();
        self.depth.set(self.depth.get() - 1);
        outcome
    }

    fn nodes(&self, nodes: &[Node], scope: &Scope<'_>) -> Result<()> {
        for node in nodes {
            let outputs = self.node(node, scope)?;
            for (name, item) in node.outputs.iter().zip(outputs).filter(|(name, _)| !name.is_empty()) {
                scope.bind(name, item);
            }
        }
        Ok(())
    }

    fn initialiser(&self, initialiser: &Initialiser) -> Item {
        let make = || {
            let literal = &initialiser.literal;
            let tensor = self.folder.from_bytes(literal.bytes.clone(), literal.spec.clone());
            vec![Item::Constant(Arc::new(Constant::of_file(tensor, literal.bytes.clone())))]
        };
        self.store.fixed(initialiser.id, make).swap_remove(0)
    }

    fn node(&self, node: &Node, scope: &Scope<'_>) -> Result<Vec<Item>> {
        let is_top = self.depth.get() == 0;
        if let Some(items) = self.store.find(node.id) {
            return Ok(items);
        }
        if let Some(items) = self.known.find(node.id).filter(|_| is_top) {
            return Ok(items);
        }
        let fault = |fault: Fault| fault.of(|| node.describe());
        self.in_time().map_err(fault)?;
        let inputs = inputs(node, scope).map_err(fault)?;
        let outputs = self.outputs(node, inputs, scope).map_err(fault)?;
        if !outputs.is_empty() && outputs.iter().all(Item::is_fixed) {
            self.store.keep(node.id, &outputs);
        } else if is_top && !self.has_read.get() && outputs.iter().all(Item::is_constant) {
            self.known.keep(node.id, &outputs);
        }
        Ok(outputs)
    }

    fn outputs(
        &self,
        node: &Node,
        inputs: Vec<Option<Item>>,
        scope: &Scope<'_>,
    ) -> std::result::Result<Vec<Item>, Fault> {
        let operator = match &node.action {
            Action::Operator(operator) => operator,
            Action::Function(function) => return Ok(self.function(function, node, inputs, scope)?),
            Action::Missing => return Err(Fault::Unsupported("the operator is not there".to_owned())),
        };
        if operator.is_random {
            self.note_unique();
        }
        let call = Call::new(self, node, scope, inputs, operator.is_random);
        let outputs = match operator.run {
            OperatorRun::One(run) => vec![Item::Tensor(run(&call)?)],
            OperatorRun::Many(run) => run(&call)?,
        };
        let refers = node.attributes.values().any(|value| matches!(value, Attribute::Reference(_)));
        let is_fixed = call.is_fixed() && !operator.is_random && !refers;
        let outputs: Vec<Item> = outputs.into_iter().map(|item| self.settled(item, is_fixed)).collect();
        outputs.iter().try_for_each(|item| self.check(item))?;
        Ok(outputs)
    }

    /// Fails once the deadline of the run has passed.
    pub fn in_time(&self) -> std::result::Result<(), Fault> {
        if !self.deadline.has_passed() {
            return Ok(());
        }
        let waited = self.deadline.waited();
        Err(out_of(DeviceError::Timeout { waited, pending: 0 }))
    }

    /// Fails where so many elements of so many bytes are more than may be held: a few numbers of a file can ask for any
    /// amount, as views that nobody stores yet or as lists on the host.
    pub fn room(&self, count: usize, each: usize) -> std::result::Result<(), Fault> {
        let wanted = (count as u64).saturating_mul(each as u64);
        self.target.has_room(wanted).map_err(out_of)
    }

    /// The first error that a tensor carries, or that it could never be held.
    fn check(&self, item: &Item) -> std::result::Result<(), Fault> {
        let held = |tensor: &Tensor| {
            let Spec { dtype, shape } = tensor.check().map_err(call_fault)?;
            self.room(shape.elements(), dtype.bytes())
        };
        match item {
            Item::Tensor(tensor) => held(tensor),
            Item::Constant(constant) => held(&constant.tensor),
            Item::Sequence(items) => items.iter().try_for_each(|item| self.check(item)),
            Item::Optional(item) => item.iter().try_for_each(|item| self.check(item)),
        }
    }

    fn function(
        &self,
        function: &Arc<Function>,
        node: &Node,
        inputs: Vec<Option<Item>>,
        scope: &Scope<'_>,
    ) -> Result<Vec<Item>> {
        let given = node.attributes.iter().filter_map(|(name, value)| match value {
            Attribute::Reference(outer) => Some((name.clone(), scope.reference(outer)?.clone())),
            value => Some((name.clone(), value.clone())),
        });
        let attributes: Attributes = function.defaults.clone().into_iter().chain(given).collect();
        let inner = Scope::of_function(&attributes);
        for (name, item) in function.inputs.iter().zip(inputs) {
            if let Some(item) = item {
                inner.bind(name, item.given());
            }
        }
        self.deeper(|| {
            self.nodes(&function.nodes, &inner)?;
            function.outputs.iter().map(|name| output(name, &inner)).collect()
        })
    }

    /// A tensor of the folding engine is a constant; another is computed on the forced device, if there is one.
    pub fn settled(&self, item: Item, is_fixed: bool) -> Item {
        match item {
            Item::Tensor(tensor) if tensor.engine().is_same(self.folder) => {
                Item::Constant(Arc::new(Constant::new(tensor, is_fixed)))
            }
            Item::Tensor(tensor) => Item::Tensor(self.placed(&tensor)),
            Item::Sequence(items) => Item::Sequence(items.into_iter().map(|i| self.settled(i, is_fixed)).collect()),
            Item::Optional(Some(item)) => Item::Optional(Some(Box::new(self.settled(*item, is_fixed)))),
            item => item,
        }
    }

    fn placed(&self, tensor: &Tensor) -> Tensor {
        self.device.map_or_else(|| tensor.clone(), |device| tensor.on(device))
    }
}

/// The value of an output of a graph or function.
fn output(name: &str, scope: &Scope<'_>) -> Result<Item> {
    let missing = || Error::Node { node: format!("output '{name}'"), message: "no node computes it".to_owned() };
    scope.get(name).ok_or_else(missing)
}

/// The values of a node's inputs; nothing where one is not given.
fn inputs(node: &Node, scope: &Scope<'_>) -> std::result::Result<Vec<Option<Item>>, Fault> {
    let find = |name: &String| match scope.get(name) {
        _ if name.is_empty() => Ok(None),
        Some(item) => Ok(Some(item)),
        None => Err(Fault::Wrong(format!("its input '{name}' is not computed before it"))),
    };
    node.inputs.iter().map(find).collect()
}

/// What the machine lacks for a node.
fn out_of(source: DeviceError) -> Fault {
    Fault::Engine(breakeven::Error::Device { device: "cpu".to_owned(), source })
}

/// A call that the tensor library refuses: a type it does not define the operation for is not the model's fault.
fn call_fault(error: breakeven::Error) -> Fault {
    match error {
        breakeven::Error::Call(call) => {
            let operands: Vec<String> = call.operands.iter().map(ToString::to_string).collect();
            let message = format!("{}({}) {}", call.operation, operands.join(", "), call.message);
            if message.contains("is not defined for") { Fault::Unsupported(message) } else { Fault::Wrong(message) }
        }
        other => Fault::Engine(other),
    }
}
