//! The program called as a user calls it, and what a run folder holds then.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// With these arguments, and nothing that was kept of earlier calls.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_breakeven"));
    command.args(arguments).env("BREAKEVEN_CACHE", "off");
    command
}

/// To its end.
pub fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

/// Its exit code; -1 if a signal ended it.
pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

/// All that it said.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A study of two small operations on the CPU.
pub fn scan<'a>(folder: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["scan", "--only", "relu,sum", "--device", "cpu", "--mode", "host"];
    arguments.extend(["--sizes", "1000..10000", "--output", folder]);
    arguments.extend(if more.contains(&"--seconds") { &[][..] } else { &["--seconds", "1"] });
    arguments.extend(more);
    arguments
}

/// Operation, elements and status of every cell, in order.
pub fn cells(folder: &str) -> Vec<(String, u64, String)> {
    let summary: Value =
        serde_json::from_slice(&std::fs::read(Path::new(folder).join("summary.json")).unwrap()).unwrap();
    let cells = summary["runs"][0]["cells"].as_array().unwrap();
    let key = |cell: &Value| {
        let text = |name: &str| cell[name].as_str().unwrap().to_owned();
        (text("operation"), cell["elements"].as_u64().unwrap(), text("status"))
    };
    let mut cells: Vec<_> = cells.iter().map(key).collect();
    cells.sort();
    cells
}
