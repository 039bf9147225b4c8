//! Every text is valid WGSL.

use std::collections::BTreeSet;

use breakeven_ir::{
    DType, Expr, Fold, Kernel, Layout, MAPS, Map, Operand, ReduceRows, Row, RowWise, RowWiseKernel, ScanRows, Shape,
};
use breakeven_wgpu::{Limits, WgpuBackend, WgpuOptions};

mod common;

fn validate(text: &str) {
    let module = naga::front::wgsl::parse_str(text).unwrap_or_else(|e| panic!("{}\n{text}", e.emit_to_string(text)));
    naga::valid::Validator::new(naga::valid::ValidationFlags::all(), naga::valid::Capabilities::empty())
        .validate(&module)
        .unwrap_or_else(|e| panic!("{e:?}\n{text}"));
}

#[test]
fn every_row_is_valid_wgsl_at_every_type() {
    let device = &common::devices()[0];
    for def in MAPS {
        for dtype in DType::ALL.into_iter().filter(|&d| d != DType::F64) {
            if def.family.has(dtype) {
                let expr = Expr::row(Row(def), dtype);
                let params = vec![1.0; expr.params()];
                device.texts(&Kernel::Map(Map::dense(expr, params, 64))).unwrap().iter().for_each(|t| validate(t));
            }
        }
    }
}

/// A driver that takes `(x * r) * r` for `x * (r * r)` loses a square that is denormal: on an H100 silu(-88.8) was -0.
#[test]
fn a_product_is_hidden_from_a_factor_it_meets_again() {
    let text = |name: &str| {
        let kernel = Kernel::Map(Map::dense(Expr::row(Row::named(name).unwrap(), DType::F32), vec![], 64));
        common::devices()[0].texts(&kernel).unwrap().concat()
    };
    let hides = |text: &str| text.lines().any(|line| line.contains("f_hold(v") && line.contains(" * v"));
    for name in ["silu", "gelu_tanh"] {
        assert!(hides(&text(name)), "{}", text(name));
    }
    assert!(!hides(&text("mul")), "no product meets its factor again");
}

fn operand(shape: &[usize]) -> Operand {
    Operand::new(DType::F32, Layout::dense(shape))
}

/// Of three rows, whose elements lie as `input` says.
fn reduce_of(fold: Fold, input: Layout) -> Kernel {
    let dtype = fold.dtype(DType::F32).unwrap();
    Kernel::Reduce(ReduceRows {
        fold,
        outer: Shape::from(3),
        inner: Shape::from(input.shape[1]),
        pre: Expr::identity(DType::F32),
        post: Expr::identity(dtype),
        params: vec![],
        inputs: vec![Operand::new(DType::F32, input)],
        outs: vec![Operand::new(dtype, Layout::dense([3])); fold.outputs()],
    })
}

fn reduce(fold: Fold, n: usize) -> Kernel {
    reduce_of(fold, Layout::dense([3, n]))
}

/// Over the leading axis.
fn across(fold: Fold, n: usize) -> Kernel {
    reduce_of(fold, Layout::dense([n, 3]).permute(&[1, 0]))
}

fn scan(n: usize) -> Kernel {
    let [input, out] = [operand(&[3, n]), operand(&[3, n])];
    Kernel::Scan(ScanRows { fold: Fold::Sum, outer: Shape::from(3), length: n, exclusive: false, input, out })
}

fn row_wise(kind: RowWise, length: usize) -> Kernel {
    Kernel::RowWise(RowWiseKernel {
        kind,
        outer: Shape::from(3),
        length,
        pre: Expr::identity(DType::F32),
        post: Expr::identity(DType::F32),
        params: vec![],
        inputs: vec![operand(&[3, length])],
        out: operand(&[3, length]),
    })
}

/// A text is a pipeline. Constants of it are whether a row is one element, whether rows are whole quads, how many of these an invocation of
/// a norm holds, and whether rows are so short, or lie so, that each is one invocation's.
#[test]
fn five_hundred_lengths_share_few_texts() {
    type Of = fn(usize) -> Kernel;
    let kinds: [(&str, [usize; 2], Of); 9] = [
        ("sum", [5, 5], |n| reduce(Fold::Sum, n)),
        ("argmax", [5, 5], |n| reduce(Fold::ArgMax, n)),
        ("var_mean", [5, 5], |n| reduce(Fold::Moments, n)),
        ("sum across", [3, 4], |n| across(Fold::Sum, n)),
        ("argmax across", [3, 4], |n| across(Fold::ArgMax, n)),
        ("softmax", [5, 5], |n| row_wise(RowWise::Softmax, n)),
        ("layer_norm", [5, 5], |n| row_wise(RowWise::LayerNorm { epsilon: 1e-5 }, n)),
        ("rms_norm", [5, 5], |n| row_wise(RowWise::RmsNorm { epsilon: 1e-5 }, n)),
        ("cumsum", [3, 3], scan),
    ];
    for (column, terse) in [true, false].into_iter().enumerate() {
        let backend = WgpuBackend::new(WgpuOptions { terse: Some(terse), ..common::options(Limits::Adapter) });
        let device = backend.open_device(backend.software_adapters()[0]).unwrap();
        for (name, most, kernel) in &kinds {
            let lengths = (0..500).map(|i| 1 + i * 7 % 1000);
            let texts: BTreeSet<String> = lengths.flat_map(|n| device.texts(&kernel(n)).unwrap()).collect();
            println!("{name}, terse: {terse}: {} texts", texts.len());
            assert!(texts.len() <= most[column], "{name}, terse: {terse}: {} texts", texts.len());
        }
    }
}
