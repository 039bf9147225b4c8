//! `cargo xtask test`: everything a change must pass, in order, with the time each step took.

mod coverage;
pub mod drivers;
mod install;
mod licences;
mod step;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::tidy;
use drivers::Drivers;
use step::{Outcome, Step};

/// Past this, measuring coverage would break the promise of 45 minutes: everything is built anew for it, and the tests run once more and slower.
const LATEST_START_OF_COVERAGE: Duration = Duration::from_mins(18);

struct Options {
    may_install: bool,
    all_adapters: bool,
    measures_coverage: bool,
}

impl Options {
    fn parse(args: &[String]) -> Result<Options> {
        let mut options = Options { may_install: true, all_adapters: false, measures_coverage: true };
        for arg in args {
            match arg.as_str() {
                "--no-install" => options.may_install = false,
                "--all-adapters" => options.all_adapters = true,
                "--no-coverage" => options.measures_coverage = false,
                other => bail!("test does not know '{other}'; it takes --no-install, --all-adapters, --no-coverage"),
            }
        }
        Ok(options)
    }
}

/// Runs all steps, also after a failed one; the exit code is 1 if any failed.
pub fn run(args: &[String]) -> Result<u8> {
    let options = Options::parse(args)?;
    let started = Instant::now();
    step::heading("drivers");
    let drivers = drivers::prepare(options.may_install)?;
    let environment = drivers.environment(options.all_adapters);
    let prepared = Outcome { name: "drivers", passed: true, took: started.elapsed() };
    let mut outcomes = vec![prepared];
    outcomes.extend(steps(install::has_cargo_command("nextest")).iter().map(|step| step.run(&environment)));
    outcomes.push(measure_coverage(&options, &drivers, started.elapsed()));
    println!("\n{}", step::summary(&outcomes, started.elapsed()));
    Ok(u8::from(outcomes.iter().any(|outcome| !outcome.passed)))
}

/// The steps between finding the drivers and measuring coverage.
fn steps(has_nextest: bool) -> Vec<Step> {
    let tests = if has_nextest {
        "nextest run --workspace --no-fail-fast"
    } else {
        "test --workspace --lib --bins --tests --examples --no-fail-fast"
    };
    vec![
        Step::cargo("format", "fmt --all --check"),
        Step::own("tidy", || Ok(tidy::run(&[])? == 0)),
        Step::own("licences", licences::run),
        Step::cargo("clippy", "clippy --workspace --all-targets -- -D warnings"),
        Step::cargo("tests", tests),
        Step::cargo("doctests", "test --workspace --doc --no-fail-fast"),
        Step::cargo("docs", "doc --workspace --no-deps").with("RUSTDOCFLAGS", "-D warnings"),
    ]
}

/// Coverage is printed, never a reason to fail.
fn measure_coverage(options: &Options, drivers: &Drivers, elapsed: Duration) -> Outcome {
    let started = Instant::now();
    step::heading("line coverage");
    let measured = if !options.measures_coverage {
        Err("--no-coverage was given".into())
    } else if elapsed > LATEST_START_OF_COVERAGE {
        Err(format!("the steps before took {}", step::minutes(elapsed)))
    } else {
        coverage::measure(options.may_install, &drivers.environment(options.all_adapters))
    };
    match measured {
        Ok(coverage) => println!("{coverage}"),
        Err(reason) => println!("line coverage: not measured, {reason}"),
    }
    Outcome { name: "line coverage", passed: true, took: started.elapsed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_known_or_refused() {
        let parse = |arg: &str| Options::parse(&[arg.to_string()]);
        assert!(!parse("--no-install").expect("known").may_install);
        assert!(parse("--all-adapters").expect("known").all_adapters);
        assert!(!parse("--no-coverage").expect("known").measures_coverage);
        assert!(parse("--quick").is_err());
    }

    #[test]
    fn tests_run_with_and_without_nextest() {
        let tests = |has_nextest| steps(has_nextest)[4].to_string();
        assert_eq!(tests(true), "cargo nextest run --workspace --no-fail-fast");
        assert!(tests(false).starts_with("cargo test --workspace --lib"));
    }
}
