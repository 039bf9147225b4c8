//! Every Rust file says in its first line what it is, and every crate forbids unsafe code unless it drives a device.

use super::rust::RustFile;
use super::{Finding, Repository};

/// Crates that talk to hardware, where `unsafe` is allowed everywhere.
pub const DEVICE_CRATES: [&str; 3] = ["breakeven-cpu", "breakeven-wgpu", "breakeven-cuda"];

/// The one file outside the device crates that may hold `unsafe`: it maps files into memory. Its crate only denies it.
pub const MAPPING: (&str, &str) = ("breakeven", "crates/breakeven/src/mapped.rs");

/// Files without a `//!` line, and crates that leave unsafe code open.
pub fn check(repository: &Repository) -> Vec<Finding> {
    repository.rust.iter().flat_map(|file| [check_doc(file), check_forbid(file), check_allow(file)]).flatten().collect()
}

fn check_doc(file: &RustFile) -> Option<Finding> {
    let says_what_it_is = file.lines.first().is_some_and(|line| line.starts_with("//! ") && line.len() > "//! ".len());
    (!says_what_it_is).then(|| Finding::new(&file.path, 1, "the first line must be '//! ' and what this file is"))
}

fn check_forbid(file: &RustFile) -> Option<Finding> {
    let is_root = file.path.ends_with("/src/lib.rs") || file.path.ends_with("/src/main.rs");
    if !is_root || DEVICE_CRATES.contains(&file.crate_name.as_str()) {
        return None;
    }
    let says = |attribute: &str| file.code.iter().any(|line| line.trim() == attribute);
    let closed = says("#![forbid(unsafe_code)]") || file.crate_name == MAPPING.0 && says("#![deny(unsafe_code)]");
    (!closed).then(|| Finding::new(&file.path, 1, "a crate that drives no device says #![forbid(unsafe_code)]"))
}

fn check_allow(file: &RustFile) -> Option<Finding> {
    if DEVICE_CRATES.contains(&file.crate_name.as_str()) || file.path == MAPPING.1 {
        return None;
    }
    let line = file
        .code
        .iter()
        .position(|line| line.contains("allow(unsafe_code)") || line.contains("expect(unsafe_code)"))?;
    Some(Finding::new(&file.path, line + 1, "unsafe code is allowed in the device crates and in mapped.rs only"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{places, sample};
    use super::*;

    fn check_one(path: &str, text: &str) -> Vec<String> {
        places(&check(&sample(&[(path, text)])))
    }

    #[test]
    fn a_missing_first_line_is_found() {
        assert_eq!(check_one("crates/a/src/b.rs", "use c;\n//! Late.\n"), ["crates/a/src/b.rs:1"]);
        assert_eq!(check_one("crates/a/src/b.rs", ""), ["crates/a/src/b.rs:1"]);
        assert!(check_one("crates/a/src/b.rs", "//! What it is.\nuse c;\n").is_empty());
    }

    #[test]
    fn an_open_crate_is_found() {
        let open = "//! A.\n// #![forbid(unsafe_code)]\n";
        assert_eq!(check_one("crates/a/src/lib.rs", open), ["crates/a/src/lib.rs:1"]);
        assert!(check_one("crates/a/src/lib.rs", "//! A.\n#![forbid(unsafe_code)]\n").is_empty());
        assert!(check_one("crates/breakeven-cpu/src/lib.rs", open).is_empty());
        assert!(check_one("crates/breakeven/src/lib.rs", "//! A.\n#![deny(unsafe_code)]\n").is_empty());
    }

    #[test]
    fn an_allowance_elsewhere_is_found() {
        let text = "//! A.\n#![allow(unsafe_code)]\n";
        assert_eq!(check_one("crates/breakeven/src/tensor.rs", text), ["crates/breakeven/src/tensor.rs:2"]);
        assert!(check_one(MAPPING.1, text).is_empty());
    }
}
