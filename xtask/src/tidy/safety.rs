//! Each unsafe block, impl and extern block names, in a `// SAFETY:` comment, the fact that makes it sound.

use super::rust::{RustFile, words};
use super::{Finding, Repository};

/// Uses of `unsafe` without the comment.
pub fn check(repository: &Repository) -> Vec<Finding> {
    repository.rust.iter().flat_map(check_file).collect()
}

fn check_file(file: &RustFile) -> Vec<Finding> {
    let lines = 0..file.code.len();
    let asserting = lines.filter(|&index| words(&file.code[index], "unsafe").any(|at| asserts(&file.code, index, at)));
    asserting
        .filter(|&index| !is_explained(file, index))
        .map(|index| Finding::new(&file.path, index + 1, "unsafe without a '// SAFETY:' comment just above"))
        .collect()
}

/// Whether the `unsafe` at this place asserts something, as a block or impl does and a function or its type does not.
fn asserts(code: &[String], index: usize, at: usize) -> bool {
    let after = code[index][at + "unsafe".len()..].trim_start();
    let next = if after.is_empty() { code.get(index + 1).map_or("", |line| line.trim_start()) } else { after };
    next.starts_with('{')
        || next.starts_with("impl")
        || next.starts_with("extern \"\" {")
        || next.starts_with("extern {")
}

/// Looks up through comments, attributes and the beginning of the same statement.
fn is_explained(file: &RustFile, index: usize) -> bool {
    const MARK: &str = "SAFETY:";
    if file.lines[index].contains(MARK) {
        return true;
    }
    for above in (0..index).rev() {
        if file.lines[above].contains(MARK) && !file.uncommented[above].contains(MARK) {
            return true;
        }
        let code = file.code[above].trim();
        if file.lines[above].trim().is_empty() || code.ends_with([';', '{', '}']) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::tests::{places, sample};
    use super::*;

    fn check_one(text: &str) -> Vec<String> {
        places(&check(&sample(&[("a.rs", text)])))
    }

    #[test]
    fn an_unexplained_block_is_found() {
        assert_eq!(check_one("fn f() {\n    unsafe { g() }\n}\n"), ["a.rs:2"]);
        assert_eq!(check_one("// SAFETY: far away.\n\nunsafe impl Send for A {}\n"), ["a.rs:3"]);
        assert_eq!(check_one("    // SAFETY: of another.\n    h();\n    unsafe { g() }\n"), ["a.rs:3"]);
        assert_eq!(check_one("let x = \"SAFETY: no\",\n    unsafe { g() };\n"), ["a.rs:2"]);
    }

    #[test]
    fn an_explained_block_is_fine() {
        assert!(check_one("// SAFETY: the length was checked\n// in the line above.\nunsafe { g() }\n").is_empty());
        assert!(check_one("// SAFETY: aligned.\nlet x =\n    unsafe { g() };\n").is_empty());
        assert!(check_one("// SAFETY: no interior.\n#[cfg(unix)]\nunsafe impl Send for A {}\n").is_empty());
    }

    #[test]
    fn functions_types_and_text_assert_nothing() {
        assert!(
            check_one("pub unsafe fn f() {}\ntype F = unsafe fn();\n// unsafe { }\nlet x = \"unsafe {\";\n").is_empty()
        );
    }
}
