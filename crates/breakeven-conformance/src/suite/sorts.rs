//! Sorted rows.

use breakeven_ir::{DType, Kernel, Layout, Operand, Scalar, Shape, SortRows};

use super::dtypes;
use crate::{Bench, Case, Tier, data, views};

/// Rows of one length after the other, some of which share a workgroup and some of which need several.
const LENGTHS: &[usize] = &[0, 1, 2, 3, 7, 8, 31, 64, 100, 255, 256, 257, 511, 512, 513, 1000, 1025, 4099];

/// Every type both ways: lengths, ties, special values, views of input and outputs, the first few of a row, outer axes.
pub fn sorts(bench: &mut Bench<'_>, _: Tier) {
    for dtype in dtypes(bench) {
        for descending in [false, true] {
            for &length in LENGTHS {
                bench.add(case(&plain(dtype, &Shape::from(3), [length; 2], descending), ""));
            }
            for keep in [0, 1, 2, 5, 63, 64] {
                bench.add(case(&plain(dtype, &Shape::from([2, 3]), [64, keep], descending), "first"));
                bench.add(case(&plain(dtype, &Shape::from(2), [1300, keep], descending), "first"));
            }
            special(bench, dtype, descending);
            looked_at(bench, dtype, descending);
        }
    }
    for dtype in dtypes(bench).into_iter().filter(|d| matches!(d, DType::F32 | DType::I32)) {
        bench.add(case(&plain(dtype, &Shape::scalar(), [100_000; 2], true), "long"));
        bench.add(case(&plain(dtype, &Shape::scalar(), [70_000, 10], false), "long, first"));
        bench.add(case(&plain(dtype, &Shape::from(5000), [3; 2], false), "many"));
    }
}

/// Dense rows of `length`, of which `keep` are written.
pub(super) fn plain(dtype: DType, outer: &Shape, [length, keep]: [usize; 2], descending: bool) -> SortRows {
    let over = |n: usize| Layout::dense(outer.iter().copied().chain([n]).collect::<Shape>());
    SortRows {
        outer: outer.clone(),
        length,
        keep,
        descending,
        input: Operand::new(dtype, over(length)),
        outs: [Operand::new(dtype, over(keep)), Operand::new(DType::I64, over(keep))],
    }
}

fn name(k: &SortRows, view: &str) -> String {
    let way = if k.descending { "down" } else { "up" };
    format!("sort {} {way}, {} of {} in {} {view}", k.input.dtype, k.keep, k.length, k.outer)
}

fn case(k: &SortRows, view: &str) -> Case {
    Case::new(name(k, view), Kernel::Sort(k.clone()))
}

/// Special values again and again, so that every one of them has equals; and rows of one value.
fn special(bench: &mut Bench<'_>, dtype: DType, descending: bool) {
    let all = data::special(dtype);
    for length in [41, 700] {
        let k = plain(dtype, &Shape::scalar(), [length; 2], descending);
        let values: Vec<Scalar> = (0..length).map(|i| Scalar::of(dtype, all[i * 7 % all.len()])).collect();
        bench.add(Case::with(name(&k, "special"), Kernel::Sort(k.clone()), &[values]));
        let value = Scalar::of(dtype, all[0]);
        bench.add(Case::with(name(&k, "all alike"), Kernel::Sort(k), &[vec![value; length]]));
    }
}

fn looked_at(bench: &mut Bench<'_>, dtype: DType, descending: bool) {
    let dense = plain(dtype, &Shape::from(5), [37, 11], descending);
    for (view, layout) in views::all([5, 37]) {
        let k = SortRows { input: Operand::new(dtype, layout), ..dense.clone() };
        bench.add(case(&k, &format!("input {view}")));
    }
    for (view, layout) in views::distinct([5, 11]) {
        let [values, indices] = dense.outs.clone().map(|o| Operand::new(o.dtype, layout.clone()));
        let [dense_values, dense_indices] = dense.outs.clone();
        let k = SortRows { outs: [values, dense_indices], ..dense.clone() };
        bench.add(case(&k, &format!("values {view}")));
        let k = SortRows { outs: [dense_values, indices], ..dense.clone() };
        bench.add(case(&k, &format!("indices {view}")));
    }
}
