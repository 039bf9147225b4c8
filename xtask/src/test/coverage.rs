//! Line coverage through `cargo llvm-cov`, where it is or can be installed.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::install::{has_cargo_command, succeeds};
use super::step::Environment;
use crate::workspace;

/// Lines that the tests reach, for each crate and in all.
#[derive(Debug, Default, PartialEq)]
pub struct Coverage {
    crates: BTreeMap<String, Lines>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Lines {
    count: u64,
    covered: u64,
}

impl Lines {
    fn percent(self) -> f64 {
        100.0 * self.covered as f64 / self.count.max(1) as f64
    }

    fn plus(self, more: Lines) -> Lines {
        Lines { count: self.count + more.count, covered: self.covered + more.covered }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, lines) in &self.crates {
            writeln!(f, "{:>6.1}%  {name} ({} of {})", lines.percent(), lines.covered, lines.count)?;
        }
        let all = self.crates.values().fold(Lines::default(), |sum, lines| sum.plus(*lines));
        write!(f, "line coverage: {:.1}% of {} lines (goal: 90%)", all.percent(), all.count)
    }
}

/// What the tests reach, or why nobody knows.
pub fn measure(may_install: bool, environment: &Environment) -> Result<Coverage, String> {
    let has_llvm_tools = has_llvm_tools() || may_install && install_llvm_tools();
    if !has_llvm_tools {
        return Err("the component llvm-tools is missing (rustup component add llvm-tools)".into());
    }
    let program = find_program().or_else(|| if may_install { install_program() } else { None });
    let program = program.ok_or("cargo-llvm-cov is missing (cargo install cargo-llvm-cov)")?;
    let report = workspace::root().join("target/coverage.json");
    let tests: &[&str] = if has_cargo_command("nextest") { &["nextest"] } else { &[] };
    let mut command = Command::new(program);
    command.current_dir(workspace::root()).envs(environment.iter().map(|(key, value)| (key, value)));
    command.arg("llvm-cov").args(tests).args(["--workspace", "--json", "--summary-only", "--output-path"]).arg(&report);
    if !command.status().is_ok_and(|status| status.success()) {
        return Err("the tests did not pass under cargo llvm-cov".into());
    }
    let report = fs::read_to_string(&report).map_err(|error| format!("its report cannot be read: {error}"))?;
    read(&report).ok_or_else(|| "its report names no lines".into())
}

fn has_llvm_tools() -> bool {
    let libraries = Command::new("rustc").current_dir(workspace::root()).args(["--print", "target-libdir"]).output();
    let folder = libraries.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    folder.is_ok_and(|folder| folder.with_file_name("bin").join("llvm-cov").exists())
}

fn install_llvm_tools() -> bool {
    succeeds(Command::new("rustup").current_dir(workspace::root()).args(["component", "add", "llvm-tools"]))
}

fn own_tools() -> PathBuf {
    workspace::root().join("target/tools")
}

fn find_program() -> Option<PathBuf> {
    let own = own_tools().join("bin/cargo-llvm-cov");
    let installed = has_cargo_command("llvm-cov").then(|| PathBuf::from("cargo-llvm-cov"));
    installed.or_else(|| own.exists().then_some(own))
}

/// Builds the program below `target`, so that nothing outside the repository changes.
fn install_program() -> Option<PathBuf> {
    let mut command = Command::new("cargo");
    command.args(["install", "--quiet", "--locked", "cargo-llvm-cov", "--root"]).arg(own_tools());
    succeeds(&mut command).then(find_program)?
}

/// Sums `summary.lines` of each of `data[0].files` in a report of llvm-cov by crate.
fn read(report: &str) -> Option<Coverage> {
    let report: Value = serde_json::from_str(report).ok()?;
    let mut coverage = Coverage::default();
    for file in report.pointer("/data/0/files")?.as_array()? {
        let number = |pointer: &str| file.pointer(pointer).and_then(Value::as_u64);
        let lines = Lines { count: number("/summary/lines/count")?, covered: number("/summary/lines/covered")? };
        let sum = coverage.crates.entry(crate_of(file["filename"].as_str()?)).or_default();
        *sum = sum.plus(lines);
    }
    Some(coverage)
}

/// The folder that holds `src` (or `tests`) in the path of a source file.
fn crate_of(path: &str) -> String {
    let parts: Vec<&str> = path.split(['/', '\\']).collect();
    let inside = parts.iter().position(|part| ["src", "tests", "examples", "benches"].contains(part));
    inside.and_then(|at| at.checked_sub(1)).map_or(path, |at| parts[at]).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_summed_by_crate() {
        let report = r#"{"data": [{"files": [
            {"filename": "/r/crates/a/src/lib.rs", "summary": {"lines": {"count": 10, "covered": 9}}},
            {"filename": "/r/crates/a/src/b/c.rs", "summary": {"lines": {"count": 10, "covered": 10}}},
            {"filename": "/r/xtask/src/main.rs", "summary": {"lines": {"count": 20, "covered": 5}}}]}]}"#;
        let expected = "  95.0%  a (19 of 20)\n  25.0%  xtask (5 of 20)\nline coverage: 60.0% of 40 lines (goal: 90%)";
        assert_eq!(read(report).expect("a report").to_string(), expected);
    }

    #[test]
    fn what_is_no_report_is_refused() {
        assert_eq!(read("{\"data\": []}"), None);
        assert_eq!(read("not json"), None);
    }
}
