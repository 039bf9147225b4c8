//! Files stay under 400 lines of code and functions under 50; comments, blank lines and tests beneath are not counted.

use super::rust::{RustFile, identifier, words};
use super::{Finding, Repository};

const FILE_LINES: usize = 400;
const FUNCTION_LINES: usize = 50;

/// Files and functions that are too long.
pub fn check(repository: &Repository) -> Vec<Finding> {
    repository.rust.iter().flat_map(|file| check_file(file).into_iter().chain(check_functions(file))).collect()
}

fn check_file(file: &RustFile) -> Option<Finding> {
    let lines = count(&file.uncommented[..file.tests_at]);
    (lines >= FILE_LINES)
        .then(|| Finding::new(&file.path, 1, format!("{lines} lines of code: split it, {FILE_LINES} are too many")))
}

fn check_functions(file: &RustFile) -> Vec<Finding> {
    functions(&file.code)
        .into_iter()
        .map(|function| (count(&file.uncommented[function.first..=function.last]), function))
        .filter(|&(lines, _)| lines >= FUNCTION_LINES)
        .map(|(lines, function)| {
            let message = format!("'{}' has {lines} lines: split it, {FUNCTION_LINES} are too many", function.name);
            Finding::new(&file.path, function.first + 1, message)
        })
        .collect()
}

fn count(lines: &[String]) -> usize {
    lines.iter().filter(|line| !line.trim().is_empty()).count()
}

struct Function {
    name: String,
    first: usize,
    last: usize,
}

/// Every function with a body, nested ones included.
fn functions(code: &[String]) -> Vec<Function> {
    let starts = code.iter().enumerate().flat_map(|(first, line)| words(line, "fn").map(move |at| (first, at)));
    let named =
        starts.map(|(first, at)| (first, at, identifier(&code[first][at + 2..]))).filter(|(.., n)| !n.is_empty());
    named
        .filter_map(|(first, at, name)| {
            Some(Function { name: name.into(), first, last: end_of_body(code, first, at)? })
        })
        .collect()
}

/// The line of the brace that closes the body of the function at (`first`, `at`); none for a declaration without body.
fn end_of_body(code: &[String], first: usize, at: usize) -> Option<usize> {
    let mut open = [0usize; 2];
    for (index, line) in code.iter().enumerate().skip(first) {
        for c in line.chars().skip(if index == first { line[..at].chars().count() } else { 0 }) {
            match c {
                '{' => open[0] += 1,
                '}' if open[0] == 1 => return Some(index),
                '}' => open[0] = open[0].checked_sub(1)?,
                '(' | '[' => open[1] += 1,
                ')' | ']' => open[1] = open[1].checked_sub(1)?,
                ';' if open == [0, 0] => return None,
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::tests::{places, sample};
    use super::*;

    fn check_one(text: &str) -> Vec<String> {
        places(&check(&sample(&[("crates/a/src/lib.rs", text)])))
    }

    #[test]
    fn a_long_file_is_found_and_its_tests_do_not_count() {
        let long = |lines: usize| "const A: u8 = 1;\n\n// why\n".repeat(lines);
        assert_eq!(check_one(&long(400)), ["crates/a/src/lib.rs:1"]);
        assert!(check_one(&long(399)).is_empty());
        let tested = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", long(300), long(300));
        assert!(check_one(&tested).is_empty());
    }

    #[test]
    fn a_long_function_is_found() {
        let body = |lines: usize| format!("struct A;\n\nfn f(x: [u8; 2]) {{\n{}}}\n", "    g(\"}\");\n".repeat(lines));
        assert_eq!(check_one(&body(48)), ["crates/a/src/lib.rs:3"]);
        assert!(check_one(&body(47)).is_empty());
    }

    #[test]
    fn declarations_and_function_types_have_no_body() {
        let text = format!(
            "trait A {{\n    fn f(&self, x: [u8; 2]);\n}}\ntype F = fn(u8);\n{}",
            "const B: u8 = 1;\n".repeat(60)
        );
        assert!(check_one(&text).is_empty());
    }
}
