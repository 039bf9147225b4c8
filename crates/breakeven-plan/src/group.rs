//! Groups: which nodes share a kernel, decided from the outputs backwards.
//!
//! A node joins a group when all that read it are in that group and read it by one index mapping. So only the root of a
//! group is seen from outside, and groups never wait for each other in a circle.

use breakeven_ir::{DType, Fold, Graph, Layout, Node, NodeId, Op, Scan, Shape, Sort};
use smallvec::SmallVec;

use crate::Policy;
use crate::index::{axes_last, compose, inverse};
use crate::resolve::{Resolved, Role};

/// Where in a kernel something is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// By the expression before a fold or row operation.
    Pre,
    /// By the expression that gives the result.
    Post,
    /// As it is: operands of products and custom operations, what is scanned or sorted, and what gathers and scatters take.
    Whole,
}

/// An elementwise node of a group.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub node: NodeId,
    /// From the indices of its part to its own storage positions.
    pub at: Layout,
}

/// A storage that a group reads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Leaf {
    pub node: NodeId,
    /// From the indices of the part to storage positions.
    pub layout: Layout,
    pub part: Part,
}

/// The nodes of one kernel.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The node whose storage is written.
    pub root: NodeId,
    /// Which input of a concat it writes.
    pub piece: Option<usize>,
    /// Where the results lie, over the shape of the work.
    pub out: Layout,
    /// Nodes of the last expression, the root first, descending.
    pub post: Vec<Member>,
    /// The one node that is not elementwise.
    pub base: Option<NodeId>,
    /// Nodes of the expression before the base, descending.
    pub pre: Vec<Member>,
    leaves: Vec<Leaf>,
    rows: usize,
}

/// A node, or one input of a concat, that a group writes.
#[derive(Clone, Copy, Debug)]
struct Written {
    node: NodeId,
    piece: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    Unused,
    /// Read by one group only.
    By(usize),
    /// Read from several places, or whole, or wanted by the caller.
    Stored,
}

/// All groups, in the order of their roots, and which constants must be stored because they are read whole.
pub(crate) struct Groups {
    pub groups: Vec<Group>,
    pub stored_constants: Vec<NodeId>,
}

/// Decides which nodes share a kernel.
pub(crate) fn group(graph: &Graph, resolved: &Resolved, policy: &Policy, everywhere: &[DType]) -> Groups {
    let demand = vec![Demand::Unused; graph.nodes().len()];
    let uses = uses(graph, resolved);
    let mut grouping = Grouping { graph, resolved, policy, everywhere, groups: Vec::new(), demand, uses };
    for &output in graph.outputs().iter().filter(|&&id| resolved.role(id) != Role::Empty) {
        grouping.demand[resolved.of(output).base.index()] = Demand::Stored;
    }
    for id in graph.ids().rev() {
        let is_computed = matches!(resolved.role(id), Role::Compute | Role::Copy);
        if is_computed && grouping.demand[id.index()] != Demand::Unused {
            grouping.visit(id);
        }
    }
    let stored = |id: &NodeId| grouping.demand[id.index()] == Demand::Stored;
    let constant = |id: &NodeId| matches!(resolved.role(*id), Role::Constant(_));
    let stored_constants = graph.ids().filter(|id| constant(id) && stored(id)).collect();
    grouping.groups.reverse();
    Groups { groups: grouping.groups, stored_constants }
}

/// What an elementwise node reads, over the index space of its part.
pub(crate) fn reads(graph: &Graph, resolved: &Resolved, member: &Member, piece: Option<usize>) -> Option<Reads> {
    let one = |input: &NodeId| {
        let seen = resolved.of(*input);
        let layout = match graph.node(member.node).op {
            Op::Map(..) | Op::Cast(_) => resolved.in_storage_order(member.node, &seen.layout),
            _ => seen.layout.clone(),
        };
        Some((seen.base, compose(&layout, &member.at)?))
    };
    let node = graph.node(member.node);
    match piece {
        Some(piece) if matches!(node.op, Op::Concat(_)) => Some([one(&node.inputs[piece])?].into_iter().collect()),
        _ => node.inputs.iter().map(one).collect(),
    }
}

type Reads = SmallVec<[(NodeId, Layout); 3]>;

/// What a node that is not elementwise reads, over the index spaces of its kernel.
pub(crate) fn base_reads(graph: &Graph, resolved: &Resolved, id: NodeId) -> SmallVec<[Leaf; 2]> {
    let node = graph.node(id);
    let axes: Option<Vec<usize>> = match &node.op {
        Op::Reduce(reduce) => Some(reduce.axes.to_vec()),
        Op::RowWise(_, axis) | Op::Scan(Scan { axis, .. }) | Op::Sort(Sort { axis, .. }) | Op::Scatter(axis, _) => {
            Some(vec![*axis])
        }
        _ => None,
    };
    // What these work on is read as it is stored: they have no expression before it.
    let part = if matches!(node.op, Op::Scan(_) | Op::Sort(_) | Op::Scatter(..)) { Part::Whole } else { Part::Pre };
    let one = |input: &NodeId| {
        let seen = resolved.of(*input);
        match &axes {
            None => Leaf { node: seen.base, layout: seen.layout.clone(), part: Part::Whole },
            Some(axes) => {
                let layout = seen.layout.permute(&axes_last(seen.layout.shape.rank(), axes));
                Leaf { node: seen.base, layout, part }
            }
        }
    };
    node.inputs.iter().map(one).collect()
}

/// Where a node that is not elementwise stores its result, over the index space of its kernel's result.
pub(crate) fn base_storage(graph: &Graph, resolved: &Resolved, id: NodeId) -> Layout {
    let node = graph.node(id);
    let stored = resolved.storage(id, &node.spec.shape);
    match node.op {
        Op::RowWise(_, axis) | Op::Scan(Scan { axis, .. }) | Op::Sort(Sort { axis, .. }) | Op::Scatter(axis, _) => {
            stored.permute(&axes_last(stored.shape.rank(), &[axis]))
        }
        _ => stored,
    }
}

struct Grouping<'a> {
    graph: &'a Graph,
    resolved: &'a Resolved,
    policy: &'a Policy,
    everywhere: &'a [DType],
    groups: Vec<Group>,
    demand: Vec<Demand>,
    /// How often each node is named as an input or wanted.
    uses: Vec<u32>,
}

fn uses(graph: &Graph, resolved: &Resolved) -> Vec<u32> {
    let mut uses = vec![0; graph.nodes().len()];
    let live = graph.ids().filter(|&id| resolved.role(id) != Role::Dead);
    let named = live.flat_map(|id| graph.node(id).inputs.iter());
    named.chain(graph.outputs()).for_each(|id| uses[id.index()] += 1);
    uses
}

impl Grouping<'_> {
    fn visit(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        match &node.op {
            Op::Map(..) | Op::Cast(_) | Op::View(_) => {
                if self.absorb_elementwise(id).or_else(|| self.absorb_copy(id)).is_none() {
                    let shape = self.work_shape(id);
                    let out = self.resolved.storage(id, &shape);
                    self.begin(id, Written { node: id, piece: None }, out);
                }
            }
            Op::Concat(_) => {
                let stored = self.resolved.storage(id, &node.spec.shape);
                self.begin_pieces(id, stored);
            }
            Op::Output(_) => self.demand[node.inputs[0].index()] = Demand::Stored,
            _ => {
                if self.absorb_base(id).is_none() {
                    self.begin_base(id);
                }
            }
        }
    }

    /// The shape that an elementwise node is computed over: a copy is computed over what it copies.
    fn work_shape(&self, id: NodeId) -> Shape {
        let node = self.graph.node(id);
        let of = if matches!(node.op, Op::View(_)) { node.inputs[0] } else { id };
        self.graph.node(of).spec.shape.clone()
    }

    fn begin(&mut self, root: NodeId, Written { node, piece }: Written, out: Layout) {
        let at = if piece.is_some() { Layout::dense(out.shape.clone()) } else { out.clone() };
        let member = Member { node, at };
        let reads = reads(self.graph, self.resolved, &member, piece).expect("a node reads its inputs in its own order");
        let rows = self.rows(node);
        let group =
            Group { root, piece, out, post: vec![member], base: None, pre: Vec::new(), leaves: Vec::new(), rows };
        self.groups.push(group);
        self.read_elements(self.groups.len() - 1, reads, Part::Post);
    }

    fn begin_base(&mut self, id: NodeId) {
        let out = base_storage(self.graph, self.resolved, id);
        let base = Some(id);
        let (post, pre, leaves) = (Vec::new(), Vec::new(), Vec::new());
        self.groups.push(Group { root: id, piece: None, out, post, base, pre, leaves, rows: 0 });
        self.read(self.groups.len() - 1, base_reads(self.graph, self.resolved, id));
    }

    /// Writes the inputs of the concat `root` where they lie in its storage, and those of concats among them.
    fn begin_pieces(&mut self, root: NodeId, stored: Layout) {
        let mut todo = vec![(root, stored)];
        while let Some((node, stored)) = todo.pop() {
            let Node { op: Op::Concat(axis), inputs, spec } = self.graph.node(node) else { unreachable!("a concat") };
            let mut end = spec.shape[*axis];
            for (piece, &input) in inputs.iter().enumerate().rev() {
                let extent = self.graph.node(input).spec.shape[*axis];
                end -= extent;
                let part = stored.slice(*axis, end, extent, 1);
                match extent {
                    0 => {}
                    _ if self.is_joined_in_place(root, input) => todo.push((input, part)),
                    _ => self.begin(root, Written { node, piece: Some(piece) }, part),
                }
            }
        }
    }

    /// Whether `id` is a concat that is nothing but a piece of another: its pieces are written where that one lies.
    fn is_joined_in_place(&self, root: NodeId, id: NodeId) -> bool {
        let same_pin = self.policy.pins.get(&id) == self.policy.pins.get(&root);
        let is_concat = matches!(self.graph.node(id).op, Op::Concat(_)) && self.resolved.role(id) == Role::Compute;
        self.policy.fuse && same_pin && is_concat && self.uses[id.index()] == 1
    }

    /// Note what an elementwise member reads; constants become parameters.
    fn read_elements(&mut self, group: usize, reads: Reads, part: Part) {
        let variable = |read: &(NodeId, Layout)| !matches!(self.resolved.role(read.0), Role::Constant(_));
        let leaves: SmallVec<[Leaf; 3]> =
            reads.into_iter().filter(variable).map(|(node, layout)| Leaf { node, layout, part }).collect();
        self.read(group, leaves);
    }

    /// Note what a group reads from storage.
    fn read(&mut self, group: usize, leaves: impl IntoIterator<Item = Leaf>) {
        for leaf in leaves {
            let demand = &mut self.demand[leaf.node.index()];
            let is_constant = matches!(self.resolved.role(leaf.node), Role::Constant(_));
            *demand = match *demand {
                Demand::Unused if leaf.part != Part::Whole && !is_constant => Demand::By(group),
                Demand::By(other) if leaf.part != Part::Whole && other == group => Demand::By(group),
                _ => Demand::Stored,
            };
            if !self.groups[group].leaves.contains(&leaf) {
                self.groups[group].leaves.push(leaf);
            }
        }
    }

    /// The group that `id` may join, and how that group reads it.
    fn reader(&self, id: NodeId) -> Option<(usize, Leaf)> {
        let Demand::By(group) = self.demand[id.index()] else { return None };
        let mut leaves = self.groups[group].leaves.iter().filter(|leaf| leaf.node == id);
        let leaf = leaves.next()?.clone();
        let root = self.groups[group].root;
        let same_pin = self.policy.pins.get(&id) == self.policy.pins.get(&root);
        let alike = same_pin && self.runs_everywhere(id) == self.runs_everywhere(root);
        (self.policy.fuse && alike && leaves.next().is_none()).then_some((group, leaf))
    }

    /// Whether every device works on the types that a node reads and gives.
    fn runs_everywhere(&self, id: NodeId) -> bool {
        let has = |id: NodeId| self.everywhere.contains(&self.graph.node(id).spec.dtype);
        has(id) && self.graph.node(id).inputs.iter().all(|&input| has(input))
    }

    fn rows(&self, id: NodeId) -> usize {
        usize::from(matches!(self.graph.node(id).op, Op::Map(..) | Op::Cast(_)))
    }

    fn has_room(&self, group: &Group, rows: usize, added: usize) -> bool {
        let leaves = group.leaves.len() - 1 + added;
        group.rows + rows <= self.policy.max_rows_per_kernel && leaves <= self.policy.max_inputs_per_kernel
    }

    fn absorb_elementwise(&mut self, id: NodeId) -> Option<()> {
        let (index, leaf) = self.reader(id)?;
        let member = Member { node: id, at: leaf.layout.clone() };
        let reads = reads(self.graph, self.resolved, &member, None).filter(|_| member.at.is_injective())?;
        let group = &self.groups[index];
        let is_variable = |read: &&(NodeId, Layout)| !matches!(self.resolved.role(read.0), Role::Constant(_));
        let is_new = |(node, layout): &&(NodeId, Layout)| {
            !group.leaves.iter().any(|l| l.node == *node && l.layout == *layout && l.part == leaf.part)
        };
        let variables = reads.iter().filter(is_variable).count();
        let added = reads.iter().filter(is_variable).filter(is_new).count();
        if (leaf.part == Part::Pre && variables == 0) || !self.has_room(group, self.rows(id), added) {
            return None;
        }
        let rows = self.rows(id);
        let group = &mut self.groups[index];
        group.leaves.retain(|l| *l != leaf);
        group.rows += rows;
        if leaf.part == Part::Pre { &mut group.pre } else { &mut group.post }.push(member);
        self.read_elements(index, reads, leaf.part);
        Some(())
    }

    /// Lets a group work in the order of what a copy reads, so that the copy is a view of it.
    fn absorb_copy(&mut self, id: NodeId) -> Option<()> {
        let (index, leaf) = self.reader(id).filter(|_| self.resolved.role(id) == Role::Copy)?;
        let stored = Layout::dense(self.work_shape(id));
        let group = &self.groups[index];
        if leaf.part != Part::Post || group.base.is_some() {
            return None;
        }
        self.groups[index] = group.over(&compose(&whole(&leaf.layout, &stored)?, &stored)?)?;
        self.absorb_elementwise(id)
    }

    /// Puts a base under the elementwise nodes that read it: they become its epilogue.
    fn absorb_base(&mut self, id: NodeId) -> Option<()> {
        let (index, leaf) = self.reader(id)?;
        let moments = |op: &Op| matches!(op, Op::Reduce(reduce) if reduce.fold == Fold::Moments);
        let op = &self.graph.node(id).op;
        let reads = base_reads(self.graph, self.resolved, id);
        let group = &self.groups[index];
        let fits = leaf.part == Part::Post && group.base.is_none() && self.has_room(group, 0, reads.len());
        let stands_alone = matches!(
            op,
            Op::Attention(_) | Op::Gather(_) | Op::Scan(_) | Op::Sort(_) | Op::Scatter(..) | Op::Custom(..)
        );
        if !fits || moments(op) || stands_alone {
            return None;
        }
        let stored = base_storage(self.graph, self.resolved, id);
        let mut moved = group.over(&compose(&whole(&leaf.layout, &stored)?, &stored)?)?;
        moved.leaves.retain(|l| l.node != id);
        moved.base = Some(id);
        self.groups[index] = moved;
        self.read(index, reads);
        Some(())
    }
}

/// The inverse of how a group reads a storage, where it reads all of it.
fn whole(read: &Layout, stored: &Layout) -> Option<Layout> {
    inverse(read).filter(|turned| turned.shape.elements() == stored.shape.elements())
}

impl Group {
    /// The same group over the indices that `map` takes to its own.
    fn over(&self, map: &Layout) -> Option<Group> {
        let mut moved = self.clone();
        moved.out = compose(&self.out, map)?;
        for member in &mut moved.post {
            member.at = compose(&member.at, map)?;
        }
        for leaf in &mut moved.leaves {
            leaf.layout = compose(&leaf.layout, map)?;
        }
        Some(moved)
    }
}
