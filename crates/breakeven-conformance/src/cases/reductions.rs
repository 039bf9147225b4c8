//! Area R: reductions, softmax and norms.

use breakeven_device::Device;
use breakeven_ir::{DType, Fold, Graph, Layout, Op, Reduce, RowWise, Shape, Spec};

use super::On;
use super::on::near;
use crate::Random;

const INF: f32 = f32::INFINITY;
const LAYER_NORM: RowWise = RowWise::LayerNorm { epsilon: 1e-5 };

/// One running f32 sum sticks at 2^24.
pub fn r01_long_sums(device: &dyn Device) {
    let on = On(device);
    if on.is_simulated() {
        return near(&on.fold(Fold::Sum, &vec![0.1; 100_000], 100_000), &[10_000.0], 1e-6);
    }
    near(&on.fold(Fold::Sum, &vec![0.1; 1_000_000], 1_000_000), &[f64::from(0.1f32) * 1e6], 1e-6);
    let n = on.sized(10_000_000, 1_500_000);
    let got = on.running_sum(&vec![0.1; n]);
    for at in (1..=n).step_by(n / 1000).chain([n]) {
        near(&got[at - 1..at], &[f64::from(0.1f32) * at as f64], 1e-6);
    }
    let repeated = Layout::dense([1, 1]).broadcast(&[2, 20_000_000].into()).expect("extents of 1 broadcast");
    near(&on.fold_of(Fold::Mean, &[1.0], &Shape::from(2), repeated)[0], &[1.0, 1.0], 1e-6);
    let n = on.sized((1 << 24) + 3, (1 << 22) + 3);
    let mut ones = vec![1.0; n];
    ones[n - 1] = 3.0;
    near(&on.fold(Fold::Sum, &ones, n), &[n as f64 + 2.0], 1e-7);
    let rows = on.sized(32 * 32 * 32 * 320, 32 * 32 * 320);
    let mut random = Random::new(1);
    let uniform: Vec<f32> = (0..2 * rows).map(|_| (250.0 + 70.0 * random.unit()) as f32).collect();
    let mean = |c: usize| uniform[c..].iter().step_by(2).map(|&x| f64::from(x)).sum::<f64>() / rows as f64;
    let columns = Layout::dense([rows, 2]).permute(&[1, 0]);
    near(&on.fold_of(Fold::Mean, &uniform, &Shape::from(2), columns)[0], &[mean(0), mean(1)], 1e-6);
}

/// The first of equal places, everywhere.
pub fn r02_first_of_equals(device: &dyn Device) {
    let on = On(device);
    let rows = [2.0, 3.0, 0.0, 3.0, 3.0, 1.0, 3.0, 1.0, 3.0, 1.0];
    assert_eq!(on.places(Fold::ArgMax, &rows, 5), [1, 1]);
    for n in [16, on.sized(1_000_000, if on.is_simulated() { 10_000 } else { 1_000_000 })] {
        assert_eq!(on.places(Fold::ArgMax, &vec![7.0; n], n), [0], "{n}");
        assert_eq!(on.places(Fold::ArgMin, &vec![7.0; n], n), [0], "{n}");
    }
}

/// Empty tensors and axes.
pub fn r05_nothing_to_fold(device: &dyn Device) {
    let on = On(device);
    let none = || Layout::dense([0]);
    let of_none = |fold| on.fold_of(fold, &[], &Shape::scalar(), none())[0][0];
    assert_eq!((of_none(Fold::Sum), of_none(Fold::Prod)), (0.0, 1.0));
    assert!(of_none(Fold::Mean).is_nan());
    let middle = Layout::dense([2, 0, 4]).permute(&[0, 2, 1]);
    assert_eq!(on.fold_of(Fold::Sum, &[], &Shape::from([2, 4]), middle)[0], [0.0; 8]);
    assert_eq!(on.map("relu", &[], &[&[]]), [0.0f32; 0]);
    let mut graph = Graph::new();
    let x = graph.input(Spec::new(DType::F32, [0]));
    for fold in [Fold::Max, Fold::Min, Fold::ArgMax, Fold::ArgMin] {
        let error =
            graph.add(Op::Reduce(Reduce { fold, axes: [0][..].into() }), &[x]).expect_err("nothing is the largest");
        assert!(error.to_string().contains("no elements"), "{error}");
    }
}

/// NaN for a row of nothing but -inf; the rows of a causal mask are finite and sum to 1.
pub fn r06_rows_of_minus_infinity(device: &dyn Device) {
    let on = On(device);
    let nan = f64::NAN;
    near(&on.rows(RowWise::Softmax, &[-INF, -INF, 0.0, -INF], 2), &[nan, nan, 1.0, 0.0], 0.0);
    let (matrices, n) = (on.sized(8 * 12, 3), 71);
    let mut random = Random::new(2);
    let scores = |i: usize| if i % n > i / n % n { -INF } else { random.unit() as f32 * 8.0 - 4.0 };
    let got = on.rows(RowWise::Softmax, &(0..matrices * n * n).map(scores).collect::<Vec<_>>(), n);
    for row in got.chunks(n) {
        let sum: f64 = row.iter().map(|&x| f64::from(x)).sum();
        assert!((sum - 1.0).abs() < 1e-5, "a row sums to {sum}");
    }
}

/// A maximum that ignores NaN, and an exp that sends it to 0.
pub fn r07_nan_reaches_its_whole_row(device: &dyn Device) {
    let got = On(device).rows(RowWise::Softmax, &[1.0, f32::NAN], 2);
    assert!(got.iter().all(|x| x.is_nan()), "{got:?}");
}

/// The mean of squares minus the square of the mean cancels.
pub fn r09_far_from_zero(device: &dyn Device) {
    let on = On(device);
    let got = on.rows(LAYER_NORM, &[40_000.0, 40_001.0, 40_002.0, 40_003.0], 4);
    near(&got, &[-1.341_635_4, -0.447_211_8, 0.447_211_8, 1.341_635_4], 1e-6);
    assert_eq!(on.rows(LAYER_NORM, &[1234.0; 256], 256), [0.0; 256]);
    for (mean, want) in [(0.0, -1.341_64), (100.0, -1.341_53), (1000.0, -1.341_51), (10_000.0, -1.331_33)] {
        let row: Vec<f32> = (0..16).map(|i| (mean + f64::from(i) * 1e-3) as f32).collect();
        // Where a compiler reorders sums, the mean is off by half a unit of the last place: this part of the spread.
        let unit = f64::from(mean as f32) * 2f64.powi(-23) / 4.6e-3;
        let within = if on.is_cpu() { 1e-5 } else { 1e-5 + unit };
        near(&on.rows(LAYER_NORM, &row, 16)[..1], &[want], within);
    }
    let million = [1e6, 1e6 + 1.0, 1e6 + 2.0, 1e6 + 3.0];
    let moments = on.fold_of(Fold::Moments, &million, &Shape::scalar(), Layout::dense([4]));
    near(&moments[1], &[1.25], 1e-6);
}

/// Folding one of five axes reads no other.
pub fn r11_five_axes(device: &dyn Device) {
    let x: Vec<f32> = (0..65_536).map(|i| i as f32).collect();
    let layout = Layout::dense([1, 1, 2, 512, 64]).permute(&[0, 1, 3, 4, 2]);
    let got = On(device).fold_of(Fold::Sum, &x, &Shape::from([1, 1, 512, 64]), layout).swap_remove(0);
    assert_eq!((got[0], got[512 * 64 - 1]), (32_768.0, 98_302.0));
}

/// Sums made with atomics differ from run to run.
pub fn r13_same_bits_every_time(device: &dyn Device) {
    let on = On(device);
    let n = on.sized(1_000_000, if on.is_simulated() { 10_000 } else { 1_000_000 });
    let mut random = Random::new(3);
    let x: Vec<f32> = (0..n).map(|_| ((0..4).map(|_| random.unit()).sum::<f64>() - 2.0) as f32).collect();
    let size: f64 = x.iter().map(|&v| f64::from(v).abs()).sum();
    let exact: f64 = x.iter().map(|&v| f64::from(v)).sum();
    let first = on.fold(Fold::Sum, &x, n)[0];
    assert!((f64::from(first) - exact).abs() <= 1e-6 * size, "{first} instead of {exact}");
    for _ in 1..on.sized(100, 20) {
        assert_eq!(on.fold(Fold::Sum, &x, n)[0].to_bits(), first.to_bits());
    }
}

/// Kernels written for 32 lanes fold a part of the data on devices that have 4, 8 or 64.
pub fn r14_no_lane_count(device: &dyn Device) {
    let on = On(device);
    let x: Vec<f32> = (1..=1000).map(|i| i as f32).collect();
    assert_eq!(on.fold(Fold::Sum, &x, 1000), [500_500.0]);
    assert_eq!(on.places(Fold::ArgMax, &x, 1000), [999]);
    near(&on.rows(RowWise::Softmax, &[2.5; 100], 100), &[0.01; 100], 1e-6);
}

/// Drivers that drop workgroup barriers lose parts of a sum.
pub fn r15_barriers_hold(device: &dyn Device) {
    let on = On(device);
    let up_to = |n: usize| (1..=n).map(|i| i as f32).collect::<Vec<_>>();
    assert_eq!(on.fold(Fold::Sum, &up_to(64), 64), [2080.0]);
    near(&on.fold(Fold::Sum, &up_to(4096), 4096), &[8_390_656.0], 1e-7);
}
