//! Padding, tiling and picking by place.

use breakeven::{DType, Pad};

use super::{check, count, engine};

#[test]
fn padding_mirrors_repeats_and_wraps() {
    let e = engine();
    let x = count(&e, &[3], 1.0, 0.0);
    check(&x.pad(&[(2, 1)], Pad::Constant(9.0)), &[6], &[9., 9., 0., 1., 2., 9.]);
    check(&x.pad(&[(2, 1)], Pad::Reflect), &[6], &[2., 1., 0., 1., 2., 1.]);
    check(&x.pad(&[(2, 1)], Pad::Edge), &[6], &[0., 0., 0., 1., 2., 2.]);
    check(&x.pad(&[(2, 4)], Pad::Wrap), &[9], &[1., 2., 0., 1., 2., 0., 1., 2., 0.]);
    check(&x.pad(&[(-1, 0)], Pad::Constant(0.0)), &[2], &[1., 2.]);
    check(&x.pad(&[(-1, 2)], Pad::Constant(7.0)), &[4], &[1., 2., 7., 7.]);
    check(&x.pad(&[(-2, -2)], Pad::Constant(0.0)), &[0], &[]);
    let square = count(&e, &[2, 2], 1.0, 0.0);
    check(&square.pad(&[(1, 0), (1, 1)], Pad::Reflect), &[3, 4], &[3., 2., 3., 2., 1., 0., 1., 0., 3., 2., 3., 2.]);
    assert!(e.full(DType::F32, 0.0, 0).pad(&[(1, 0)], Pad::Edge).check().is_err());
    let mask = e.from_vec(vec![true], 1).pad(&[(1, 1)], Pad::Constant(0.0));
    assert_eq!(mask.to_vec::<bool>().unwrap(), [false, true, false]);
}

#[test]
fn tiles_lie_side_by_side() {
    let e = engine();
    let x = count(&e, &[2, 2], 1.0, 0.0);
    check(&x.tile(&[1, 2]), &[2, 4], &[0., 1., 0., 1., 2., 3., 2., 3.]);
    check(&x.tile(&[2, 1]), &[4, 2], &[0., 1., 2., 3., 0., 1., 2., 3.]);
    check(&x.tile(&[0, 3]), &[0, 6], &[]);
}

#[test]
fn triangles_and_one_hot_pick_by_place() {
    let e = engine();
    let x = count(&e, &[2, 2, 3], 1.0, 1.0);
    check(&x.tril(0), &[2, 2, 3], &[1., 0., 0., 4., 5., 0., 7., 0., 0., 10., 11., 0.]);
    check(&x.triu(1), &[2, 2, 3], &[0., 2., 3., 0., 0., 6., 0., 8., 9., 0., 0., 12.]);
    check(&x.tril(isize::MAX), &[2, 2, 3], &[1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12.]);
    let narrow = e.from_vec(vec![-1i8], 1).one_hot(300).cast(DType::F32).argmax(-1);
    assert_eq!(narrow.to_vec::<i64>().unwrap(), [299]);
    check(&x.tril(-1), &[2, 2, 3], &[0., 0., 0., 4., 0., 0., 0., 0., 0., 10., 0., 0.]);
    let hot = e.from_vec(vec![1i64, -1, 5], 3).one_hot(3);
    check(&hot.cast(DType::F32), &[3, 3], &[0., 1., 0., 0., 0., 1., 0., 0., 0.]);
}
