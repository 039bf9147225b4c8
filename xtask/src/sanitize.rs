//! `cargo xtask sanitize`: the tests of the device crates under a sanitizer of the compiler.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::test::drivers;
use crate::workspace;

/// A sanitizer: what it needs, and what it looks at.
struct Sanitizer {
    name: &'static str,
    /// Threads are followed only through code that was compiled for it, the standard library's included.
    cargo: &'static [&'static str],
    crates: &'static [&'static str],
}

const SANITIZERS: [Sanitizer; 2] = [
    Sanitizer { name: "address", cargo: &[], crates: &["breakeven-device", "breakeven-cpu", "breakeven-wgpu"] },
    Sanitizer { name: "thread", cargo: &["-Zbuild-std"], crates: &["breakeven-device", "breakeven-cpu"] },
];

/// Tests that are left out, each with its reason.
const LEFT_OUT: [(&str, &str); 1] = [(
    "c09_no_kernel_is_far_slower_than_a_plain_loop",
    "it times kernels beside loops, which a sanitizer does not slow down alike",
)];

/// Runs the tests of the crates `args[1..]`, or of those that the sanitizer `args[0]` is for.
pub fn run(args: &[String]) -> Result<u8> {
    let known = args.first().and_then(|name| SANITIZERS.iter().find(|known| known.name == name));
    let Some(sanitizer) = known else { bail!("sanitize takes address or thread, and crates") };
    for (test, reason) in LEFT_OUT {
        println!("left out: {test}, since {reason}");
    }
    let mut command = command(sanitizer, &args[1..], &host()?);
    command.envs(drivers::prepare(false)?.environment(false));
    Ok(u8::from(!command.status().context("cannot start cargo")?.success()))
}

/// In a folder of its own: nothing else is compiled like this. `RUSTC_BOOTSTRAP` lets a stable compiler take what is still its own matter.
fn command(sanitizer: &Sanitizer, crates: &[String], target: &str) -> Command {
    let root = workspace::root();
    let own = sanitizer.crates.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let mut command = Command::new("cargo");
    command.current_dir(&root).arg("test").args(sanitizer.cargo).args(["--lib", "--tests", "--no-fail-fast"]);
    command.args(["--target", target, "--target-dir"]).arg(root.join("target/sanitize").join(sanitizer.name));
    command.args((if crates.is_empty() { &own } else { crates }).iter().flat_map(|name| ["-p", name]));
    command.arg("--").args(LEFT_OUT.iter().flat_map(|(test, _)| ["--skip", test]));
    // Drivers keep memory when they are unloaded, and a device that is lost or busy is left to its driver on purpose.
    command.env("ASAN_OPTIONS", "detect_leaks=0");
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", format!("-Zsanitizer={}", sanitizer.name));
    command
}

/// The triple of this machine: a target that is named has build scripts and macros compiled without the sanitizer.
fn host() -> Result<String> {
    let output =
        Command::new("rustc").arg("-vV").current_dir(workspace::root()).output().context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not say for which machine it is")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_sanitizers_run() {
        for args in [&[][..], &["memory".to_owned()]] {
            let error = run(args).expect_err("it is none of ours").to_string();
            assert_eq!(error, "sanitize takes address or thread, and crates");
        }
    }

    #[test]
    fn crates_are_those_named_or_all_that_the_sanitizer_is_for() {
        let [address, thread] = &SANITIZERS;
        let text = |sanitizer, crates: &[&str]| {
            let crates: Vec<String> = crates.iter().map(|&name| name.to_owned()).collect();
            format!("{:?}", command(sanitizer, &crates, "x86_64-unknown-linux-gnu"))
        };
        assert!(text(address, &[]).contains(r#""-p" "breakeven-device" "-p" "breakeven-cpu" "-p" "breakeven-wgpu""#));
        let one = text(thread, &["breakeven-device"]);
        assert!(one.contains(r#""-p" "breakeven-device" "--""#) && one.contains(r#""-Zbuild-std""#), "{one}");
        assert!(one.contains(r#"RUSTFLAGS="-Zsanitizer=thread""#), "{one}");
    }
}
