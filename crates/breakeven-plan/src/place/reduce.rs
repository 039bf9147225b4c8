//! Making a cut problem smaller without changing its answer: a node with at most two neighbours is replaced by what the
//! best choice for it costs, as a function of theirs. Chains and trees vanish altogether, in linear time.
//! Flow alone needs up to as many rounds over a long chain as a copy is worth kernels.

use std::collections::HashMap;

use super::flow::{Edge, SINK, SOURCE, cut};

/// A network from the source to the sink, being written.
#[derive(Debug)]
pub(crate) struct Network {
    nodes: usize,
    edges: Vec<(usize, usize, u64)>,
}

impl Network {
    pub fn new() -> Network {
        Network { nodes: 2, edges: Vec::new() }
    }

    pub fn node(&mut self) -> usize {
        self.nodes += 1;
        self.nodes - 1
    }

    /// Having `from` on the side of the source and `to` on that of the sink costs `capacity`.
    pub fn edge(&mut self, from: usize, to: usize, capacity: u64) {
        if capacity > 0 && from != to {
            self.edges.push((from, to, capacity));
        }
    }

    /// For each node, whether it is on the side of the sink in a cheapest cut.
    pub fn cut(&self) -> Vec<bool> {
        cheapest_cut(self.nodes, &self.edges)
    }
}

/// For each node, whether it is on the side of the sink in a cheapest cut.
fn cheapest_cut(nodes: usize, edges: &[(usize, usize, u64)]) -> Vec<bool> {
    let mut problem = Problem::new(nodes, edges);
    let gone = problem.reduce();
    let core = problem.core();
    let mut there = if core.is_empty() { vec![false; nodes] } else { cut(nodes, &core) };
    for node in gone.iter().rev() {
        there[node.id] = node.best(&there);
    }
    there
}

/// Costs of cutting an edge between two nodes, the lower first: when only the upper is on the sink's side, and when only
/// the lower is.
type Pair = (i128, i128);

/// Binary choices: a cost for each node to be on the sink's side, and for each pair to be apart.
struct Problem {
    /// What it costs more to be on the sink's side; negative where the source's costs more.
    alone: Vec<i128>,
    pairs: HashMap<(usize, usize), Pair>,
    /// Nodes that were neighbours at some time; those that still are have a pair.
    near: Vec<Vec<u32>>,
    degree: Vec<u32>,
}

/// A node that was taken out, and its neighbours at that time.
struct Gone {
    id: usize,
    alone: i128,
    /// Each with what it costs to be apart from it: this node at the source, and at the sink.
    near: Vec<(usize, Pair)>,
}

impl Gone {
    fn cost(&self, is_there: bool, others: &dyn Fn(usize) -> bool) -> i128 {
        let apart = |&(other, (at_source, at_sink)): &(usize, Pair)| match (is_there, others(other)) {
            (false, true) => at_source,
            (true, false) => at_sink,
            _ => 0,
        };
        self.near.iter().map(apart).sum::<i128>() + if is_there { self.alone } else { 0 }
    }

    /// Staying at the source wins a tie.
    fn best(&self, there: &[bool]) -> bool {
        let others = |other: usize| there[other];
        self.cost(true, &others) < self.cost(false, &others)
    }

    /// The cost of the better choice, given the sides of the neighbours in order.
    fn least(&self, sides: &[bool]) -> i128 {
        let others = |other| self.near.iter().zip(sides).any(|((id, _), &side)| *id == other && side);
        self.cost(true, &others).min(self.cost(false, &others))
    }
}

impl Problem {
    fn new(nodes: usize, edges: &[(usize, usize, u64)]) -> Problem {
        let (alone, degree) = (vec![0; nodes], vec![0; nodes]);
        let mut problem = Problem { alone, pairs: HashMap::new(), near: vec![Vec::new(); nodes], degree };
        for &(from, to, capacity) in edges {
            let capacity = i128::from(capacity);
            match (from, to) {
                (SINK, _) | (_, SOURCE) | (SOURCE, SINK) => {}
                (SOURCE, node) => problem.alone[node] += capacity,
                (node, SINK) => problem.alone[node] -= capacity,
                (from, to) => problem.add(from, to, (capacity, 0)),
            }
        }
        problem
    }

    /// Makes it cost more for `a` and `b` to be apart: with only `b` at the sink, and with only `a` there.
    fn add(&mut self, a: usize, b: usize, (first, second): Pair) {
        if (first, second) == (0, 0) {
            return;
        }
        let (near, degree) = (&mut self.near, &mut self.degree);
        let pair = self.pairs.entry((a.min(b), a.max(b))).or_insert_with(|| {
            for (node, other) in [(a, b), (b, a)] {
                near[node].push(other as u32);
                degree[node] += 1;
            }
            (0, 0)
        });
        let (lower, upper) = if a < b { (first, second) } else { (second, first) };
        *pair = (pair.0 + lower, pair.1 + upper);
    }

    /// Takes out nodes of at most two neighbours until there are none, and says which, in order.
    fn reduce(&mut self) -> Vec<Gone> {
        let is_small = |problem: &Problem, node: usize| problem.degree[node] <= 2;
        let mut todo: Vec<usize> = (0..self.alone.len()).rev().filter(|&n| n > SINK && is_small(self, n)).collect();
        let (mut gone, mut is_gone) = (Vec::new(), vec![false; self.alone.len()]);
        while let Some(id) = todo.pop() {
            if std::mem::replace(&mut is_gone[id], true) {
                continue;
            }
            let node = self.take_out(id);
            self.hand_on(&node);
            todo.extend(node.near.iter().map(|(other, _)| *other).filter(|&n| is_small(self, n)));
            gone.push(node);
        }
        gone
    }

    fn take_out(&mut self, id: usize) -> Gone {
        let mut near: Vec<(usize, Pair)> = Vec::with_capacity(2);
        for other in std::mem::take(&mut self.near[id]) {
            let other = other as usize;
            if let Some((lower, upper)) = self.pairs.remove(&(id.min(other), id.max(other))) {
                near.push((other, if id < other { (lower, upper) } else { (upper, lower) }));
                self.degree[other] -= 1;
            }
        }
        Gone { id, alone: self.alone[id], near }
    }

    /// What the best choice for a node costs, as costs of its neighbours.
    fn hand_on(&mut self, node: &Gone) {
        match node.near.as_slice() {
            [] => {}
            [(a, _)] => self.alone[*a] += node.least(&[true]) - node.least(&[false]),
            [(a, _), (b, _)] => {
                let [neither, only_b, only_a, both] =
                    [[false, false], [false, true], [true, false], [true, true]].map(|sides| node.least(&sides));
                self.alone[*a] += only_a - neither;
                self.alone[*b] += both - only_a;
                self.add(*a, *b, (only_a + only_b - neither - both, 0));
            }
            more => unreachable!("{} neighbours are too many", more.len()),
        }
    }

    /// What is left, as edges of a network.
    fn core(&self) -> Vec<Edge> {
        let mut pairs: Vec<(&(usize, usize), &Pair)> = self.pairs.iter().collect();
        pairs.sort_unstable();
        let both = |(&(a, b), &(lower, upper)): (&(usize, usize), &Pair)| [(a, b, lower), (b, a, upper)];
        let alone = |node: usize| match self.alone[node] {
            more if more > 0 => (SOURCE, node, more),
            less => (node, SINK, -less),
        };
        let left = (0..self.alone.len()).filter(|&node| self.degree[node] > 0).map(alone);
        pairs.into_iter().flat_map(both).chain(left).filter(|edge| edge.2 > 0).collect()
    }
}
