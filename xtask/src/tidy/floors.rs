//! Dependencies point down the floors of ARCHITECTURE.md; what only tests need may come from anywhere.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::{Finding, Repository};
use crate::workspace::TextFile;

const TABLE: &str = "ARCHITECTURE.md";

/// Dependencies that do not point down, and crates that the table of floors does not know.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let floors = repository.file(TABLE).map(|file| floors(&file.text)).unwrap_or_default();
    if floors.is_empty() {
        return vec![Finding::new(TABLE, 1, "the table of floors is missing")];
    }
    let manifests = repository.manifests().filter(|file| file.crate_name() != Some("xtask"));
    manifests.flat_map(|file| check_manifest(file, &floors)).collect()
}

type Floors = BTreeMap<String, u8>;

/// The rows ``| 2 | `breakeven-cpu` | ...``.
fn floors(text: &str) -> Floors {
    let row = |line: &str| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let (floor, name) = (cells.next()?.parse().ok()?, cells.next()?.trim_matches('`'));
        name.starts_with("breakeven").then(|| (name.to_string(), floor))
    };
    text.lines().filter_map(row).collect()
}

fn check_manifest(file: &TextFile, floors: &Floors) -> Vec<Finding> {
    let name = file.crate_name().unwrap_or_default();
    let Some(floor) = floors.get(name) else {
        return vec![Finding::new(&file.path, 1, format!("'{name}' has no floor: add it to the table in {TABLE}"))];
    };
    let manifest = match file.text.parse::<Table>() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::new(&file.path, 1, format!("not TOML: {}", error.message()))],
    };
    let on_ours = dependencies(&manifest).filter(|dependency| dependency.starts_with("breakeven"));
    let reaches_up = on_ours.filter(|dependency| floors.get(*dependency).is_none_or(|theirs| theirs >= floor));
    reaches_up
        .map(|dependency| {
            let message = format!("'{name}' (floor {floor}) depends on '{dependency}', which is not on a lower floor");
            Finding::new(&file.path, line_of(&file.text, dependency), message)
        })
        .collect()
}

/// Names in `[dependencies]`, `[build-dependencies]` and the same of every target.
fn dependencies(manifest: &Table) -> impl Iterator<Item = &str> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let holders = targets.filter_map(Value::as_table).chain([manifest]);
    let tables = holders.flat_map(|holder| [holder.get("dependencies"), holder.get("build-dependencies")]);
    tables.flatten().filter_map(Value::as_table).flat_map(|table| table.iter().map(|(key, value)| package(key, value)))
}

/// The package behind a dependency, which may have been renamed.
fn package<'a>(key: &'a str, value: &'a Value) -> &'a str {
    value.get("package").and_then(Value::as_str).unwrap_or(key)
}

fn line_of(text: &str, name: &str) -> usize {
    text.lines().position(|line| line.contains(name) && !line.starts_with("name")).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{places, sample};
    use super::*;

    const FLOORS: &str = "
| floor | crate | its one job |
|---|---|---|
| 0 | `breakeven-ir` | Data. |
| 1 | `breakeven-device` | A contract. |
| 1 | `breakeven-plan` | Decisions. |
| 2 | `breakeven-exec` | Actions. |
| 2 | `breakeven-cpu` | Kernels. |
";

    fn check_one(name: &str, manifest: &str) -> Vec<Finding> {
        check(&sample(&[(TABLE, FLOORS), (&format!("crates/{name}/Cargo.toml"), manifest)]))
    }

    #[test]
    fn the_table_must_be_there() {
        assert_eq!(places(&check(&sample(&[(TABLE, "no table")]))), ["ARCHITECTURE.md:1"]);
        assert_eq!(floors(FLOORS).len(), 5);
    }

    #[test]
    fn down_is_fine() {
        assert!(
            check_one("breakeven-cpu", "[dependencies]\nbreakeven-ir.workspace = true\nserde = \"1\"\n").is_empty()
        );
        assert!(check_one("breakeven-ir", "[dev-dependencies]\nbreakeven-cpu.workspace = true\n").is_empty());
    }

    #[test]
    fn up_and_sideways_are_found() {
        let up = check_one("breakeven-plan", "[dependencies]\nbreakeven-device.workspace = true\n");
        assert_eq!(places(&up), ["crates/breakeven-plan/Cargo.toml:2"]);
        let renamed = "[target.'cfg(unix)'.dependencies]\nx = { package = \"breakeven-exec\", path = \"..\" }\n";
        assert_eq!(check_one("breakeven-cpu", renamed).len(), 1);
        assert_eq!(check_one("breakeven-ir", "[build-dependencies]\nbreakeven-plan = \"1\"\n").len(), 1);
    }

    #[test]
    fn unknown_crates_and_broken_manifests_are_found() {
        assert_eq!(check_one("breakeven-new", "").len(), 1);
        assert_eq!(check_one("breakeven-cpu", "[dependencies]\nbreakeven-new = \"1\"\n").len(), 1);
        assert_eq!(check_one("breakeven-cpu", "[dependencies\n").len(), 1);
    }
}
