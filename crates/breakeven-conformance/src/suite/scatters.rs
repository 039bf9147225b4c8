//! Elements combined with updates, by index.

use breakeven_ir::{Combine, DType, Kernel, Layout, Operand, Scalar, Scatter, Shape};

use super::dtypes;
use crate::{Bench, Case, Random, Tier, data, views};

/// Every combination at every type and index type: few and many updates to an element, none, indices from either end and
/// outside, rows that share their indices, and views of every operand.
pub fn scatters(bench: &mut Bench<'_>, _: Tier) {
    let all = dtypes(bench);
    for combine in Combine::ALL {
        for &dtype in all.iter().filter(|&&d| combine.has(d)) {
            for index in [DType::I64, DType::I32].into_iter().filter(|d| all.contains(d)) {
                for (outer, sides) in shapes() {
                    bench.add(case("", plain(combine, dtype, index, &outer, sides)));
                    bench.add(case("whole slices", shared(plain(combine, dtype, index, &outer, sides), &outer)));
                }
            }
            looked_at(bench, combine, dtype);
            if dtype.is_float() {
                specials(bench, combine, dtype);
            }
        }
    }
    crowded(bench);
}

/// Leading extents, elements and updates of a row.
fn shapes() -> Vec<(Shape, [usize; 2])> {
    let s = |dims: &[usize]| Shape::from(dims);
    vec![
        (s(&[]), [7, 5]),
        (s(&[3]), [5, 17]),
        (s(&[2, 9]), [4, 1]),
        (s(&[3, 70]), [6, 11]),
        (s(&[2]), [1, 40]),
        (s(&[4]), [9, 0]),
        (s(&[4]), [0, 3]),
        (s(&[0]), [5, 3]),
        (s(&[300]), [33, 20]),
    ]
}

/// Dense operands.
pub(super) fn plain(
    combine: Combine,
    dtype: DType,
    index: DType,
    outer: &Shape,
    [length, count]: [usize; 2],
) -> Scatter {
    let over = |dtype, last: usize| {
        let shape: Shape = outer.iter().copied().chain([last]).collect();
        Operand::new(dtype, Layout::dense(shape))
    };
    let (source, out) = (over(dtype, length), over(dtype, length));
    Scatter { combine, outer: outer.clone(), source, index: over(index, count), updates: over(dtype, count), out }
}

/// All rows have the indices of the first, and the last leading axis is the innermost in memory.
fn shared(mut kernel: Scatter, outer: &Shape) -> Scatter {
    let rank = outer.rank();
    let axes: Vec<usize> = (0..rank).collect();
    let order: Vec<usize> = [rank].into_iter().chain(0..rank).collect();
    let over = |operand: &Operand| {
        let layout = Layout::dense_in_order(&operand.layout.shape, &order);
        Operand::new(operand.dtype, layout)
    };
    kernel.index.layout = views::repeated(&kernel.index.layout.shape, &axes);
    (kernel.source, kernel.updates, kernel.out) = (over(&kernel.source), over(&kernel.updates), over(&kernel.out));
    kernel
}

/// Indices from either end, most of them repeated; in each row of many one just outside and one far outside.
fn case(what: &str, kernel: Scatter) -> Case {
    let (length, count) = (kernel.length() as i128, kernel.count());
    let pick = |i: usize| match i % count {
        1 if count > 3 => length,
        3 if count > 3 => -length - 1,
        4 if count > 4 => 2_000_000_000,
        p => (p as i128 * 3 + (i / count) as i128) % (2 * length.max(1)) - length,
    };
    let index = (0..kernel.index.layout.shape.elements()).map(|i| Scalar::I(pick(i))).collect();
    with(what, kernel, index)
}

/// Values that the combination can bear: products of many stay near 1.
fn with(what: &str, kernel: Scatter, index: Vec<Scalar>) -> Case {
    let values = |operand: &Operand, seed: u64| {
        let elements = operand.layout.shape.elements();
        let near_one = kernel.combine == Combine::Mul && operand.dtype.is_float();
        if near_one { data::between(0.9, 1.1, elements, seed) } else { data::values(operand.dtype, elements, seed) }
    };
    let all = [values(&kernel.source, 1), index, values(&kernel.updates, 2)];
    let Scatter { combine, outer, updates, .. } = &kernel;
    let (length, count, by) = (kernel.length(), kernel.count(), kernel.index.dtype);
    let name = format!("{} {} {outer} of {length}, {count} by {by} {what}", combine.name(), updates.dtype);
    Case::with(name, Kernel::Scatter(kernel), &all)
}

fn looked_at(bench: &mut Bench<'_>, combine: Combine, dtype: DType) {
    let outer = Shape::from([2, 5]);
    let dense = plain(combine, dtype, DType::I32, &outer, [6, 8]);
    for (view, layout) in views::all([2, 5, 6]) {
        let source = Operand::new(dtype, layout);
        bench.add(case(&format!("source {view}"), Scatter { source, ..dense.clone() }));
    }
    for (view, layout) in views::all([2, 5, 8]) {
        let index = Operand::new(DType::I32, layout.clone());
        bench.add(case(&format!("index {view}"), Scatter { index, ..dense.clone() }));
        let updates = Operand::new(dtype, layout);
        bench.add(case(&format!("updates {view}"), Scatter { updates, ..dense.clone() }));
    }
    for (view, layout) in views::distinct([2, 5, 6]) {
        let out = Operand::new(dtype, layout);
        bench.add(case(&format!("output {view}"), Scatter { out, ..dense.clone() }));
    }
}

/// A special value among ordinary ones, as element and as update.
fn specials(bench: &mut Bench<'_>, combine: Combine, dtype: DType) {
    for &special in data::special(dtype).iter().filter(|x| !(x.abs() > 1e38 && x.is_finite())) {
        let kernel = plain(combine, dtype, DType::I32, &Shape::from(2), [5, 12]);
        let mut case = case(&format!("with {special}"), kernel);
        Scalar::F(special).store(dtype, &mut case.buffers[0], 2);
        Scalar::F(special).store(dtype, &mut case.buffers[2], 17);
        bench.add(case);
    }
}

/// Thousands of updates to one element beside elements with few and with none.
fn crowded(bench: &mut Bench<'_>) {
    let mut random = Random::new(9);
    for combine in Combine::ALL {
        for (length, count) in [(3, 9000), (40, 10_000), (5000, 3000)] {
            let mut pick = || if random.below(3) == 0 { random.below(length) } else { length / 2 };
            let index = (0..2 * count).map(|_| Scalar::I(pick() as i128)).collect();
            let kernel = plain(combine, DType::F32, DType::I32, &Shape::from(2), [length, count]);
            bench.add(with("crowded", kernel, index));
        }
    }
}
