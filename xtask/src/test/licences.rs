//! Every dependency's licence against the list in `deny.toml`.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value as Json;
use toml::Table;

use crate::workspace;

/// Prints the dependencies whose licence is not on the list; true if there are none.
pub fn run() -> Result<bool> {
    let allowed = allowed(&fs::read_to_string(workspace::root().join("deny.toml")).context("cannot read deny.toml")?)?;
    let packages = packages()?;
    let refused: Vec<&(String, String)> = packages.iter().filter(|(_, licence)| !permits(&allowed, licence)).collect();
    for (name, licence) in &refused {
        println!("{name}: '{licence}' is not in deny.toml");
    }
    println!("{} packages, {} refused", packages.len(), refused.len());
    Ok(refused.is_empty())
}

fn allowed(deny: &str) -> Result<Vec<String>> {
    let deny: Table = deny.parse().context("deny.toml is not TOML")?;
    let list = deny.get("licenses").and_then(|table| table.get("allow")).and_then(toml::Value::as_array);
    let list = list.context("deny.toml has no licenses.allow")?;
    Ok(list.iter().filter_map(|licence| licence.as_str().map(String::from)).collect())
}

/// Name and licence of every package that a build of the workspace may contain.
fn packages() -> Result<Vec<(String, String)>> {
    let mut command = Command::new("cargo");
    command.current_dir(workspace::root()).args(["metadata", "--format-version=1", "--locked"]);
    let output = command.output().context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Json = serde_json::from_slice(&output.stdout).context("cargo metadata is not JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let text = |package: &Json, key: &str| package[key].as_str().unwrap_or("none").to_string();
    Ok(packages.iter().map(|package| (text(package, "name"), text(package, "license"))).collect())
}

/// Whether one alternative of an SPDX expression is made of allowed licences only. `/` is an old way to write `OR`.
fn permits(allowed: &[String], expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    let Some((before, inner, after)) = innermost(&expression) else {
        let all_known =
            |part: &str| part.split(" AND ").all(|licence| allowed.iter().any(|known| known == licence.trim()));
        return expression.split(" OR ").any(all_known);
    };
    // A bracket counts as one licence: an allowed one or an unknown one.
    let verdict = if permits(allowed, inner) { allowed.first().map_or("", String::as_str) } else { "refused" };
    permits(allowed, &format!("{before}{verdict}{after}"))
}

fn innermost(expression: &str) -> Option<(&str, &str, &str)> {
    let open = expression.rfind('(')?;
    let close = open + expression[open..].find(')')?;
    Some((&expression[..open], &expression[open + 1..close], &expression[close + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_alternative_is_enough_and_all_its_parts_count() {
        let allowed = allowed("[licenses]\nallow = [\"MIT\", \"Apache-2.0\", \"Unicode-3.0\"]\n").expect("a list");
        for fine in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0/MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "MIT AND (GPL-3.0 OR Apache-2.0)",
        ] {
            assert!(permits(&allowed, fine), "{fine}");
        }
        for refused in [
            "GPL-3.0",
            "none",
            "",
            "MIT AND GPL-3.0",
            "(MIT OR Apache-2.0) AND MPL-2.0",
            "MIT AND (GPL-3.0 OR MPL-2.0)",
        ] {
            assert!(!permits(&allowed, refused), "{refused}");
        }
    }

    #[test]
    fn a_list_must_be_there() {
        assert!(allowed("[licenses]\n").is_err());
        assert!(allowed("[licenses").is_err());
    }
}
