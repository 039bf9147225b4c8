//! Numbers that are others at every call, like the rate of a step or the time: as inputs of the graph, one plan serves all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use breakeven_device::{HostBytes, HostMemory};
use breakeven_ir::{DType, Graph, NodeId, Op, Scalar};

use crate::cache::KEPT;
use crate::trace::Trace;
use crate::value::Value;

/// So many plans are made with the numbers in them, which are found sooner: most programs have few numbers.
const SETS: usize = 4;

/// What was met of graphs that differ in their numbers alone.
#[derive(Debug, Default)]
pub(crate) struct Numbers(Mutex<HashMap<u64, Met>>);

/// The first sets of numbers, and which of these were ever others than in the first of all.
#[derive(Debug, Default)]
struct Met {
    sets: Vec<Vec<u64>>,
    varies: Vec<bool>,
}

impl Numbers {
    /// Numbers that graphs like this one, for which there is no plan, had others of again and again.
    pub fn changing(&self, graph: &Graph) -> Vec<NodeId> {
        let (ids, numbers): (Vec<NodeId>, Vec<u64>) = numbers(graph).unzip();
        if ids.is_empty() {
            return ids;
        }
        let key = graph.fingerprint_without_numbers();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= KEPT && !all.contains_key(&key) {
            all.clear();
        }
        let met = all.entry(key).or_default();
        if !met.see(numbers) {
            return Vec::new();
        }
        ids.into_iter().zip(&met.varies).filter_map(|(id, varies)| varies.then_some(id)).collect()
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Met {
    /// Notes what is other than before; whether these are none of the first sets.
    fn see(&mut self, numbers: Vec<u64>) -> bool {
        let first = self.sets.first().unwrap_or(&numbers);
        // Two graphs may share a fingerprint by chance.
        if first.len() != numbers.len() || self.sets.contains(&numbers) {
            return false;
        }
        self.varies.resize(numbers.len(), false);
        self.varies.iter_mut().zip(first).zip(&numbers).for_each(|((varies, a), b)| *varies |= a != b);
        let is_full = self.sets.len() == SETS;
        if !is_full {
            self.sets.push(numbers);
        }
        is_full
    }
}

impl Trace {
    /// Makes inputs of those of these nodes that are numbers.
    pub fn lift(&mut self, ids: impl IntoIterator<Item = NodeId>) {
        for id in ids {
            let Some(Op::Fill(number)) = self.graph.nodes().get(id.index()).map(|node| node.op.clone()) else {
                continue;
            };
            if self.graph.lift(id) {
                let spec = self.graph.node(id).spec.clone();
                let bytes = bytes_of(spec.dtype, number);
                self.inputs.push((id, Arc::new(Value::on_host(spec, bytes))));
            }
        }
        self.inputs.sort_by_key(|(id, _)| *id);
    }
}

/// A number as the one element of a tensor.
pub(crate) fn bytes_of(dtype: DType, number: f64) -> HostBytes {
    let mut bytes = HostMemory::zeroed(dtype.bytes());
    Scalar::of(dtype, number).store(dtype, &mut bytes, 0);
    bytes.into()
}

/// All of a graph, in bits.
fn numbers(graph: &Graph) -> impl Iterator<Item = (NodeId, u64)> + '_ {
    graph.ids().zip(graph.nodes()).filter_map(|(id, node)| match node.op {
        Op::Fill(number) => Some((id, number.to_bits())),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(a: f64, b: f64) -> Graph {
        let mut graph = Graph::new();
        let (a, b) = (graph.fill(DType::F32, a), graph.fill(DType::F32, b));
        graph.want(a);
        graph.want(b);
        graph
    }

    #[test]
    fn a_number_that_changes_at_every_call_is_told_from_one_that_stays() {
        let numbers = Numbers::default();
        for rate in [0.1, 0.2, 0.1, 0.2, 0.1, 0.2, 0.3, 0.4] {
            assert_eq!(numbers.changing(&graph(rate, 2.0)), [], "{rate}");
        }
        assert_eq!(numbers.changing(&graph(0.5, 2.0)), [NodeId(0)]);
        assert_eq!(numbers.changing(&graph(0.6, 2.0)), [NodeId(0)]);
        assert_eq!(numbers.changing(&graph(0.1, 2.0)), [], "there is a plan with it");
        assert_eq!(numbers.changing(&graph(0.1, 3.0)), [NodeId(0), NodeId(1)]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let numbers = Numbers::default();
        for n in 0..3 * KEPT {
            let mut graph = graph(0.5, 0.5);
            (0..n).for_each(|_| graph.want(NodeId(0)));
            numbers.changing(&graph);
        }
        assert!(numbers.0.lock().expect("nobody panicked").len() <= KEPT);
    }
}
