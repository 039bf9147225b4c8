//! `cargo xtask demo`: brings the real model, then runs the example `minilm` in release with it.

mod digest;
mod model;
mod pip;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace;

/// Runs the example with `args`; its exit code is ours. Only the example writes to stdout.
pub fn run(args: &[String]) -> Result<u8> {
    let root = workspace::root();
    let model = if needs_model(args) { bring_model(&root) } else { None };
    let status = Command::new("cargo")
        .args(command_line(&root, model.as_deref(), args))
        .status()
        .context("cannot start cargo")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

fn needs_model(args: &[String]) -> bool {
    !args.iter().any(|arg| ["--model", "--help", "-h"].contains(&arg.as_str()) || arg.starts_with("--model="))
}

/// The folder of the model, or none after saying why.
fn bring_model(root: &Path) -> Option<PathBuf> {
    match model::bring(&root.join("target/demo")) {
        Ok(folder) => Some(folder),
        Err(error) => {
            eprintln!("demo: the real model is not available: {error:#}");
            eprintln!("demo: going on with seeded weights; devices are checked against the f64 reference computation");
            None
        }
    }
}

fn command_line(root: &Path, model: Option<&Path>, args: &[String]) -> Vec<String> {
    let manifest = root.join("Cargo.toml").display().to_string();
    let run = ["run", "--release", "--manifest-path", &manifest, "-p", "breakeven", "--example", "minilm", "--"];
    let model = model.map(|folder| ["--model".to_string(), folder.display().to_string()]);
    run.iter().map(ToString::to_string).chain(model.into_iter().flatten()).chain(args.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arguments_reach_the_example_untouched() {
        let line = command_line(Path::new("repo"), Some(Path::new("m")), &strings(&["--query", "two words", "--json"]));
        let tail: Vec<&str> = line.iter().skip_while(|word| *word != "--").map(String::as_str).collect();
        assert_eq!(tail, ["--", "--model", "m", "--query", "two words", "--json"]);
        assert!(command_line(Path::new("repo"), None, &[]).ends_with(&strings(&["--"])));
    }

    #[test]
    fn a_named_model_is_not_fetched() {
        assert!(needs_model(&strings(&["--json"])));
        assert!(!needs_model(&strings(&["--model", "m"])));
        assert!(!needs_model(&strings(&["--model=m"])));
    }
}
