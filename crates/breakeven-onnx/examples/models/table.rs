//! The page `docs/models.md`.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::Row;
use crate::model::Outcome;

const HEAD: &str = "\
# Real models

Written by `cargo xtask models`, which lets pip bring models of Python packages, runs them here and in ONNX Runtime on the same
inputs, and times both in turn on the CPU; `--check` compares what is not measured, `--gpu` runs the light ones on two software
GPUs. Each device is alone: what it cannot run is not run elsewhere. `crates/breakeven-onnx/tests/make_models.py` says where
models and inputs come from.

Every output has the dtype and shape of ONNX Runtime's. Its largest error is at most 1e-3 of its largest element, the
tolerance of the backend tests for real models; where ONNX Runtime itself is farther from f64 than that, against f64. *Equal*
counts the sets of inputs whose reading (the label, the text of a line, who speaks when) is that of ONNX Runtime, and must be
all. State is carried from our own outputs. A first run plans, folds constants and packs weights; a later one counts copies and
reading the result too. Times are those of a 2-core Xeon that others used at the same time: the mean over the sets of the lower
quartile of 7 runs, and what multiple of ONNX Runtime's that is. Software GPUs are not timed.

";

const COLUMNS: &str = "\
| model | from | nodes (operators) | on | sets | equal | largest error | of the largest element | first run | later | of ONNX Runtime's |
|--|--|--|--|--|--|--|--|--|--|--|
";

/// Columns of a line that are the same on every machine.
const UNMEASURED: usize = 6;

/// One line of the table.
pub fn line(row: &Row) -> String {
    let Row { case, device, outcome } = row;
    let begin = format!("| {} | {} | {} ({}) | {device} |", case.name, case.origin, case.nodes, case.operators.len());
    match outcome {
        Ok(outcome) => format!("{begin} {} | {}", outcome.sets, measured(outcome)),
        Err(why) => format!("{begin} | **{}** | | | | | |", why.replace('|', "\\|").replace('\n', " ")),
    }
}

fn measured(outcome: &Outcome) -> String {
    let Outcome { equal, errors, timing, .. } = outcome;
    let equal = if outcome.is_right() { equal.to_string() } else { format!("**wrong** {equal}") };
    let times = match timing.later() {
        Some(later) => format!("{} | {}", time(timing.first), time(later)),
        None => "| ".to_owned(),
    };
    let ratio = timing.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2} x"));
    format!("{equal} | {:.1e} | {:.1e} | {times} | {ratio} |", errors.largest, errors.relative)
}

/// The whole page.
pub fn page(rows: &[Row]) -> String {
    let lines: String = rows.iter().map(|row| line(row) + "\n").collect();
    let exact: String = rows.iter().filter_map(exact).collect();
    format!("{HEAD}{COLUMNS}{lines}{exact}{}", left_out(rows))
}

/// How far both are from f64, where that was computed.
fn exact(row: &Row) -> Option<String> {
    let exact = row.outcome.as_ref().ok()?.errors.exact?;
    Some(format!(
        "\nFrom f64, {} on {} is {:.1e} ({:.1e} of the largest element), ONNX Runtime {:.1e}.\n",
        row.case.name, row.device, exact.ours, exact.relative, exact.theirs
    ))
}

/// The models that only the first device ran.
fn left_out(rows: &[Row]) -> String {
    let devices: BTreeSet<&str> = rows.iter().map(|row| row.device.as_str()).collect();
    let names: BTreeSet<&str> = rows.iter().map(|row| row.case.name.as_str()).collect();
    let one = |device: &str| {
        let ran = |name: &str| rows.iter().any(|row| row.device == device && row.case.name == name);
        let left: Vec<&str> = names.iter().copied().filter(|name| !ran(name)).collect();
        (!left.is_empty())
            .then(|| format!("\nNot run on {device}, which would take many minutes for them: {}.\n", left.join(", ")))
    };
    devices.into_iter().filter_map(one).collect()
}

/// What of a page does not depend on the machine that wrote it.
pub fn unmeasured(page: &str) -> Vec<String> {
    let columns = |line: &str| line.split(" | ").take(UNMEASURED).collect::<Vec<_>>().join(" | ");
    page.lines().filter(|line| !line.starts_with("From f64")).map(columns).collect()
}

fn time(taken: Duration) -> String {
    let seconds = taken.as_secs_f64();
    if seconds < 1.0 { format!("{:.2} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}
