//! Maximum flow, and the cheapest cut that goes with it.

/// Cheaper than anything that may not be cut.
pub(crate) const NEVER: u64 = u64::MAX / 8;

/// Where flow comes from.
pub(crate) const SOURCE: usize = 0;
/// Where it goes.
pub(crate) const SINK: usize = 1;

/// From, to, and what it costs to have `from` on the source's side and `to` on the sink's.
pub(crate) type Edge = (usize, usize, i128);

/// For each node, whether it is on the side of the sink in the cheapest cut; of several cheapest, that with the fewest
/// nodes there.
pub(crate) fn cut(nodes: usize, edges: &[Edge]) -> Vec<bool> {
    let mut flow = Flow::new(nodes, edges);
    while flow.level() {
        flow.push();
    }
    flow.distance.iter().map(|&distance| distance != usize::MAX).collect()
}

/// Dinic's algorithm, without recursion, from the sink's distances: what cannot reach the sink is never entered.
struct Flow {
    /// Edges out of each node, back edges among them.
    starts: Vec<usize>,
    out: Vec<usize>,
    /// Edge `2i` is the i-th of the network and `2i + 1` its way back.
    to: Vec<usize>,
    left: Vec<i128>,
    /// Edges to the sink.
    distance: Vec<usize>,
    next: Vec<usize>,
}

impl Flow {
    fn new(nodes: usize, edges: &[Edge]) -> Flow {
        let to: Vec<usize> = edges.iter().flat_map(|&(a, b, _)| [b, a]).collect();
        let left = edges.iter().flat_map(|&(.., capacity)| [capacity, 0]).collect();
        let mut starts = vec![0; nodes + 1];
        for edge in 0..to.len() {
            starts[to[edge ^ 1] + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let (mut place, mut out) = (starts.clone(), vec![0; to.len()]);
        for edge in 0..to.len() {
            let from = to[edge ^ 1];
            out[place[from]] = edge;
            place[from] += 1;
        }
        Flow { starts, out, to, left, distance: Vec::new(), next: Vec::new() }
    }

    /// Distances of all nodes from the sink through edges with capacity left; false when the source has none.
    fn level(&mut self) -> bool {
        self.distance = vec![usize::MAX; self.starts.len() - 1];
        self.distance[SINK] = 0;
        let mut queue = std::collections::VecDeque::from([SINK]);
        while let Some(node) = queue.pop_front() {
            for &edge in &self.out[self.starts[node]..self.starts[node + 1]] {
                let before = self.to[edge];
                if self.left[edge ^ 1] > 0 && self.distance[before] == usize::MAX {
                    self.distance[before] = self.distance[node] + 1;
                    queue.push_back(before);
                }
            }
        }
        self.next = self.starts[..self.starts.len() - 1].to_vec();
        self.distance[SOURCE] != usize::MAX
    }

    /// Sends flow along shortest paths until none is left.
    fn push(&mut self) {
        let mut path: Vec<usize> = Vec::new();
        loop {
            let node = path.last().map_or(SOURCE, |&edge| self.to[edge]);
            if node == SINK {
                self.send(&mut path);
            } else if let Some(edge) = self.forward(node) {
                path.push(edge);
            } else if let Some(edge) = path.pop() {
                self.next[self.to[edge ^ 1]] += 1;
            } else {
                return;
            }
        }
    }

    /// The next edge out of `node` that leads nearer to the sink.
    fn forward(&mut self, node: usize) -> Option<usize> {
        while self.next[node] < self.starts[node + 1] {
            let edge = self.out[self.next[node]];
            if self.left[edge] > 0 && self.distance[self.to[edge]] < self.distance[node] {
                return Some(edge);
            }
            self.next[node] += 1;
        }
        None
    }

    /// Fills a path, and goes back to before the first edge that is full.
    fn send(&mut self, path: &mut Vec<usize>) {
        let amount = path.iter().map(|&edge| self.left[edge]).min().expect("a path has edges");
        for &edge in path.iter() {
            self.left[edge] -= amount;
            self.left[edge ^ 1] += amount;
        }
        let full = path.iter().position(|&edge| self.left[edge] == 0).expect("the narrowest edge is full");
        path.truncate(full);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cut_is_the_narrowest_place() {
        let (a, b, c) = (2, 3, 4);
        let edges = [(SOURCE, a, 10), (a, b, 3), (a, c, 4), (b, SINK, 9), (c, SINK, 2), (c, b, 1)];
        assert_eq!(cut(5, &edges), [false, true, false, true, false]);
    }
}
