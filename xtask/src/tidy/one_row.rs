//! An elementwise operation lives in one file: a few operations that nothing composes stand witness for all rows.

use super::rust::{RustFile, has_word, numbered};
use super::{Finding, Repository};

/// Rows whose names no other code has a reason to spell.
const WITNESSES: [&str; 3] = ["softsign", "hard_swish", "mish"];

/// Code that names a witness outside the one file that defines it.
pub fn check(repository: &Repository) -> Vec<Finding> {
    WITNESSES.iter().flat_map(|name| check_row(repository, name)).collect()
}

fn check_row(repository: &Repository, name: &str) -> Vec<Finding> {
    let named = |file: &RustFile| {
        let lines = &file.uncommented[..file.tests_at];
        numbered(lines).find(|(_, line)| has_word(line, name)).map(|(number, _)| number)
    };
    let product = repository.rust.iter().filter(|file| is_product(file));
    let mut places: Vec<(&RustFile, usize)> = product.filter_map(|file| Some((file, named(file)?))).collect();
    places.sort_by_key(|(file, _)| (file.crate_name != "breakeven-ir", &file.path));
    let second = places.into_iter().skip(1);
    let message = format!("'{name}' is a row of the table and named here again: derive it from the row");
    second.map(|(file, number)| Finding::new(&file.path, number, message.as_str())).collect()
}

fn is_product(file: &RustFile) -> bool {
    file.path.starts_with("crates/") && file.path.contains("/src/") && !file.is_test()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{places, sample};
    use super::*;

    const ROWS: (&str, &str) = ("crates/breakeven-ir/src/maps.rs", "row!(softsign, |x| x / (x.abs() + 1.0));\n");

    #[test]
    fn a_second_file_is_found() {
        let second = ("crates/breakeven-cpu/src/map.rs", "fn name() {\n    \"softsign\"\n}\n");
        assert_eq!(places(&check(&sample(&[second, ROWS]))), ["crates/breakeven-cpu/src/map.rs:2"]);
    }

    #[test]
    fn docs_tests_and_the_row_itself_are_fine() {
        let docs = ("crates/breakeven/src/tensor.rs", "/// As softsign.\nfn a() {}\n");
        let tests = ("crates/breakeven/tests/ops.rs", "x.softsign();\n");
        assert!(check(&sample(&[ROWS, docs, tests])).is_empty());
    }
}
