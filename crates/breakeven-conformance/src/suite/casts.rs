//! Changes of type.

use breakeven_ir::{DType, Expr, ExprBuilder, Kernel, Map, Scalar};

use super::dtypes;
use crate::{Bench, Case, Tier, data};

/// Every type to every other, at lengths around a word and on special values.
pub fn casts(bench: &mut Bench<'_>, _: Tier) {
    let all = dtypes(bench);
    for &from in &all {
        for &to in all.iter().filter(|&&to| to != from) {
            for n in [1, 3, 5, 17, 257] {
                bench.add(Case::new(format!("cast {from} to {to} [{n}]"), kernel(from, to, n)));
            }
            let values: Vec<Scalar> = data::special(from).iter().map(|&x| Scalar::of(from, x)).collect();
            let kernel = kernel(from, to, values.len());
            bench.add(Case::with(format!("cast {from} to {to}, special values"), kernel, &[values]));
        }
    }
}

pub(super) fn kernel(from: DType, to: DType, n: usize) -> Kernel {
    let mut b = ExprBuilder::default();
    let x = b.arg(from);
    let y = b.cast(x, to);
    let expr: Expr = b.finish(y);
    Kernel::Map(Map::dense(expr, vec![], n))
}
