//! Storage orders: in which order of axes a node is stored, so that the views of it need no copy.

use std::collections::BTreeMap;

use breakeven_ir::{Graph, Layout, NodeId, Op};

use crate::resolve::{Orders, Ref, Role};

/// Orders other than row-major that spare copies, given how views fold when everything is row-major.
pub(crate) fn choose_orders(graph: &Graph, roles: &[Role], refs: &[Option<Ref>]) -> Orders {
    let candidates = candidates(graph, roles, refs);
    let families = families(graph, roles, &candidates);
    let mut orders = Orders::new();
    for (origin, wishes) in candidates {
        let shape = &graph.node(origin).spec.shape;
        let copied = |order: &[usize]| copied(graph, &families[&origin], origin, &Layout::dense_in_order(shape, order));
        let row_major: Vec<usize> = (0..shape.rank()).collect();
        let mut best = (copied(&row_major), row_major.clone());
        for order in wishes {
            let cost = copied(&order);
            if cost < best.0 {
                best = (cost, order);
            }
        }
        if best.1 != row_major {
            orders.insert(origin, best.1);
        }
    }
    orders
}

/// Orders that failing reshapes of a computed node wish for. A few are enough: each is tried on all its views.
fn candidates(graph: &Graph, roles: &[Role], refs: &[Option<Ref>]) -> BTreeMap<NodeId, Vec<Vec<usize>>> {
    const TRIED: usize = 4;
    let mut wishes: BTreeMap<NodeId, Vec<Vec<usize>>> = BTreeMap::new();
    for id in graph.ids().filter(|id| roles[id.index()] == Role::Copy) {
        let seen = refs[graph.node(id).inputs[0].index()].as_ref().expect("a live view looks at a live node");
        if roles[seen.base.index()] == Role::Compute
            && let Some(order) = order_of(&seen.layout, &Layout::dense(graph.node(seen.base).spec.shape.clone()))
        {
            let of_base = wishes.entry(seen.base).or_default();
            if of_base.len() < TRIED && !of_base.contains(&order) {
                of_base.push(order);
            }
        }
    }
    wishes
}

/// The order of `stored`'s axes in which `seen` looks at them, where it looks at all of them whole.
fn order_of(seen: &Layout, stored: &Layout) -> Option<Vec<usize>> {
    let axes = |layout: &Layout| -> Vec<usize> { (0..layout.shape.rank()).filter(|&a| layout.shape[a] != 1).collect() };
    let (wanted, all) = (axes(seen), axes(stored));
    let same = |a: usize, b: usize| seen.shape[a] == stored.shape[b] && seen.strides[a] == stored.strides[b];
    let found: Option<Vec<usize>> = wanted.iter().map(|&a| all.iter().copied().find(|&b| same(a, b))).collect();
    let each_once = |found: &Vec<usize>| all.iter().all(|axis| found.contains(axis)) && found.len() == all.len();
    let order = found.filter(|found| each_once(found) && seen.offset == 0)?;
    let ones = (0..stored.shape.rank()).filter(|axis| !all.contains(axis));
    Some(ones.chain(order).collect())
}

/// All views of each origin, also through copies, ascending.
fn families<T>(graph: &Graph, roles: &[Role], origins: &BTreeMap<NodeId, T>) -> BTreeMap<NodeId, Vec<NodeId>> {
    let mut families: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
    if origins.is_empty() {
        return families;
    }
    let mut origin: Vec<NodeId> = graph.ids().collect();
    let is_view = |id: &NodeId| matches!(roles[id.index()], Role::View | Role::Copy);
    for id in graph.ids().filter(|id| is_view(id) && !matches!(graph.node(*id).op, Op::Output(1..))) {
        origin[id.index()] = origin[graph.node(id).inputs[0].index()];
        if origins.contains_key(&origin[id.index()]) {
            families.entry(origin[id.index()]).or_default().push(id);
        }
    }
    families
}

/// Elements that the views of `origin` copy when it is stored as `stored`.
fn copied(graph: &Graph, views: &[NodeId], origin: NodeId, stored: &Layout) -> usize {
    let mut layouts: BTreeMap<NodeId, Layout> = BTreeMap::from([(origin, stored.clone())]);
    let mut elements = 0;
    for &id in views {
        let node = graph.node(id);
        let of = &layouts[&node.inputs[0]];
        let seen = match &node.op {
            Op::View(view) => view.layout(of),
            _ => Some(of.clone()),
        };
        elements += if seen.is_none() { node.spec.shape.elements() } else { 0 };
        layouts.insert(id, seen.unwrap_or_else(|| Layout::dense(node.spec.shape.clone())));
    }
    elements
}
