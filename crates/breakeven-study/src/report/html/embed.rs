//! The summary as it stands in the page: without what says nothing, and safe inside an element.

use serde_json::Value;

use crate::Summary;

/// Raw samples that are drawn for all cells together. More of them would neither be told apart nor fit: a page of 1,000,000 samples stays
/// below 5 MB.
const DOTS: usize = 60_000;
/// A chart is less than 1,000 pixels high, so four digits place a dot.
const DOT_DIGITS: usize = 4;
/// Times are printed with three digits.
const TIME_DIGITS: usize = 6;

/// The summary as JSON that no HTML parser can take for markup, wherever a string in it would end the element.
pub fn json(summary: &Summary) -> String {
    let cells: usize = summary.runs.iter().map(|run| run.cells.len()).sum();
    let mut value = serde_json::to_value(summary).expect("a summary has string keys only, and nothing in it refuses");
    slim(&mut value, DOTS / cells.max(1));
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
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
