//! Where kernels run on machines of known speed, and what is said about it.

mod common;

use std::collections::BTreeMap;

use breakeven_ir::{Caps, DType, Graph, Kernel, Layout, NodeId, Op, Spec, Unsupported};
use breakeven_plan::{DeviceId, DeviceProfile, Home, Place, Plan, PlanError, Policy, Reason, Source, Step, Trust};
use common::Write;
use common::machine::{Device, cpu, gpu, plan_on, try_plan};
use common::minilm::{Size, minilm};
use smallvec::smallvec;

const CPU: DeviceId = DeviceId(0);
const GPU: DeviceId = DeviceId(1);

/// A product of square matrices, one of which lives on the GPU if it is `resident`.
fn product(n: usize, resident: bool) -> (Graph, Home) {
    let mut w = Write(Graph::new());
    let (a, b) = (w.input(&[n, n]), w.input(&[n, n]));
    let out = w.op(Op::matmul(), &[a, b]);
    w.0.want(out);
    let mut home = Home::default();
    if resident {
        for id in [a, b] {
            let places = smallvec![Place::Host, Place::Device(GPU)];
            home.inputs.insert(id, Source { layout: Layout::dense([n, n]), places });
        }
    }
    (w.0, home)
}

fn devices(plan: &Plan) -> Vec<usize> {
    plan.decisions.iter().map(|decision| decision.device.0).collect()
}

/// Devices of all decisions, each once.
fn used(plan: &Plan) -> Vec<usize> {
    let mut used = devices(plan);
    used.sort_unstable();
    used.dedup();
    used
}

fn weights_on_gpu(model: &common::minilm::MiniLm) -> Home {
    let graph = &model.write.0;
    let weight = |id: &NodeId| graph.node(*id).op == Op::Input && *id != model.tokens && *id != model.mask;
    let places = smallvec![Place::Host, Place::Device(GPU)];
    let source =
        |id: NodeId| Source { layout: Layout::dense(graph.node(id).spec.shape.clone()), places: places.clone() };
    Home { inputs: graph.ids().filter(weight).map(|id| (id, source(id))).collect(), ..Home::default() }
}

#[test]
fn work_goes_where_it_is_cheapest_and_a_little_work_stays() {
    let on = |n, resident, speed| {
        let (graph, home) = product(n, resident);
        devices(&plan_on(&graph, &home, &Policy::default(), &[cpu(), gpu(speed)]))
    };
    assert_eq!(on(64, false, 50.0), [0]);
    assert_eq!(on(2048, false, 50.0), [1]);
    assert_eq!(on(128, false, 50.0), [0]);
    assert_eq!(on(128, true, 50.0), [1], "resident operands move the break-even point");
    assert_eq!(on(2048, false, 0.5), [0]);
}

#[test]
fn a_sentence_model_has_three_plans_on_three_machines() {
    let model = minilm(Size::MINILM);
    let home = weights_on_gpu(&model);
    let plan = |devices: &[Device]| plan_on(&model.write.0, &home, &Policy::default(), devices);
    let cpu_home = Home::default();
    let (fast, slow) = (plan(&[cpu(), gpu(30.0)]), plan(&[cpu(), gpu(0.3)]));
    let none = plan_on(&model.write.0, &cpu_home, &Policy::default(), &[cpu()]);
    assert_eq!(used(&fast), [1]);
    assert_eq!((fast.counts.submits.as_slice(), fast.counts.uploads[1]), ([0, 1].as_slice(), 2));
    assert_eq!(fast.counts.downloads, [0, 1]);
    assert_eq!(used(&slow), [0]);
    assert!(slow.decisions.iter().all(|d| d.reason == Reason::Cut));
    assert!(none.decisions.iter().all(|d| d.reason == Reason::CpuFirst));
    assert!(fast.predicted.seconds < slow.predicted.seconds);
    assert_eq!(fast.counts.layout_copies + slow.counts.layout_copies + none.counts.layout_copies, 0);
}

#[test]
fn a_chain_that_favours_two_devices_in_turn_is_not_torn_apart() {
    let mut w = Write(Graph::new());
    let mut x = w.input(&[1 << 20]);
    for i in 0..40 {
        x = if i % 2 == 0 {
            let y = w.reshape(x, &[1 << 10, 1 << 10]);
            let y = w.op(Op::RowWise(breakeven_ir::RowWise::Softmax, 1), &[y]);
            w.reshape(y, &[1 << 20])
        } else {
            w.map("tanh", &[x])
        };
    }
    w.0.want(x);
    let (cpu, mut other) = (cpu(), gpu(1.0));
    for (class, factor) in [("row_wise", 1.05), ("map", 1.0 / 1.05)] {
        let curves = other.profile.classes.get_mut(class).unwrap();
        curves.math = common::machine::line(1e11 * factor);
        curves.memory = common::machine::line(2e10 * factor);
    }
    let policy = Policy { fuse: false, ..Policy::default() };
    let plan = plan_on(&w.0, &Home::default(), &policy, &[cpu, other]);
    assert_eq!(used(&plan).len(), 1);
}

#[test]
fn a_mix_must_win_by_a_margin_that_depends_on_trust() {
    // The product is much cheaper on the GPU, the long chain cheaper on the CPU; both meet in the end.
    let mut w = Write(Graph::new());
    let (a, b) = (w.input(&[1024, 512]), w.input(&[512, 4]));
    let mut small = w.input(&[512, 4]);
    for _ in 0..60 {
        small = w.op(Op::RowWise(breakeven_ir::RowWise::Softmax, 1), &[small]);
    }
    let big = w.op(Op::matmul(), &[a, b]);
    w.0.want(big);
    w.0.want(small);
    let plan = |trust, dispatch: f64| {
        let (mut cpu, mut gpu) = (cpu(), gpu(20.0));
        (cpu.profile.trust, gpu.profile.trust) = (trust, trust);
        gpu.profile.dispatch.seconds = dispatch;
        let places = smallvec![Place::Device(GPU)];
        let home = Home {
            inputs: BTreeMap::from([(a, Source { layout: Layout::dense([1024, 512]), places })]),
            ..Home::default()
        };
        plan_on(&w.0, &home, &Policy::default(), &[cpu, gpu])
    };
    assert_eq!(used(&plan(Trust::Full, 50e-6)), [0, 1]);
    assert_eq!(used(&plan(Trust::Quick, 50e-6)), [0, 1]);
    let near = |trust| (2..50).map(|us| used(&plan(trust, us as f64 * 0.2e-6)).len() == 2).filter(|mix| *mix).count();
    assert!(near(Trust::Quick) < near(Trust::Full), "a quick profile keeps fewer mixes");
    let guarded = (2..50).map(|us| plan(Trust::Quick, us as f64 * 0.2e-6));
    let has_guard = |plan: &Plan| plan.decisions.iter().any(|d| d.reason == Reason::Guard);
    assert!(guarded.into_iter().any(|plan| has_guard(&plan)));
}

#[test]
fn unmeasured_and_unsupported_work_stays_on_the_cpu_and_says_so() {
    let (graph, home) = product(2048, false);
    let plan = |gpu: Device| plan_on(&graph, &home, &Policy::default(), &[cpu(), gpu]);
    let mut unmeasured = gpu(50.0);
    unmeasured.profile.classes.remove("matmul");
    let found = plan(unmeasured);
    assert_eq!((devices(&found), found.decisions[0].reason), (vec![0], Reason::Unmeasured));
    let refuses = |_: &Kernel| Err(Unsupported("it has no matrix unit".into()));
    let found = plan(Device { supports: refuses, ..gpu(50.0) });
    assert_eq!((devices(&found), found.decisions[0].reason), (vec![0], Reason::Unsupported));
    assert_eq!(found.decisions[0].excluded, [(GPU, "it has no matrix unit".to_owned())]);
    let found = plan(Device { automatic: false, ..gpu(50.0) });
    assert_eq!((devices(&found), found.decisions[0].reason), (vec![0], Reason::CpuFirst));
    let small = Caps { memory_bytes: Some(40 << 20), ..gpu(50.0).caps };
    let found = plan(Device { caps: small, ..gpu(50.0) });
    assert_eq!((devices(&found), found.decisions[0].reason), (vec![0], Reason::Memory));
}

#[test]
fn a_pin_never_falls_back() {
    let (graph, home) = product(8, false);
    let policy = Policy { pin: Some(GPU), ..Policy::default() };
    let plan = plan_on(&graph, &home, &policy, &[cpu(), Device { automatic: false, ..gpu(0.01) }]);
    assert_eq!((devices(&plan), plan.decisions[0].reason), (vec![1], Reason::Pinned));
    let refuses = |_: &Kernel| Err(Unsupported("it has no matrix unit".into()));
    let error = try_plan(&graph, &home, &policy, &[cpu(), Device { supports: refuses, ..gpu(1.0) }]).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("gpu") && text.contains("matmul") && text.contains("no matrix unit"), "{text}");
    let far = Policy { pin: Some(DeviceId(7)), ..Policy::default() };
    assert!(matches!(try_plan(&graph, &home, &far, &[cpu()]), Err(PlanError::NoDevice { .. })));
    let tight = Device { caps: Caps { memory_bytes: Some(100), ..gpu(1.0).caps }, ..gpu(1.0) };
    let found = plan_on(&graph, &home, &policy, &[cpu(), tight]);
    assert_eq!((devices(&found), found.decisions[0].reason), (vec![1], Reason::Pinned), "its driver decides");
}

#[test]
fn one_node_can_be_pinned_and_the_rest_follows_from_it() {
    let mut w = Write(Graph::new());
    let x = w.input(&[16]);
    let (a, b) = (w.map("exp", &[x]), w.0.nodes().len() as u32);
    let c = w.map("neg", &[a]);
    let d = w.map("abs", &[c]);
    w.0.want(d);
    let policy = Policy { pins: BTreeMap::from([(NodeId(b), GPU)]), ..Policy::default() };
    let plan = plan_on(&w.0, &Home::default(), &policy, &[cpu(), gpu(1.0)]);
    assert_eq!(devices(&plan), [0, 1, 0]);
    let crossings = plan.steps.iter().filter(|step| matches!(step, Step::Copy { .. })).count();
    assert_eq!(crossings, 2);
}

#[test]
fn many_operations_on_a_gpu_are_one_upload_one_submission_one_read() {
    let mut w = Write(Graph::new());
    let mut x = w.input(&[64, 64]);
    for _ in 0..20 {
        x = w.op(Op::RowWise(breakeven_ir::RowWise::Softmax, 1), &[x]);
    }
    w.0.want(x);
    let policy = Policy { pin: Some(GPU), ..Policy::default() };
    let plan = plan_on(&w.0, &Home::default(), &policy, &[cpu(), gpu(1.0)]);
    assert_eq!(plan.counts.launches, [0, 20]);
    assert_eq!((plan.counts.submits[1], plan.counts.uploads[1], plan.counts.downloads[1]), (1, 1, 1));
    assert_eq!(plan.counts.moved_bytes, 2 * 64 * 64 * 4);
    assert!(matches!((&plan.steps[0], &plan.steps[21]), (Step::Upload { .. }, Step::Download { .. })));
    assert_eq!(plan.counts.peak_bytes[1], 2 * 64 * 64 * 4);
    assert_eq!(plan.counts.taken_bytes[1], plan.counts.slot_bytes[1], "nothing is there yet, and all is bound at once");
    assert_eq!(plan.counts.slot_bytes[1], 4 * 64 * 64 * 4, "the input, which stays, two to work in, and the result");
}

#[test]
fn what_lies_on_a_device_already_is_not_taken_again() {
    let policy = Policy { pin: Some(GPU), ..Policy::default() };
    let taken = |resident| {
        let (graph, home) = product(64, resident);
        plan_on(&graph, &home, &policy, &[cpu(), gpu(1.0)]).counts.taken_bytes
    };
    assert_eq!(taken(true), [0, 64 * 64 * 4]);
    assert_eq!(taken(false), [0, 3 * 64 * 64 * 4]);
}

#[test]
fn a_frozen_plan_is_made_again_on_another_profile() {
    let (graph, home) = product(2048, false);
    let fast = plan_on(&graph, &home, &Policy::default(), &[cpu(), gpu(50.0)]);
    let text = serde_json::to_string(&fast.freeze()).unwrap();
    let frozen = Some(serde_json::from_str(&text).unwrap());
    let policy = Policy { frozen, ..Policy::default() };
    let slow = plan_on(&graph, &home, &policy, &[cpu(), gpu(0.01)]);
    assert_eq!((slow.steps == fast.steps, slow.slots == fast.slots), (true, true));
    assert_eq!(slow.decisions[0].reason, Reason::Frozen);
    let bigger = product(2049, false).0;
    let refused = |graph: &Graph, policy: &Policy| try_plan(graph, &home, policy, &[cpu(), gpu(50.0)]).unwrap_err();
    assert_eq!(refused(&bigger, &policy), PlanError::FrozenGraph, "kernels of other sizes have the same node numbers");
    let model = minilm(Size::TINY).write.0;
    let apart = Policy { fuse: false, ..Policy::default() };
    let frozen = Some(plan_on(&model, &Home::default(), &apart, &[cpu()]).freeze());
    let fused = Policy { frozen, ..Policy::default() };
    let refused = try_plan(&model, &Home::default(), &fused, &[cpu()]);
    assert!(matches!(refused, Err(PlanError::Frozen { .. })), "{refused:?}");
}

#[test]
fn long_work_on_a_gpu_is_split_and_a_frozen_plan_keeps_the_split() {
    let (graph, home) = product(2048, false);
    let pinned = Policy { pin: Some(GPU), ..Policy::default() };
    let slow = plan_on(&graph, &home, &pinned, &[cpu(), gpu(0.1)]);
    assert_eq!(slow.counts.launches, [0, 8], "1.7 s in halves of at most 250 ms");
    let frozen = Policy { frozen: Some(slow.freeze()), ..Policy::default() };
    assert_eq!(plan_on(&graph, &home, &frozen, &[cpu(), gpu(50.0)]).steps, slow.steps);
}

#[test]
fn types_that_a_device_lacks_keep_only_their_own_operations_off_it() {
    let mut w = Write(Graph::new());
    let ids = w.0.input(Spec::new(DType::I64, [1 << 20]));
    let mut x = w.op(Op::Cast(DType::F32), &[ids]);
    for _ in 0..60 {
        x = w.map("tanh", &[x]);
    }
    w.0.want(x);
    let caps = Caps { dtypes: vec![DType::F32, DType::I32, DType::Bool], ..gpu(1.0).caps };
    let narrow = Device { caps, ..gpu(50.0) };
    let plan = plan_on(&w.0, &Home::default(), &Policy::default(), &[cpu(), narrow]);
    assert_eq!(devices(&plan), [0, 1]);
    assert_eq!(plan_on(&w.0, &Home::default(), &Policy::default(), &[cpu()]).decisions.len(), 1);
}

#[test]
fn without_a_profile_everything_stays_on_the_cpu() {
    let (graph, home) = product(2048, false);
    let plan =
        plan_on(&graph, &home, &Policy::default(), &[Device { profile: DeviceProfile::default(), ..cpu() }, gpu(50.0)]);
    assert_eq!((devices(&plan), plan.decisions[0].reason), (vec![0], Reason::Unmeasured));
}

#[test]
fn an_impossible_home_is_an_error() {
    let (graph, _) = product(8, false);
    let wrong =
        |source| try_plan(&graph, &Home { inputs: [source].into(), ..Home::default() }, &Policy::default(), &[cpu()]);
    let source = |shape: [usize; 2], places| Source { layout: Layout::dense(shape), places };
    assert!(wrong((NodeId(0), source([8, 9], smallvec![Place::Host]))).is_err());
    assert!(wrong((NodeId(0), source([8, 8], smallvec![]))).is_err());
    assert!(wrong((NodeId(2), source([8, 8], smallvec![Place::Host]))).is_err());
    assert!(wrong((NodeId(99), source([8, 8], smallvec![Place::Host]))).is_err());
    assert_eq!(CPU, DeviceId::HOST);
}

#[test]
fn wide_indices_are_narrowed_where_a_gpu_needs_that() {
    let mut w = Write(Graph::new());
    let source = w.input(&[1000, 64]);
    let index = w.0.input(Spec::new(DType::I64, [4096]));
    let rows = w.op(Op::Gather(0), &[source, index]);
    let out = w.map("neg", &[rows]);
    w.0.want(out);
    let narrow =
        Device { caps: Caps { dtypes: vec![DType::F32, DType::I32, DType::Bool], ..gpu(1.0).caps }, ..gpu(1.0) };
    let pinned = Policy { pins: BTreeMap::from([(rows, GPU)]), ..Policy::default() };
    let plan = plan_on(&w.0, &Home::default(), &pinned, &[cpu(), narrow.clone()]);
    assert_eq!(devices(&plan)[..2], [0, 1], "the cast runs on the CPU");
    let plan = plan_on(&w.0, &Home::default(), &Policy::default(), &[cpu(), narrow]);
    assert_eq!(devices(&plan), [0, 0], "the CPU needs no cast");
}
#[test]
fn two_branches_run_on_two_devices_at_once() {
    // Each branch takes as long on either device, so one after the other nothing is gained by two of them.
    let mut w = Write(Graph::new());
    let (mut left, mut right) = (w.input(&[256, 256]), w.input(&[256, 256]));
    for _ in 0..6 {
        left = w.op(Op::matmul(), &[left, left]);
        right = w.op(Op::matmul(), &[right, right]);
    }
    w.0.want(left);
    w.0.want(right);
    let plan = plan_on(&w.0, &Home::default(), &Policy::default(), &[cpu(), gpu(1.0)]);
    assert_eq!(devices(&plan).iter().filter(|&&device| device == 0).count(), 6, "one branch on each");
    let first_run = plan.steps.iter().find_map(|step| match step {
        Step::Run { device, .. } => Some(*device),
        _ => None,
    });
    assert_eq!(first_run, Some(GPU), "the host keeps its caller busy, so it comes last");
    let alone = plan_on(&w.0, &Home::default(), &Policy { pin: Some(CPU), ..Policy::default() }, &[cpu(), gpu(1.0)]);
    assert!(plan.predicted.seconds < 0.7 * alone.predicted.seconds, "{:?} {:?}", plan.predicted, alone.predicted);
}

#[test]
fn a_plan_names_the_best_other_device_and_is_made_for_it_when_it_is_probed() {
    let (graph, home) = product(2048, false);
    let plan = |policy: Policy| plan_on(&graph, &home, &policy, &[cpu(), gpu(50.0)]);
    let first = plan(Policy::default());
    let (device, predicted) = first.rival.expect("both can do it all");
    assert_eq!((devices(&first), device), (vec![1], DeviceId::HOST));
    let other = plan(Policy { probe: Some(device), ..Policy::default() });
    assert_eq!((devices(&other), other.decisions[0].reason), (vec![0], Reason::Probe));
    assert_eq!((other.predicted, other.rival), (predicted, None), "what was predicted for it, and it has no rival");
    assert_eq!(plan(Policy { pin: Some(GPU), ..Policy::default() }).rival, None);
    assert_eq!(plan_on(&graph, &home, &Policy::default(), &[cpu()]).rival, None);
}
