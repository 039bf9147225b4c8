//! Writing a program down: stand-ins for its arguments, and what is computed from them.

use std::collections::BTreeSet;
use std::sync::Arc;

use breakeven_ir::{CallError, NodeId, Op};

use crate::evaluate::value_of;
use crate::program::{Given, Parameter, Program, Written};
use crate::trace::Trace;
use crate::value::Value;
use crate::{Engine, Result, Tensor};

/// Stand-ins for the arguments of a [`Program`] that is being written down.
///
/// ```
/// use breakeven::{Draft, Engine};
///
/// # fn main() -> breakeven::Result<()> {
/// let engine = Engine::builder().gpus(false).no_cache().build()?;
/// let weights = engine.tensor(&[1.0, 2.0], [2]);
/// let draft = Draft::new(&[&engine.tensor(&[0.0, 0.0], [2])]).expect("its value is there");
/// let x = &draft.stand_ins()[0];
/// let program = draft.finish(&[&(x * &weights)])?;
/// let y = program.call(&[&engine.tensor(&[3.0, 4.0], [2])])?;
/// assert_eq!(y[0].to_vec::<f32>()?, [3.0, 8.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Draft {
    stand_ins: Vec<Tensor>,
}

impl Draft {
    /// Stand-ins that have the values of `arguments` until the program is written; none where a value is still to be
    /// computed, or where there is no argument.
    pub fn new(arguments: &[&Tensor]) -> Option<Draft> {
        let one = |argument: &&Tensor| {
            let value = value_of(argument)?;
            Some(Tensor::from_value(argument.engine(), Arc::new(value.stand_in())))
        };
        let stand_ins: Vec<Tensor> = arguments.iter().map(one).collect::<Option<_>>()?;
        (!stand_ins.is_empty()).then_some(Draft { stand_ins })
    }

    /// What the program is written with, in the order of the arguments.
    pub fn stand_ins(&self) -> &[Tensor] {
        &self.stand_ins
    }

    /// Which arguments still go into `tensor`, that is, which would have to be the same for its elements to be the same.
    pub fn arguments_of(&self, tensor: &Tensor) -> Result<Vec<usize>> {
        let trace = Trace::of(&[tensor], &tensor.engine().0.devices.snapshot())?;
        Ok(trace.inputs.iter().filter_map(|(_, value)| self.index_of(value)).collect())
    }

    fn index_of(&self, value: &Arc<Value>) -> Option<usize> {
        self.stand_ins.iter().position(|t| value_of(t).is_some_and(|of| Arc::ptr_eq(&of, value)))
    }

    /// The program that computes `outputs`. What it computes from constants alone is computed now, unless that is larger than
    /// what it is computed from.
    ///
    /// The caller answers for that nothing in it was decided by the elements of a stand-in.
    pub fn finish(&self, outputs: &[&Tensor]) -> Result<Program> {
        let Some(first) = outputs.first() else { return Err(CallError::new("finish", "takes an output").into()) };
        let engine = first.engine().clone();
        let written = self.written(&engine, outputs)?;
        let constants = constants(&written);
        if constants.is_empty() {
            return Ok(Program(Arc::new(written)));
        }
        let tensors = written.unfold(&self.stand_ins);
        let constants: Vec<&Tensor> = constants.iter().map(|id| &tensors[id.index()]).collect();
        engine.compute_on_host(&constants)?;
        let outputs: Vec<&Tensor> = written.graph.outputs().iter().map(|id| &tensors[id.index()]).collect();
        self.written(&engine, &outputs).map(|written| Program(Arc::new(written)))
    }

    fn written(&self, engine: &Engine, outputs: &[&Tensor]) -> Result<Written> {
        let Trace { graph, inputs, pins } = Trace::of(outputs, &engine.0.devices.snapshot())?;
        let given = |value: Arc<Value>| self.index_of(&value).map_or(Given::Constant(value), Given::Argument);
        let inputs = inputs.into_iter().map(|(id, value)| (id, given(value))).collect();
        let parameter = |t: &Tensor| {
            let limits = value_of(t).map(|value| value.limits()).unwrap_or_default();
            Parameter { spec: t.spec().clone(), limits }
        };
        let parameters = self.stand_ins.iter().map(parameter).collect();
        let plans = Arc::default();
        engine.0.devices.keepers.add(&plans);
        Ok(Written { engine: engine.clone(), graph, inputs, pins, parameters, plans })
    }
}

/// Nodes to compute ahead: they follow from constants, are no views, and are outputs or taken by what follows from arguments.
fn constants(written: &Written) -> BTreeSet<NodeId> {
    let graph = &written.graph;
    let is_argument = |(id, given): &(NodeId, Given)| matches!(given, Given::Argument(_)).then_some(*id);
    let arguments: BTreeSet<NodeId> = written.inputs.iter().filter_map(is_argument).collect();
    // The bytes of the constants that a node follows from; nothing where an argument goes in.
    let mut sources: Vec<Option<u64>> = Vec::with_capacity(graph.nodes().len());
    for (id, node) in graph.ids().zip(graph.nodes()) {
        let inputs = node.inputs.iter().map(|input| sources[input.index()]);
        sources.push(match node.op {
            Op::Input => (!arguments.contains(&id)).then(|| node.spec.bytes()),
            _ => inputs.sum(),
        });
    }
    let several: BTreeSet<NodeId> = outputs_of_several(written);
    let is_worth = |id: &NodeId| {
        let node = graph.node(*id);
        let is_made = !matches!(node.op, Op::Input | Op::Fill(_) | Op::View(_)) && !several.contains(id);
        is_made && sources[id.index()].is_some_and(|bytes| node.spec.bytes() <= bytes)
    };
    let variable = graph.ids().filter(|id| sources[id.index()].is_none());
    let taken = variable.flat_map(|id| graph.node(id).inputs.iter().copied());
    taken.chain(graph.outputs().iter().copied()).map(|id| behind_views(written, id)).filter(is_worth).collect()
}

/// Nodes with several outputs and those outputs, which cannot be told apart once they are values.
fn outputs_of_several(written: &Written) -> BTreeSet<NodeId> {
    let graph = &written.graph;
    let outputs = graph.ids().filter(|id| matches!(graph.node(*id).op, Op::Output(_)));
    outputs.flat_map(|id| [id, graph.node(id).inputs[0]]).collect()
}

fn behind_views(written: &Written, mut id: NodeId) -> NodeId {
    while let Op::View(_) = written.graph.node(id).op {
        id = written.graph.node(id).inputs[0];
    }
    id
}
