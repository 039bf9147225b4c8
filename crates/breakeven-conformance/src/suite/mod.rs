//! What is tried: one file for each kind of kernel.

mod attentions;
mod casts;
mod convs;
mod copies;
mod fused;
mod gathers;
mod graphs;
mod maps;
mod matmuls;
mod reductions;
mod row_wise;
mod scans;
mod scatters;
mod sorts;
mod specials;
mod values;
mod witnesses;

pub use attentions::attentions;
pub use casts::casts;
pub use convs::convs;
pub use copies::copies;
pub use fused::fused;
pub use gathers::gathers;
pub use graphs::{graph_on, graphs, typed_graph};
pub use maps::maps;
pub use matmuls::{byte_matmuls, lower_matmuls, matmuls};
pub use reductions::reductions;
pub use row_wise::row_wise;
pub use scans::scans;
pub use scatters::scatters;
pub use sorts::sorts;
pub use specials::specials;
pub use values::values;
pub(crate) use witnesses::witnesses;

use breakeven_ir::{DType, Expr, ExprBuilder, MapDef, Row};

use crate::Bench;

/// Parameters for rows that take some.
const PARAMS: [[f64; 2]; 2] = [[0.2, 0.5], [-1.0, 3.0]];

/// Each row at each element type that the device has.
fn rows(bench: &Bench<'_>) -> Vec<(&'static MapDef, DType)> {
    let all = dtypes(bench);
    let has = |dtype: &DType| all.contains(dtype);
    let at = |def: &'static MapDef| def.family.dtypes().into_iter().filter(has).map(move |d| (def, d));
    breakeven_ir::MAPS.iter().flat_map(at).collect()
}

/// Element types that the device computes with or moves.
fn dtypes(bench: &Bench<'_>) -> Vec<DType> {
    let caps = bench.device().caps();
    caps.dtypes.iter().chain(&caps.moved).copied().collect()
}

fn row(name: &str) -> Row {
    Row::named(name).unwrap_or_else(|| panic!("the table has a row {name}"))
}

/// Rows one after the other over f32: `chain(&["mul", "gelu"])` is `gelu(a * b)`. Each further tensor a row takes is a new
/// argument.
fn chain(names: &[&str]) -> Expr {
    let mut b = ExprBuilder::default();
    let mut at = b.arg(DType::F32);
    for name in names {
        let row = row(name);
        let mut operands = vec![at];
        operands.extend(row.args[1..].iter().map(|k| match k {
            breakeven_ir::Kind::P => b.param(DType::F32),
            _ => b.arg(DType::F32),
        }));
        at = b.row(row, DType::F32, &operands);
    }
    b.finish(at)
}
