//! Graphs: what is to be computed, as plain data.

use smallvec::SmallVec;

use crate::{CallError, DType, Op, Shape, Spec, Specs};

/// A node's place in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    /// As an index into [`Graph::nodes`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One operation and what it works on.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it does.
    pub op: Op,
    /// What it works on; all of them come earlier in the graph.
    pub inputs: SmallVec<[NodeId; 3]>,
    /// What it gives; its first output where it has several.
    pub spec: Spec,
}

/// Nodes in an order in which they can be computed, and which of them are wanted.
///
/// Invariant: a node comes after its inputs, and its spec follows from theirs by the rules. Inputs that were [lifted](Graph::lift) are told
/// apart from others by `==`, and not by the fingerprint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    nodes: Vec<Node>,
    outputs: Vec<NodeId>,
    lifted: Vec<NodeId>,
}

impl Graph {
    /// A graph without nodes.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// A graph without nodes, with room for so many.
    pub fn with_capacity(nodes: usize) -> Graph {
        Graph { nodes: Vec::with_capacity(nodes), ..Graph::default() }
    }

    /// All nodes, in execution order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// One node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Nodes whose values are wanted, in the order they were named.
    pub fn outputs(&self) -> &[NodeId] {
        &self.outputs
    }

    /// Ids of all nodes, in execution order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// A tensor whose bytes are given when the graph runs.
    pub fn input(&mut self, spec: Spec) -> NodeId {
        self.push(Op::Input, &[], spec)
    }

    /// One number, rank 0.
    pub fn fill(&mut self, dtype: DType, value: f64) -> NodeId {
        self.push(Op::Fill(value), &[], Spec::new(dtype, Shape::scalar()))
    }

    /// Makes an input of a number, so that graphs which differ in it are one; false where `id` is no number.
    pub fn lift(&mut self, id: NodeId) -> bool {
        let is_number = self.nodes.get(id.index()).is_some_and(|node| matches!(node.op, Op::Fill(_)));
        if is_number {
            self.nodes[id.index()].op = Op::Input;
            self.lifted.push(id);
        }
        is_number
    }

    /// Inputs that were numbers, in the order in which they were [lifted](Graph::lift).
    pub fn lifted(&self) -> &[NodeId] {
        &self.lifted
    }

    /// An operation over earlier nodes.
    pub fn add(&mut self, op: Op, inputs: &[NodeId]) -> Result<NodeId, CallError> {
        let spec = match op {
            Op::Output(index) => self.nth_output(index, inputs)?,
            _ => self.specs(&op, inputs)?.swap_remove(0),
        };
        Ok(self.push(op, inputs, spec))
    }

    /// As [`Graph::add`], where `spec` is what the rules gave for this operation over these inputs already: they are not asked again.
    ///
    /// # Panics
    /// In debug builds, when the rules say otherwise.
    pub fn add_known(&mut self, op: Op, inputs: &[NodeId], spec: Spec) -> NodeId {
        debug_assert!(self.gives(&op, inputs, &spec), "{} of {inputs:?} does not give {spec}", op.name());
        self.push(op, inputs, spec)
    }

    /// Want the value of `id` when the graph runs.
    pub fn want(&mut self, id: NodeId) {
        self.outputs.push(id);
    }

    fn gives(&self, op: &Op, inputs: &[NodeId], spec: &Spec) -> bool {
        match op {
            Op::Input | Op::Fill(_) => inputs.is_empty(),
            Op::Output(index) => self.nth_output(*index, inputs).is_ok_and(|own| own == *spec),
            _ => self.specs(op, inputs).is_ok_and(|all| all[0] == *spec),
        }
    }

    fn specs(&self, op: &Op, inputs: &[NodeId]) -> Result<Specs, CallError> {
        let specs: SmallVec<[&Spec; 3]> = inputs.iter().map(|&id| &self.node(id).spec).collect();
        op.specs(&specs)
    }

    fn nth_output(&self, index: u8, inputs: &[NodeId]) -> Result<Spec, CallError> {
        let [source] = inputs else {
            return Err(CallError::new("output", "takes one node"));
        };
        let node = self.node(*source);
        let all = self.specs(&node.op, &node.inputs)?;
        let missing = || CallError::new("output", format!("{} has {} outputs, not {index}", node.op.name(), all.len()));
        all.get(index as usize).cloned().ok_or_else(missing)
    }

    fn push(&mut self, op: Op, inputs: &[NodeId], spec: Spec) -> NodeId {
        self.nodes.push(Node { op, inputs: SmallVec::from_slice(inputs), spec });
        NodeId(u32::try_from(self.nodes.len() - 1).expect("a graph has fewer than 2^32 nodes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Row;

    fn row(name: &str) -> Op {
        Op::Map(Row::named(name).unwrap(), SmallVec::new())
    }

    #[test]
    fn a_chain_of_a_million_nodes_is_built_walked_and_dropped() {
        let mut graph = Graph::new();
        let mut at = graph.input(Spec::new(DType::F32, [2]));
        for _ in 0..1_000_000 {
            at = graph.add(row("sin"), &[at]).unwrap();
        }
        graph.want(at);
        let edges: usize = graph.ids().map(|id| graph.node(id).inputs.len()).sum();
        assert_eq!(edges, 1_000_000);
    }

    #[test]
    fn shape_errors_name_operation_and_operands() {
        let mut graph = Graph::new();
        let a = graph.input(Spec::new(DType::F32, [2, 3]));
        let b = graph.input(Spec::new(DType::F32, [4, 5]));
        let text = graph.add(Op::matmul(), &[a, b]).unwrap_err().to_string();
        assert!(text.contains("matmul(f32[2, 3], f32[4, 5])"), "{text}");
        assert!(graph.add(row("add"), &[a, b]).is_err());
        assert!(graph.add(row("bit_and"), &[a, a]).is_err());
    }
}
