//! Areas M and P: layouts and matrix products.

use breakeven_device::Device;
use breakeven_ir::{DType, Expr, Graph, Kernel, Layout, Map, Op, Operand, Row, Spec};

use super::On;
use super::on::{bytes, near};
use crate::{Case, run};

fn counted(n: usize, scale: f64) -> Vec<f32> {
    (0..n).map(|i| (i as f64 * scale) as f32).collect()
}

fn repeated(batch: usize) -> Layout {
    Layout::dense([1, 32, 32]).broadcast(&[batch, 32, 32].into()).expect("extents of 1 broadcast")
}

/// A batch that one matrix stands for.
pub fn m01_repeated_batches(device: &dyn Device) {
    let on = On(device);
    let (one, all) = (vec![1.0; 32 * 32], vec![1.0; 32 * 32 * 32]);
    let dense = || Layout::dense([32, 32, 32]);
    let check = |got: Vec<f32>| assert!(got.len() == 32_768 && got.iter().all(|&x| x == 32.0));
    check(on.matmul((&one, repeated(32)), (&all, dense())));
    check(on.matmul((&all, dense()), (&one, repeated(32))));
    check(on.matmul((&one, repeated(32)), (&one, repeated(32))));
}

/// Batches whose strides are not those of one long axis, as attention has them.
pub fn m02_every_batch_has_its_own_strides(device: &dyn Device) {
    let q = counted(24, 1.0);
    let layout = Layout::dense([2, 3, 2, 2]).permute(&[0, 2, 1, 3]);
    let got = On(device).matmul((&q, layout.clone()), (&q, layout.permute(&[0, 1, 3, 2])));
    assert_eq!(got[2 * 9..3 * 9], [313.0, 413.0, 513.0, 413.0, 545.0, 677.0, 513.0, 677.0, 841.0]);
}

/// Views that other libraries reject.
pub fn m04_views_multiply(device: &dyn Device) {
    let on = On(device);
    let x = counted(8 * 2048, 1e-3);
    let row = Layout::dense([1, 8, 2048]).slice(1, 7, 1, 1).reshape(&[1, 2048].into()).expect("one row");
    let w = vec![0.5; 32 * 2048];
    let want: f64 = x[7 * 2048..].iter().map(|&v| f64::from(v) * 0.5).sum();
    near(&on.matmul((&x, row), (&w, Layout::dense([32, 2048]).permute(&[1, 0]))), &[want; 32], 1e-5);
    let pair = Layout::dense([1, 1]).broadcast(&[1, 2].into()).expect("extents of 1 broadcast");
    assert_eq!(on.matmul((&[3.0], pair), (&[1.0, 2.0, 3.0, 4.0], Layout::dense([2, 2]))), [12.0, 18.0]);
    let t = on.sized(1250, 65);
    let stored = Layout::dense([1, t, 8, 52]).permute(&[0, 2, 1, 3]);
    let ones = vec![1.0; t * 8 * 52];
    let got = on.matmul((&ones, stored.clone()), (&ones, stored.permute(&[0, 1, 3, 2])));
    assert!(got.len() == 8 * t * t && got.iter().all(|&v| v == 52.0));
}

/// A product whose result is zero everywhere in some configuration.
pub fn m05_nothing_comes_out_zero(device: &dyn Device) {
    let on = On(device);
    let sine = |n: usize, step: f64| (0..n).map(|i| (i as f64 * step).sin() as f32).collect::<Vec<_>>();
    let (batch, n) = if on.is_simulated() { (1, 64) } else { (8, 512) };
    let (a, b) = (sine(8 * 512 * 512, 0.001), sine(8 * 512 * 32, 0.003));
    let left = Layout::dense([8, 512, 512]).slice(0, 0, batch, 1).slice(1, 0, n, 1);
    let right = Layout::dense([8, 512, 32]).slice(0, 0, batch, 1);
    let got = on.matmul((&a, left), (&b, right));
    near(&got[..3], &[-2.1170, -2.1312, -2.1455], 1e-4);
    if !on.is_simulated() {
        near(&got[got.len() - 1..], &[-9.7952], 1e-4);
        let square: f64 = got.iter().map(|&x| f64::from(x).powi(2)).sum();
        assert!((square.sqrt() - 2151.255).abs() < 0.01, "the norm is {}", square.sqrt());
    }
}

/// Copies between views of one shape; there is no call that changes a tensor.
pub fn m07_copies_between_views(device: &dyn Device) {
    let copy = |input: Layout, x: &[f32], out: Layout| {
        let operand = |l| Operand::new(DType::F32, l);
        let map =
            Map { expr: Expr::identity(DType::F32), params: vec![], inputs: vec![operand(input)], out: operand(out) };
        On(device).call(Kernel::Map(map), vec![bytes(x)]).swap_remove(0)
    };
    let column = Layout::dense([2, 1]).broadcast(&[2, 2].into()).expect("extents of 1 broadcast");
    assert_eq!(copy(column, &[0.0, 1.0], Layout::dense([2, 2]))[..16], bytes(&[0.0, 0.0, 1.0, 1.0]));
    let across = Layout::dense([3, 2]).permute(&[1, 0]);
    let turned = copy(Layout::dense([2, 3]), &counted(6, 1.0), across);
    assert_eq!(turned[..24], bytes(&[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]));
}

/// Sizes that are not square, with whole numbers, so that sums are exact.
pub fn m10_sides_are_not_swapped(device: &dyn Device) {
    let digit = |c: char| c.to_digit(16).expect("a hexadecimal digit") as f32 - 8.0;
    let (a, b) = include_str!("../../data/m10.txt").split_once("\n\n").expect("two matrices");
    let numbers = |text: &str| text.chars().filter(|c| !c.is_whitespace()).map(digit).collect::<Vec<_>>();
    let got = On(device).product(&numbers(a), &numbers(b), [13, 101, 7]);
    let (sum, size): (f32, f32) = (got.iter().sum(), got.iter().map(|x| x.abs()).sum());
    assert_eq!((sum, size), (3401.0, 14_867.0));
}

/// Products with a vector on either side; how fast they are is measured elsewhere.
pub fn m11_vectors_multiply(device: &dyn Device) {
    let on = On(device);
    let full = |n: usize| on.sized(n, n.min(257));
    for [m, k, n] in [[1, full(12_544), full(1029)], [1, full(10_000), 10], [full(4096), full(4096), 1]] {
        let a: Vec<f32> = (0..m * k).map(|i| (i % 5) as f32).collect();
        let b: Vec<f32> = (0..k * n).map(|i| (i % 3) as f32).collect();
        let got = on.product(&a, &b, [m, k, n]);
        for (i, j) in [(0, 0), (m - 1, n - 1), (m / 2, n / 3)] {
            let want: f32 = (0..k).map(|p| a[i * k + p] * b[p * n + j]).sum();
            assert_eq!(got[i * n + j], want, "[{i}, {j}] of {m}x{k}x{n}");
        }
    }
}

/// More terms than one running sum bears, and more columns than rows.
pub fn m12_many_terms(device: &dyn Device) {
    let on = On(device);
    let k = if on.is_simulated() { 1 << 12 } else { on.sized(1 << 25, 1 << 20) };
    let one = |shape: [usize; 2]| Layout::dense([1, 1]).broadcast(&shape.into()).expect("extents of 1 broadcast");
    assert_eq!(on.matmul((&[1.0], one([1, k])), (&[1.0], one([k, 1]))), [k as f32]);
    let k = if on.is_simulated() { 64 } else { on.sized(65_536, 4096) };
    let n = on.sized(256, 16);
    let sine = |step: f64| (0..n * k).map(|i| (i as f64 * step).sin() as f32).collect::<Vec<_>>();
    let (a, b) = (sine(0.37), sine(0.73));
    let got = on.product(&a, &b, [n, k, n]);
    for (i, j) in [(0, 0), (n - 1, n - 1), (3, n - 2), (n / 2, 1)] {
        let terms = || (0..k).map(|p| f64::from(a[i * k + p]) * f64::from(b[p * n + j]));
        let (want, size): (f64, f64) = (terms().sum(), terms().map(f64::abs).sum());
        let got = f64::from(got[i * n + j]);
        assert!((got - want).abs() <= 1e-5 * size, "[{i}, {j}]: {got} instead of {want}");
    }
}

/// Lengths of both sides are checked by the rules, and tails are right.
pub fn m13_tails_of_every_length(device: &dyn Device) {
    let mut graph = Graph::new();
    let (a, b) = (graph.input(Spec::new(DType::F32, [1, 7])), graph.input(Spec::new(DType::F32, [8, 1])));
    let error = graph.add(Op::matmul(), &[a, b]).expect_err("7 terms against 8").to_string();
    assert!(error.contains("7 columns") && error.contains("8 rows"), "{error}");
    for n in 0..=70 {
        let x = counted(n, 1.0);
        let want = (0..n).map(|i| i * i).sum::<usize>() as f32;
        assert_eq!(On(device).product(&x, &x, [1, n, 1]), [want], "dot of {n}");
    }
}

/// One buffer as both inputs and as the output, and parts of one buffer that overlap.
pub fn m18_one_buffer_read_twice_and_written(device: &dyn Device) {
    let add = |n: usize| Map::dense(Expr::row(Row::named("add").expect("a row"), DType::F32), vec![], n);
    let x = counted(100, 1.0);
    let once = |kernel: Map, in_place: Option<usize>| {
        let kernel = Kernel::Map(kernel);
        let case =
            Case { name: "add".into(), kernel, buffers: vec![bytes(&x)], bound: vec![0, 0], in_place, before: None };
        let got = run(device, &[case]).unwrap_or_else(|e| panic!("{}: {e}", device.info().name));
        got[0][0].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four"))).collect::<Vec<_>>()
    };
    let doubled: Vec<f32> = x.iter().map(|v| v + v).collect();
    assert_eq!(once(add(100), Some(0))[..100], doubled);
    for step in [1, 50] {
        let mut parts = add(100 - step);
        parts.inputs[0].layout.offset = step;
        let got = once(parts, None);
        let want: Vec<f32> = (0..100 - step).map(|i| x[i] + x[i + step]).collect();
        assert_eq!(got[..100 - step], want, "{step} apart");
    }
}

/// Blocks inside larger ones full of NaN.
pub fn p04_poison_stays_out(device: &dyn Device) {
    let inside = |[m, n]: [usize; 2], scale: f32| {
        let (rows, columns) = (m + 3, n + 5);
        let layout = Layout::dense([rows, columns]).slice(0, 2, m, 1).slice(1, 1, n, 1);
        let mut x = vec![f32::NAN; rows * columns];
        layout.positions().enumerate().for_each(|(i, at)| x[at] = i as f32 * scale);
        (x, layout)
    };
    let ((a, left), (b, right)) = (inside([3, 17], 0.5), inside([17, 5], 0.25));
    let want = [
        [935.0, 952.0, 969.0, 986.0, 1003.0],
        [2380.0, 2433.125, 2486.25, 2539.375, 2592.5],
        [3825.0, 3914.25, 4003.5, 4092.75, 4182.0],
    ];
    assert_eq!(On(device).matmul((&a, left), (&b, right)), want.concat());
}
