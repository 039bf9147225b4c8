//! One step of `cargo xtask test`: a command or a check of our own, its heading, and how it went.

use std::fmt;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::workspace;

/// Environment variables that a command gets besides our own.
pub type Environment = Vec<(&'static str, String)>;

enum Action {
    Cargo(Vec<&'static str>),
    /// A check of our own that prints what it found.
    Own(fn() -> Result<bool>),
}

/// Something that passes or fails.
pub struct Step {
    name: &'static str,
    action: Action,
    environment: Environment,
}

/// How a step went.
pub struct Outcome {
    pub name: &'static str,
    pub passed: bool,
    pub took: Duration,
}

impl Step {
    /// `cargo` with arguments that are separated by spaces.
    pub fn cargo(name: &'static str, args: &'static str) -> Step {
        Step { name, action: Action::Cargo(args.split(' ').collect()), environment: Vec::new() }
    }

    /// A check within xtask; it returns whether it passed.
    pub fn own(name: &'static str, check: fn() -> Result<bool>) -> Step {
        Step { name, action: Action::Own(check), environment: Vec::new() }
    }

    /// The same step with one more environment variable.
    pub fn with(mut self, key: &'static str, value: &str) -> Step {
        self.environment.push((key, value.into()));
        self
    }

    /// Prints the heading and runs; a command that cannot be started has failed.
    pub fn run(&self, environment: &Environment) -> Outcome {
        let started = Instant::now();
        heading(&format!("{}: {self}", self.name));
        let passed = self.act(environment).unwrap_or_else(|error| {
            println!("{error:#}");
            false
        });
        println!("{} {} in {}", self.name, verdict(passed), minutes(started.elapsed()));
        Outcome { name: self.name, passed, took: started.elapsed() }
    }

    fn act(&self, environment: &Environment) -> Result<bool> {
        match &self.action {
            Action::Own(check) => check(),
            Action::Cargo(args) => {
                let mut command = cargo(environment);
                command.args(args).envs(self.environment.iter().map(|(key, value)| (key, value)));
                Ok(command.status().context("cannot start cargo")?.success())
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.action {
            Action::Cargo(args) => write!(f, "cargo {}", args.join(" ")),
            Action::Own(_) => write!(f, "xtask"),
        }
    }
}

/// `cargo` in the root of the repository.
pub fn cargo(environment: &Environment) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(workspace::root()).envs(environment.iter().map(|(key, value)| (key, value)));
    command
}

pub fn heading(text: &str) {
    println!("\n== {text}");
}

/// `2m07s`, or `0.3s` below a minute.
pub fn minutes(took: Duration) -> String {
    match took.as_secs() {
        0..60 => format!("{:.1}s", took.as_secs_f64()),
        seconds => format!("{}m{:02}s", seconds / 60, seconds % 60),
    }
}

/// One line a step, and the whole in the last.
pub fn summary(outcomes: &[Outcome], total: Duration) -> String {
    let line =
        |outcome: &Outcome| format!("{:14} {:>7}  {}", outcome.name, minutes(outcome.took), verdict(outcome.passed));
    let mut lines: Vec<String> = outcomes.iter().map(line).collect();
    lines.push(format!(
        "{:14} {:>7}  {}",
        "all",
        minutes(total),
        verdict(outcomes.iter().all(|outcome| outcome.passed))
    ));
    lines.join("\n")
}

fn verdict(passed: bool) -> &'static str {
    if passed { "ok" } else { "FAILED" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_fails_the_whole() {
        let outcome = |name, passed| Outcome { name, passed, took: Duration::from_secs(127) };
        let expected = "\
format           2m07s  ok
tests            2m07s  FAILED
all              1m00s  FAILED";
        assert_eq!(summary(&[outcome("format", true), outcome("tests", false)], Duration::from_mins(1)), expected);
    }

    #[test]
    fn a_step_passes_or_fails_with_its_command() {
        assert!(Step::cargo("version", "--version").run(&Vec::new()).passed);
        assert!(!Step::cargo("unknown", "no-such-command-of-cargo").run(&Vec::new()).passed);
    }
}
