//! The rows against values computed elsewhere (`data/make_values.py`): the reference, and the f32 algorithms.

mod lanes;

use std::collections::HashMap;

use breakeven_ir::{DType, Family, Kind, MAPS, MapDef, Row, Scalar};
use lanes::{Double, FUSED, Single, UNFUSED, call, ulps};
use serde_json::Value;

/// One right value of one row.
struct Case {
    row: &'static MapDef,
    dtype: DType,
    args: Vec<Scalar>,
    params: Vec<f64>,
    want: Scalar,
    read: String,
}

fn bits32(text: &str) -> f64 {
    f64::from(f32::from_bits(u32::from_str_radix(text, 16).expect("bits of a f32")))
}

fn argument(dtype: DType, text: &str) -> Scalar {
    match text {
        "true" | "false" => Scalar::B(text == "true"),
        _ if dtype.is_float() => Scalar::F(bits32(text)),
        _ => Scalar::I(text.parse().expect("an integer")),
    }
}

fn result(dtype: DType, text: &str) -> Scalar {
    match text {
        "true" | "false" => Scalar::B(text == "true"),
        "nan" => Scalar::F(f64::NAN),
        _ if dtype.is_float() => Scalar::F(f64::from_bits(u64::from_str_radix(text, 16).expect("bits of a f64"))),
        _ => Scalar::I(text.parse().expect("an integer")),
    }
}

fn case(line: &Value) -> Case {
    let text = |key: &str| line[key].as_str().expect("a text").to_string();
    let list = |key: &str| -> Vec<String> {
        let texts = line[key].as_array().expect("a list").iter();
        texts.map(|t| t.as_str().expect("a text").to_string()).collect()
    };
    let dtype = DType::ALL.into_iter().find(|d| d.name() == text("dtype")).expect("an element type");
    Case {
        row: Row::named(&text("row")).unwrap_or_else(|| panic!("{} is not a row", text("row"))).0,
        dtype,
        args: list("args").iter().map(|t| argument(dtype, t)).collect(),
        params: list("params").iter().map(|t| argument(dtype, t).to_f64()).collect(),
        want: result(dtype, &text("want")),
        read: text("read"),
    }
}

fn cases() -> Vec<Case> {
    let table: Value = serde_json::from_str(include_str!("data/values.json")).expect("values.json is JSON");
    table.as_array().expect("a list").iter().map(case).collect()
}

/// Equal for integers and truth values; for floats alike to 12 digits, zeros by sign.
fn agrees(got: Scalar, want: Scalar, row: &MapDef) -> bool {
    let (Scalar::F(got), Scalar::F(want)) = (got, want) else { return got == want };
    if got.is_nan() || want.is_nan() {
        return got.is_nan() && want.is_nan();
    }
    let is_near = (got - want).abs() <= 1e-12 * want.abs() + 1e-8 * row.tolerance.abs;
    got == want && got.is_sign_negative() == want.is_sign_negative() || is_near && want != 0.0
}

#[test]
fn the_reference_agrees_with_values_computed_elsewhere() {
    let mut wrong = Vec::new();
    for case in cases() {
        let got = case.row.body(case.dtype).eval(&case.args, &case.params);
        if !agrees(got, case.want, case.row) {
            wrong.push(format!("{}: the reference gives {got:?}", case.read));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What the row gives in f32 on a device of kind `K`.
fn compute<const K: u8>(case: &Case) -> f32 {
    let name = if case.row.name == "where" { "where_" } else { case.row.name };
    let operands = case.args.iter().map(|a| a.to_f64()).chain(case.params.iter().copied());
    let operands: Vec<Single<K>> = operands.map(|x| Single(x as f32)).collect();
    call(name, &operands).expect("a row over floats").0
}

#[test]
fn the_f32_algorithms_agree_with_values_computed_elsewhere() {
    let mut wrong = Vec::new();
    for case in cases().iter().filter(|c| c.dtype == DType::F32) {
        let (want, tolerance) = (case.want.to_f64(), case.row.tolerance);
        for (kind, got) in [("fused", compute::<FUSED>(case)), ("unfused", compute::<UNFUSED>(case))] {
            let error = ulps(got, want);
            let is_near = error.is_finite() && (f64::from(got) - want).abs() <= tolerance.abs;
            let limit = f64::from(tolerance.ulp).max(0.500_001);
            if error > limit && !is_near {
                wrong.push(format!("{}: {got:e} ({kind}) is off by {error} ULP", case.read));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_row_has_values_computed_elsewhere() {
    let mut counts: HashMap<(&str, DType), usize> = HashMap::new();
    for case in cases() {
        assert!(case.row.family.has(case.dtype), "{}: not a type of the row", case.read);
        *counts.entry((case.row.name, case.dtype)).or_default() += 1;
    }
    for def in MAPS {
        let (dtypes, least) = match def.family {
            Family::Any | Family::Number => (vec![DType::F32, DType::I32, DType::I64, DType::U8], 10),
            Family::Float => (vec![DType::F32], 16),
            Family::Integer => (vec![DType::I32, DType::I64, DType::U8], 10),
            Family::Word => (vec![DType::U32], 16),
            // All there are.
            Family::Logic => (vec![DType::Bool], 1 << def.args.len()),
        };
        let count = |d: &DType| counts.get(&(def.name, *d)).copied().unwrap_or(0);
        let total: usize = dtypes.iter().map(count).sum();
        assert!(dtypes.iter().all(|d| count(d) >= least), "{}: too few values of one type", def.name);
        assert!(total >= 16 || def.family == Family::Logic, "{}: {total} values", def.name);
    }
}

#[test]
fn the_lane_that_other_tests_call_the_truth_is_the_reference() {
    let mut wrong = Vec::new();
    for case in cases().iter().filter(|c| c.dtype == DType::F32) {
        let name = if case.row.name == "where" { "where_" } else { case.row.name };
        let operands = case.args.iter().map(|a| a.to_f64()).chain(case.params.iter().copied());
        let operands: Vec<Double> = operands.map(Double).collect();
        let got = call(name, &operands).expect("a row over floats").0;
        let want = if case.row.out == Kind::M { Scalar::F(case.want.to_f64()) } else { case.want };
        if !agrees(Scalar::F(got), want, case.row) {
            wrong.push(format!("{}: {got:e}", case.read));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
