//! The page `docs/onnx.md`.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::Column;
use crate::case::{Case, Outcome};

/// How many names of cases a line shows.
const NAMED: usize = 3;

/// The whole page.
pub fn write(cases: &[Case], columns: &[Column]) -> String {
    let mut page = String::from(HEAD);
    suites(&mut page, cases, columns);
    failures(&mut page, cases, columns);
    incomparable(&mut page, cases, columns);
    for column in columns {
        reasons(&mut page, cases, column);
    }
    operators(&mut page, cases, columns);
    page
}

const HEAD: &str = "\
# ONNX

Written by `cargo xtask onnx`, which runs the backend tests that the Python package `onnx` brings, on the CPU and on two
software GPUs; `--check` compares this page. Each device is alone: what it cannot run is not run elsewhere. Each case runs
twice, since the second time the model is repeated without being read anew. Tolerances are the suite's; integers and truth
values must be equal, types and shapes too. A case that is not passed must be refused with a reason; one that gives a wrong
answer has failed. *Our types* are f64, f32, f16, bf16, i64, i32, u8 and bool; GPUs do not compute in f64, and add up, scan
and multiply no matrices of 64-bit integers.
";

fn suites(page: &mut String, cases: &[Case], columns: &[Column]) {
    let heads: Vec<String> =
        columns.iter().map(|c| format!("{} passed | unsupported | not comparable | failed |", c.device)).collect();
    let _ = writeln!(page, "\n## Suites\n\n| suite | cases | {}", heads.join(" "));
    let _ = writeln!(page, "|--|--|{}", "--|--|--|--|".repeat(columns.len()));
    let kinds: std::collections::BTreeSet<&str> = cases.iter().map(|case| case.kind.as_str()).collect();
    for kind in kinds {
        row(page, kind, cases, columns, |case| case.kind == kind);
    }
    row(page, "all", cases, columns, |_| true);
    row(page, "of our types", cases, columns, |case| case.ours);
}

fn row(page: &mut String, name: &str, cases: &[Case], columns: &[Column], is_in: impl Fn(&Case) -> bool) {
    let _ = write!(page, "| {name} | {} |", cases.iter().filter(|case| is_in(case)).count());
    for column in columns {
        let [passed, unsupported, incomparable, failed] = counts(cases, column, &is_in);
        let _ = write!(page, " {passed} | {unsupported} | {incomparable} | {failed} |");
    }
    page.push('\n');
}

fn counts(cases: &[Case], column: &Column, is_in: impl Fn(&Case) -> bool) -> [usize; 4] {
    let mut counts = [0; 4];
    for (_, outcome) in cases.iter().zip(&column.outcomes).filter(|(case, _)| is_in(case)) {
        counts[match outcome {
            Outcome::Passed => 0,
            Outcome::Unsupported(_) => 1,
            Outcome::Incomparable(_) => 2,
            Outcome::Failed(_) => 3,
        }] += 1;
    }
    counts
}

fn failures(page: &mut String, cases: &[Case], columns: &[Column]) {
    let failed = columns.iter().flat_map(|column| {
        cases.iter().zip(&column.outcomes).filter_map(|(case, outcome)| match outcome {
            Outcome::Failed(why) => Some(format!("- {}, {}: {why}", column.device, case.name)),
            _ => None,
        })
    });
    let lines: Vec<String> = failed.collect();
    let text = if lines.is_empty() { "None.".to_owned() } else { lines.join("\n") };
    let _ = writeln!(page, "\n## Failed\n\n{text}");
}

fn incomparable(page: &mut String, cases: &[Case], columns: &[Column]) {
    let mut lines = std::collections::BTreeSet::new();
    for (case, outcome) in columns.iter().flat_map(|column| cases.iter().zip(&column.outcomes)) {
        if let Outcome::Incomparable(why) = outcome {
            lines.insert(format!("- {}: {why}.", case.name));
        }
    }
    let _ = writeln!(page, "\n## Not comparable\n\n{}", lines.into_iter().collect::<Vec<_>>().join("\n"));
}

fn reasons(page: &mut String, cases: &[Case], column: &Column) {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (case, outcome) in cases.iter().zip(&column.outcomes) {
        if let Outcome::Unsupported(why) = outcome {
            reasons.entry(why.as_str()).or_default().push(&case.name);
        }
    }
    let mut reasons: Vec<(&str, Vec<&str>)> = reasons.into_iter().collect();
    reasons.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then(a.0.cmp(b.0)));
    let _ = writeln!(page, "\n## Not supported on {}, and why\n\n| cases | why | such as |\n|--|--|--|", column.device);
    for (why, names) in reasons {
        let shown = names[..names.len().min(NAMED)].join(", ");
        let _ = writeln!(page, "| {} | {} | {shown} |", names.len(), why.replace('|', "\\|").replace('\n', " "));
    }
}

fn operators(page: &mut String, cases: &[Case], columns: &[Column]) {
    let heads: Vec<String> = columns.iter().map(|c| format!("{} |", c.device)).collect();
    let _ = writeln!(page, "\n## Operators\n\nCases passed for each, spelled-out forms included.\n");
    let _ = writeln!(page, "| operator | cases | {}\n|--|--|{}", heads.join(" "), "--|".repeat(columns.len()));
    let names: std::collections::BTreeSet<&str> = cases.iter().map(|case| case.operator.as_str()).collect();
    for name in names {
        let _ = write!(page, "| {name} | {} |", cases.iter().filter(|case| case.operator == name).count());
        for column in columns {
            let _ = write!(page, " {} |", counts(cases, column, |case| case.operator == name)[0]);
        }
        page.push('\n');
    }
}
