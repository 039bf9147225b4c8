//! Runs real models beside what ONNX Runtime computes from the same inputs, and writes `docs/models.md`.
//!
//! `crates/breakeven-onnx/tests/make_models.py` writes the models, the inputs and ONNX Runtime's outputs, and says how.
#![forbid(unsafe_code)]

#[path = "../shared/devices.rs"]
mod devices;
mod model;
mod read;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use model::{Case, Outcome};

/// Runs the models that `make_models.py` wrote.
#[derive(Debug, Parser)]
struct Args {
    /// The folder that `make_models.py` wrote.
    models: PathBuf,
    /// A device by name, as `cpu` or `wgpu:0`; several make several rows.
    #[arg(long, default_value = "cpu")]
    on: Vec<String>,
    /// Only models whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Print the plan of each model's first inputs.
    #[arg(long)]
    explain: bool,
    /// Write the table to this file.
    #[arg(long)]
    write: Option<PathBuf>,
}

/// A model, a device, and what it gave there.
struct Row {
    case: Case,
    device: String,
    outcome: Result<Outcome, String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let mut rows = Vec::new();
    let engine = devices::engine(&args.on)?;
    for name in &args.on {
        let device = devices::id(&engine, name)?;
        for case in model::cases(&args.models, &args.only)? {
            let outcome = case.run(&engine, device, args.explain);
            let row = Row { case, device: devices::describe(&engine, name), outcome };
            println!("{}", table::line(&row));
            rows.push(row);
        }
    }
    if let Some(path) = &args.write {
        std::fs::write(path, table::page(&rows)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let passed = rows.iter().all(|row| row.outcome.as_ref().is_ok_and(Outcome::is_right));
    Ok(ExitCode::from(u8::from(!passed)))
}
