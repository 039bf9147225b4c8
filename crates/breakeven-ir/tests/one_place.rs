//! Adding an elementwise operation changes one file: no other source names the rows one by one.

use std::fs;
use std::path::{Path, PathBuf};

use breakeven_ir::MAPS;

/// Crates in which a list of rows would be a second place to change.
const CRATES: [&str; 6] = ["ir", "cpu", "wgpu", "device", "plan", "exec"];
/// Rows whose names mean nothing else.
const DISTINCT: [&str; 9] =
    ["softsign", "hard_swish", "hard_sigmoid", "mish", "celu", "selu", "leaky_relu", "softplus", "gelu_tanh"];

/// Names of the rows as `maps.rs` spells them: what stands before `: Family(`.
fn rows_of(source: &str) -> Vec<&str> {
    let is_row = |rest: &str| {
        ["Any(", "Number(", "Float(", "Integer(", "Word(", "Logic("].iter().any(|family| rest.starts_with(family))
    };
    source
        .lines()
        .filter_map(|line| line.trim().split_once(": "))
        .filter(|(_, rest)| is_row(rest))
        .map(|(n, _)| n)
        .collect()
}

/// Rust files under `folder`, however deep.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of sources").map(|e| e.expect("an entry").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let rust = files.into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs"));
    rust.chain(folders.iter().flat_map(|folder| sources(folder))).collect()
}

/// The part of a file before its unit tests.
fn code_of(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a source file");
    text.split("#[cfg(test)]").next().unwrap_or_default().to_string()
}

#[test]
fn the_table_is_read_whole() {
    let names = rows_of(include_str!("../src/maps.rs"));
    let names: Vec<&str> = names.into_iter().map(|n| n.trim_end_matches('_')).collect();
    assert_eq!(names, MAPS.iter().map(|m| m.name).collect::<Vec<_>>());
    assert!(DISTINCT.iter().all(|name| names.contains(name)), "a name of this test is no longer a row");
}

#[test]
fn only_the_table_names_rows() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of crates");
    for path in CRATES.iter().flat_map(|name| sources(&crates.join(format!("breakeven-{name}/src")))) {
        if path.ends_with("breakeven-ir/src/maps.rs") {
            continue;
        }
        let code = code_of(&path);
        for name in DISTINCT {
            let literal = format!("\"{name}\"");
            let arm = format!("rows::{name}");
            assert!(
                !code.contains(&literal) && !code.contains(&arm),
                "{} names the row {name}: it must come from the table, else adding a row changes two files",
                path.display()
            );
        }
    }
}
