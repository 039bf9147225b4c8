//! Reductions, rows, matrix products and gathers over random views, against the reference.

mod common;

use breakeven_ir::{AttentionKernel, DType, Fold, Kernel, RowWise, Shape};
use common::{Random, check, devices, kernels};

#[test]
fn folds_are_right_at_every_length_and_view() {
    let folds = [Fold::Sum, Fold::Mean, Fold::Max, Fold::Min, Fold::ArgMax, Fold::ArgMin, Fold::Moments];
    for device in devices() {
        let mut random = Random::new(11);
        for fold in folds {
            for (outer, inner) in [
                (&[3, 2][..], &[5][..]),
                (&[], &[33]),
                (&[5], &[3, 43]),
                (&[9], &[400]),
                (&[7], &[513]),
                (&[2], &[1025]),
            ] {
                let (outer, inner) = (Shape::from(outer), Shape::from(inner));
                check(&device, &kernels::reduce(&mut random, fold, DType::F32, &outer, &inner), &mut random, 1e-5);
            }
        }
        for fold in [Fold::All, Fold::Any] {
            let kernel = kernels::reduce(&mut random, fold, DType::Bool, &Shape::from([3, 3]), &Shape::from(9));
            check(&device, &kernel, &mut random, 0.0);
        }
    }
}

#[test]
fn long_rows_are_folded_in_chunks() {
    for device in devices() {
        let mut random = Random::new(12);
        for fold in [Fold::Sum, Fold::Max, Fold::ArgMin, Fold::Moments] {
            for (outer, inner) in [(&[1][..], &[16_385][..]), (&[2], &[40_000]), (&[], &[300, 300])] {
                let (outer, inner) = (Shape::from(outer), Shape::from(inner));
                check(&device, &kernels::reduce(&mut random, fold, DType::F32, &outer, &inner), &mut random, 1e-4);
            }
        }
    }
}

/// Neighbouring rows lie nearer than neighbouring elements: each invocation folds a row, or a chunk of it.
#[test]
fn rows_that_lie_across_are_folded_in_chunks() {
    for device in devices() {
        let mut random = Random::new(16);
        for fold in [Fold::Sum, Fold::Min, Fold::ArgMax, Fold::Moments] {
            for (rows, length) in [(70, 9), (5, 65), (300, 1000), (33, 4097)] {
                let kernel = kernels::reduce_across(&mut random, fold, rows, length);
                check(&device, &kernel, &mut random, 1e-4);
            }
        }
    }
}

#[test]
fn rows_are_right_at_every_length_and_view() {
    let kinds = [
        RowWise::Softmax,
        RowWise::LogSoftmax,
        RowWise::LayerNorm { epsilon: 1e-5 },
        RowWise::RmsNorm { epsilon: 1e-6 },
    ];
    for device in devices() {
        let mut random = Random::new(13);
        for kind in kinds {
            for length in [1, 4, 31, 32, 33, 128, 384, 1000, 4096, 5001, 16_384, 16_500] {
                check(&device, &kernels::row_wise(&mut random, kind, &Shape::from([2, 3]), length), &mut random, 1e-5);
            }
        }
    }
}

/// Few rows that are longer than one workgroup holds are folded by several.
#[test]
fn long_rows_are_shared_out() {
    for device in devices() {
        let mut random = Random::new(17);
        for kind in [RowWise::Softmax, RowWise::LogSoftmax] {
            for (outer, length) in [(&[][..], 40_001), (&[3], 20_000)] {
                let kernel = kernels::row_wise(&mut random, kind, &Shape::from(outer), length);
                check(&device, &kernel, &mut random, 1e-5);
            }
        }
    }
}

#[test]
fn matrix_products_are_right_for_every_tile_and_view() {
    for device in devices() {
        let mut random = Random::new(14);
        let none = Shape::scalar();
        for sizes in [[1, 1, 1], [5, 7, 3], [32, 32, 32], [33, 65, 31], [1, 300, 40], [65, 20, 66]] {
            for views in [false, true] {
                check(&device, &kernels::matmul(&mut random, &none, sizes, views), &mut random, 1e-4);
            }
        }
        check(&device, &kernels::matmul(&mut random, &Shape::from([2, 3]), [9, 12, 8], true), &mut random, 1e-4);
        for sizes in [[1, 700, 1], [1, 70, 900], [900, 70, 1], [2, 5, 1]] {
            for views in [false, true] {
                check(&device, &kernels::matmul(&mut random, &Shape::from(2), sizes, views), &mut random, 1e-4);
            }
        }
        // Enough tiles that are narrow and that are low.
        check(&device, &kernels::matmul(&mut random, &Shape::from(40), [100, 37, 20], false), &mut random, 1e-4);
        check(&device, &kernels::matmul(&mut random, &Shape::from(40), [20, 37, 100], false), &mut random, 1e-4);
        // Enough tiles of side 64 and of side 128, and a sum that is split.
        check(&device, &kernels::matmul(&mut random, &Shape::from(32), [36, 12, 40], false), &mut random, 1e-4);
        check(&device, &kernels::matmul(&mut random, &Shape::from(128), [68, 4, 72], false), &mut random, 1e-4);
        check(&device, &kernels::matmul(&mut random, &Shape::from(2), [4, 1500, 8], false), &mut random, 1e-4);
    }
}

#[test]
fn gathers_pick_what_the_index_says_and_nan_outside() {
    for device in devices() {
        let mut random = Random::new(15);
        for (source, axis, index) in
            [(&[150, 8][..], 0, &[3, 5][..]), (&[4, 60, 3], 1, &[7]), (&[5, 130], 1, &[2, 2]), (&[90], 0, &[])]
        {
            for views in [false, true] {
                check(&device, &kernels::gather(&mut random, source, axis, index, views), &mut random, 0.0);
            }
        }
    }
}

/// Each tile, keys divided among groups and not, dense and over views with a bias.
#[test]
fn attention_is_right_in_every_tile() {
    for device in devices() {
        let mut random = Random::new(19);
        for (batch, sizes) in [
            (3, [5, 70, 20, 12]),
            (2, [1, 700, 8, 64]),
            (1, [40, 300, 33, 64]),
            (2, [130, 90, 12, 128]),
            (3, [80, 200, 64, 64]),
            (2, [130, 70, 32, 20]),
        ] {
            for views in [false, true] {
                let kernel = kernels::attention(&mut random, &Shape::from(batch), sizes, views);
                let causal = AttentionKernel { seen: Some(9), ..kernel.clone() };
                for kernel in [kernel, causal] {
                    check(&device, &Kernel::Attention(kernel), &mut random, 1e-5);
                }
            }
        }
    }
}
