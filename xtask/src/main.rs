//! `cargo xtask`: the tasks of this repository.
#![forbid(unsafe_code)]

mod demo;
mod example;
mod features;
mod models;
mod onnx;
mod python;
mod sanitize;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask <task>

  demo [--text FILE] [--query TEXT] [--on DEVICE] [--reference FILE] [--json] ...
         sentence embeddings with the real model, timed on every device of this machine
  features
         the crates that reach GPUs, built with each of their features alone, and with none
  models [--check | --gpu] [--only NAME]
         real models beside ONNX Runtime, on the CPU and software GPUs; writes docs/models.md or compares it
  onnx [--check | --gpu] [--list] [--only NAME]
         the backend tests of ONNX on the CPU and software GPUs; writes docs/onnx.md or compares it; --gpu: on the GPUs alone
  sanitize address|thread [CRATE...]
         the tests of the device crates under a sanitizer of the compiler, in a folder of its own below target
  test [--no-install] [--all-adapters] [--no-coverage]
         everything a change must pass, in order, with the time of each step
  tidy   the rules of STYLE.md that a machine can check";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let task = args.next();
    let rest: Vec<String> = args.collect();
    let outcome = match task.as_deref() {
        Some("demo") => demo::run(&rest),
        Some("features") => features::run(&rest),
        Some("models") => models::run(&rest),
        Some("onnx") => onnx::run(&rest),
        Some("sanitize") => sanitize::run(&rest),
        Some("test") => test::run(&rest),
        Some("tidy") => tidy::run(&rest),
        Some("help" | "--help" | "-h") => {
            println!("{USAGE}");
            Ok(0)
        }
        _ => {
            eprintln!("{USAGE}");
            Ok(2)
        }
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
