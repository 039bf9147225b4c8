//! What `cargo xtask test` may put on the machine, and what is there already.

use std::process::{Command, Stdio};

/// Whether this cargo has a subcommand `name`.
pub fn has_cargo_command(name: &str) -> bool {
    succeeds(Command::new("cargo").args([name, "--version"]))
}

/// Whether Debian packages can be installed without asking anyone: root, and apt-get.
pub fn may_use_apt() -> bool {
    let id = Command::new("id").arg("-u").output();
    let is_root = id.is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    is_root && succeeds(Command::new("apt-get").arg("--version"))
}

/// Installs `packages` one by one, so that one which the distribution lacks does not keep out the others.
pub fn apt_install(packages: &[&str]) {
    let apt = |args: &[&str]| {
        println!("apt-get {}", args.join(" "));
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(["-qq", "-o", "Acquire::http::Timeout=30"]).args(args);
        if !command.stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
            println!("apt-get {} failed", args.join(" "));
        }
    };
    apt(&["update"]);
    for package in packages {
        apt(&["install", "--yes", "--no-install-recommends", package]);
    }
}

/// Runs a command whose output nobody needs.
pub fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_there_or_not() {
        assert!(succeeds(Command::new("cargo").arg("--version")));
        assert!(!succeeds(&mut Command::new("no-such-program-anywhere")));
        assert!(!has_cargo_command("no-such-command"));
    }
}
