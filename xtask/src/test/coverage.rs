//! Line coverage through `cargo llvm-cov`, where it is or can be installed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::install::{has_cargo_command, succeeds};
use super::step::Environment;
use crate::workspace;

/// Percent of lines that the tests reach, or why nobody knows.
pub fn measure(may_install: bool, environment: &Environment) -> Result<f64, String> {
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
    line_percent(&report).ok_or_else(|| "its report has no line totals".into())
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

/// The total of `data[0].totals.lines.percent` in a report of llvm-cov.
fn line_percent(report: &str) -> Option<f64> {
    let report: Value = serde_json::from_str(report).ok()?;
    report.pointer("/data/0/totals/lines/percent")?.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_from_a_report() {
        let report = r#"{"data": [{"totals": {"lines": {"count": 200, "covered": 183, "percent": 91.5}}}]}"#;
        assert_eq!(line_percent(report), Some(91.5));
        assert_eq!(line_percent("{\"data\": []}"), None);
        assert_eq!(line_percent("not json"), None);
    }
}
