//! Elementwise kernels over any layout, against the reference.

mod common;

use breakeven_ir::{DType, Expr, Kernel, Layout, MAPS, Map, Operand, Row, Shape};
use common::{Random, check, devices};

/// Every row at f32 over dense operands and over views.
#[test]
fn every_row_computes_what_the_reference_says() {
    for device in devices() {
        for (seed, def) in MAPS.iter().enumerate() {
            let mut random = Random::new(seed as u64 + 1);
            let dtype =
                [DType::F32, DType::I32, DType::U32, DType::Bool].into_iter().find(|&d| def.family.has(d)).unwrap();
            let expr = Expr::row(Row(def), dtype);
            let params = vec![0.5, 1.5][..expr.params()].to_vec();
            check(&device, &Kernel::Map(Map::dense(expr.clone(), params.clone(), [5, 13])), &mut random, 1e-5);
            let shape = Shape::from([3, 4, 5]);
            let inputs = expr.args().iter().map(|&d| Operand::new(d, random.layout(&shape, true))).collect();
            let out = if expr.dtype() == DType::Bool { Layout::dense(shape) } else { random.layout(&shape, false) };
            let out = Operand::new(expr.dtype(), out);
            check(&device, &Kernel::Map(Map { expr, params, inputs, out }), &mut random, 1e-5);
        }
    }
}

#[test]
fn integer_rows_work_on_every_width() {
    for device in devices() {
        for dtype in [DType::I32, DType::U32, DType::U8] {
            for (seed, def) in MAPS.iter().enumerate().filter(|(_, def)| def.family.has(dtype)) {
                let expr = Expr::row(Row(def), dtype);
                let params = vec![3.0, 90.0][..expr.params()].to_vec();
                let kernel = Kernel::Map(Map::dense(expr, params, 37));
                check(&device, &kernel, &mut Random::new(seed as u64 + 1), 0.0);
            }
        }
    }
}

#[test]
fn a_copy_takes_any_view_to_any_view() {
    for device in devices() {
        for seed in 1..40 {
            let mut random = Random::new(seed);
            let dims: Vec<usize> = (0..random.below(6)).map(|_| 1 + random.below(5)).collect();
            let shape = Shape::new(&dims).unwrap();
            for dtype in [DType::F32, DType::I64, DType::U8, DType::Bool] {
                let byte = dtype.bytes() == 1;
                let out = if byte { Layout::dense(shape.clone()) } else { random.layout(&shape, false) };
                let kernel = Kernel::Map(Map {
                    expr: Expr::identity(dtype),
                    params: vec![],
                    inputs: vec![Operand::new(dtype, random.layout(&shape, true))],
                    out: Operand::new(dtype, out),
                });
                check(&device, &kernel, &mut random, 0.0);
            }
        }
    }
}

#[test]
fn every_length_is_right_at_its_end() {
    for device in devices() {
        for n in (0..=70).chain([255, 256, 257, 1023, 1024, 1025, 4099]) {
            let expr = Expr::row(Row::named("add").unwrap(), DType::F32);
            check(&device, &Kernel::Map(Map::dense(expr, vec![], n)), &mut Random::new(n as u64 + 1), 0.0);
            let expr = Expr::row(Row::named("less").unwrap(), DType::F32);
            check(&device, &Kernel::Map(Map::dense(expr, vec![], n)), &mut Random::new(n as u64 + 1), 0.0);
        }
    }
}

/// Inputs across the output pass through tiles, whole ones and parts, beside inputs that do not.
#[test]
fn what_lies_across_passes_through_tiles() {
    let across = |shape: &[usize], axes: &[usize]| {
        let mut stored = vec![0; shape.len()];
        axes.iter().enumerate().for_each(|(axis, &of)| stored[of] = shape[axis]);
        Layout::dense(Shape::from(&stored[..])).permute(axes)
    };
    for device in devices() {
        let mut random = Random::new(21);
        for shape in [&[33, 70][..], &[64, 32], &[3, 17, 40], &[2, 20, 3, 36]] {
            // The last axis changes places with the longest one before it.
            let last = shape.len() - 1;
            let mut axes: Vec<usize> = (0..shape.len()).collect();
            axes.swap(last, (0..last).max_by_key(|&axis| shape[axis]).unwrap());
            for dtype in [DType::F32, DType::I64, DType::Bool, DType::U8, DType::F16] {
                let copy = Kernel::Map(Map {
                    expr: Expr::identity(dtype),
                    params: vec![],
                    inputs: vec![Operand::new(dtype, across(shape, &axes))],
                    out: Operand::new(dtype, Layout::dense(Shape::from(shape))),
                });
                check(&device, &copy, &mut random, 0.0);
            }
            let inputs = [across(shape, &axes), Layout::dense(Shape::from(shape))];
            let sum = Kernel::Map(Map {
                expr: Expr::row(Row::named("sub").unwrap(), DType::F32),
                params: vec![],
                inputs: inputs.map(|layout| Operand::new(DType::F32, layout)).to_vec(),
                out: Operand::new(DType::F32, Layout::dense(Shape::from(shape))),
            });
            check(&device, &sum, &mut random, 0.0);
        }
    }
}
