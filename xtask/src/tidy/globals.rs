//! No state outside values that are passed, and one place that reads the environment.

use super::rust::{RustFile, has_word};
use super::{Finding, Repository};

/// The file that holds `Settings::from_env`.
const ENVIRONMENT: &str = "crates/breakeven/src/settings.rs";

const GLOBAL: [&str; 4] = ["static mut ", "thread_local!", "lazy_static!", "once_cell"];
const CELLS: [&str; 9] =
    ["OnceLock", "OnceCell", "LazyLock", "LazyCell", "Mutex", "RwLock", "RefCell", "Cell", "UnsafeCell"];
const READS: [&str; 6] = ["env::var", "env::var_os", "env::vars", "env::vars_os", "env::set_var", "env::remove_var"];

/// Global state and reads of the environment in code that is not a test.
pub fn check(repository: &Repository) -> Vec<Finding> {
    repository.rust.iter().flat_map(|file| check_state(file).into_iter().chain(check_environment(file))).collect()
}

fn check_state(file: &RustFile) -> Vec<Finding> {
    file.product_code()
        .filter(|(_, line)| GLOBAL.iter().any(|word| line.contains(word)) || is_stateful_static(line))
        .map(|(number, _)| Finding::new(&file.path, number, "global state: pass the value to those who need it"))
        .collect()
}

fn is_stateful_static(line: &str) -> bool {
    let declared = line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
    let kind = declared.strip_prefix("static ").and_then(|rest| rest.split_once(':')).map_or("", |(_, kind)| kind);
    kind.contains("Atomic") || CELLS.iter().any(|cell| has_word(kind, cell))
}

fn check_environment(file: &RustFile) -> Vec<Finding> {
    if file.path == ENVIRONMENT || file.crate_name == "xtask" {
        return Vec::new();
    }
    file.product_code()
        .filter(|(_, line)| READS.iter().any(|call| has_word(line, call)))
        .map(|(number, _)| Finding::new(&file.path, number, "the environment is read in Settings::from_env only"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{places, sample};
    use super::*;

    fn check_at(path: &str, text: &str) -> Vec<String> {
        places(&check(&sample(&[(path, text)])))
    }

    fn check_one(text: &str) -> usize {
        check_at("crates/a/src/b.rs", text).len()
    }

    #[test]
    fn global_state_is_found() {
        assert_eq!(check_one("static mut A: u8 = 0;\n"), 1);
        assert_eq!(check_one("thread_local! { static A: u8 = 0; }\n"), 1);
        assert_eq!(check_one("pub(crate) static A: OnceLock<u8> = OnceLock::new();\n"), 1);
        assert_eq!(check_one("    static SEEN: AtomicU64 = AtomicU64::new(0);\n"), 1);
    }

    #[test]
    fn tables_fields_and_tests_are_fine() {
        assert_eq!(check_one("pub static ROWS: &[Row] = &[];\nstruct A { b: OnceLock<u8> }\n"), 0);
        assert_eq!(check_one("fn a() {}\n#[cfg(test)]\nmod tests {\n    static A: Mutex<u8> = Mutex::new(0);\n}\n"), 0);
        assert_eq!(check_at("crates/a/tests/b.rs", "static A: Mutex<u8> = Mutex::new(0);\n").len(), 0);
    }

    #[test]
    fn the_environment_is_read_in_one_place() {
        let text = "let x = std::env::var(\"A\");\nlet y = env!(\"B\");\n";
        assert_eq!(check_at("crates/a/src/b.rs", text), ["crates/a/src/b.rs:1"]);
        assert!(check_at(ENVIRONMENT, text).is_empty());
        assert!(check_at("xtask/src/main.rs", text).is_empty());
    }
}
