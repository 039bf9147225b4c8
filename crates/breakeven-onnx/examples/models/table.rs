//! The page `docs/models.md`.

use std::time::Duration;

use crate::Row;
use crate::model::Outcome;

const HEAD: &str = "\
# Real models

Written by the example `models` of `breakeven-onnx`, which runs models of Python packages beside ONNX Runtime on the same
inputs; `crates/breakeven-onnx/tests/make_models.py` says how to make the files. Every output has the dtype and shape of ONNX
Runtime's, and its largest error is at most 1e-3 of its largest element, counted against f64 where both errors against f64
(ours, ONNX Runtime's) stand beside it. *Equal* counts the sets of inputs whose reading
(the label, the text of a line, who speaks when) is that of ONNX Runtime. State is carried from our own outputs. Times count
planning, copies and reading the result; a first run compiles, folds constants and packs weights.

| model | from | nodes (operators) | on | sets | largest error | of the largest element | equal | first | later | ONNX Runtime first | later |
|--|--|--|--|--|--|--|--|--|--|--|--|
";

/// One line of the table.
pub fn line(row: &Row) -> String {
    let Row { case, device, outcome } = row;
    let begin = format!("| {} | {} | {} ({}) | {device} |", case.name, case.origin, case.nodes, case.operators.len());
    let (first, later) = (time(case.reference_first), time(case.reference_later));
    match outcome {
        Ok(outcome) => {
            let Outcome { sets, error, relative, exact, equal, .. } = outcome;
            let wrong = if outcome.is_right() { "" } else { "**wrong** " };
            let exact = exact.map_or_else(String::new, |[ours, theirs]| format!(" ({ours:.1e}, {theirs:.1e})"));
            let times = format!("{} | {}", seconds(outcome.first), seconds(outcome.later));
            format!(
                "{begin} {sets} | {wrong}{error:.1e}{exact} | {relative:.1e} | {equal} | {times} | {first} | {later} |"
            )
        }
        Err(why) => {
            format!("{begin} | **{}** | | | | | {first} | {later} |", why.replace('|', "\\|").replace('\n', " "))
        }
    }
}

/// The whole page.
pub fn page(rows: &[Row]) -> String {
    let lines: String = rows.iter().map(|row| line(row) + "\n").collect();
    format!("{HEAD}{lines}")
}

fn seconds(time_taken: Duration) -> String {
    time(time_taken.as_secs_f64())
}

fn time(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.2} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}
