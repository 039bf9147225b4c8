//! `cargo xtask tidy`: the rules of STYLE.md that a machine can check, each a pure function from text to findings.

mod cases;
mod exempt;
mod floors;
mod globals;
mod header;
mod length;
mod mask;
mod names;
mod one_row;
mod rust;
mod safety;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::Result;

use crate::workspace::{self, TextFile};
use rust::RustFile;

/// A broken rule, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub file: String,
    pub line: usize,
    pub message: String,
}

impl Finding {
    fn new(file: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { file: file.into(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// What a check looks at.
pub struct Repository {
    pub files: Vec<TextFile>,
    pub rust: Vec<RustFile>,
}

impl Repository {
    /// Reads the repository below `root`.
    pub fn read(root: &Path) -> Result<Repository> {
        Ok(Repository::of(workspace::read(root)?))
    }

    fn of(files: Vec<TextFile>) -> Repository {
        let rust = files.iter().filter(|file| file.is("rs")).map(RustFile::parse).collect();
        Repository { files, rust }
    }

    fn file(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|file| file.path == path)
    }

    fn manifests(&self) -> impl Iterator<Item = &TextFile> {
        self.files.iter().filter(|file| file.crate_name().is_some() && file.name() == "Cargo.toml")
    }
}

/// A rule with its name, under which exemptions are listed.
struct Check {
    name: &'static str,
    run: fn(&Repository) -> Vec<Finding>,
}

const CHECKS: &[Check] = &[
    Check { name: "floors", run: floors::check },
    Check { name: "length", run: length::check },
    Check { name: "header", run: header::check },
    Check { name: "safety", run: safety::check },
    Check { name: "globals", run: globals::check },
    Check { name: "words", run: words::check },
    Check { name: "names", run: names::check },
    Check { name: "one-row", run: one_row::check },
    Check { name: "cases", run: cases::check },
];

/// Runs every check and prints what it found; the exit code is 1 if it found anything.
pub fn run(args: &[String]) -> Result<u8> {
    anyhow::ensure!(args.is_empty(), "tidy takes no arguments");
    let findings = findings(&Repository::read(&workspace::root())?);
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} checks, {} findings", CHECKS.len(), findings.len());
    Ok(u8::from(!findings.is_empty()))
}

/// What all checks found, less the exemptions.
pub fn findings(repository: &Repository) -> Vec<Finding> {
    let mut all: Vec<Finding> =
        CHECKS.iter().flat_map(|check| exempt::apply(check.name, (check.run)(repository), exempt::EXEMPT)).collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository of the given files, for the tests of the checks.
    pub fn sample(files: &[(&str, &str)]) -> Repository {
        let file = |&(path, text): &(&str, &str)| TextFile { path: path.into(), text: text.into() };
        Repository::of(files.iter().map(file).collect())
    }

    /// `file:line` of each finding.
    pub fn places(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(|finding| format!("{}:{}", finding.file, finding.line)).collect()
    }

    #[test]
    fn this_repository_is_tidy() {
        let repository = Repository::read(&workspace::root()).expect("the repository is readable");
        let found: Vec<String> = findings(&repository).iter().map(Finding::to_string).collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}
