//! Every text is valid WGSL.

use breakeven_ir::{DType, Expr, Kernel, MAPS, Map, Row};

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
