//! Plans compute what graphs mean: fused, unfused, on any layout of the inputs.

mod common;

use breakeven_ir::{DType, Graph, Scalar};
use breakeven_plan::{Home, Policy};
use common::evaluate::evaluate;
use common::interpret::interpret;
use common::minilm::{Size, minilm};
use common::plan_on_cpu;
use common::random::{data, graph};

/// Kernels round where they store, so fused and unfused differ by roundings of f32.
fn assert_close(dtype: DType, got: &[u8], want: &[u8], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let all = |bytes: &[u8]| -> Vec<f64> {
        (0..bytes.len() / dtype.bytes()).map(|at| Scalar::load(dtype, bytes, at).to_f64()).collect()
    };
    for (a, b) in all(got).into_iter().zip(all(want)) {
        let near = (a - b).abs() <= 2e-4 * b.abs().max(1.0) || (a.is_nan() && b.is_nan()) || a == b;
        assert!(near, "{what}: {a} instead of {b}");
    }
}

fn check(graph: &Graph, home: &Home, policy: &Policy, what: &str) {
    let plan = plan_on_cpu(graph, home, policy);
    let inputs = |id| data(graph, id);
    let want = evaluate(graph, &inputs);
    let got = interpret(graph, home, &plan, &inputs);
    for (bytes, output) in got.iter().zip(graph.outputs()) {
        assert_close(graph.node(*output).spec.dtype, bytes, &want[output.index()], what);
    }
}

#[test]
fn random_graphs_mean_the_same_fused_and_unfused() {
    for seed in 0..1500 {
        let graph = graph(seed, 4 + (seed % 20) as usize);
        for policy in [
            Policy::default(),
            Policy { fuse: false, ..Policy::default() },
            Policy { max_rows_per_kernel: 2, max_inputs_per_kernel: 2, ..Policy::default() },
        ] {
            check(&graph, &Home::default(), &policy, &format!("seed {seed}, fuse {}", policy.fuse));
        }
    }
}

#[test]
fn a_small_model_means_the_same_fused() {
    let graph = minilm(Size::TINY).write.0;
    check(&graph, &Home::default(), &Policy::default(), "minilm");
    check(&graph, &Home::default(), &Policy { fuse: false, ..Policy::default() }, "minilm");
}
