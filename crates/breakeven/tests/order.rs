//! Sorting, the largest and smallest, and what depends on which values there are.

use breakeven::{DType, Engine, Tensor, UniqueOrder};

fn engine() -> Engine {
    Engine::builder().gpus(false).no_cache().build().unwrap()
}

fn check(tensor: &Tensor, shape: &[usize], want: &[i64]) {
    assert_eq!(&tensor.shape()[..], shape);
    assert_eq!(tensor.cast(DType::I64).to_vec::<i64>().unwrap(), want);
}

#[test]
fn equals_keep_their_order_both_ways_and_nan_is_the_largest() {
    let e = engine();
    let x = e.tensor(&[2.0, f32::NAN, -0.0, 1.0, 0.0, 2.0, f32::NEG_INFINITY, f32::NAN], [8]);
    let (values, indices) = x.sort(0, false);
    check(&indices, &[8], &[6, 2, 4, 3, 0, 5, 1, 7]);
    let values = values.to_vec::<f32>().unwrap();
    assert_eq!(values[..6], [f32::NEG_INFINITY, 0.0, 0.0, 1.0, 2.0, 2.0]);
    assert!(values[1].is_sign_negative() && values[2].is_sign_positive() && values[6..].iter().all(|x| x.is_nan()));
    check(&x.argsort(-1, true), &[8], &[1, 7, 0, 5, 3, 2, 4, 6]);
    let (_, indices) = x.topk(3, 0, true);
    check(&indices, &[3], &[1, 7, 0]);
    check(&x.topk(2, 0, false).1, &[2], &[6, 2]);
}

#[test]
fn any_axis_is_sorted_and_either_output_may_be_all_that_is_wanted() {
    let e = engine();
    let x = e.from_vec(vec![5i32, 1, 4, 2, 3, 9, 7, 8, 6, 0, 5, 1], [2, 3, 2]);
    let (values, indices) = x.sort(1, false);
    check(&values, &[2, 3, 2], &[3, 1, 4, 2, 5, 9, 5, 0, 6, 1, 7, 8]);
    check(&indices, &[2, 3, 2], &[2, 0, 1, 1, 0, 2, 2, 1, 1, 2, 0, 0]);
    let (values, _) = (&x * 2).sort(0, true);
    check(&(values + 1), &[2, 3, 2], &[15, 17, 13, 5, 11, 19, 11, 3, 9, 1, 7, 3]);
    let (values, indices) = x.permute(&[2, 0, 1]).topk(1, -1, true);
    check(&values.squeeze(-1), &[2, 2], &[5, 7, 9, 8]);
    check(&(indices + 10), &[2, 2, 1], &[10, 10, 12, 10]);
    // Pairs along the last axis: 5 1, 4 2, 3 9; 7 8, 6 0, 5 1.
    check(&x.permute(&[2, 1, 0]).argsort(0, false), &[2, 3, 2], &[1, 0, 1, 1, 0, 1, 0, 1, 0, 0, 1, 0]);
}

#[test]
fn nothing_and_one_are_in_order_and_too_many_are_refused() {
    let e = engine();
    let x = e.tensor(&[], [0, 3]);
    check(&x.argsort(0, false), &[0, 3], &[]);
    check(&e.tensor(&[1.0], [1]).argsort(0, true), &[1], &[0]);
    check(&e.tensor(&[1.0, 2.0], [2]).topk(0, 0, true).1, &[0], &[]);
    let text = e.tensor(&[1.0, 2.0], [2]).topk(3, 0, true).0.check().unwrap_err().to_string();
    assert!(text.contains("3 elements are to be kept of an axis of extent 2"), "{text}");
    assert!(x.sort(2, false).0.check().is_err());
}

#[test]
fn places_of_what_is_not_zero() {
    let e = engine();
    let x = e.tensor(&[1.0, 0.0, -0.0, f32::NAN, 0.0, 2.0], [2, 3]);
    check(&x.nonzero().unwrap(), &[2, 3], &[0, 1, 1, 0, 0, 2]);
    check(&e.from_vec(vec![false, true, true], [3]).nonzero().unwrap(), &[1, 2], &[1, 2]);
    check(&e.tensor(&[3.0], ()).nonzero().unwrap(), &[0, 1], &[]);
    check(&e.tensor(&[0.0; 4], [4]).nonzero().unwrap(), &[1, 0], &[]);
}

#[test]
fn different_values_are_found_in_either_order() {
    let e = engine();
    let x = e.tensor(&[2.0, 1.0, 1.0, 3.0, 4.0, 3.0], [6]);
    let sorted = x.unique(None, UniqueOrder::Sorted).unwrap();
    check(&sorted.values, &[4], &[1, 2, 3, 4]);
    check(&sorted.indices, &[4], &[1, 0, 3, 4]);
    check(&sorted.inverse, &[6], &[1, 0, 0, 2, 3, 2]);
    check(&sorted.counts, &[4], &[2, 1, 2, 1]);
    let seen = x.unique(None, UniqueOrder::FirstSeen).unwrap();
    check(&seen.values, &[4], &[2, 1, 3, 4]);
    check(&seen.indices, &[4], &[0, 1, 3, 4]);
    check(&seen.inverse, &[6], &[0, 1, 1, 2, 3, 2]);
    check(&seen.counts, &[4], &[1, 2, 2, 1]);
    let nan = e.tensor(&[f32::NAN, 1.0, f32::NAN], [3]).unique(None, UniqueOrder::Sorted).unwrap();
    check(&nan.indices, &[2], &[1, 0]);
}

#[test]
fn different_slices_are_found_along_an_axis() {
    let e = engine();
    let x = e.from_vec(vec![1i64, 0, 0, 1, 0, 0, 2, 3, 4], [3, 3]);
    let rows = x.unique(Some(0), UniqueOrder::Sorted).unwrap();
    check(&rows.values, &[2, 3], &[1, 0, 0, 2, 3, 4]);
    check(&rows.inverse, &[3], &[0, 0, 1]);
    let y = e.from_vec(vec![1i64, 1, 0, 1, 1, 1, 0, 1], [2, 4]).reshape([2, 2, 2]);
    let middle = y.unique(Some(-2), UniqueOrder::FirstSeen).unwrap();
    check(&middle.values, &[2, 2, 2], &[1, 1, 0, 1, 1, 1, 0, 1]);
    check(&x.t().unique(Some(1), UniqueOrder::Sorted).unwrap().counts, &[2], &[2, 1]);
}
