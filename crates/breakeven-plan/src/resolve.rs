//! Views folded away: every node as a layout over the storage of a node that is given or computed.

use std::collections::BTreeMap;

use breakeven_ir::{Fold, Graph, Layout, NodeId, Op, Shape};

use crate::Home;
use crate::index::normal;
use crate::order::choose_orders;

/// What fusion has to do for a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    /// Nothing: no wanted output depends on it.
    Dead,
    /// Nothing: it has no elements.
    Empty,
    /// One number for all elements.
    Constant(f64),
    /// Its bytes are given.
    Input,
    /// It is another node, looked at otherwise.
    View,
    /// A reshape that cannot be read from where the elements lie.
    Copy,
    /// It is computed.
    Compute,
}

/// A node as a view of the storage of another, or of its own.
#[derive(Clone, Debug)]
pub(crate) struct Ref {
    /// Whose storage.
    pub base: NodeId,
    /// Over the shape of the node, in that storage.
    pub layout: Layout,
}

/// Order of axes in which a node is stored, where that is not its own order.
pub(crate) type Orders = BTreeMap<NodeId, Vec<usize>>;

/// The nodes that stand for the outputs of a node after its first.
type Further = BTreeMap<(NodeId, u8), NodeId>;

/// All nodes, with views folded.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub roles: Vec<Role>,
    refs: Vec<Option<Ref>>,
    orders: Orders,
    further: Further,
}

impl Resolved {
    /// A live node that has elements, as a view of a storage.
    pub fn of(&self, id: NodeId) -> &Ref {
        self.refs[id.index()].as_ref().expect("a live node with elements is resolved")
    }

    /// The node that stands for output `index`, from 1 on, of `id`, where one is live.
    pub fn output(&self, id: NodeId, index: u8) -> Option<NodeId> {
        self.further.get(&(id, index)).copied()
    }

    pub fn role(&self, id: NodeId) -> Role {
        self.roles[id.index()]
    }

    /// Layout over `shape` by which node `id` is stored.
    pub fn storage(&self, id: NodeId, shape: &Shape) -> Layout {
        stored(&self.orders, id, shape)
    }

    /// A layout over the shape of node `id`, its axes brought into the order of the node's storage.
    pub fn in_storage_order(&self, id: NodeId, layout: &Layout) -> Layout {
        self.orders.get(&id).map_or_else(|| layout.clone(), |order| layout.permute(order))
    }
}

/// Folds all views of what the outputs need, storing computed nodes in the order that suits their views.
pub(crate) fn resolve(graph: &Graph, home: &Home) -> Resolved {
    let mut roles = roles(graph);
    let further = further(graph, &mut roles);
    let row_major = fold_views(graph, home, &mut roles, &further, &Orders::new());
    let orders = choose_orders(graph, &roles, &row_major);
    let refs = if orders.is_empty() { row_major } else { fold_views(graph, home, &mut roles, &further, &orders) };
    Resolved { roles, refs, orders, further }
}

fn roles(graph: &Graph) -> Vec<Role> {
    let mut roles = vec![Role::Dead; graph.nodes().len()];
    let mut live = vec![false; graph.nodes().len()];
    for id in graph.outputs() {
        live[id.index()] = true;
    }
    for id in graph.ids().rev() {
        if live[id.index()] {
            let role = role(graph, id);
            roles[id.index()] = role;
            if !matches!(role, Role::Constant(_) | Role::Empty) {
                graph.node(id).inputs.iter().for_each(|input| live[input.index()] = true);
            }
        }
    }
    roles
}

/// Of several nodes that name one output, the first stands for it and the others look at it.
fn further(graph: &Graph, roles: &mut [Role]) -> Further {
    let mut further = Further::new();
    for id in graph.ids() {
        if let Op::Output(index) = graph.node(id).op
            && roles[id.index()] == Role::Compute
            && *further.entry((graph.node(id).inputs[0], index)).or_insert(id) != id
        {
            roles[id.index()] = Role::View;
        }
    }
    further
}

fn role(graph: &Graph, id: NodeId) -> Role {
    let node = graph.node(id);
    if node.spec.shape.is_empty() {
        return Role::Empty;
    }
    if let Some(value) = constant(graph, id) {
        return Role::Constant(value);
    }
    match node.op {
        Op::Input => Role::Input,
        Op::View(_) | Op::Output(0) => Role::View,
        // Without updates it is its source.
        Op::Scatter(..) if graph.node(node.inputs[1]).spec.shape.is_empty() => Role::View,
        _ => Role::Compute,
    }
}

/// The one number a node consists of, where that follows from shapes alone.
fn constant(graph: &Graph, id: NodeId) -> Option<f64> {
    let node = graph.node(id);
    let nothing = |input: usize| graph.node(node.inputs[input]).spec.shape.is_empty();
    match &node.op {
        Op::Fill(value) => Some(*value),
        Op::Output(_) => constant(graph, node.inputs[0]),
        Op::Reduce(reduce) if nothing(0) => Some(of_nothing(reduce.fold)),
        Op::MatMul(_) | Op::MatMulInt | Op::Conv(_) if nothing(0) => Some(0.0),
        // Without values there are no keys.
        Op::Attention(_) if nothing(2) => Some(0.0),
        Op::Gather(_) if nothing(0) => Some(if node.spec.dtype.is_float() { f64::NAN } else { 0.0 }),
        _ => None,
    }
}

/// What a fold gives for no elements; the rules allow no other folds of nothing.
fn of_nothing(fold: Fold) -> f64 {
    match fold {
        Fold::Mean | Fold::Moments => f64::NAN,
        Fold::Prod | Fold::All => 1.0,
        _ => 0.0,
    }
}

fn fold_views(graph: &Graph, home: &Home, roles: &mut [Role], further: &Further, orders: &Orders) -> Vec<Option<Ref>> {
    let mut refs: Vec<Option<Ref>> = Vec::with_capacity(roles.len());
    for id in graph.ids() {
        let seen = match roles[id.index()] {
            Role::Dead | Role::Empty => None,
            Role::View | Role::Copy => {
                let seen = look(graph, further, &refs, id);
                roles[id.index()] = if seen.is_some() { Role::View } else { Role::Copy };
                seen.or_else(|| Some(own(id, Layout::dense(graph.node(id).spec.shape.clone()))))
            }
            _ => Some(own(id, base(graph, home, roles, orders, id))),
        };
        refs.push(seen);
    }
    refs
}

fn own(id: NodeId, layout: Layout) -> Ref {
    Ref { base: id, layout: normal(layout) }
}

/// The view `id` of what its input is a view of.
fn look(graph: &Graph, further: &Further, refs: &[Option<Ref>], id: NodeId) -> Option<Ref> {
    let node = graph.node(id);
    let input = match node.op {
        Op::Output(index @ 1..) => further[&(node.inputs[0], index)],
        _ => node.inputs[0],
    };
    let of = refs[input.index()].as_ref().expect("a live view looks at a live node");
    let layout = match &node.op {
        Op::View(view) => view.layout(&of.layout)?,
        _ => of.layout.clone(),
    };
    Some(Ref { base: of.base, layout: normal(layout) })
}

fn base(graph: &Graph, home: &Home, roles: &[Role], orders: &Orders, id: NodeId) -> Layout {
    let shape = &graph.node(id).spec.shape;
    match (roles[id.index()], home.inputs.get(&id)) {
        (Role::Constant(_), _) => Layout::dense(()).broadcast(shape).expect("a scalar broadcasts to any shape"),
        (Role::Input, Some(source)) => source.layout.clone(),
        _ => stored(orders, id, shape),
    }
}

fn stored(orders: &Orders, id: NodeId, shape: &Shape) -> Layout {
    orders.get(&id).map_or_else(|| Layout::dense(shape.clone()), |order| Layout::dense_in_order(shape, order))
}
