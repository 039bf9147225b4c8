//! Areas G and L: what fusion gets wrong.

use breakeven_device::Device;
use breakeven_ir::{Fold, NodeId, Op, Scalar};
use breakeven_plan::Policy;

use crate::graphs::{Carrier, Write, plan_for};
use crate::{Bench, graph_on};

/// The outputs, planned as an engine would; fused and unfused agree to `relative`.
fn outputs(device: &dyn Device, w: &Write, inputs: &dyn Fn(NodeId) -> Vec<f32>, relative: f64) -> Vec<Vec<f64>> {
    let bytes = |id: NodeId| inputs(id).iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let run = |fuse: bool| -> Vec<Vec<f64>> {
        let policy = Policy { fuse, ..Policy::default() };
        let plan = plan_for(&w.0, device, &policy).unwrap_or_else(|e| panic!("{}: {e}", device.info().name));
        let got = Carrier::new(device, &plan, &bytes, "case").in_one_go();
        let got = got.unwrap_or_else(|e| panic!("{}: {e}", device.info().name));
        got.iter().map(|o| o.iter().map(|s: &Scalar| s.to_f64()).collect()).collect()
    };
    let (fused, unfused) = (run(true), run(false));
    for (a, b) in fused.iter().flatten().zip(unfused.iter().flatten()) {
        assert!((a - b).abs() <= relative * a.abs().max(1e-3), "fused {a}, unfused {b}");
    }
    fused
}

/// Mean and variance over an axis that was swapped.
pub fn g01_moments_of_another_axis(device: &dyn Device) {
    let x =
        [0.033_651_47, 0.647_344_47, 0.741_928_76, 0.064_688_03, 0.395_522_83, 0.553_830_15, 0.425_305_6, 0.839_672_6];
    let mut w = Write::default();
    let input = w.input(&[1, 2, 4]);
    let swapped = w.permute(input, &[0, 2, 1]);
    let mean = w.reduce(Fold::Moments, swapped, &[2]);
    let variance = w.op(Op::Output(1), &[mean]);
    w.0.want(mean);
    w.0.want(variance);
    let got = outputs(device, &w, &|_| x.to_vec(), 1e-6);
    let want = [
        [0.214_587_15, 0.600_587_31, 0.583_617_18, 0.452_180_33],
        [0.032_737_72, 0.002_186_23, 0.025_062_55, 0.150_150_28],
    ];
    for (got, want) in got.iter().flatten().zip(want.as_flattened()) {
        assert!((got - want).abs() <= 2e-6 * want, "{got} instead of {want}");
    }
    graph_on(&mut Bench::new(device), &w.0, "moments of a swapped axis", true);
}

/// A small network at several batches, and pooling of windows: the first row is not the only one that is right.
pub fn g02_fused_rows_are_all_right(device: &dyn Device) {
    for batch in [1, 2, 7, 65] {
        let mut w = Write::default();
        let x = w.input(&[batch, 8]);
        let hidden = layer(&mut w, x, 8, 16);
        let hidden = w.map("tanh", &[hidden]);
        let out = layer(&mut w, hidden, 16, 1);
        w.0.want(out);
        graph_on(&mut Bench::new(device), &w.0, &format!("8 to 16 to 1, batch {batch}"), false);
    }
    let channels = if crate::cases::On(device).is_cpu() { 65 } else { 7 };
    let mut w = Write::default();
    let x = w.input(&[4, channels, 49, 49]);
    let windows = w.reshape(x, &[4, channels, 7, 7, 7, 7]);
    let pooled = w.reduce(Fold::Mean, windows, &[3, 5]);
    let flat = w.reshape(pooled, &[4, channels * 49]);
    let sum = w.reduce(Fold::Sum, flat, &[1]);
    w.0.want(sum);
    graph_on(&mut Bench::new(device), &w.0, "pooled windows, flattened and summed", true);
}

fn layer(w: &mut Write, x: NodeId, from: usize, to: usize) -> NodeId {
    let weight = w.input(&[from, to]);
    let bias = w.input(&[to]);
    let product = w.op(Op::matmul(), &[x, weight]);
    w.map("add", &[product, bias])
}

/// A hundred additions of one row, and one operand twice in a kernel.
pub fn g08_long_chains_and_one_operand_twice(device: &dyn Device) {
    let mut w = Write::default();
    let (x, y) = (w.input(&[3, 5]), w.input(&[4, 5]));
    let row = w.slice(y, 0, 0, 1, 1);
    let sum = (0..100).fold(x, |x, _| w.map("add", &[x, row]));
    let half = w.number(0.5);
    let square = w.map("mul", &[x, x]);
    let half_square = w.map("mul", &[square, half]);
    w.0.want(sum);
    w.0.want(half_square);
    let got = outputs(device, &w, &|id| vec![if id == x { 2.0 } else { 0.25 }; if id == x { 15 } else { 20 }], 0.0);
    assert_eq!(got, [[27.0; 15], [2.0; 15]]);
}

/// A sum of twelve tensors on a device that binds eight.
pub fn l07_more_inputs_than_bindings(device: &dyn Device) {
    let mut w = Write::default();
    let all: Vec<NodeId> = (0..12).map(|_| w.input(&[1000])).collect();
    let sum = all[1..].iter().fold(all[0], |sum, &x| w.map("add", &[sum, x]));
    w.0.want(sum);
    let got = outputs(device, &w, &|id| vec![id.0 as f32 + 1.0; 1000], 0.0);
    assert_eq!(got, [[78.0; 1000]]);
}
