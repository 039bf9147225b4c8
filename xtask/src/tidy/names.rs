//! Crates are called as their folders, and types and files by words of the field.

use toml::{Table, Value};

use super::rust::{RustFile, identifier, numbered, words};
use super::{Finding, Repository};
use crate::workspace::TextFile;

const EMPTY_WORDS: [&str; 8] = ["Manager", "Helper", "Helpers", "Util", "Utils", "Context", "Handler", "Impl"];
const EMPTY_FILES: [&str; 6] = ["util.rs", "utils.rs", "helper.rs", "helpers.rs", "misc.rs", "common.rs"];

/// Crates that differ from their folder or do not share the workspace's lints, and names that say nothing.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let crates = repository.manifests().flat_map(check_manifest);
    crates
        .chain(repository.rust.iter().flat_map(|file| check_types(file).into_iter().chain(check_file(file))))
        .collect()
}

fn check_manifest(file: &TextFile) -> Vec<Finding> {
    let Ok(manifest) = file.text.parse::<Table>() else { return vec![Finding::new(&file.path, 1, "not TOML")] };
    let value = |table: &str, key: &str| manifest.get(table).and_then(|table| table.get(key)).cloned();
    let named = value("package", "name").as_ref().and_then(Value::as_str) == file.crate_name();
    let linted = value("lints", "workspace") == Some(Value::Boolean(true));
    let name = (!named).then(|| Finding::new(&file.path, 1, "the crate is not called as its folder"));
    let lints = (!linted).then(|| Finding::new(&file.path, 1, "[lints] workspace = true is missing"));
    name.into_iter().chain(lints).collect()
}

fn check_types(file: &RustFile) -> Vec<Finding> {
    let kinds = ["struct", "enum", "trait", "type", "union"];
    let declared = numbered(&file.code).flat_map(|(number, line)| {
        kinds
            .iter()
            .flat_map(move |kind| words(line, kind).map(move |at| (number, identifier(&line[at + kind.len()..]))))
    });
    declared
        .filter_map(|(number, name)| Some((number, name, empty_word(name)?)))
        .map(|(number, name, word)| {
            Finding::new(&file.path, number, format!("'{name}': '{word}' says nothing; use a word of the field"))
        })
        .collect()
}

/// The part of a camel-case name that says nothing.
fn empty_word(name: &str) -> Option<&'static str> {
    EMPTY_WORDS.into_iter().find(|word| {
        name.match_indices(word).any(|(at, _)| !name[at + word.len()..].starts_with(|c: char| c.is_lowercase()))
    })
}

fn check_file(file: &RustFile) -> Option<Finding> {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    EMPTY_FILES.contains(&name).then(|| Finding::new(&file.path, 1, "name the file after what it holds"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{places, sample};
    use super::*;

    fn check_at(path: &str, text: &str) -> Vec<String> {
        places(&check(&sample(&[(path, text)])))
    }

    #[test]
    fn a_crate_is_called_as_its_folder_and_shares_the_lints() {
        let manifest = "[package]\nname = \"breakeven-ir\"\n[lints]\nworkspace = true\n";
        assert!(check_at("crates/breakeven-ir/Cargo.toml", manifest).is_empty());
        assert_eq!(check_at("crates/breakeven-plan/Cargo.toml", manifest).len(), 1);
        assert_eq!(check_at("crates/breakeven-ir/Cargo.toml", "[package]\nname = \"breakeven-ir\"\n").len(), 1);
        assert_eq!(check_at("crates/breakeven-ir/Cargo.toml", "[package\n").len(), 1);
    }

    #[test]
    fn types_that_say_nothing_are_found() {
        for name in EMPTY_WORDS.iter().flat_map(|word| [format!("Buffer{word}"), word.to_string(), format!("{word}Of")])
        {
            assert_eq!(check_at("a.rs", &format!("\npub struct {name}<'a> {{}}\n")), ["a.rs:2"], "{name}");
        }
        assert!(
            check_at("a.rs", "struct Utility;\nstruct Implicit;\n// struct Manager\nlet x = \"enum Util\";\n")
                .is_empty()
        );
    }

    #[test]
    fn files_that_say_nothing_are_found() {
        assert_eq!(check_at("crates/a/src/utils.rs", ""), ["crates/a/src/utils.rs:1"]);
    }
}
