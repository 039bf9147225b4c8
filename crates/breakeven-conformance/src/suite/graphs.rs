//! Whole graphs, fused and unfused.

use breakeven_ir::{DType, Graph, Scalar};
use breakeven_plan::Policy;

use super::dtypes;
use crate::graphs::{Carrier, Nature, data, evaluate, graph, plan_for, typed};
use crate::{Bench, Tier};

/// Rounding and the errors of each kernel, carried through a graph of bounded operations that do not amplify them, stay
/// within this part of the result, or of 1 where the result is smaller.
const END: f64 = 1e-3;

/// Random graphs with fusion on and off: each kernel on what it received, the whole in one submission with the same bits,
/// and the end values of bounded graphs against double precision.
pub fn graphs(bench: &mut Bench<'_>, tier: Tier) {
    let index = if dtypes(bench).contains(&DType::I64) { DType::I64 } else { DType::I32 };
    let count = if tier == Tier::Full { 120 } else { 30 };
    for seed in 0..count {
        let nature = if seed % 2 == 0 { Nature::Smooth } else { Nature::Any };
        let graph = graph(seed, 4 + (seed % 20) as usize, nature, index);
        graph_on(bench, &graph, &format!("graph {seed}"), nature == Nature::Smooth);
    }
}

/// A random graph over every element type of the device, whose nodes the device runs, fused and unfused.
pub fn typed_graph(bench: &mut Bench<'_>, seed: u64, count: usize) {
    let device = bench.device();
    let runs = |graph: &Graph| plan_for(graph, device, &Policy::default()).is_ok();
    let graph = typed(seed, count, &dtypes(bench), &runs);
    graph_on(bench, &graph, &format!("typed graph {seed} of {count}"), false);
}

/// One graph on the device, fused and unfused; `compares` its end values too.
pub fn graph_on(bench: &mut Bench<'_>, graph: &Graph, name: &str, compares: bool) {
    let device = bench.device();
    let inputs = |id| data(graph, id);
    let wanted = compares.then(|| evaluate(graph, &inputs));
    let inputs_at_most = device.caps().max_bindings.saturating_sub(2).clamp(2, 16);
    for fuse in [true, false] {
        let name = format!("{name}, {}", if fuse { "fused" } else { "unfused" });
        let policy = Policy { fuse, max_inputs_per_kernel: inputs_at_most, ..Policy::default() };
        let plan = plan_for(graph, device, &policy).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut carrier = Carrier::new(device, &plan, &inputs, &name);
        let fails = |e| panic!("{name} on {}: {e}", device.info().name);
        let got = carrier.kernel_by_kernel().unwrap_or_else(fails);
        let again = carrier.in_one_go().unwrap_or_else(fails);
        assert!(same(&got, &again), "{name} on {}: other bits in one submission", device.info().name);
        bench.count(carrier.counts);
        if let Some(wanted) = &wanted {
            for (output, got) in graph.outputs().iter().zip(&got) {
                close(got, &wanted[output.index()], &name);
            }
        }
    }
}

fn same(a: &[Vec<Scalar>], b: &[Vec<Scalar>]) -> bool {
    let equal = |(a, b): (&Scalar, &Scalar)| match (a, b) {
        (Scalar::F(a), Scalar::F(b)) => a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()),
        _ => a == b,
    };
    a.iter().zip(b).all(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(equal))
}

fn close(got: &[Scalar], want: &[Scalar], name: &str) {
    assert_eq!(got.len(), want.len(), "{name}");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let (got, want) = (got.to_f64(), want.to_f64());
        let near = (got - want).abs() <= END * want.abs().max(1.0) || (got.is_nan() && want.is_nan());
        assert!(near, "{name}: end value {i} is {got}, in double precision {want}");
    }
}
