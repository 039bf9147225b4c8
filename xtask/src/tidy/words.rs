//! Words that may not stay in the repository: stubs, notes to oneself, silenced tests, and paths or hosts of one machine.

use super::rust::{RustFile, has_word, numbered};
use super::{Finding, Repository};
use crate::workspace::TextFile;

const STUBS: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];
const NOTES: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];
const FOLDERS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];
const HOSTS: [&str; 4] =
    [concat!("pypi", ".org"), concat!("crates.io", "/api"), concat!("registry", ".npmjs"), concat!("deb", ".debian")];

/// Forbidden words in code and text, and ignored tests that do not say how to run them.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let written = repository.files.iter().filter(|file| !file.is("jsonl"));
    let in_text = written.flat_map(check_text);
    in_text.chain(repository.rust.iter().flat_map(check_code)).collect()
}

fn check_text(file: &TextFile) -> Vec<Finding> {
    let lines = file.text.lines().enumerate();
    lines.filter_map(|(index, line)| Some(Finding::new(&file.path, index + 1, complaint(line)?))).collect()
}

fn complaint(line: &str) -> Option<String> {
    let note = NOTES.iter().find(|note| has_word(line, note));
    let folder = FOLDERS.iter().find(|folder| has_path(line, folder));
    let host = HOSTS.iter().find(|host| line.contains(**host));
    note.map(|note| format!("'{note}': do it, or open an issue"))
        .or(folder.map(|folder| format!("'{folder}' is a path of one machine")))
        .or(host.map(|host| format!("'{host}': the machine's own tools know their registry")))
}

/// Whether an absolute path begins with `folder` here, rather than a relative one passing through it.
fn has_path(line: &str, folder: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || "._-~}>)]".contains(c);
    line.match_indices(folder).any(|(at, _)| !line[..at].ends_with(continues))
}

fn check_code(file: &RustFile) -> Vec<Finding> {
    let stub =
        |line: &str| STUBS.iter().find(|stub| has_word(line, stub)).map(|stub| format!("'{stub}' is not an end"));
    let stubs = numbered(&file.code).filter_map(|(number, line)| Some(Finding::new(&file.path, number, stub(line)?)));
    let ignored = numbered(&file.uncommented).filter(|(_, line)| is_unexplained_ignore(line));
    let message = "an ignored test names the command that runs it: #[ignore = \"cargo ...\"]";
    stubs.chain(ignored.map(|(number, _)| Finding::new(&file.path, number, message))).collect()
}

fn is_unexplained_ignore(line: &str) -> bool {
    let attribute = line.trim_start();
    attribute.starts_with("#[ignore") && !attribute.contains("cargo ")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{places, sample};
    use super::*;

    fn check_at(path: &str, text: &str) -> Vec<String> {
        places(&check(&sample(&[(path, text)])))
    }

    #[test]
    fn stubs_are_found_in_code_only() {
        for stub in STUBS {
            assert_eq!(check_at("a.rs", &format!("fn f() {{\n    {stub}()\n}}\n")), ["a.rs:2"]);
            assert!(check_at("a.rs", &format!("// {stub}\nlet x = \"{stub}\";\n")).is_empty());
        }
    }

    #[test]
    fn notes_paths_and_hosts_are_found_everywhere() {
        for word in NOTES.iter().chain(&FOLDERS).chain(&HOSTS) {
            assert_eq!(check_at("a.md", &format!("first\nsee {word} there\n")), ["a.md:2"], "{word}");
            assert_eq!(check_at("a.rs", &format!("// {word}\n")), ["a.rs:1"], "{word}");
        }
    }

    #[test]
    fn relative_paths_are_fine() {
        let through = format!("target{0}x ~{0}x ${{DIR}}{0}x", FOLDERS[0]);
        assert!(check_at("a.md", &through).is_empty());
    }

    #[test]
    fn an_ignored_test_says_how_to_run_it() {
        assert_eq!(check_at("a.rs", "#[test]\n#[ignore]\nfn a() {}\n"), ["a.rs:2"]);
        assert_eq!(check_at("a.rs", "    #[ignore = \"slow\"]\n"), ["a.rs:1"]);
        assert!(check_at("a.rs", "#[ignore = \"slow: cargo test --release -- --ignored, weekly\"]\n").is_empty());
    }
}
