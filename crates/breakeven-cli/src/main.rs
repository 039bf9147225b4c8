//! The `breakeven` command: parse, call, print.
#![forbid(unsafe_code)]

mod cmd;
mod model;

use std::process::ExitCode;

use breakeven_study::StudyError;
use breakeven_study::verdict::Exit;
use clap::Parser;

/// Runs tensor work where it is cheapest on this machine: the CPU or a GPU, decided by measurement.
#[derive(Debug, Parser)]
#[command(
    version,
    arg_required_else_help = true,
    after_help = "Examples:
  breakeven devices                          what this machine has, and why something is not used
  breakeven run model.onnx --input x=x.npy   a model where it is cheapest
  breakeven explain model.onnx --random      where each step would run, and why
  breakeven trace model.onnx --random        when each step was done, for Perfetto
  breakeven scan --quick                     from which sizes on a GPU pays here, for five operations
  breakeven compare runs/old runs/new        has anything become slower?"
)]
struct Args {
    #[command(subcommand)]
    command: cmd::Command,
    /// One JSON object on stdout instead of text.
    #[arg(long, global = true)]
    json: bool,
}

/// An interface of GPUs, as arguments name it.
fn graphics(name: &str) -> Result<breakeven::Graphics, String> {
    name.parse().map_err(|names: String| format!("not {names}"))
}

/// What a shell calls a program that ended since nobody reads its output any more (128 and the number of that signal).
const NOBODY_READS: i32 = 141;

/// Ends quietly where the output is closed, as by `| head`: printing panics then.
fn end_with_the_reader() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let said = panic.payload().downcast_ref::<String>().map_or("", String::as_str);
        if said.starts_with("failed printing to stdout") && said.contains("Broken pipe") {
            std::process::exit(NOBODY_READS);
        }
        usual(panic);
    }));
}

fn main() -> ExitCode {
    end_with_the_reader();
    let args = Args::parse();
    let exit = args.command.run(args.json).unwrap_or_else(|error| {
        eprintln!("breakeven: {}", told(&error));
        exit_of(&error)
    });
    ExitCode::from(exit.code())
}

/// What an error ends with: the call is wrong, unless it is right on another machine.
fn exit_of(error: &anyhow::Error) -> Exit {
    let is_elsewhere = |e: &StudyError| matches!(e, StudyError::OtherMachine { .. });
    let is_such = |cause: &(dyn std::error::Error + 'static)| cause.downcast_ref().is_some_and(is_elsewhere);
    if error.chain().any(is_such) { Exit::Mismatch } else { Exit::Usage }
}

/// What went wrong, and why: each reason once, though errors of libraries say their own in their message and name it as their source too.
fn told(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |said, reason| match said.as_str() {
        "" => reason,
        _ if said.contains(&reason) => said,
        _ => format!("{said}: {reason}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;
    use breakeven::DeviceError;

    #[track_caller]
    fn check(error: impl Into<anyhow::Error>, expected: &str) {
        assert_eq!(told(&error.into()), expected);
    }

    #[test]
    fn each_reason_is_told_once() {
        let not_there = || std::io::Error::new(std::io::ErrorKind::NotFound, "not there");
        let file = || StudyError::File { path: "run".into(), source: not_there() };
        check(file(), "run: not there");
        check(breakeven_bench::scan::Error::from(file()), "run: not there");
        let lost = || breakeven::Error::Device { device: "wgpu:0".into(), source: DeviceError::Cancelled };
        check(lost(), &lost().to_string());
        let node = breakeven_onnx::Error::Engine { node: "node 3".into(), source: lost() };
        check(node, &format!("node 3: {}", lost()));
        check(Err::<(), _>(not_there()).context("run cannot be read").unwrap_err(), "run cannot be read: not there");
        check(Err::<(), _>(file()).context("it cannot go on").unwrap_err(), "it cannot go on: run: not there");
    }
}
