//! Each collected case that this product can meet has its test, or a written reason in `docs/cases.toml`.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use toml::{Table, Value};

use super::rust::{RustFile, identifier, words};
use super::{Finding, Repository};

const CASES: &str = "crates/breakeven-conformance/data/cases.jsonl";
const TABLE: &str = "docs/cases.toml";

/// The crate whose functions are tests without saying so: each runs on every device.
const SUITE: &str = "breakeven-conformance";

/// Areas whose cases must be in the table, by first letter: floats, reductions, matmul, graphs, limits, memory,
/// benchmarks. Others may be.
const AREAS: [&str; 7] = ["F", "R", "M", "G", "L", "P", "B"];

/// Required cases without an entry, and entries that name no known case, no test or no reason.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let text = |path: &str| repository.file(path).map(|file| file.text.as_str());
    let (Some(cases), Some(table)) = (text(CASES), text(TABLE)) else {
        return vec![Finding::new(TABLE, 1, format!("{TABLE} and {CASES} must both exist"))];
    };
    let known = match known(cases) {
        Ok(known) => known,
        Err(line) => return vec![Finding::new(CASES, line, "not a JSON object with id, area and where")],
    };
    match table.parse::<Table>() {
        Ok(entries) => check_table(&known, &entries, table, &repository.rust),
        Err(error) => vec![Finding::new(TABLE, 1, format!("not TOML: {}", error.message()))],
    }
}

/// A collected case.
struct Case {
    /// What went wrong.
    what: String,
    /// It must be in the table.
    is_required: bool,
}

/// The cases by their ids, or the number of the line that cannot be read.
fn known(cases: &str) -> Result<BTreeMap<String, Case>, usize> {
    let mut known = BTreeMap::new();
    for (index, line) in cases.lines().enumerate() {
        let case: Json = serde_json::from_str(line).map_err(|_| index + 1)?;
        let field = |name: &str| case.get(name).and_then(Json::as_str).ok_or(index + 1);
        let is_ours = AREAS.iter().any(|letter| field("area").is_ok_and(|area| area.starts_with(letter)));
        let is_required = is_ours && field("where")?.split('/').any(|place| place == "C" || place == "V");
        known.insert(field("id")?.to_string(), Case { what: field("what")?.to_string(), is_required });
    }
    Ok(known)
}

fn check_table(known: &BTreeMap<String, Case>, entries: &Table, text: &str, rust: &[RustFile]) -> Vec<Finding> {
    let allows_pending = entries.get("allow_pending").and_then(Value::as_bool).unwrap_or(false);
    let line_of = |id: &str| text.lines().position(|line| line == format!("[{id}]")).map_or(1, |index| index + 1);
    let at = |id: &str, message: String| Finding::new(TABLE, line_of(id), message);
    let missing = known.iter().filter(|(id, case)| case.is_required && !entries.contains_key(*id));
    let missing = missing.map(|(id, case)| at(id, format!("case {id} has no entry: {}", case.what)));
    let listed = entries.iter().filter(|(_, entry)| entry.is_table());
    let wrong = listed.filter_map(|(id, entry)| {
        if !known.contains_key(id) {
            return Some(at(id, format!("{id} is not a collected case")));
        }
        complaint(entry, allows_pending, rust).map(|complaint| at(id, format!("case {id}: {complaint}")))
    });
    missing.chain(wrong).collect()
}

/// What is wrong with an entry.
fn complaint(entry: &Value, allows_pending: bool, rust: &[RustFile]) -> Option<String> {
    let flag = |key: &str| entry.get(key).and_then(Value::as_bool).unwrap_or(false);
    let reason = entry.get("reason").and_then(Value::as_str).unwrap_or_default();
    let tests = tests_of(entry);
    if let Some(lost) = tests.iter().find(|test| !exists(test, rust)) {
        return Some(format!("there is no test '{lost}'"));
    }
    if flag("pending") && !allows_pending {
        return Some("still pending: name its test, or the reason why it has none".into());
    }
    let is_empty = tests.is_empty() && reason.trim().len() < 10 && !flag("pending");
    is_empty.then(|| "neither a test nor a reason".into())
}

/// `test = "a"` or `test = ["a", "b"]`.
fn tests_of(entry: &Value) -> Vec<&str> {
    match entry.get("test") {
        Some(Value::Array(tests)) => tests.iter().map(|test| test.as_str().unwrap_or_default()).collect(),
        Some(test) => vec![test.as_str().unwrap_or_default()],
        None => Vec::new(),
    }
}

/// Whether `crate::path::function` is a test of that crate, in a file or module called as the last part of the path.
fn exists(test: &str, rust: &[RustFile]) -> bool {
    let parts: Vec<&str> = test.split("::").collect();
    let [crate_name, path @ .., function] = &parts[..] else { return false };
    let crate_name = crate_name.replace('_', "-");
    let mine = rust.iter().filter(|file| file.crate_name == crate_name && is_in(file, path));
    mine.into_iter().any(|file| {
        let mut definitions = (0..file.code.len()).filter(|&index| defines(&file.code[index], function));
        definitions.any(|index| crate_name == SUITE || is_test(&file.code[..index]))
    })
}

/// Whether the attributes just above a function make it a test.
fn is_test(above: &[String]) -> bool {
    let attributes =
        above.iter().rev().map(|line| line.trim()).take_while(|line| line.is_empty() || line.starts_with("#["));
    attributes.into_iter().any(|attribute| attribute == "#[test]")
}

fn is_in(file: &RustFile, path: &[&str]) -> bool {
    let Some(module) = path.iter().rev().find(|module| **module != "tests") else { return true };
    let is_file = file.path.ends_with(&format!("/{module}.rs")) || file.path.contains(&format!("/{module}/"));
    is_file || file.code.iter().any(|line| words(line, "mod").any(|at| identifier(&line[at + 3..]) == *module))
}

fn defines(line: &str, function: &str) -> bool {
    words(line, "fn").any(|at| identifier(&line[at + 2..]) == function)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{places, sample};
    use super::*;

    const DATA: &str = r#"{"id": "F01", "area": "F. Floats", "where": "C/V", "what": "tanh overflows"}
{"id": "F09", "area": "F. Floats", "where": "G/O", "what": "TF32"}
{"id": "S01", "area": "S. Waiting", "where": "V", "what": "hangs"}
"#;
    const FLOATS: (&str, &str) = ("crates/breakeven-conformance/src/floats.rs", "fn tanh_is_finite() {}\n");
    const OTHERS: (&str, &str) =
        ("crates/breakeven/src/ops.rs", "fn open() {}\n#[test]\n// Why.\n#[ignore]\nfn gelu_is_finite() {}\n");

    fn check_table(table: &str) -> Vec<String> {
        places(&check(&sample(&[(CASES, DATA), (TABLE, table), FLOATS, OTHERS])))
    }

    #[test]
    fn a_test_that_exists_or_a_reason_is_enough() {
        for entry in [
            "test = \"breakeven-conformance::floats::tanh_is_finite\"",
            "test = [\"breakeven_conformance::floats::tests::tanh_is_finite\"]",
            "test = \"breakeven::ops::gelu_is_finite\"",
            "reason = \"conv is not built yet\"",
        ] {
            assert!(check_table(&format!("[F01]\n{entry}\n")).is_empty(), "{entry}");
        }
    }

    #[test]
    fn every_required_case_is_listed_and_none_that_is_unknown() {
        assert_eq!(check_table("").len(), 1);
        let both =
            |other: &str| format!("[F01]\nreason = \"not built yet\"\n\n[{other}]\nreason = \"met elsewhere\"\n");
        assert_eq!(check_table(&both("S99")), ["docs/cases.toml:4"]);
        assert!(check_table(&both("S01")).is_empty());
    }

    #[test]
    fn lost_tests_and_empty_entries_are_found() {
        for entry in [
            "test = \"breakeven-conformance::floats::gone\"",
            "test = \"breakeven-conformance::other::tanh_is_finite\"",
            "test = \"breakeven-ir::floats::tanh_is_finite\"",
            "test = \"breakeven::ops::open\"",
            "test = \"tanh_is_finite\"",
            "test = 3",
            "reason = \" \"",
            "note = \"nothing\"",
        ] {
            assert_eq!(check_table(&format!("\n[F01]\n{entry}\n")), ["docs/cases.toml:2"], "{entry}");
        }
    }

    #[test]
    fn pending_counts_unless_the_file_allows_it() {
        assert_eq!(check_table("[F01]\npending = true\n").len(), 1);
        assert!(check_table("allow_pending = true\n[F01]\npending = true\n").is_empty());
    }

    #[test]
    fn unreadable_files_are_found() {
        assert_eq!(check(&sample(&[(CASES, DATA)])).len(), 1);
        assert_eq!(check(&sample(&[(CASES, "{\n"), (TABLE, "")])).len(), 1);
        assert_eq!(check(&sample(&[(CASES, DATA), (TABLE, "[F01")])).len(), 1);
    }
}
