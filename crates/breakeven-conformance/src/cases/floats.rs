//! Area F: what floats do at their edges, the same on every device.

use breakeven_device::Device;
use breakeven_ir::{DType, Expr, ExprBuilder, Fold, Kernel, Layout, Map, Operand, ReduceRows, Row, Shape};

use super::On;
use super::on::{bytes, near};

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;

/// tanh made from exp overflows to NaN.
pub fn f01_tanh_saturates(device: &dyn Device) {
    let x = [0.0, 1e-30, 9.0109, 15.0, 20.0, 44.0, 45.0, 88.72, 88.73, 1000.0, 3.4e38, INF, -INF, NAN];
    let one = [1.0; 9];
    let want = [&[0.0, 1e-30, 0.999_999_94][..], &one, &[-1.0, f64::NAN]].concat();
    near(&On(device).map("tanh", &[], &[&x]), &want, 3e-7);
}

/// Activations inherit the overflow.
pub fn f02_activations_do_not_overflow(device: &dyn Device) {
    let on = On(device);
    let x = [-1e6, -1000.0, -88.8, -20.0, 19.8, 21.657_723, 1000.0, 1e6];
    for name in ["gelu", "gelu_tanh", "silu", "mish", "softplus", "sigmoid"] {
        let got = on.map(name, &[], &[&x]);
        assert!(got.iter().all(|y| y.is_finite()), "{name}: {got:?}");
        let large = if name == "sigmoid" { [1.0; 4] } else { [19.8, 21.657_723, 1000.0, 1e6] };
        near(&got[4..], &large.map(|y| f64::from(y as f32)), 1e-6);
        assert!(got[..2].iter().all(|&y| y == 0.0), "{name}: {got:?}");
    }
    let tail = f64::from(on.map("sigmoid", &[], &[&x])[2]);
    let is_right = (tail - 2.72e-39).abs() < 1e-41 || (!on.is_cpu() && tail == 0.0);
    assert!(is_right, "sigmoid(-88.8) is 2.72e-39, not {tail:e}");
}

/// Hardware maximum and minimum return the operand that is not NaN.
pub fn f03_nan_survives_extremes(device: &dyn Device) {
    let on = On(device);
    for n in [4, on.sized(10_000_000, if on.is_simulated() { 10_000 } else { 1_000_003 })] {
        let one = vec![1.0; n];
        let mut x = one.clone();
        x[n - 1] = NAN;
        let check = |name: &str, got: Vec<f32>| {
            assert!(got[n - 1].is_nan(), "{name} of {n}: {}", got[n - 1]);
            assert!(got[..n - 1].iter().all(|&y| y == 1.0), "{name} of {n}");
        };
        check("relu", on.map("relu", &[], &[&x]));
        check("clip", on.map("clip", &[0.0, 1.0], &[&x]));
        for name in ["maximum", "minimum"] {
            check(name, on.map(name, &[], &[&x, &one]));
            check(name, on.map(name, &[], &[&one, &x]));
        }
    }
}

/// Compilers for GPUs may assume that there is no NaN and fold `x != x` away.
pub fn f05_nan_is_found(device: &dyn Device) {
    let on = On(device);
    let x = [1.0, NAN, INF, -INF];
    assert_eq!(on.mask("is_nan", &[&x]), [false, true, false, false]);
    assert_eq!(on.mask("is_inf", &[&x]), [false, false, true, true]);
    assert_eq!(on.mask("not_equal", &[&x, &x]), [false, true, false, false]);
    let mut b = ExprBuilder::default();
    let (v, zero) = (b.arg(DType::F32), b.param(DType::F32));
    let nan = b.row(row("is_nan"), DType::F32, &[v]);
    let chosen = b.row(row("where"), DType::F32, &[nan, zero, v]);
    let map = Map::dense(b.finish(chosen), vec![0.0], 4);
    assert_eq!(on.call(Kernel::Map(map), vec![bytes(&x)])[0][..16], bytes(&[1.0, 0.0, INF, -INF]));
    assert_eq!(nan_count(on, &[x, x].concat()), 2.0);
}

fn row(name: &str) -> Row {
    Row::named(name).expect("a row of the table")
}

/// Truth values as numbers, summed in one kernel.
fn nan_count(on: On<'_>, x: &[f32]) -> f32 {
    let mut b = ExprBuilder::default();
    let v = b.arg(DType::F32);
    let nan = b.row(row("is_nan"), DType::F32, &[v]);
    let number = b.cast(nan, DType::F32);
    let operand = |shape: Shape| Operand::new(DType::F32, Layout::dense(shape));
    let kernel = Kernel::Reduce(ReduceRows {
        fold: Fold::Sum,
        outer: Shape::scalar(),
        inner: Shape::from(x.len()),
        pre: b.finish(number),
        post: Expr::identity(DType::F32),
        params: vec![],
        inputs: vec![operand(Shape::from(x.len()))],
        outs: vec![operand(Shape::scalar())],
    });
    f32::from_le_bytes(on.call(kernel, vec![bytes(x)])[0][..4].try_into().expect("one number"))
}

/// The sign of zero, which a GPU may lose.
pub fn f07_zero_keeps_its_sign(device: &dyn Device) {
    let on = On(device);
    let check = |got: Vec<f32>, want: f32| {
        let same = if on.is_cpu() { got[0].to_bits() == want.to_bits() } else { got[0] == want };
        assert!(same, "got {:?}, want {want:?}", got[0]);
    };
    check(on.map("neg", &[], &[&[0.0]]), -0.0);
    check(on.map("abs", &[], &[&[-0.0]]), 0.0);
    check(on.map("add", &[], &[&[-0.0], &[0.0]]), 0.0);
    let inverse = on.map("div", &[], &[&[1.0], &[-0.0]])[0];
    assert!(inverse == -INF || (!on.is_cpu() && inverse == INF), "1 / -0 is {inverse}");
    assert_eq!(on.mask("equal", &[&[-0.0], &[0.0]]), [true]);
}

/// A CPU keeps denormals and leaves the caller's rounding mode alone; a GPU may flush them.
pub fn f08_denormals_are_kept(device: &dyn Device) {
    let on = On(device);
    let n = on.sized(1_000_000, 1000);
    let got = on.map("mul", &[], &[&vec![1e-40; n], &vec![1.0; n]]);
    let is_right = |&y: &f32| y == 1e-40 || (!on.is_cpu() && y == 0.0);
    assert!(got.iter().all(is_right), "{:?}", got.iter().find(|y| !is_right(y)));
    let half = std::hint::black_box(1e-40f32) * std::hint::black_box(0.5);
    assert_eq!(half.to_bits(), 5e-41f32.to_bits(), "the caller's own arithmetic flushes denormals now");
}

/// A product that skips zeros loses NaN.
pub fn f11_nothing_times_infinity_is_nan(device: &dyn Device) {
    for x in [INF, NAN] {
        let got = On(device).product(&[0.0, 1.0], &[x, 2.0], [1, 2, 1]);
        assert!(got[0].is_nan(), "[[0, 1]] @ [[{x}], [2]] is {got:?}");
    }
}
