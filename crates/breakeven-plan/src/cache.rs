//! Plans kept for graphs that come again.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use breakeven_ir::{Graph, Op};

use crate::{Home, Plan, Policy};

/// What a plan depends on besides the machine and its profile: the graph without the numbers in it, where its inputs
/// live, and the policy. Two independent hashes, so that a collision is out of the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlanKey(u64, u64);

impl PlanKey {
    /// The key of a request. Fills and parameters of rows count, since a plan holds them as data.
    pub fn new(graph: &Graph, home: &Home, policy: &Policy) -> PlanKey {
        let mut hashers = [DefaultHasher::new(), DefaultHasher::new()];
        1u8.hash(&mut hashers[1]);
        for hasher in &mut hashers {
            hash_graph(graph, hasher);
            for (input, source) in &home.inputs {
                (input, &source.layout, &source.places).hash(hasher);
            }
            let read: Vec<bool> = (0..graph.outputs().len()).map(|output| home.is_read(output)).collect();
            read.hash(hasher);
            hash_policy(policy, hasher);
        }
        PlanKey(hashers[0].finish(), hashers[1].finish())
    }
}

fn hash_policy(policy: &Policy, hasher: &mut DefaultHasher) {
    let Policy { pin, pins, fuse, max_rows_per_kernel, max_inputs_per_kernel, max_launch_seconds, frozen } = policy;
    (pin, pins, fuse, max_rows_per_kernel, max_inputs_per_kernel, max_launch_seconds.to_bits(), frozen).hash(hasher);
}

fn hash_graph(graph: &Graph, hasher: &mut DefaultHasher) {
    for node in graph.nodes() {
        (&node.inputs, &node.spec).hash(hasher);
        node.op.name().hash(hasher);
        match &node.op {
            Op::Fill(number) => number.to_bits().hash(hasher),
            Op::Map(_, params) => params.iter().for_each(|number| number.to_bits().hash(hasher)),
            Op::Cast(dtype) => dtype.hash(hasher),
            Op::View(view) => view.hash(hasher),
            Op::Reduce(reduce) => reduce.hash(hasher),
            Op::RowWise(kind, axis) => (format!("{kind:?}"), axis).hash(hasher),
            Op::Gather(axis) | Op::Concat(axis) => axis.hash(hasher),
            Op::Output(output) => output.hash(hasher),
            Op::Input | Op::MatMul => {}
        }
    }
    graph.outputs().hash(hasher);
}

/// The plans used last, up to a number of them. Whoever changes the profile or the machine clears it.
#[derive(Clone, Debug)]
pub struct PlanCache {
    capacity: usize,
    clock: u64,
    plans: BTreeMap<PlanKey, (u64, Arc<Plan>)>,
    by_age: BTreeMap<u64, PlanKey>,
}

impl PlanCache {
    /// Room for `capacity` plans.
    pub fn new(capacity: usize) -> PlanCache {
        PlanCache { capacity, clock: 0, plans: BTreeMap::new(), by_age: BTreeMap::new() }
    }

    /// The plan kept under a key, which now is the one used last.
    pub fn get(&mut self, key: PlanKey) -> Option<Arc<Plan>> {
        self.clock += 1;
        let (age, plan) = self.plans.get_mut(&key)?;
        self.by_age.remove(age);
        *age = self.clock;
        self.by_age.insert(self.clock, key);
        Some(Arc::clone(plan))
    }

    /// Keep a plan; the one that was not used for longest makes room.
    pub fn insert(&mut self, key: PlanKey, plan: Arc<Plan>) {
        self.clock += 1;
        if let Some((age, _)) = self.plans.insert(key, (self.clock, plan)) {
            self.by_age.remove(&age);
        }
        self.by_age.insert(self.clock, key);
        while self.plans.len() > self.capacity {
            let (_, oldest) = self.by_age.pop_first().expect("every plan has an age");
            self.plans.remove(&oldest);
        }
    }

    /// Forget all plans, as after a change of the profile.
    pub fn clear(&mut self) {
        self.plans.clear();
        self.by_age.clear();
    }

    /// How many plans it keeps.
    pub fn len(&self) -> usize {
        self.plans.len()
    }

    /// True when it keeps none.
    pub fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }
}
