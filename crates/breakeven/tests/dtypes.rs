//! Which type operations give: every pair of types against the table of docs/dtypes.md, and numbers beside tensors.

use breakeven::{DType, Engine, Tensor};

const TABLE: &str = include_str!("../../../docs/dtypes.md");

fn engine() -> Engine {
    Engine::builder().gpus(false).no_cache().build().expect("the CPU is there")
}

fn named(name: &str) -> DType {
    let name = name.trim().trim_matches('*');
    DType::ALL.into_iter().find(|d| d.name() == name).unwrap_or_else(|| panic!("{name} is no element type"))
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').collect()
}

#[test]
fn every_pair_of_types_meets_where_the_table_says() {
    let engine = engine();
    let one = |dtype| engine.full(dtype, 1.0, [2]);
    let mask = engine.full(DType::Bool, 1.0, [2]);
    let header = TABLE.lines().find(|line| line.starts_with("| |")).expect("the table has a header");
    let columns: Vec<DType> = cells(header)[1..].iter().map(|name| named(name)).collect();
    assert_eq!(columns, DType::ALL);
    let rows = TABLE.lines().filter(|line| line.starts_with("| **"));
    let mut pairs = 0;
    for row in rows.map(cells) {
        let left = named(row[0]);
        for (right, want) in columns.iter().zip(&row[1..]) {
            let got = mask.where_(&one(left), &one(*right));
            assert_eq!(got.dtype(), named(want), "{left} with {right}");
            assert_eq!(left.common(*right), right.common(left));
            if left != DType::Bool || *right != DType::Bool {
                let sum = one(left) + one(*right);
                assert_eq!(sum.cast(DType::F64).to_vec::<f64>().expect("a sum"), [2.0; 2], "{left} + {right}");
            }
            pairs += 1;
        }
    }
    assert_eq!(pairs, 13 * 13);
}

#[test]
fn numbers_beside_tensors_are_weak() {
    let engine = engine();
    for dtype in DType::ALL {
        let x = engine.full(dtype, 1.0, [2]);
        let (by_whole, by_float) = match dtype {
            DType::Bool => (DType::I64, DType::F32),
            d if d.is_float() => (d, d),
            d => (d, DType::F32),
        };
        assert_eq!((&x + 1).dtype(), by_whole, "{dtype} + 1");
        for sum in [&x + 1.0, &x + 1.0f32, 1.0 + &x] {
            assert_eq!(sum.dtype(), by_float, "{dtype} + 1.0");
            assert_eq!(sum.cast(DType::F32).to_vec::<f32>().expect("a sum"), [2.0; 2]);
        }
    }
}

#[test]
fn what_takes_floats_alone_says_to_cast() {
    let engine = engine();
    let x = engine.from_vec(vec![1i32, 4, 7], [3]);
    let check = |wrong: Tensor, name: &str| {
        let error = wrong.check().expect_err(name).to_string();
        assert!(error.contains(name) && error.contains("is not defined for i32; it takes floats: cast"), "{error}");
    };
    check(x.sqrt(), "sqrt");
    check(x.mean(0), "mean");
    check(x.var_mean(0).0, "var_mean");
    check(x.softmax(0), "softmax");
    assert_eq!(x.cast(DType::F32).mean(0).item::<f32>().expect("a mean"), 4.0);
    let quotient = engine.from_vec(vec![-7i32, 7, 7], [3]) / engine.from_vec(vec![2i32, 2, 0], [3]);
    assert_eq!(quotient.to_vec::<i32>().expect("a quotient"), [-3, 3, 0]);
}

#[test]
fn a_cast_in_a_chain_rounds_and_fused_operations_do_not() {
    let engine = engine();
    let x = engine.tensor(&[1.0 / 3.0], [1]).cast(DType::F16);
    let third = f32::from(breakeven::f16::from_f32(1.0 / 3.0));
    let chain = (&x * 3.0).cast(DType::F32);
    assert_eq!(chain.to_vec::<f32>().expect("a product"), [3.0 * third]);
    let rounded = engine.tensor(&[1.0 / 3.0], [1]).cast(DType::F16).cast(DType::F32) * 3.0;
    assert_eq!(rounded.to_vec::<f32>().expect("a product"), [3.0 * third]);
}
