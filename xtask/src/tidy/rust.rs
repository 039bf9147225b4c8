//! A Rust file as the checks see it: its lines with and without comments and literals, and where its tests begin.

use super::mask::{Blank, mask};
use crate::workspace::TextFile;

/// A parsed file; all three views have the same lines.
pub struct RustFile {
    pub path: String,
    pub crate_name: String,
    /// As written.
    pub lines: Vec<String>,
    /// Without comments.
    pub uncommented: Vec<String>,
    /// Without comments and the contents of literals.
    pub code: Vec<String>,
    /// Index of the first line of the tests beneath the code; the number of lines where there are none.
    pub tests_at: usize,
}

impl RustFile {
    pub fn parse(file: &TextFile) -> RustFile {
        let lines = |text: &str| text.lines().map(String::from).collect::<Vec<_>>();
        let code = lines(&mask(&file.text, Blank::CommentsAndLiterals));
        RustFile {
            path: file.path.clone(),
            crate_name: file.crate_name().unwrap_or_default().into(),
            lines: lines(&file.text),
            uncommented: lines(&mask(&file.text, Blank::Comments)),
            tests_at: tests_at(&code),
            code,
        }
    }

    /// Whether the whole file is test code: below `tests/`, or a module of tests.
    pub fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs") || self.path.ends_with("_tests.rs")
    }

    /// The lines of code that are not tests, numbered from 1, without comments and literals.
    pub fn product_code(&self) -> impl Iterator<Item = (usize, &str)> {
        let end = if self.is_test() { 0 } else { self.tests_at };
        numbered(&self.code[..end])
    }
}

/// Lines with their numbers, from 1.
pub fn numbered(lines: &[String]) -> impl Iterator<Item = (usize, &str)> {
    lines.iter().enumerate().map(|(index, line)| (index + 1, line.as_str()))
}

/// Where each whole word `word` begins in `line`.
pub fn words<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        !line[..at].chars().next_back().is_some_and(is_part)
            && !line[at + word.len()..].chars().next().is_some_and(is_part)
    })
}

/// Whether `line` has the whole word `word`.
pub fn has_word(line: &str, word: &str) -> bool {
    words(line, word).next().is_some()
}

/// The identifier at the start of `text`, after spaces.
pub fn identifier(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    &text[..end]
}

fn tests_at(code: &[String]) -> usize {
    let begins_tests = |index: usize| {
        code[index].trim() == "#[cfg(test)]"
            && code[index + 1..]
                .iter()
                .find(|line| !line.trim().is_empty() && !line.trim().starts_with('#'))
                .is_some_and(|line| has_word(line, "mod") && line.contains('{'))
    };
    (0..code.len()).find(|&index| begins_tests(index)).unwrap_or(code.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> RustFile {
        RustFile::parse(&TextFile { path: "crates/a/src/lib.rs".into(), text: text.into() })
    }

    #[test]
    fn tests_beneath_are_found() {
        assert_eq!(parse("fn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n").tests_at, 2);
        assert_eq!(parse("fn a() {}\n#[cfg(test)]\nuse b;\nfn c() {}\n").tests_at, 4);
        assert_eq!(parse("#[cfg(test)]\nmod tests;\nfn c() {}\n").tests_at, 3);
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("pub static A", "static"));
        assert!(!has_word("ecstatic statics", "static"));
        assert_eq!(identifier("  abc_1(x)"), "abc_1");
    }
}
