//! The summary as it stands in the page: without what says nothing, and safe inside an element.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{CellSummary, Status, Summary};

/// Raw samples that are drawn for all cells together. More of them would neither be told apart nor fit: a page of 1,000,000 samples stays
/// below 5 MB.
const DOTS: usize = 60_000;
/// As many cells fit into a page of 5 MB with all that is known of them.
const ALL_TOLD: usize = 4_000;
/// Where there are more, so many are: the worst. Of the others there is what charts need, up to some ten thousand.
const TOLD: usize = 600;
/// Raw samples that are drawn then.
const FEWER_DOTS: usize = 20_000;
/// What only the table of all cells and the texts beside dots tell.
const DETAILS: [&str; 12] = [
    "why",
    "dropped",
    "p99_ns",
    "interval_ns",
    "warm_up",
    "stop",
    "flags",
    "checksum",
    "ran",
    "pool",
    "made",
    "samples",
];
/// A chart is less than 1,000 pixels high, so four digits place a dot.
const DOT_DIGITS: usize = 4;
/// Times are printed with three digits.
const TIME_DIGITS: usize = 6;

/// The summary as JSON that no HTML parser can take for markup, wherever a string in it would end the element.
pub fn json(summary: &Summary) -> String {
    let cells: usize = summary.runs.iter().map(|run| run.cells.len()).sum();
    let mut value = serde_json::to_value(summary).expect("a summary has string keys only, and nothing in it refuses");
    let dots = if cells > ALL_TOLD { FEWER_DOTS } else { DOTS };
    if cells > ALL_TOLD {
        shorten(&mut value, &worst(summary));
    }
    slim(&mut value, dots / cells.max(1));
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// The places (of the run, and in it) of the cells that a reader looks for: those that failed, then those that take longest compared with the fastest
/// device at the same work.
fn worst(summary: &Summary) -> BTreeSet<(usize, usize)> {
    let rows = || {
        summary
            .runs
            .iter()
            .enumerate()
            .flat_map(|(run, of)| of.cells.iter().enumerate().map(move |(at, row)| ((run, at), row)))
    };
    let work = |run: usize, row: &CellSummary| {
        let cell = &row.cell;
        (run, cell.operation.clone(), cell.shape.clone(), cell.dtype.clone(), cell.mode)
    };
    let mut fastest = BTreeMap::new();
    for ((run, _), row) in rows() {
        let least = fastest.entry(work(run, row)).or_insert(f64::INFINITY);
        *least = f64::min(*least, row.q1_ns.unwrap_or(f64::INFINITY));
    }
    let badness = |run: usize, row: &CellSummary| match row.status {
        Status::Ok => row.q1_ns.unwrap_or(0.0) / fastest[&work(run, row)],
        Status::Unsupported | Status::Skipped => 0.0,
        _ => f64::INFINITY,
    };
    let mut all: Vec<(f64, (usize, usize))> = rows().map(|(place, row)| (badness(place.0, row), place)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.into_iter().take(TOLD).map(|(_, place)| place).collect()
}

/// Takes the details of all cells but those at the places `told`, and marks them.
fn shorten(summary: &mut Value, told: &BTreeSet<(usize, usize)>) {
    let runs = summary["runs"].as_array_mut().into_iter().flatten().enumerate();
    for (run, of) in runs {
        for (at, cell) in of["cells"].as_array_mut().into_iter().flatten().enumerate() {
            let Some(fields) = cell.as_object_mut().filter(|_| !told.contains(&(run, at))) else { continue };
            let is_line = fields["shape"].as_str().and_then(|shape| shape.parse().ok()) == fields["elements"].as_u64();
            fields.retain(|name, _| !(DETAILS.contains(&name.as_str()) || is_line && name == "shape"));
            fields.insert("brief".into(), true.into());
        }
    }
}

/// Leaves out what is null, all but `dots` of the raw samples of a cell, and digits of times that nobody sees.
fn slim(value: &mut Value, dots: usize) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| slim(item, dots)),
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            for (name, field) in fields {
                match field {
                    Value::Array(times) if name == "dots_ns" => *field = thinned(times, dots).into(),
                    Value::Array(times) if name.ends_with("_ns") => {
                        for time in times {
                            *time = rounded(time, TIME_DIGITS);
                        }
                    }
                    field if name.ends_with("_ns") => *field = rounded(field, TIME_DIGITS),
                    field => slim(field, dots),
                }
            }
        }
        _ => {}
    }
}

/// At most `dots` of `times`, evenly taken, the first and the last among them.
fn thinned(times: &[Value], dots: usize) -> Vec<Value> {
    let count = times.len().min(dots);
    let place = |index: usize| index * (times.len() - 1) / (count - 1).max(1);
    (0..count).map(|index| rounded(&times[place(index)], DOT_DIGITS)).collect()
}

/// A number with so many significant digits; what is none stays as it is.
fn rounded(value: &Value, digits: usize) -> Value {
    let short = value.as_f64().and_then(|number| format!("{number:.*e}", digits - 1).parse::<f64>().ok());
    match short {
        Some(number) if number.fract() == 0.0 && number.abs() < 1e15 => Value::from(number as i64),
        Some(number) => Value::from(number),
        None => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn dots_are_thinned_and_rounded_and_nothing_else() {
        let mut value = json!({ "q1_ns": 1_234_567.89, "p99_ns": null, "dots_ns": [0.4, 12.0, 123_456.0, 1.5, 9_999_999.0], "why": ["null", {}], "parts": { "read_ns": 0.123_456_78 }, "interval_ns": [7, 8.5] });
        slim(&mut value, 3);
        let expected = json!({ "q1_ns": 1_234_570, "dots_ns": [0.4, 123_500, 10_000_000], "why": ["null", {}], "parts": { "read_ns": 0.123_457 }, "interval_ns": [7, 8.5] });
        assert_eq!(value, expected);
    }

    #[test]
    fn few_and_no_dots_are_kept() {
        let times = [json!(1.0), json!(2.0)];
        assert_eq!(thinned(&times, 40), [json!(1), json!(2)]);
        assert_eq!(thinned(&times, 1), [json!(1)]);
        assert!(thinned(&times, 0).is_empty() && thinned(&[], 40).is_empty());
    }
}
