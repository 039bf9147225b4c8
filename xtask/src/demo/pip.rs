//! Downloads through the machine's own pip, which knows where its packages come from.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const WAYS: [&[&str]; 4] = [&["pip"], &["pip3"], &["python3", "-m", "pip"], &["python", "-m", "pip"]];
const LONGEST: Duration = Duration::from_mins(15);

/// Downloads the wheel of `package` (`name==version`) into `folder`, alone.
pub fn download(package: &str, folder: &Path) -> Result<PathBuf> {
    let Some(way) = WAYS.into_iter().find(|way| answers(way)) else {
        bail!("there is no pip on this machine");
    };
    // A pure Python wheel does not depend on this machine's Python version.
    let pure = ["download", "--no-deps", "--only-binary=:all:", "--python-version=3.12", "--disable-pip-version-check"];
    let mut command = start(way);
    command.args(pure).args(["--no-input", "--retries=2", "--timeout=20"]).args(chatter()).arg("--dest").arg(folder);
    // Stdout belongs to the demo's result, so pip talks on stderr.
    let child =
        command.arg(package).stdin(Stdio::null()).stdout(std::io::stderr()).spawn().context("cannot start pip")?;
    let status = wait(child, LONGEST)?;
    if !status.success() {
        bail!("'pip download {package}' failed ({status}); is there a network?");
    }
    find_wheel(folder)
}

fn start(way: &[&str]) -> Command {
    let mut command = Command::new(way[0]);
    command.args(&way[1..]);
    command
}

fn answers(way: &[&str]) -> bool {
    let mut command = start(way);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn chatter() -> &'static [&'static str] {
    if std::io::stderr().is_terminal() { &["--progress-bar=on"] } else { &["--progress-bar=off", "--quiet"] }
}

/// Ends the child when it takes too long.
fn wait(mut child: Child, longest: Duration) -> Result<ExitStatus> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if started.elapsed() > longest {
            child.kill()?;
            child.wait()?;
            bail!("pip was ended after {} s", longest.as_secs());
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn find_wheel(folder: &Path) -> Result<PathBuf> {
    let paths = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    paths.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "whl")).context("pip brought no wheel")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_does_not_answer() {
        assert!(answers(&["cargo"]));
        assert!(!answers(&["no-such-pip-anywhere"]));
    }

    #[test]
    fn an_endless_child_is_ended() {
        let endless = Command::new("sleep").arg("60").spawn().expect("sleep is everywhere");
        assert!(wait(endless, Duration::from_millis(1)).is_err());
    }
}
