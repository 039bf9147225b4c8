//! Runs real models beside what ONNX Runtime computes from the same inputs, and writes `docs/models.md`; `cargo xtask models`.
//!
//! `crates/breakeven-onnx/tests/make_models.py` writes the models, the inputs and ONNX Runtime's outputs, and says how.
#![forbid(unsafe_code)]

mod compare;
#[path = "../shared/devices.rs"]
mod devices;
mod model;
mod peer;
mod read;
mod table;
mod timing;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use breakeven::{DeviceKind, Engine};
use clap::Parser;

use model::{Case, Outcome, Target};
use peer::Peer;

/// Models that a software GPU computes within minutes.
const LIGHT: [&str; 8] = [
    "magika",
    "minilm_int8",
    "shufflenet",
    "silero_both_rates",
    "silero_if_lstm",
    "silero_ifless",
    "silero_sequence",
    "squeezenet",
];

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
    /// A Python with ONNX Runtime, to time the models there in turn with ours.
    #[arg(long)]
    beside: Option<PathBuf>,
    /// Run the big networks on software GPUs too.
    #[arg(long)]
    heavy: bool,
    /// Print the plan of each model's first inputs.
    #[arg(long)]
    explain: bool,
    /// Write the table to this file.
    #[arg(long)]
    write: Option<PathBuf>,
    /// Compare what is not measured with this file; a difference is a failure.
    #[arg(long)]
    check: Option<PathBuf>,
}

/// A model, a device, and what it gave there.
struct Row {
    case: Case,
    device: String,
    outcome: Result<Outcome, String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let engine = devices::engine(&args.on)?;
    let mut rows = Vec::new();
    for name in &args.on {
        rows.extend(run(name, &engine, &args)?);
    }
    if let Some(path) = &args.write {
        std::fs::write(path, table::page(&rows)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut passed = rows.iter().all(|row| row.outcome.as_ref().is_ok_and(Outcome::is_right));
    if let Some(path) = &args.check {
        let kept = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        if table::unmeasured(&kept) != table::unmeasured(&table::page(&rows)) {
            println!("{} differs from what the models gave now: run cargo xtask models", path.display());
            passed = false;
        }
    }
    Ok(ExitCode::from(u8::from(!passed)))
}

/// The rows of one device. A software GPU shows whether answers are right, not how fast a GPU is.
fn run(name: &str, engine: &Engine, args: &Args) -> anyhow::Result<Vec<Row>> {
    let is_software = engine.devices().iter().any(|d| d.name == name && d.info.kind == DeviceKind::Software);
    let target = Target { engine, device: devices::id(engine, name)?, is_timed: !is_software, explain: args.explain };
    let mut peer = args.beside.as_deref().filter(|_| target.is_timed).map(Peer::start).transpose()?;
    let mut rows = Vec::new();
    for case in model::cases(&args.models, &args.only)? {
        if is_software && !args.heavy && !LIGHT.contains(&case.name.as_str()) {
            continue;
        }
        let outcome = case.run(target, peer.as_mut());
        let row = Row { case, device: devices::describe(engine, name), outcome };
        println!("{}", table::line(&row));
        rows.push(row);
    }
    Ok(rows)
}
