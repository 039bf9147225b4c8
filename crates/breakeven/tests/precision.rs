//! Precision of matrix products: part of the graph and of what was frozen, told by explanations, and the engine's unless a call
//! says otherwise.

use breakeven::{DType, Engine, Frozen, Precision, Settings, Tensor};

fn engine(precision: Precision) -> Engine {
    let settings = Settings { gpus: false, cache: breakeven::Cache::Off, precision, ..Settings::default() };
    Engine::builder().settings(settings).build().expect("the CPU is there")
}

/// A product of matrices of ones and of a number that bf16 does not have.
fn factors(engine: &Engine, dtype: DType) -> (Tensor, Tensor) {
    let x = engine.full(DType::F32, 1.0 + 1.0 / 256.0, [8, 8]).cast(dtype);
    (x, engine.full(dtype, 1.0, [8, 8]))
}

fn text(engine: &Engine, of: &Tensor) -> String {
    engine.explain(&[of]).expect("it is planned").to_string()
}

#[test]
fn explanations_say_what_was_asked_and_what_ran() {
    let engine = engine(Precision::Highest);
    let (a, b) = factors(&engine, DType::F32);
    assert!(!text(&engine, &a.matmul(&b)).contains("precision"));
    for precision in [Precision::High, Precision::Medium] {
        let (product, asked) = (a.matmul_with(&b, precision), format!("at {precision} precision ("));
        let told = text(&engine, &product);
        assert!(told.contains(&asked) && told.contains("products"), "{told}");
        let report = engine.run(&[&product]).expect("it runs");
        assert!(report.to_string().contains("products"), "{report}");
        let products =
            report.plan.decisions.iter().find_map(|d| d.products.clone()).expect("one decision has products");
        let got = product.to_vec::<f32>().expect("it was computed");
        let want = if products.starts_with("bf16") { 8.0 } else { 8.0 + 8.0 / 256.0 };
        assert_eq!(got, [want; 64], "{products}");
    }
    let whole =
        engine.full(DType::F64, 1.0, [8, 8]).matmul_with(&engine.full(DType::F64, 1.0, [8, 8]), Precision::Medium);
    assert!(!text(&engine, &whole).contains("precision"), "f64 does not depend on it");
}

#[test]
fn an_engine_has_a_precision_of_its_own() {
    let engine = engine(Precision::Medium);
    let (a, b) = factors(&engine, DType::F32);
    let medium = "at medium precision";
    assert!(text(&engine, &a.matmul(&b)).contains(medium));
    assert!(text(&engine, &breakeven::einsum("ij,jk->ik", &[&a, &b])).contains(medium));
    let exact = a.matmul_with(&b, Precision::Highest);
    assert!(!text(&engine, &exact).contains("precision"));
    assert_eq!(exact.to_vec::<f32>().expect("a product"), [8.0 + 8.0 / 256.0; 64]);
}

#[test]
fn a_plan_is_frozen_with_its_precision() {
    let engine = engine(Precision::Highest);
    let (a, b) = factors(&engine, DType::F32);
    let medium = || a.matmul_with(&b, Precision::Medium);
    let first = medium();
    let plan = engine.run(&[&first]).expect("it runs").plan;
    let written = serde_json::to_string(&plan.freeze()).expect("it can be written");
    let frozen: Frozen = serde_json::from_str(&written).expect("it comes back");
    let again = medium();
    engine.run_frozen(&[&again], &frozen).expect("it is the same graph");
    assert_eq!(first.to_vec::<f32>().expect("a product"), again.to_vec::<f32>().expect("a product"));
    for other in [Precision::Highest, Precision::High] {
        let product = a.matmul_with(&b, other);
        assert!(engine.run_frozen(&[&product], &frozen).is_err(), "{other}: another graph");
    }
}
