//! Running folds.

use breakeven_ir::{DType, Fold, Kernel, Layout, Operand, Scalar, ScanRows, Shape};

use super::dtypes;
use crate::{Bench, Case, Tier, data, views};

pub(super) const FOLDS: [Fold; 4] = [Fold::Sum, Fold::Prod, Fold::Max, Fold::Min];

/// Every fold at every type, with and without its own element: lengths around all seams, views of input and output, also
/// backwards, special values in the middle of a row.
pub fn scans(bench: &mut Bench<'_>, tier: Tier) {
    for fold in FOLDS {
        for dtype in dtypes(bench).into_iter().filter(|&d| fold.dtype(d).is_some()) {
            for exclusive in [false, true] {
                lengths(bench, fold, dtype, exclusive, tier);
                looked_at(bench, fold, dtype, exclusive);
            }
            if dtype.is_float() {
                in_the_middle(bench, fold, dtype);
            }
        }
    }
    long(bench);
}

/// Dense rows, with their own elements.
pub(super) fn plain(fold: Fold, dtype: DType, outer: &Shape, length: usize) -> ScanRows {
    let input = Operand::new(dtype, Layout::dense(whole(outer, length)));
    ScanRows { fold, outer: outer.clone(), length, exclusive: false, out: input.clone(), input }
}

fn whole(outer: &Shape, length: usize) -> Shape {
    outer.iter().copied().chain([length]).collect()
}

/// Values that the fold can bear: a product of many stays near 1.
fn case(what: &str, kernel: ScanRows) -> Case {
    let ScanRows { fold, outer, length, exclusive, input, .. } = &kernel;
    let how = if *exclusive { "exclusive " } else { "" };
    let name = format!("{how}running {} {} {outer} of {length} {what}", fold.name(), input.dtype);
    if *fold == Fold::Prod && input.dtype.is_float() {
        let values = data::between(0.9, 1.1, kernel.elements(), 5);
        return Case::with(name, Kernel::Scan(kernel), &[values]);
    }
    Case::new(name, Kernel::Scan(kernel))
}

fn lengths(bench: &mut Bench<'_>, fold: Fold, dtype: DType, exclusive: bool, tier: Tier) {
    for n in tier.lengths() {
        for outer in [Shape::scalar(), Shape::from(3)] {
            bench.add(case("", ScanRows { exclusive, ..plain(fold, dtype, &outer, n) }));
        }
    }
}

fn looked_at(bench: &mut Bench<'_>, fold: Fold, dtype: DType, exclusive: bool) {
    for (outer, length) in [(Shape::from([2, 3]), 37), (Shape::from(67), 5), (Shape::from([2, 1]), 4100)] {
        let dense = ScanRows { exclusive, ..plain(fold, dtype, &outer, length) };
        let dims = whole(&outer, length);
        for (view, layout) in views::all(dims.clone()) {
            bench.add(case(view, ScanRows { input: Operand::new(dtype, layout), ..dense.clone() }));
        }
        let backwards = |layout: Layout| layout.slice(outer.rank(), length - 1, length, -1);
        for (view, layout) in views::distinct(dims) {
            let turned = Operand::new(dtype, backwards(layout.clone()));
            let what = format!("output {view}");
            bench.add(case(&what, ScanRows { out: Operand::new(dtype, layout), ..dense.clone() }));
            let both = ScanRows { input: turned.clone(), out: turned, ..dense.clone() };
            bench.add(case(&format!("from the end, {view}"), both));
        }
    }
}

/// NaN and infinities reach all that comes after them, and nothing before.
fn in_the_middle(bench: &mut Bench<'_>, fold: Fold, dtype: DType) {
    for n in [9, 65, 1025, 4099] {
        for &special in data::special(dtype).iter().filter(|x| !(x.abs() > 1e38 && x.is_finite())) {
            let what = format!("with {special} in the middle");
            let mut case = case(&what, plain(fold, dtype, &Shape::from(2), n));
            let middle = (n + n / 2) * dtype.bytes();
            Scalar::F(special).store(dtype, &mut case.buffers[0][middle..], 0);
            bench.add(case);
        }
    }
}

/// Rows of several levels of chunks: few that are long, and many side by side.
fn long(bench: &mut Bench<'_>) {
    let rows = if bench.device().info().kind == breakeven_device::DeviceKind::Simulated { 40_000 } else { 700_001 };
    for fold in [Fold::Sum, Fold::Max] {
        bench.add(case("long", plain(fold, DType::F32, &Shape::from(2), rows)));
    }
    bench.add(case("long", ScanRows { exclusive: true, ..plain(Fold::Sum, DType::I32, &Shape::scalar(), 70_000) }));
    let columns = Operand::new(DType::F32, Layout::dense([9000, 33]).permute(&[1, 0]));
    let kernel = plain(Fold::Sum, DType::F32, &Shape::from(33), 9000);
    bench.add(case("side by side", ScanRows { input: columns.clone(), out: columns, ..kernel }));
}
