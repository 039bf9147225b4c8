//! `cargo xtask features`: the crates that reach GPUs, built with each interface alone, and with none.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::workspace;

/// Those that this system lacks add nothing, and that has to build too.
const ALONE: [&str; 6] = ["", "vulkan", "metal", "dx12", "gles", "ndarray"];

/// Crates, each with the features that it has of those.
const CRATES: [(&str, &[&str]); 2] = [
    ("breakeven-wgpu", &["vulkan", "metal", "dx12", "gles"]),
    ("breakeven", &["vulkan", "metal", "dx12", "gles", "ndarray"]),
];

/// All are built, also after one that fails; the exit code is 1 if any did.
pub fn run(args: &[String]) -> Result<u8> {
    if !args.is_empty() {
        bail!("features takes no arguments");
    }
    let mut failed = Vec::new();
    for feature in ALONE {
        let started = Instant::now();
        let passed = command(feature).status().context("cannot start cargo")?.success();
        let name = if feature.is_empty() { "no feature" } else { feature };
        println!("{name}: {} in {:.0?}", if passed { "builds" } else { "FAILS" }, started.elapsed());
        failed.extend((!passed).then_some(name));
    }
    if !failed.is_empty() {
        println!("do not build alone: {}", failed.join(", "));
    }
    Ok(u8::from(!failed.is_empty()))
}

/// Clippy, which also refuses what nobody uses without some feature.
fn command(feature: &str) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(workspace::root()).args(["clippy", "--quiet", "--lib", "--no-default-features"]);
    for (name, has) in CRATES {
        command.args(["-p", name]);
        if has.contains(&feature) {
            command.args(["--features", &format!("{name}/{feature}")]);
        }
    }
    command.args(["--", "-D", "warnings"]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(feature: &str) -> String {
        format!("{:?}", command(feature)).replace('"', "")
    }

    #[test]
    fn one_feature_is_given_to_the_crates_that_have_it() {
        assert!(
            text("gles")
                .contains("-p breakeven-wgpu --features breakeven-wgpu/gles -p breakeven --features breakeven/gles --")
        );
        assert!(text("ndarray").contains("-p breakeven-wgpu -p breakeven --features breakeven/ndarray --"));
        assert!(text("").ends_with("-p breakeven-wgpu -p breakeven -- -D warnings"));
    }

    /// A feature that is added to a crate is built alone too.
    #[test]
    fn every_feature_of_the_crates_is_listed() {
        for (name, known) in CRATES {
            let path = workspace::root().join("crates").join(name).join("Cargo.toml");
            let manifest = std::fs::read_to_string(path).expect("the crate is there");
            let (_, features) = manifest.split_once("[features]\n").expect("it has features");
            let lines = features.lines().take_while(|line| !line.starts_with('['));
            let names = lines.filter(|line| !line.starts_with('#')).filter_map(|line| Some(line.split_once(" = ")?.0));
            let found: Vec<&str> = names.filter(|feature| *feature != "default").collect();
            assert_eq!(found, known, "{name}");
            assert!(known.iter().all(|feature| ALONE.contains(feature)), "{name}");
        }
    }
}
