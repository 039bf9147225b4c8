//! Plans compute what graphs mean: fused, unfused, on any layout of the inputs.

mod common;

use std::collections::BTreeMap;

use breakeven_ir::{
    Attention, Caps, DType, Fold, Graph, Kernel, Layout, NodeId, Op, Reduce, RowWise, Scalar, Spec, Unsupported,
};
use breakeven_plan::{DeviceId, Home, Place, Plan, Policy, Source};
use common::Write;
use common::evaluate::evaluate;
use common::interpret::interpret;
use common::machine::{Device, cpu, gpu, try_plan};
use common::minilm::{Size, minilm};
use common::random::{Random, data, graph};

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

fn check_on(graph: &Graph, home: &Home, policy: &Policy, devices: &[Device], what: &str) -> Plan {
    let plan = try_plan(graph, home, policy, devices).unwrap_or_else(|error| panic!("{what}: {error}"));
    plan.verify().unwrap_or_else(|why| panic!("{what}: {why}"));
    let inputs = |id| data(graph, id);
    let want = evaluate(graph, &inputs);
    let got = interpret(graph, home, &plan, &inputs);
    for (bytes, output) in got.iter().zip(graph.outputs()) {
        assert_close(graph.node(*output).spec.dtype, bytes, &want[output.index()], what);
    }
    plan
}

fn check(graph: &Graph, home: &Home, policy: &Policy, what: &str) {
    check_on(graph, home, policy, &[cpu()], what);
}

/// Inputs stored in random orders, in random places; some outputs left where they are.
fn random_home(graph: &Graph, random: &mut Random, devices: usize) -> Home {
    let mut home = Home::default();
    for id in graph.ids().filter(|id| graph.node(*id).op == Op::Input) {
        let shape = &graph.node(id).spec.shape;
        let mut order: Vec<usize> = (0..shape.rank()).collect();
        (1..shape.rank()).for_each(|i| order.swap(i, random.below(i + 1)));
        let layout = Layout::dense_in_order(shape, &order);
        let mut places: Vec<Place> =
            (0..devices).filter(|_| random.below(3) == 0).map(|d| Place::Device(DeviceId(d))).collect();
        if places.is_empty() || random.below(2) == 0 {
            places.push(Place::Host);
        }
        home.inputs.insert(id, Source { layout, places: places.into() });
    }
    home.read = graph.outputs().iter().map(|_| random.below(4) != 0).collect();
    home
}

fn random_pins(graph: &Graph, random: &mut Random, devices: usize) -> BTreeMap<NodeId, DeviceId> {
    let is_computed =
        |id: &NodeId| !matches!(graph.node(*id).op, Op::Input | Op::View(_) | Op::Fill(_) | Op::Output(_));
    let ids: Vec<NodeId> = graph.ids().filter(is_computed).collect();
    ids.into_iter().map(|id| (id, DeviceId(random.below(devices)))).collect()
}

/// A device that sees little at once, so that everything is split.
fn tight(bindings: usize, bytes: u64) -> Device {
    let caps = Caps { max_bindings: bindings, max_binding_bytes: bytes, ..gpu(5.0).caps };
    Device { caps, ..gpu(5.0) }
}

fn no_attention(kernel: &Kernel) -> Result<(), Unsupported> {
    match kernel {
        Kernel::Attention(_) => Err(Unsupported("it has no attention".to_owned())),
        _ => Ok(()),
    }
}

/// Heads inside rows, a bias, and keys that are not seen; in one kernel, or in those it is made of.
#[test]
fn a_device_without_attention_gets_what_it_is_made_of() {
    for (seen, has_bias, dtype) in [
        (None, false, DType::F32),
        (Some(1), false, DType::F32),
        (Some(3), true, DType::F64),
        (Some(0), true, DType::F32),
    ] {
        let mut w = Write(Graph::new());
        let mut heads = |length: usize| {
            let x = w.0.input(Spec::new(dtype, [2, length, 3 * 4]));
            let x = w.reshape(x, &[2, length, 3, 4]);
            w.permute(x, &[0, 2, 1, 3])
        };
        let mut inputs = vec![heads(5), heads(7), heads(7)];
        if has_bias {
            let bias = w.0.input(Spec::new(dtype, [2, 1, 1, 7]));
            inputs.push(w.broadcast(bias, &[2, 3, 5, 7]));
        }
        let mixed = w.op(Op::Attention(Attention { scale: 0.5, seen }), &inputs);
        let rows = w.permute(mixed, &[0, 2, 1, 3]);
        let rows = w.reshape(rows, &[2, 5, 12]);
        w.0.want(rows);
        for (supports, launches) in
            [(common::anything as fn(&Kernel) -> _, 1), (no_attention, 4 + 2 * usize::from(seen.is_some()))]
        {
            let device = Device { supports, ..cpu() };
            let plan = check_on(&w.0, &Home::default(), &Policy::default(), &[device], &format!("{seen:?} {has_bias}"));
            assert_eq!(plan.counts.launches, [launches]);
            let split = plan.decisions.iter().find_map(|decision| decision.split.as_ref());
            assert_eq!(split.map(|split| split.because.as_str()), (launches > 1).then_some("it has no attention"));
        }
        // Scores that are past a limit besides.
        let device = Device { supports: no_attention, ..tight(8, 700) };
        let plan =
            check_on(&w.0, &Home::default(), &Policy::default(), &[device], &format!("{seen:?} {has_bias} tight"));
        let because = &plan.decisions.iter().find_map(|decision| decision.split.as_ref()).expect("it is split").because;
        assert!(because.starts_with("it has no attention, and an operand spans "), "{because}");
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

#[test]
fn random_graphs_mean_the_same_over_three_devices_and_any_home() {
    let mut crossings = 0;
    for seed in 0..600 {
        let graph = graph(seed, 4 + (seed % 20) as usize);
        let mut random = Random(seed + 1_000_000);
        let home = random_home(&graph, &mut random, 3);
        let devices = [cpu(), gpu(3.0), gpu(9.0)];
        let policy = Policy { pins: random_pins(&graph, &mut random, 3), ..Policy::default() };
        match try_plan(&graph, &home, &policy, &devices) {
            // Parts of one concat must be in one place.
            Err(error) => assert!(error.to_string().contains("same tensor"), "seed {seed}: {error}"),
            Ok(plan) => {
                crossings += plan.counts.copies;
                check_on(&graph, &home, &policy, &devices, &format!("seed {seed}"));
            }
        }
        check_on(&graph, &home, &Policy::default(), &devices, &format!("seed {seed}, free"));
    }
    assert!(crossings > 500, "{crossings} values crossed devices");
}

#[test]
fn random_graphs_mean_the_same_on_a_device_that_sees_little() {
    let (mut whole, mut split) = (0, 0);
    for seed in 0..900 {
        let graph = graph(seed, 4 + (seed % 20) as usize);
        let home = random_home(&graph, &mut Random(seed), 2);
        let (bindings, bytes) = [(3, 64), (4, 64), (4, 48)][seed as usize % 3];
        let devices = [cpu(), tight(bindings, bytes)];
        for pin in [None, Some(DeviceId(1))] {
            let policy = Policy { pin, ..Policy::default() };
            let Ok(plan) = try_plan(&graph, &home, &policy, &devices) else {
                assert!(pin.is_some(), "without a pin there is a plan");
                continue;
            };
            whole += plan.decisions.len();
            split += plan.counts.launches.iter().sum::<usize>();
            check_on(&graph, &home, &policy, &devices, &format!("seed {seed}"));
            let fits = |step: &breakeven_plan::Step| match step {
                breakeven_plan::Step::Run { device: DeviceId(1), launch } => {
                    let kernel = &launch.kernel;
                    let operands = || kernel.inputs().into_iter().chain(kernel.outputs());
                    let span = |o: &breakeven_ir::Operand| o.layout.span().map_or(0, |(low, high)| high - low + 1);
                    let small = |o: &breakeven_ir::Operand| span(o) * o.dtype.bytes() <= bytes as usize;
                    operands().count() <= bindings && operands().all(small)
                }
                _ => true,
            };
            assert!(plan.steps.iter().all(fits), "seed {seed}");
        }
    }
    assert!(split > whole + 50, "{whole} kernels became {split} launches");
}

/// A sum of products of many tensors, before and after everything that is not elementwise.
fn wide_graph() -> Graph {
    let mut w = Write(Graph::new());
    let mixed = |w: &mut Write, shape: &[usize]| {
        let first = w.input(shape);
        (0..6).fold(first, |sum, i| {
            let (a, b) = (w.input(shape), w.input(shape));
            let both = w.map(if i % 2 == 0 { "mul" } else { "maximum" }, &[a, b]);
            w.map("add", &[sum, both])
        })
    };
    let x = mixed(&mut w, &[6, 8]);
    let total = w.op(Op::Reduce(Reduce { fold: Fold::Sum, axes: [0].as_slice().into() }), &[x]);
    let extra = mixed(&mut w, &[8]);
    let total = w.map("mul", &[total, extra]);
    let y = mixed(&mut w, &[6, 8]);
    let y = w.op(Op::RowWise(RowWise::LayerNorm { epsilon: 1e-5 }, 1), &[y]);
    let z = mixed(&mut w, &[6, 8]);
    let y = w.map("mul", &[y, z]);
    let weight = w.input(&[8, 5]);
    let product = w.op(Op::matmul(), &[y, weight]);
    let bias = mixed(&mut w, &[6, 5]);
    let product = w.map("add", &[product, bias]);
    w.0.want(total);
    w.0.want(product);
    w.0
}

#[test]
fn a_kernel_of_many_tensors_is_divided_to_fit_few_bindings() {
    let graph = wide_graph();
    let policy = Policy { pin: Some(DeviceId(1)), max_inputs_per_kernel: 64, ..Policy::default() };
    for bindings in 3..12 {
        let devices = [cpu(), tight(bindings, 160)];
        let plan = check_on(&graph, &Home::default(), &policy, &devices, &format!("{bindings} bindings"));
        assert_eq!(plan.decisions.len(), 3, "it is fused before it is divided");
        let bound = |step: &breakeven_plan::Step| match step {
            breakeven_plan::Step::Run { launch, .. } => launch.inputs.len() + launch.outputs.len(),
            _ => 0,
        };
        assert!(plan.steps.iter().all(|step| bound(step) <= bindings));
        assert!(plan.counts.launches[1] > 10, "{} launches", plan.counts.launches[1]);
    }
    let impossible = try_plan(&graph, &Home::default(), &policy, &[cpu(), tight(2, 128)]).unwrap_err();
    assert!(impossible.to_string().contains("binds"), "{impossible}");
}

fn pooled(w: &mut Write, fold: Fold, windows: NodeId, axes: &[usize]) -> NodeId {
    w.op(Op::Reduce(Reduce { fold, axes: axes.into() }), &[windows])
}

#[test]
fn pooling_and_depthwise_convolution_read_windows_without_a_copy() {
    let mut w = Write(Graph::new());
    let (x, filter) = (w.input(&[2, 3, 9, 7]), w.input(&[3, 3, 2]));
    let activated = w.map("relu", &[x]);
    let rows = w.window(activated, 2, 3, [2, 1]);
    let windows = w.window(rows, 3, 2, [1, 2]);
    let largest = pooled(&mut w, Fold::Max, windows, &[4, 5]);
    let filter = w.reshape(filter, &[1, 3, 1, 1, 3, 2]);
    let filter = w.broadcast(filter, &[2, 3, 4, 5, 3, 2]);
    let weighted = w.map("mul", &[windows, filter]);
    let convolved = pooled(&mut w, Fold::Sum, weighted, &[4, 5]);
    w.0.want(largest);
    w.0.want(convolved);
    for policy in [Policy::default(), Policy { fuse: false, ..Policy::default() }] {
        let plan = check_on(&w.0, &Home::default(), &policy, &[cpu()], "windows");
        assert_eq!(plan.counts.layout_copies, 0);
        // What several windows see is computed once, never in each of them.
        assert_eq!(plan.counts.launches[0], if policy.fuse { 3 } else { 4 });
    }
}

#[test]
fn a_product_with_windows_costs_one_counted_copy() {
    let mut w = Write(Graph::new());
    let (x, weight) = (w.input(&[2, 6, 5, 3]), w.input(&[12, 4]));
    let rows = w.window(x, 1, 2, [1, 1]);
    let windows = w.window(rows, 2, 2, [1, 1]);
    let columns = w.permute(windows, &[0, 1, 2, 4, 5, 3]);
    let columns = w.reshape(columns, &[2 * 5 * 4, 12]);
    let product = w.op(Op::matmul(), &[columns, weight]);
    w.0.want(product);
    let plan = check_on(&w.0, &Home::default(), &Policy::default(), &[cpu()], "im2col");
    assert_eq!((plan.counts.layout_copies, plan.counts.launches[0]), (1, 2));
}

#[test]
fn windows_that_are_wanted_are_a_view_of_what_they_look_at() {
    let mut w = Write(Graph::new());
    let x = w.input(&[2, 8]);
    let y = w.map("neg", &[x]);
    let windows = w.window(y, 1, 3, [1, 2]);
    let flipped = w.slice(windows, 1, 3, 4, -1);
    w.0.want(windows);
    w.0.want(flipped);
    let plan = check_on(&w.0, &Home::default(), &Policy::default(), &[cpu()], "wanted windows");
    assert_eq!(plan.counts.launches[0], 1);
}
