//! Arrays of the crate `ndarray` become tensors and come back.
#![cfg(feature = "ndarray")]

use breakeven::Engine;
use ndarray::{Array, ArrayD, IxDyn, arr0, array, s};

fn engine() -> Engine {
    Engine::builder().gpus(false).no_cache().build().expect("the CPU is there")
}

#[test]
fn any_view_keeps_its_elements_where_they_are() {
    let engine = engine();
    let whole = Array::from_shape_fn((4, 5, 3), |(i, j, k)| (100 * i + 10 * j + k) as f32);
    let views = [whole.view(), whole.slice(s![1..;2, ..;-1, 1..2]), whole.view().permuted_axes([2, 0, 1])];
    for view in views {
        let back: ArrayD<f32> = engine.from_ndarray(&view).to_ndarray().expect("f32");
        assert_eq!(back, view.into_dyn());
    }
}

#[test]
fn other_types_and_ranks_work() {
    let engine = engine();
    assert_eq!(engine.from_ndarray(&arr0(7i64)).to_ndarray::<i64>().expect("i64"), arr0(7i64).into_dyn());
    let truths = array![[true, false]];
    assert_eq!(engine.from_ndarray(&truths).to_ndarray::<bool>().expect("bool"), truths.into_dyn());
    let empty = Array::<f32, _>::zeros((0, 3));
    assert_eq!(engine.from_ndarray(&empty).to_ndarray::<f32>().expect("f32").shape(), [0, 3]);
    let product = engine.from_ndarray(&array![[1f32, 2.0]]).matmul(&engine.from_ndarray(&array![[3f32], [4.0]]));
    assert_eq!(product.to_ndarray::<f32>().expect("f32"), array![[11f32]].into_dyn());
}

#[test]
fn what_does_not_fit_is_an_error_at_the_callers_line() {
    let engine = engine();
    let deep = engine.from_ndarray(&ArrayD::<f32>::zeros(IxDyn(&[1; 9])));
    let error = deep.check().expect_err("rank 9").to_string();
    assert!(error.contains("rank 9") && error.contains("tests/ndarray.rs"), "{error}");
    assert!(engine.from_ndarray(&array![1f32]).to_ndarray::<i64>().expect_err("f32").to_string().contains("cast it"));
}
