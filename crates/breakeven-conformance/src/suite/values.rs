//! Values computed elsewhere in high precision, so that a row that is wrong everywhere is found on every device.

use std::collections::BTreeMap;

use breakeven_device::HostBytes;
use breakeven_ir::{DType, Expr, Family, Kernel, Map, MapDef, Row, Scalar};
use serde_json::Value as Json;

use crate::bounds::{Bound, Rules, bounds};
use crate::{Bench, Case, Counts, Tier, run};

const VALUES: &str = include_str!("../../../breakeven-ir/tests/data/values.json");

/// One value of one row.
struct Known {
    args: Vec<Scalar>,
    want: Scalar,
    read: String,
}

type Group = (&'static str, DType, Vec<u64>);

/// Every value of the file on the device, in one kernel for each row, type and set of parameters.
pub fn values(bench: &mut Bench<'_>, _: Tier) {
    let mut groups: BTreeMap<Group, Vec<Known>> = BTreeMap::new();
    let table: Json = serde_json::from_str(VALUES).expect("values.json is JSON");
    for line in table.as_array().expect("values.json is a list") {
        let (group, known) = read(line);
        groups.entry(group).or_default().push(known);
    }
    for def in breakeven_ir::MAPS {
        let found: usize = groups.iter().filter(|(g, _)| g.0 == def.name).map(|(_, all)| all.len()).sum();
        let least = if def.family == Family::Logic { 1 << def.arity() } else { 16 };
        assert!(found >= least, "{} has {found} values computed elsewhere, not {least}", def.name);
    }
    for ((name, dtype, params), all) in groups {
        let def = Row::named(name).expect("read as a row").0;
        on_device(bench, def, dtype, params.into_iter().map(f64::from_bits).collect(), &all);
    }
}

fn read(line: &Json) -> (Group, Known) {
    let text = |key: &str| line[key].as_str().expect("a text");
    let list = |key: &str| line[key].as_array().expect("a list").iter().map(|t| t.as_str().expect("a text"));
    let dtype = DType::ALL.into_iter().find(|d| d.name() == text("dtype")).expect("an element type");
    let row = Row::named(text("row")).unwrap_or_else(|| panic!("{} is not a row", text("row")));
    let want = number(dtype, text("want"), |t| f64::from_bits(u64::from_str_radix(t, 16).expect("bits of a f64")));
    let args = list("args").map(|t| number(dtype, t, single)).collect();
    let params = list("params").map(|t| number(dtype, t, single).to_f64().to_bits()).collect();
    ((row.0.name, dtype, params), Known { args, want, read: text("read").to_owned() })
}

fn single(text: &str) -> f64 {
    f64::from(f32::from_bits(u32::from_str_radix(text, 16).expect("bits of a f32")))
}

fn number(dtype: DType, text: &str, float: impl Fn(&str) -> f64) -> Scalar {
    match text {
        "true" | "false" => Scalar::B(text == "true"),
        "nan" => Scalar::F(f64::NAN),
        _ if dtype.is_float() => Scalar::F(float(text)),
        _ => Scalar::I(text.parse().expect("an integer")),
    }
}

fn on_device(bench: &mut Bench<'_>, def: &'static MapDef, dtype: DType, params: Vec<f64>, all: &[Known]) {
    let kernel = Kernel::Map(Map::dense(Expr::row(Row(def), dtype), params, all.len()));
    if bench.device().supports(&kernel).is_err() {
        bench.count(Counts { refused: 1, ..Counts::default() });
        return;
    }
    let columns: Vec<Vec<Scalar>> = (0..def.arity()).map(|i| all.iter().map(|k| k.args[i]).collect()).collect();
    let case = Case::with(format!("{} {dtype}, values computed elsewhere", def.name), kernel, &columns);
    let got = run(bench.device(), std::slice::from_ref(&case)).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    check(bench, &case, def, &got[0][0], all);
    bench.count(Counts { launches: 1, elements: all.len() as u64, refused: 0 });
}

/// Zero, a denormal, or close to one.
fn is_tiny(x: &Scalar) -> bool {
    matches!(x, Scalar::F(x) if x.abs() < 8.0 * f64::from(f32::MIN_POSITIVE))
}

fn check(bench: &Bench<'_>, case: &Case, def: &MapDef, got: &HostBytes, all: &[Known]) {
    let rules = Rules::of(bench.device().info());
    let ulp = if rules.gpu { def.tolerance.gpu_ulp } else { def.tolerance.ulp };
    let out = case.kernel.outputs()[0].dtype;
    // On a GPU a flushed argument has another right value, which the bounds of the suite know.
    let flushed = bounds(&case.kernel, &case.inputs(), rules).swap_remove(0);
    for (i, known) in all.iter().enumerate() {
        let exact = Bound::exactly(known.want).widen(out, ulp, def.tolerance);
        let may_be_flushed = rules.gpu && known.args.iter().chain([&known.want]).any(is_tiny);
        let allowed = if may_be_flushed { exact.or(flushed[i]) } else { exact };
        let value = Scalar::load(out, got, i);
        let is_right = allowed.allows(value, false);
        assert!(is_right, "{} on {}: got {value:?}, allowed {allowed}", known.read, bench.device().info().name);
    }
}
