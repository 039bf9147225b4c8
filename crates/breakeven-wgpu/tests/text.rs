//! Every text is valid WGSL.

use std::collections::BTreeSet;

use breakeven_ir::{
    DType, Expr, Fold, Kernel, Layout, MAPS, Map, Operand, ReduceRows, Row, RowWise, RowWiseKernel, Shape,
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

fn reduce(fold: Fold, n: usize) -> Kernel {
    let dtype = fold.dtype(DType::F32).unwrap();
    Kernel::Reduce(ReduceRows {
        fold,
        outer: Shape::from(3),
        inner: Shape::from(n),
        pre: Expr::identity(DType::F32),
        post: Expr::identity(dtype),
        params: vec![],
        inputs: vec![operand(&[3, n])],
        outs: vec![Operand::new(dtype, Layout::dense([3]))],
    })
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

/// A text is a pipeline. Constants of it are how many invocations share a row, whether rows are whole quads, and, where loops are written
/// out as cards get them, how many quads an invocation has at once.
#[test]
fn five_hundred_lengths_share_few_texts() {
    type Of = fn(usize) -> Kernel;
    let kinds: [(&str, [usize; 2], Of); 4] = [
        ("sum", [11, 18], |n| reduce(Fold::Sum, n)),
        ("argmax", [11, 18], |n| reduce(Fold::ArgMax, n)),
        ("softmax", [12, 15], |n| row_wise(RowWise::Softmax, n)),
        ("layer_norm", [12, 15], |n| row_wise(RowWise::LayerNorm { epsilon: 1e-5 }, n)),
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
