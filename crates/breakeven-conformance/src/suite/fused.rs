//! Rows fused into one expression.

use breakeven_ir::{DType, Expr, ExprBuilder, Family, Kernel, Kind, MAPS, Map, MapDef, Operand, Row, Shape};

use super::chain;
use crate::data::Random;
use crate::{Bench, Case, Tier, views};

/// Known chains, then random expressions over f32 with truth values inside, on views.
pub fn fused(bench: &mut Bench<'_>, tier: Tier) {
    for names in [&["mul", "add", "gelu"][..], &["add", "tanh", "mul"], &["square", "relu", "sqrt"], &["sub", "exp"]] {
        for n in [1, 65, 1025, 4099] {
            let expr = chain(names);
            let params = vec![0.5; expr.params()];
            bench.add(Case::new(format!("{names:?} [{n}]"), Kernel::Map(Map::dense(expr, params, n))));
        }
    }
    let count = if tier == Tier::Full { 200 } else { 60 };
    for seed in 0..count {
        bench.add(random(seed));
    }
}

fn random(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let shape = random.pick(&[Shape::from(257), Shape::from([3, 37]), Shape::from([2, 5, 13])]).clone();
    let expr = expression(&mut random);
    let all = views::all(shape.clone());
    let look = |&dtype: &DType| Operand::new(dtype, random.pick(&all).1.clone());
    let inputs: Vec<Operand> = expr.args().iter().map(look).collect();
    let out = Operand::new(expr.dtype(), random.pick(&views::distinct(shape)).1.clone());
    let params = (0..expr.params()).map(|_| random.unit() * 2.0 + 0.1).collect();
    let name = format!("random expression {seed}");
    Case::new(name, Kernel::Map(Map { expr, params, inputs, out }))
}

/// Two to nine rows; each takes earlier values of the type it needs.
fn expression(random: &mut Random) -> Expr {
    let float: Vec<&MapDef> =
        MAPS.iter().filter(|m| matches!(m.family, Family::Any | Family::Number | Family::Float)).collect();
    let mut b = ExprBuilder::default();
    let mut values = vec![b.arg(DType::F32), b.arg(DType::F32)];
    let mut masks: Vec<u16> = Vec::new();
    for _ in 0..random.below(8) + 2 {
        let row = *random.pick(&float);
        let row = Row::named(row.name).expect("a row of the table");
        if row.args.contains(&Kind::M) && masks.is_empty() {
            continue;
        }
        let mut operand = |kind: &Kind| match kind {
            Kind::V if random.below(4) > 0 => *values.last().expect("there are arguments"),
            Kind::V => *random.pick(&values),
            Kind::M => *random.pick(&masks),
            Kind::P => b.param(DType::F32),
        };
        let operands: Vec<u16> = row.args.iter().map(&mut operand).collect();
        let made = b.row(row, DType::F32, &operands);
        if row.out == Kind::M { masks.push(made) } else { values.push(made) }
    }
    let last = b.len() as u16 - 1;
    b.finish(last)
}
