//! What a plan says of itself, and what is kept of plans.

mod common;

use breakeven_ir::{Caps, Graph, Op};
use breakeven_plan::{Decision, DeviceId, Home, Pass, Plan, Policy, Reason, Step};
use common::machine::{Device, cpu, gpu, plan_on};
use common::{Write, plan_on_cpu};

/// A product and its activation, then a sum of another input.
fn graph(n: usize, slope: f64) -> Graph {
    let mut w = Write(Graph::new());
    let (a, b, c) = (w.input(&[n, n]), w.input(&[n, n]), w.input(&[16]));
    let product = w.op(Op::matmul(), &[a, b]);
    let limit = w.fill(slope, &[n, n]);
    let product = w.map("mul", &[product, limit]);
    let small = w.map("exp", &[c]);
    w.0.want(product);
    w.0.want(small);
    w.0
}

#[test]
fn a_plan_explains_itself_in_lines() {
    let plan = plan_on(&graph(1024, 2.0), &Home::default(), &Policy::default(), &[cpu(), gpu(30.0)]);
    let text = plan.to_string();
    let want = "\
2 launches, 0 layout copies, 12583040 bytes moved, 2.01 ms predicted
gpu  cut         matmul [1024, 1024] @ [1024, 1024] with 1 fused: 2.01 ms (copy 1.26 ms, dispatch 12.0 us, kernel 716.2 us, \
sync 20.0 us); cpu would take 21.49 ms (+971%); cpu below 1/630.7 of the work
gpu  guard       map of exp over [16]: 32.0 us (copy 0.0 us, dispatch 12.0 us, kernel 0.0 us, sync 20.0 us); \
cpu would take 1.0 us (-97%)
";
    assert_eq!(text, want, "{text}");
}

#[test]
fn an_explanation_is_also_data() {
    let plan = plan_on(&graph(64, 2.0), &Home::default(), &Policy::default(), &[cpu(), gpu(30.0)]);
    let decisions: Vec<Decision> = serde_json::from_str(&plan.explain_json()).unwrap();
    let same = |(a, b): (&Decision, &Decision)| (&a.nodes, a.device, a.reason) == (&b.nodes, b.device, b.reason);
    assert!(decisions.iter().zip(&plan.decisions).all(same) && decisions.len() == 2);
    assert_eq!(decisions[0].reason.code(), "cut");
    let flip = decisions[0].flip.unwrap();
    assert_eq!(flip.device, DeviceId(1));
    assert!(flip.at_times.is_some_and(|times| times > 1.0 && times < 1000.0), "{flip:?}");
}

/// The sum of `count` vectors of 128 MiB and one element.
fn wide_sum(count: usize) -> Graph {
    let mut w = Write(Graph::new());
    let first = w.input(&[(1 << 25) + 1]);
    let sum = (1..count).fold(first, |sum, _| {
        let next = w.input(&[(1 << 25) + 1]);
        w.map("add", &[sum, next])
    });
    w.0.want(sum);
    w.0
}

fn plan_of_wide_sum(count: usize, caps: Caps, pin: Option<DeviceId>) -> Plan {
    let caps = Caps { host_memory: false, ..caps };
    let policy = Policy { pin, ..Policy::default() };
    plan_on(&wide_sum(count), &Home::default(), &policy, &[cpu(), Device { caps, ..gpu(30.0) }])
}

#[test]
fn what_is_split_says_into_how_many_launches_and_why() {
    let pin = Some(DeviceId(1));
    let check = |count: usize, caps: Caps, launches: usize, because: &str| {
        let plan = plan_of_wide_sum(count, caps, pin);
        let split = plan.decisions[0].split.as_ref().expect("it is split");
        assert_eq!((split.launches, split.because.as_str(), plan.counts.launches[1]), (launches, because, launches));
        assert!(plan.to_string().contains(&format!(" in {launches} launches, since {because}: ")), "{plan}");
        let again: Vec<Decision> = serde_json::from_str(&plan.explain_json()).unwrap();
        assert_eq!(again[0].split.as_ref(), Some(split));
    };
    let binding = Caps { max_binding_bytes: 128 << 20, ..Caps::host() };
    check(2, binding, 2, "an operand spans 134217732 bytes, more than a launch can see (134217728)");
    let index = Caps { max_index: 1 << 24, ..Caps::host() };
    check(2, index, 2, "an operand spans 33554433 elements, and a kernel's indices end at 16777216");
    let bindings = Caps { max_bindings: 3, ..Caps::host() };
    check(3, bindings, 2, "it binds 4 buffers at once, and the device allows 3");
    assert_eq!(plan_of_wide_sum(2, Caps::host(), pin).decisions[0].split, None);
}

#[test]
fn what_takes_too_long_for_one_launch_says_so() {
    let policy = Policy { pin: Some(DeviceId(1)), max_launch_seconds: 2e-5, ..Policy::default() };
    let plan = plan_on(&graph(1024, 2.0), &Home::default(), &policy, &[cpu(), gpu(30.0)]);
    let split = plan.decisions[0].split.as_ref().expect("it is split");
    assert!(split.launches > 1 && split.because == "one launch would be longer than one may be", "{split:?}");
    let policy = Policy { max_launch_seconds: 2e-4, ..policy };
    let caps = Caps { max_binding_bytes: 128 << 20, ..gpu(30.0).caps };
    let plan = plan_on(&wide_sum(2), &Home::default(), &policy, &[cpu(), Device { caps, ..gpu(30.0) }]);
    let both = "an operand spans 134217732 bytes, more than a launch can see (134217728), and one launch would be longer than one may be";
    assert_eq!(plan.decisions[0].split.as_ref().map(|split| split.because.as_str()), Some(both));
}

#[test]
fn what_no_buffer_holds_is_on_the_cpu_and_says_why() {
    let plan = plan_of_wide_sum(2, Caps { max_buffer_bytes: 128 << 20, ..Caps::host() }, None);
    assert_eq!((plan.decisions[0].device, plan.decisions[0].reason), (DeviceId::HOST, Reason::Memory));
    let told = "; not gpu: a tensor takes 134217732 bytes and the largest buffer 134217728";
    assert!(plan.to_string().contains(told), "{plan}");
}

#[test]
fn a_flip_is_where_the_device_flips() {
    let on = |n: usize| plan_on(&graph(n, 2.0), &Home::default(), &Policy::default(), &[cpu(), gpu(30.0)]);
    let first = (8..512).find(|&n| on(n).decisions[0].device == DeviceId(1)).unwrap();
    let below = on(first * 7 / 8).decisions[0].flip.unwrap().at_times.unwrap();
    let far = on(first / 2).decisions[0].flip.unwrap().at_times.unwrap();
    assert!(below < 2.0 && far > 2.0, "{first}: {below} {far}");
}

#[test]
fn passes_are_named_in_order() {
    let (caps, profile) = (Caps::host(), breakeven_plan::DeviceProfile::default());
    let name = "cpu".to_owned();
    let view = breakeven_plan::DeviceView {
        name,
        caps: &caps,
        profile: &profile,
        supports: &common::anything,
        lowers: &breakeven_plan::never_lowers,
        automatic: true,
    };
    let machine = breakeven_plan::Machine { devices: vec![view] };
    let mut names = Vec::new();
    let mut note = |pass: Pass| names.push(pass.name());
    breakeven_plan::plan_observed(&graph(8, 1.0), &Home::default(), &Policy::default(), &machine, &mut note).unwrap();
    assert_eq!(names, ["fuse", "place", "lower", "slots"]);
}

#[test]
fn a_plan_that_was_tampered_with_does_not_verify() {
    let mut w = Write(Graph::new());
    let x = w.input(&[4, 8]);
    let y = w.op(Op::RowWise(breakeven_ir::RowWise::Softmax, 1), &[x]);
    let z = w.op(Op::RowWise(breakeven_ir::RowWise::Softmax, 0), &[y]);
    w.0.want(z);
    let plan = plan_on_cpu(&w.0, &Home::default(), &Policy::default());
    assert_eq!(plan.verify(), Ok(()));
    let broken = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan.clone();
        change(&mut plan);
        plan.verify().is_err()
    };
    assert!(broken(&|plan| plan.slots[0].bytes -= 1));
    assert!(broken(&|plan| drop(plan.steps.remove(0))));
    assert!(broken(&|plan| plan.slots[1].device = DeviceId(3)));
    assert!(broken(&|plan| match &mut plan.steps[1] {
        Step::Run { launch, .. } => launch.outputs[0] = launch.inputs[0],
        other => unreachable!("{other:?}"),
    }));
}
