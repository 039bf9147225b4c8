//! What folds and sweeps of rows promise beside being right: the same bits however the work is shared out.

mod common;

use breakeven_ir::{
    DType, Expr, ExprBuilder, Fold, Kernel, Layout, Map, Operand, ReduceRows, Row, RowWise, RowWiseKernel,
};
use common::{Near, Random, check, device, devices, run};

fn dense(length: usize) -> Operand {
    Operand::new(DType::F32, Layout::dense([1, length]))
}

fn fold(fold: Fold, pre: Expr, length: usize) -> Kernel {
    let result = fold.dtype(pre.dtype()).expect("a fold of floats");
    let outs = if fold == Fold::Moments { 2 } else { 1 };
    Kernel::Reduce(ReduceRows {
        fold,
        outer: [1].into(),
        inner: [length].into(),
        inputs: pre.args().iter().map(|_| dense(length)).collect(),
        pre,
        post: Expr::identity(result),
        params: Vec::new(),
        outs: vec![Operand::new(result, Layout::dense([1])); outs],
    })
}

fn sweep(kind: RowWise, length: usize) -> Kernel {
    Kernel::RowWise(RowWiseKernel {
        kind,
        outer: [1].into(),
        length,
        pre: Expr::identity(DType::F32),
        post: Expr::identity(DType::F32),
        params: Vec::new(),
        inputs: vec![dense(length)],
        out: dense(length),
    })
}

fn product() -> Expr {
    Expr::row(Row::named("mul").expect("a row"), DType::F32)
}

fn square() -> Expr {
    let mut b = ExprBuilder::default();
    let x = b.arg(DType::F32);
    let y = b.row(Row::named("mul").expect("a row"), DType::F32, &[x, x]);
    b.finish(y)
}

const LENGTHS: [usize; 12] = [1, 5, 15, 16, 63, 64, 100, 1000, 1024, 1025, 40_000, 70_001];

#[test]
fn products_are_summed_as_if_they_were_in_memory() {
    let mut random = Random(21);
    let devices = devices();
    for length in LENGTHS {
        for pre in [product(), square()] {
            let map = Kernel::Map(Map::dense(pre.clone(), Vec::new(), [1, length]));
            let inputs: Vec<Vec<u8>> = map.inputs().into_iter().map(|o| random.fill(o, false)).collect();
            for way in [Fold::Sum, Fold::Mean] {
                for device in &devices {
                    let products = run(device, &map, &inputs).expect("it runs");
                    let want = run(device, &fold(way, Expr::identity(DType::F32), length), &products).expect("it runs");
                    let got = run(device, &fold(way, pre.clone(), length), &inputs).expect("it runs");
                    assert_eq!(got, want, "{way:?} of {length} on {device:?}");
                    check(device, &fold(way, pre.clone(), length), &inputs, Near(1e-5, 1e-3));
                }
            }
        }
    }
}

#[test]
fn long_rows_are_the_same_on_any_number_of_threads_and_instructions() {
    let mut random = Random(22);
    let folds = [Fold::Sum, Fold::Mean, Fold::Max, Fold::Min, Fold::ArgMax, Fold::Moments];
    let kinds = [
        RowWise::Softmax,
        RowWise::LogSoftmax,
        RowWise::LayerNorm { epsilon: 1e-5 },
        RowWise::RmsNorm { epsilon: 1e-5 },
    ];
    for length in [32_768, 32_769, 100_003] {
        let kernels = folds.iter().map(|&way| fold(way, Expr::identity(DType::F32), length));
        let kernels: Vec<Kernel> = kernels.chain(kinds.iter().map(|&kind| sweep(kind, length))).collect();
        let input = vec![random.fill(&dense(length), false)];
        for isa in breakeven_cpu::Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let devices = [1, 2, 5].map(|threads| device(isa, threads));
            for kernel in &kernels {
                let want = run(&devices[0], kernel, &input).expect("it runs");
                for device in &devices[1..] {
                    assert!(run(device, kernel, &input).expect("it runs") == want, "{kernel:?} on {device:?}");
                }
                check(&devices[0], kernel, &input, Near(1e-5, 1e-5));
            }
        }
    }
}

#[test]
fn one_nan_makes_an_extreme_nan_and_opposite_infinities_do_not() {
    let devices = devices();
    let bytes = |values: &[f32]| vec![values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>()];
    for device in &devices {
        for length in [1, 3, 4, 16, 17, 63, 64, 65, 130, 1030] {
            for at in (0..length).step_by(1 + length / 70) {
                let mut values: Vec<f32> = (0..length).map(|i| (i * 7919 % 61) as f32).collect();
                values[at] = f32::NAN;
                for way in [Fold::Max, Fold::Min] {
                    check(device, &fold(way, Expr::identity(DType::F32), length), &bytes(&values), Near(0.0, 0.0));
                }
                (values[at], values[(at + 5) % length]) = (f32::INFINITY, f32::NEG_INFINITY);
                for way in [Fold::Max, Fold::Min] {
                    check(device, &fold(way, Expr::identity(DType::F32), length), &bytes(&values), Near(0.0, 0.0));
                }
            }
        }
    }
}
