//! Every row of the table.

use breakeven_ir::{DType, Expr, Kernel, Layout, Map, MapDef, Operand, Row, Scalar, Shape};

use super::{PARAMS, rows};
use crate::bounds::Rules;
use crate::{Bench, Case, Tier, data, views};

/// Every row at every type: all lengths, all views, one buffer read twice, the output over an input, strided outputs.
pub fn maps(bench: &mut Bench<'_>, tier: Tier) {
    for (def, dtype) in rows(bench) {
        let shows_all = shows_all(bench, def, dtype);
        let tier = if shows_all { tier } else { Tier::Quick };
        for (turn, n) in tier.lengths().into_iter().enumerate() {
            bench.add(at_length(def, dtype, n, turn));
        }
        if shows_all {
            looked_at(bench, def, dtype);
            shared(bench, def, dtype);
        }
    }
}

/// Rows that read and write every sort of operand, at every type.
const AT_EVERY_TYPE: [&str; 4] = ["add", "where", "neg", "less"];

/// How a GPU finds elements depends on their width and not on the row, and it compiles a text for each view: one type of each
/// row, and every type of a few rows, show all views and lengths.
fn shows_all(bench: &Bench<'_>, def: &MapDef, dtype: DType) -> bool {
    let is_gpu = Rules::of(bench.device().info()).gpu;
    !is_gpu || dtype == def.family.dtypes()[0] || AT_EVERY_TYPE.contains(&def.name)
}

/// The special numbers take turns in the last position of each input.
fn at_length(def: &'static MapDef, dtype: DType, n: usize, turn: usize) -> Case {
    let case = Case::new(format!("{} {dtype}[{n}]", def.name), kernel(def, dtype, n));
    let inputs = case.kernel.inputs().len();
    (0..inputs).fold(case, |case, i| {
        let of = data::special(case.kernel.inputs()[i].dtype);
        case.last(i, of[(turn + 7 * i) % of.len()])
    })
}

pub(super) fn kernel(def: &'static MapDef, dtype: DType, shape: impl Into<Shape>) -> Kernel {
    Kernel::Map(Map::dense(Expr::row(Row(def), dtype), PARAMS[0][..def.params()].to_vec(), shape))
}

/// Inputs under every view, each input under another; then outputs under every view that has no place twice.
fn looked_at(bench: &mut Bench<'_>, def: &'static MapDef, dtype: DType) {
    let shape = Shape::from([7, 11]);
    let Kernel::Map(dense) = kernel(def, dtype, shape.clone()) else { unreachable!("a row is a map") };
    let all = views::all(shape.clone());
    for (turn, (name, _)) in all.iter().enumerate() {
        let look = |(i, o): (usize, &Operand)| Operand::new(o.dtype, all[(turn + 4 * i) % all.len()].1.clone());
        let map = Map { inputs: dense.inputs.iter().enumerate().map(look).collect(), ..dense.clone() };
        bench.add(Case::new(format!("{} {dtype}{shape} {name}", def.name), Kernel::Map(map)));
    }
    for (name, layout) in views::distinct(shape.clone()) {
        let map = Map { out: Operand::new(dense.out.dtype, layout), ..dense.clone() };
        bench.add(Case::new(format!("{} {dtype}{shape} output {name}", def.name), Kernel::Map(map)));
    }
    for shape in [Shape::scalar(), Shape::from([2, 1, 3, 1, 2, 1, 2, 3]), Shape::from([3, 0, 5])] {
        bench.add(Case::new(format!("{} {dtype}{shape}", def.name), kernel(def, dtype, shape)));
    }
}

fn shared(bench: &mut Bench<'_>, def: &'static MapDef, dtype: DType) {
    for n in [5, 33, 1025] {
        let case = || Case::new(format!("{} {dtype}[{n}]", def.name), kernel(def, dtype, n));
        let inputs: Vec<DType> = case().kernel.inputs().iter().map(|o| o.dtype).collect();
        let out = case().kernel.outputs()[0].dtype;
        if inputs.len() > 1 && inputs.iter().all(|&d| d == inputs[0]) {
            bench.add(case().aliased());
            if out == inputs[0] {
                bench.add(case().aliased().in_place(0));
            }
            bench.add(overlapping(case()));
        }
        (0..inputs.len()).filter(|&i| inputs[i] == out).for_each(|i| bench.add(case().in_place(i)));
    }
}

/// Inputs that are overlapping parts of one buffer, as in `x[1..] + x[..n - 1]`.
fn overlapping(case: Case) -> Case {
    let Kernel::Map(mut map) = case.kernel else { unreachable!("a row is a map") };
    let whole = Layout::dense(map.elements() + map.inputs.len());
    let count = map.inputs.len();
    for (i, operand) in map.inputs.iter_mut().enumerate() {
        operand.layout = whole.slice(0, count - 1 - i, map.out.layout.shape.elements(), 1);
    }
    let dtype = map.inputs[0].dtype;
    let mut case = Case::new(case.name + " overlapping", Kernel::Map(map));
    case.bound.fill(0);
    // The first input does not reach the front of the buffer, which the others read.
    (0..count).for_each(|at| Scalar::of(dtype, 1.0).store(dtype, &mut case.buffers[0], at));
    case
}
