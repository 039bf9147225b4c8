//! Python environments below `target/`, filled by pip, which knows where its packages come from.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// What an environment holds; other versions bring other files.
pub struct Environment<'p> {
    /// Its folder below `target/`.
    pub name: &'p str,
    /// `name==version` each, with what they need.
    pub packages: &'p [&'p str],
    /// Packages of which only the files are used.
    pub alone: &'p [&'p str],
}

impl Environment<'_> {
    /// Its Python, after making the environment where it is not there.
    pub fn bring(&self, root: &Path) -> Result<PathBuf> {
        let folder = root.join("target").join(self.name);
        let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
        if !python.exists() {
            must(Command::new("python3").args(["-m", "venv"]).arg(&folder), "make a Python environment")?;
        }
        install(&python, &[], self.packages)?;
        install(&python, &["--no-deps"], self.alone)?;
        Ok(python)
    }
}

fn install(python: &Path, how: &[&str], packages: &[&str]) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"];
    must(Command::new(python).args(pip).args(how).args(packages), "bring Python packages")
}

/// Runs `command` to its end; an error says `what` did not work.
pub fn must(command: &mut Command, what: &str) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot {what}: {command:?} does not start"))?;
    if !status.success() {
        bail!("cannot {what}: {command:?} failed ({status}); is there a network?");
    }
    Ok(())
}
