//! Which operations share kernels, and what is never copied.

mod common;

use breakeven_ir::{Fold, Graph, Kernel, NodeId, Op, Reduce, RowWise};
use breakeven_plan::{Home, Policy, fuse, program::Program};
use common::machine::{cpu, gpu, plan_on};
use common::minilm::{Size, minilm};
use common::{Write, plan_on_cpu};

/// Builds a graph whose result is wanted, and fuses it.
fn fused(build: impl FnOnce(&mut Write) -> NodeId) -> Program {
    let mut write = Write(Graph::new());
    let out = build(&mut write);
    write.0.want(out);
    fuse(&write.0, &Home::default(), &Policy::default())
}

/// Kernels in short: shape of the work, rows before and after.
fn kernels(program: &Program) -> Vec<String> {
    let one = |kernel: &Kernel| match kernel {
        Kernel::Map(k) if k.is_copy() => "copy".to_owned(),
        Kernel::Map(k) => format!("map {}", k.expr.rows()),
        Kernel::Reduce(k) => format!("{} {} {}", k.pre.rows(), k.fold.name(), k.post.rows()),
        Kernel::RowWise(k) => format!("{} {} {}", k.pre.rows(), k.kind.name(), k.post.rows()),
        Kernel::MatMul(k) => format!("matmul{} {}", k.batch, k.post.rows()),
        Kernel::Conv(k) => format!("conv {}", k.post.rows()),
        Kernel::Attention(_) => "attention".to_owned(),
        Kernel::Scan(_) => "scan".to_owned(),
        Kernel::Sort(_) => "sort".to_owned(),
        Kernel::Gather(_) => "gather".to_owned(),
        Kernel::Scatter(_) => "scatter".to_owned(),
        Kernel::Custom(k) => k.op.name().to_owned(),
    };
    program.kernels.iter().map(|fused| one(&fused.kernel)).collect()
}

#[track_caller]
fn check(build: impl FnOnce(&mut Write) -> NodeId, want: &[&str]) {
    assert_eq!(kernels(&fused(build)), want);
}

fn sum(axes: &[usize]) -> Op {
    Op::Reduce(Reduce { fold: Fold::Sum, axes: axes.into() })
}

#[test]
fn a_sentence_model_makes_no_layout_copy() {
    let model = minilm(Size::MINILM);
    let plan = plan_on_cpu(&model.write.0, &Home::default(), &Policy::default());
    assert_eq!(plan.counts.layout_copies, 0);
    // Per layer: three heads, scores, softmax, mix, projection, norm, two of the network, norm.
    assert_eq!(plan.counts.launches, [3 + 6 * 11 + 4]);
    assert_eq!(plan.counts.submits, [1]);
    let program = fuse(&model.write.0, &Home::default(), &Policy::default());
    let is_copy = |kernel: &Kernel| matches!(kernel, Kernel::Map(map) if map.is_copy());
    assert!(!program.kernels.iter().any(|fused| is_copy(&fused.kernel)));
    let flat = kernels(&program).iter().filter(|k| k.starts_with("matmul[]")).count();
    assert_eq!(flat, 6 * 6, "products with a weight are one product each, not a batch");
}

#[test]
fn a_concat_within_a_concat_is_written_where_the_outer_one_lies() {
    // Zeros around both axes, as a padded convolution has: the middle is copied once.
    let padded = |w: &mut Write| {
        let x = w.input(&[3, 4]);
        let (side, top) = (w.fill(0.0, &[3, 1]), w.fill(0.0, &[1, 6]));
        let wide = w.op(Op::Concat(1), &[side, x, side]);
        w.op(Op::Concat(0), &[top, wide, top])
    };
    check(padded, &["map 0", "copy", "map 0", "map 0", "map 0"]);
    // Where the inner one is read too, it has a place of its own.
    let read_twice = |w: &mut Write| {
        let x = w.input(&[2, 4]);
        let wide = w.op(Op::Concat(1), &[x, x]);
        let high = w.op(Op::Concat(0), &[wide, wide]);
        w.0.want(wide);
        high
    };
    check(read_twice, &["copy"; 4]);
}

#[test]
fn an_unfused_sentence_model_makes_no_layout_copy_either() {
    let model = minilm(Size::MINILM);
    let plan = plan_on_cpu(&model.write.0, &Home::default(), &Policy { fuse: false, ..Policy::default() });
    assert_eq!(plan.counts.layout_copies, 0);
}

#[test]
fn elementwise_operations_share_a_kernel() {
    let chain = |w: &mut Write| {
        let x = w.input(&[4]);
        let a = w.map("exp", &[x]);
        let (b, c) = (w.map("neg", &[a]), w.map("abs", &[a]));
        w.map("add", &[b, c])
    };
    check(chain, &["map 4"]);
    let program = fused(chain);
    assert_eq!(program.kernels[0].inputs.len(), 1);
    check(
        |w| {
            let x = w.input(&[2, 3]);
            let turned = w.permute(x, &[1, 0]);
            let two = w.fill(2.0, &[3, 2]);
            let scaled = w.map("mul", &[turned, two]);
            let back = w.permute(scaled, &[1, 0]);
            w.map("add", &[back, x])
        },
        &["map 2"],
    );
}

#[test]
fn nothing_is_computed_twice() {
    check(
        |w| {
            let x = w.input(&[3]);
            let costly = w.map("tanh", &[x]);
            let wide = w.broadcast(costly, &[100, 3]);
            w.map("neg", &[wide])
        },
        &["map 1", "map 1"],
    );
    check(
        |w| {
            let x = w.input(&[4]);
            let y = w.map("tanh", &[x]);
            let back = w.slice(y, 0, 3, 4, -1);
            w.map("add", &[y, back])
        },
        &["map 1", "map 1"],
    );
}

#[test]
fn elementwise_operations_join_what_they_feed_and_what_feeds_them() {
    check(
        |w| {
            let (x, y) = (w.input(&[3, 5]), w.input(&[3, 5]));
            let product = w.map("mul", &[x, y]);
            let total = w.op(sum(&[1]), &[product]);
            w.map("sqrt", &[total])
        },
        &["1 sum 1"],
    );
    check(
        |w| {
            let (x, y) = (w.input(&[3, 5]), w.input(&[5, 7]));
            let product = w.op(Op::matmul(), &[x, y]);
            let flat = w.reshape(product, &[21]);
            let bias = w.input(&[21]);
            let sum = w.map("add", &[flat, bias]);
            let sum = w.reshape(sum, &[3, 7]);
            let act = w.map("relu", &[sum]);
            w.op(Op::RowWise(RowWise::Softmax, 0), &[act])
        },
        &["matmul[] 0", "2 softmax 0"],
    );
    check(
        |w| {
            let (x, y, z) = (w.input(&[3, 5]), w.input(&[5, 7]), w.input(&[21]));
            let product = w.op(Op::matmul(), &[x, y]);
            let flat = w.reshape(product, &[21]);
            let sum = w.map("add", &[flat, z]);
            w.map("relu", &[sum])
        },
        &["matmul[] 2"],
    );
}

#[test]
fn a_reshape_is_copied_only_where_it_must_be() {
    check(
        |w| {
            let x = w.input(&[2, 3]);
            let x = w.permute(x, &[1, 0]);
            w.reshape(x, &[6])
        },
        &["copy"],
    );
    check(
        |w| {
            let x = w.input(&[2, 3]);
            let x = w.map("exp", &[x]);
            let x = w.permute(x, &[1, 0]);
            w.reshape(x, &[6])
        },
        &["map 1"],
    );
    check(
        |w| {
            let x = w.input(&[2, 3]);
            let x = w.permute(x, &[1, 0]);
            let x = w.reshape(x, &[6]);
            let x = w.map("exp", &[x]);
            w.reshape(x, &[3, 2])
        },
        &["map 1"],
    );
}

#[test]
fn nothing_is_launched_for_nothing() {
    let empty = |w: &mut Write| {
        let x = w.input(&[0, 3]);
        w.map("exp", &[x])
    };
    check(empty, &[]);
    check(
        |w| {
            let x = empty(w);
            w.op(sum(&[0]), &[x])
        },
        &["map 0"],
    );
    check(|w| w.input(&[3]), &[]);
}

/// No clock: work that grew with the square of the chain would not end.
#[test]
fn a_chain_of_a_million_nodes_is_planned_and_dropped() {
    const COUNT: usize = 1_000_000;
    let mut write = Write(Graph::new());
    let mut at = write.input(&[2]);
    for i in 0..COUNT {
        at = if i % 5 == 4 { write.reshape(at, &[2, 1][..=i % 2]) } else { write.map("abs", &[at]) };
    }
    write.0.want(at);
    let plan = plan_on(&write.0, &Home::default(), &Policy::default(), &[cpu(), gpu(1.1)]);
    assert_eq!(plan.decisions.len(), (COUNT * 4 / 5).div_ceil(Policy::default().max_rows_per_kernel));
}

#[test]
fn plans_are_the_same_for_the_same_inputs() {
    let plan = || plan_on_cpu(&minilm(Size::MINILM).write.0, &Home::default(), &Policy::default());
    assert_eq!(plan(), plan());
}
