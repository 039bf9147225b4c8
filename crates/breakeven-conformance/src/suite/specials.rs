//! Special values: every row on all of them, and every pair of them.

use breakeven_ir::{DType, Expr, Kernel, Map, MapDef, Row, Scalar};

use super::{PARAMS, rows};
use crate::{Bench, Case, Tier, data};

/// Every row on every combination of special values, with each set of parameters.
pub fn specials(bench: &mut Bench<'_>, _: Tier) {
    for (def, dtype) in rows(bench) {
        let values = combinations(def, dtype);
        let sets = if def.params() == 0 { 1 } else { PARAMS.len() };
        for params in &PARAMS[..sets] {
            let map = Map::dense(Expr::row(Row(def), dtype), params[..def.params()].to_vec(), values[0].len());
            bench.add(Case::with(format!("{} {dtype} special values", def.name), Kernel::Map(map), &values));
        }
    }
}

/// For each input one column: all pairs over the first two, a third takes turns.
fn combinations(def: &MapDef, dtype: DType) -> Vec<Vec<Scalar>> {
    let expr = Expr::row(Row::named(def.name).expect("a row of the table"), dtype);
    let of: Vec<&[f64]> = expr.args().iter().map(|&d| data::special(d)).collect();
    let pairs = of[0].len() * of.get(1).map_or(1, |b| b.len());
    let column = |i: usize| {
        let at = |e: usize| match i {
            0 => of[0][e % of[0].len()],
            1 => of[1][e / of[0].len()],
            _ => of[i][(e + e / of[0].len()) % of[i].len()],
        };
        (0..pairs).map(|e| Scalar::of(expr.args()[i], at(e))).collect()
    };
    (0..of.len()).map(column).collect()
}
