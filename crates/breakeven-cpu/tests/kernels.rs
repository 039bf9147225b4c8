//! Every kernel over random layouts, on every instruction set, against the reference.

mod common;

use breakeven_ir::{
    DType, Expr, ExprBuilder, Fold, Gather, Kernel, Kind, Layout, MAPS, Map, MatMul, Operand, Precision, ReduceRows,
    Row, RowWise, RowWiseKernel, Shape,
};
use common::{Near, Random, check, devices};

fn concat(a: &Shape, b: &[usize]) -> Shape {
    a.iter().chain(b).copied().collect()
}

#[test]
fn every_row_at_every_type_and_length() {
    let mut random = Random(1);
    let devices = devices();
    for def in MAPS {
        for dtype in def.family.dtypes() {
            if matches!(dtype, DType::F16 | DType::BF16) {
                continue;
            }
            let expr = Expr::row(Row(def), dtype);
            let params = vec![0.5; expr.params()];
            for n in [0, 1, 7, 16, 33, 1030] {
                let kernel = Map::dense(expr.clone(), params.clone(), [n]);
                let inputs: Vec<Vec<u8>> = kernel.inputs.iter().map(|o| random.fill(o, false)).collect();
                let near = if def.tolerance.ulp == 0 { Near(1e-7, 0.0) } else { Near(2e-5, 2e-6) };
                // Their tolerance near the edges of their domains is the table's own business.
                if dtype == DType::F32 && ["pow", "atan2", "asin", "acos"].contains(&def.name) {
                    continue;
                }
                for device in &devices {
                    check(device, &Kernel::Map(kernel.clone()), &inputs, near);
                }
            }
        }
    }
}

#[test]
fn exact_rows_keep_special_values() {
    let mut random = Random(11);
    let devices = devices();
    for def in MAPS.iter().filter(|m| m.tolerance.ulp == 0 && m.family.has(DType::F32)) {
        let expr = Expr::row(Row(def), DType::F32);
        let kernel = Map::dense(expr.clone(), vec![0.5; expr.params()], [300]);
        let inputs: Vec<Vec<u8>> = kernel.inputs.iter().map(|o| random.fill(o, true)).collect();
        let near = if def.args.contains(&Kind::P) { Near(1e-7, 0.0) } else { Near(6e-8, 0.0) };
        for d in &devices {
            check(d, &Kernel::Map(kernel.clone()), &inputs, near);
        }
    }
}

/// A chain with several types, a parameter, a mask and a value that is used twice.
fn chain() -> Expr {
    let row = |name| Row::named(name).expect("a row of the table");
    let mut b = ExprBuilder::default();
    let (x, y, m) = (b.arg(DType::F32), b.arg(DType::F32), b.arg(DType::Bool));
    let (whole, p) = (b.arg(DType::I64), b.param(DType::F32));
    let sum = b.row(row("add"), DType::F32, &[x, y]);
    let wide = b.cast(whole, DType::F32);
    let scaled = b.row(row("mul"), DType::F32, &[sum, wide]);
    let less = b.row(row("less"), DType::F32, &[scaled, p]);
    let both = b.row(row("logical_or"), DType::Bool, &[less, m]);
    let picked = b.row(row("where"), DType::F32, &[both, scaled, sum]);
    let narrow = b.cast(picked, DType::F64);
    let last = b.row(row("sub"), DType::F64, &[narrow, narrow]);
    let back = b.cast(last, DType::F32);
    let result = b.row(row("maximum"), DType::F32, &[back, picked]);
    b.finish(result)
}

#[test]
fn maps_of_any_layout() {
    let mut random = Random(2);
    let devices = devices();
    for round in 0..250 {
        let rank = random.below(9);
        let shape = random.shape(rank, if rank < 3 { 130 } else { 6 });
        let expr = match round % 3 {
            0 => chain(),
            1 => Expr::identity([DType::F32, DType::U8, DType::I64, DType::I16][round / 3 % 4]),
            _ => Expr::row(Row::named("add").expect("a row"), DType::F32),
        };
        let params = vec![0.25; expr.params()];
        let inputs: Vec<Operand> = expr.args().iter().map(|&d| random.operand(d, &shape, true)).collect();
        let out = random.operand(expr.dtype(), &shape, false);
        let bytes: Vec<Vec<u8>> = inputs.iter().map(|o| random.fill(o, round % 5 == 0)).collect();
        let kernel = Kernel::Map(Map { expr, params, inputs, out });
        for d in &devices {
            check(d, &kernel, &bytes, Near(1e-6, 1e-6));
        }
    }
}

#[test]
fn casts_between_all_types() {
    let mut random = Random(3);
    let devices = devices();
    let types = devices[0].caps_types();
    for &from in &types {
        for &to in &types {
            let mut b = ExprBuilder::default();
            let x = b.arg(from);
            let y = b.cast(x, to);
            let kernel = Map::dense(b.finish(y), Vec::new(), [100]);
            let bytes = vec![random.fill(&kernel.inputs[0], true)];
            check(&devices[0], &Kernel::Map(kernel), &bytes, Near(1e-7, 0.0));
        }
    }
}

trait Types {
    fn caps_types(&self) -> Vec<DType>;
}
impl Types for breakeven_cpu::CpuDevice {
    fn caps_types(&self) -> Vec<DType> {
        breakeven_device::Device::caps(self).dtypes.clone()
    }
}

const FOLDS: [Fold; 10] = [
    Fold::Sum,
    Fold::Mean,
    Fold::Prod,
    Fold::Max,
    Fold::Min,
    Fold::ArgMax,
    Fold::ArgMin,
    Fold::All,
    Fold::Any,
    Fold::Moments,
];

fn reduce(random: &mut Random, fold: Fold, dtype: DType, outer: &Shape, inner: &Shape) -> ReduceRows {
    let fused = random.below(2) == 0 && dtype == DType::F32 && !matches!(fold, Fold::Moments | Fold::Prod);
    let pre = if fused { Expr::row(Row::named("add").expect("a row"), dtype) } else { Expr::identity(dtype) };
    let result = fold.dtype(dtype).expect("defined");
    let post = if fused && result == dtype {
        Expr::row(Row::named("sub").expect("a row"), result)
    } else {
        Expr::identity(result)
    };
    let both = concat(outer, inner);
    let mut inputs: Vec<Operand> = pre.args().iter().map(|&d| random.operand(d, &both, true)).collect();
    inputs.extend(post.args()[1..].iter().map(|&d| random.operand(d, outer, true)));
    let outs = (0..fold.outputs()).map(|_| random.operand(result, outer, false)).collect();
    ReduceRows { fold, outer: outer.clone(), inner: inner.clone(), pre, post, params: Vec::new(), inputs, outs }
}

#[test]
fn reductions_of_any_layout() {
    let mut random = Random(4);
    let devices = devices();
    let types = devices[0].caps_types();
    for round in 0..600 {
        let fold = FOLDS[round % FOLDS.len()];
        let dtype = if random.below(2) == 0 { DType::F32 } else { types[random.below(types.len())] };
        let dtype = if matches!(fold, Fold::All | Fold::Any) { DType::Bool } else { dtype };
        if fold.dtype(dtype).is_none() {
            continue;
        }
        let (before, after) = (random.below(4), random.below(4));
        let most = if before + after < 3 { 70 } else { 6 };
        let (outer, inner) = (random.shape(before, most), random.shape(after, most));
        let needs_some = matches!(fold, Fold::Max | Fold::Min | Fold::ArgMax | Fold::ArgMin);
        if needs_some && inner.is_empty() {
            continue;
        }
        let kernel = reduce(&mut random, fold, dtype, &outer, &inner);
        let bytes: Vec<Vec<u8>> = kernel.inputs.iter().map(|o| random.fill(o, needs_some && round % 2 == 0)).collect();
        let kernel = Kernel::Reduce(kernel);
        for d in &devices {
            check(d, &kernel, &bytes, Near(2e-6, 2e-5));
        }
    }
}

#[test]
fn long_reductions_do_not_depend_on_threads() {
    let n = 10_000_000;
    let data: Vec<f32> = (0..n).map(|i| 0.1 + (i % 7) as f32 * 0.01).collect();
    let exact: f64 = data.iter().map(|&x| f64::from(x)).sum();
    let bytes = vec![data.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>()];
    let kernel = Kernel::Reduce(ReduceRows {
        fold: Fold::Sum,
        outer: Shape::scalar(),
        inner: [n].into(),
        pre: Expr::identity(DType::F32),
        post: Expr::identity(DType::F32),
        params: Vec::new(),
        inputs: vec![Operand::new(DType::F32, Layout::dense([n]))],
        outs: vec![Operand::new(DType::F32, Layout::dense(()))],
    });
    for isa in breakeven_cpu::Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let runs =
            [1, 2, 3].map(|threads| common::run(&common::device(isa, threads), &kernel, &bytes).expect("it runs"));
        let value = f64::from(f32::from_le_bytes(runs[0][0][..4].try_into().expect("four bytes")));
        assert!(((value - exact) / exact).abs() < 1e-6, "{isa}: {value} {exact}");
        assert!(runs.iter().all(|r| *r == runs[0]), "{isa}");
    }
}

#[test]
fn softmax_and_norms_of_any_layout() {
    let mut random = Random(5);
    let devices = devices();
    let kinds = [
        RowWise::Softmax,
        RowWise::LogSoftmax,
        RowWise::LayerNorm { epsilon: 1e-5 },
        RowWise::RmsNorm { epsilon: 1e-6 },
    ];
    for round in 0..200 {
        let dtype = if round % 5 == 0 { DType::F64 } else { DType::F32 };
        let rank = random.below(4);
        let outer = random.shape(rank, 6);
        let length = [1, 2, 5, 17, 64, 130, 384, 1025, 2100][random.below(9)];
        let fused = random.below(2) == 0;
        let row = |name| Expr::row(Row::named(name).expect("a row"), dtype);
        let pre = if fused { row("add") } else { Expr::identity(dtype) };
        let post = if fused { row("mul") } else { Expr::identity(dtype) };
        let both = concat(&outer, &[length]);
        let args = pre.args().iter().chain(&post.args()[1..]);
        let inputs: Vec<Operand> = args.map(|&d| random.operand(d, &both, true)).collect();
        let bytes: Vec<Vec<u8>> = inputs.iter().map(|o| random.fill(o, false)).collect();
        let out = random.operand(dtype, &both, false);
        let kind = kinds[round % 4];
        let kernel = Kernel::RowWise(RowWiseKernel { kind, outer, length, pre, post, params: Vec::new(), inputs, out });
        // A row whose elements are almost equal amplifies the rounding of `pre`.
        let near = if fused { Near(1e-4, 2e-4) } else { Near(4e-6, 2e-6) };
        for d in &devices {
            check(d, &kernel, &bytes, near);
        }
    }
}

#[test]
fn norms_of_extreme_rows() {
    let case = |kind, row: &[f32]| {
        let kernel = Kernel::RowWise(RowWiseKernel {
            kind,
            outer: Shape::scalar(),
            length: row.len(),
            pre: Expr::identity(DType::F32),
            post: Expr::identity(DType::F32),
            params: Vec::new(),
            inputs: vec![Operand::new(DType::F32, Layout::dense([row.len()]))],
            out: Operand::new(DType::F32, Layout::dense([row.len()])),
        });
        let bytes = vec![row.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>()];
        for d in &devices() {
            check(d, &kernel, &bytes, Near(1e-6, 1e-7));
        }
    };
    case(RowWise::LayerNorm { epsilon: 1e-5 }, &[1e30, 2e30, 3e30, 4e30]);
    case(RowWise::RmsNorm { epsilon: 1e-5 }, &[1e30, 2e30, 3e30, 4e30]);
    case(RowWise::LayerNorm { epsilon: 0.0 }, &[10000.0, 10000.001, 10000.002, 9999.999]);
    case(RowWise::Softmax, &[f32::NEG_INFINITY; 5]);
    case(RowWise::Softmax, &[1e30, -1e30, f32::NEG_INFINITY]);
    case(RowWise::LogSoftmax, &[1000.0, 0.0, -1000.0]);
    case(RowWise::Softmax, &[1.0, f32::NAN, 2.0]);
}

#[test]
fn products_of_any_layout() {
    let mut random = Random(6);
    let devices = devices();
    for round in 0..300 {
        let rank = random.below(3);
        let batch = random.shape(rank, 4);
        let extents = [0, 1, 1, 2, 3, 7, 17, 33, 130];
        let [m, n, k] = [(); 3].map(|()| extents[random.below(extents.len())]);
        let (m, n) = if round == 7 { (300, 520) } else { (m, n) };
        let dtype = [DType::F32, DType::F32, DType::F32, DType::F64, DType::I32, DType::U8][random.below(6)];
        let fused = random.below(2) == 0;
        let post = if fused { Expr::row(Row::named("add").expect("a row"), dtype) } else { Expr::identity(dtype) };
        let a = random.operand(dtype, &concat(&batch, &[m, k]), true);
        let b = random.operand(dtype, &concat(&batch, &[k, n]), true);
        let result = concat(&batch, &[m, n]);
        let inputs: Vec<Operand> = post.args()[1..].iter().map(|&d| random.operand(d, &result, true)).collect();
        let out = random.operand(dtype, &result, false);
        let operands = [&a, &b].into_iter().chain(&inputs);
        let mut bytes: Vec<Vec<u8>> = operands.map(|o| random.fill(o, false)).collect();
        if round % 10 == 0 && dtype == DType::F32 && bytes[0].len() >= 8 {
            bytes[0][..8].copy_from_slice(&[f32::NAN.to_le_bytes(), f32::INFINITY.to_le_bytes()].concat());
        }
        let kernel = Kernel::MatMul(MatMul {
            batch,
            m,
            n,
            k,
            a,
            b,
            precision: Precision::Highest,
            post,
            params: Vec::new(),
            inputs,
            out,
        });
        for d in &devices {
            check(d, &kernel, &bytes, Near(1e-5, 1e-4));
        }
    }
}

#[test]
fn gathers_of_any_layout() {
    let mut random = Random(7);
    let devices = devices();
    for _ in 0..200 {
        let rank = 1 + random.below(3);
        let source = random.shape(rank, 9);
        let picks_rank = random.below(3);
        let picks = random.shape(picks_rank, 5);
        let axis = random.below(rank);
        let out = concat(&concat(&source[..axis].into(), &picks), &source[axis + 1..]);
        let dtype = [DType::F32, DType::I64, DType::U8, DType::F64][random.below(4)];
        let index = [DType::I64, DType::I32][random.below(2)];
        let index = random.operand(index, &picks, true);
        let source = random.operand(dtype, &source, true);
        let bytes = vec![random.fill(&source, false), random.fill(&index, false)];
        let kernel = Kernel::Gather(Gather { axis, source, index, out: random.operand(dtype, &out, false) });
        for d in &devices {
            check(d, &kernel, &bytes, Near(0.0, 0.0));
        }
    }
}
