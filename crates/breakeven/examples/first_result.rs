//! How long after its start a process has a result of each GPU: the first process on a machine, the next, and one that has the profile
//! but not what drivers compiled; with drivers' own caches off and on.
//!
//! `cargo run --release -p breakeven --example first_result -- [--software]`

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, fs};

use breakeven::{Deadline, DeviceId, DeviceState, Engine, Tensor};

/// What switches the caches of NVIDIA's and Mesa's drivers off.
const OFF: [(&str, &str); 2] = [("__GL_SHADER_DISK_CACHE", "0"), ("MESA_SHADER_CACHE_DISABLE", "true")];

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<ExitCode, Failure> {
    let args: Vec<String> = env::args().skip(1).collect();
    let is_software = args.iter().any(|arg| arg == "--software");
    if let Some(folder) = args.iter().find_map(|arg| arg.strip_prefix("--process=")) {
        return process(Path::new(folder), is_software).map(|()| ExitCode::SUCCESS);
    }
    let folder = env::temp_dir().join(format!("breakeven-first-result-{}", std::process::id()));
    let done = compare(&folder, is_software);
    let _ = fs::remove_dir_all(&folder);
    done.map(|()| ExitCode::SUCCESS)
}

fn compare(folder: &Path, is_software: bool) -> Result<(), Failure> {
    for own in ["off", "on"] {
        let _ = fs::remove_dir_all(folder);
        for (which, is_without) in
            [("first process", false), ("second process", false), ("second without pipelines", true)]
        {
            if is_without {
                forget_pipelines(folder)?;
            }
            println!("drivers' own caches {own}, {which}:");
            let mut command = Command::new(env::current_exe()?);
            command.arg(format!("--process={}", folder.display())).args(is_software.then_some("--software"));
            let status = if own == "off" { command.envs(OFF).status()? } else { command.status()? };
            if !status.success() {
                return Err(format!("the {which} failed: {status}").into());
            }
        }
    }
    Ok(())
}

fn forget_pipelines(folder: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "bin") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn process(folder: &Path, is_software: bool) -> Result<(), Failure> {
    let started = Instant::now();
    let engine =
        Engine::builder().software(is_software).cache_folder(folder).deadline(Duration::from_mins(9)).build()?;
    engine.ready(Deadline::after(Duration::from_mins(9)))?;
    let ready = started.elapsed();
    println!("  ready after {ready:.1?}");
    for device in engine.devices().iter().filter(|d| d.id != DeviceId::HOST && d.state == DeviceState::Ready) {
        let begun = Instant::now();
        let outputs = block(&engine).map(|tensor| tensor.on(device.id));
        engine.run(&outputs.each_ref())?;
        let sums: Vec<f32> = outputs
            .iter()
            .map(|tensor| tensor.to_vec::<f32>().map(|all| all.iter().sum()))
            .collect::<Result<_, _>>()?;
        assert!(sums.iter().all(|sum| sum.is_finite()), "{sums:?}");
        println!("  {} ({}): result after {:.1?}", device.name, device.info.name, begun.elapsed());
    }
    let kept = engine.kept_pipelines().ok_or("a folder was named")?;
    println!(
        "  {} pipelines made in {:.1?}; {} files of {} bytes loaded",
        kept.pipelines, kept.making, kept.loaded, kept.loaded_bytes
    );
    engine.notes().iter().for_each(|note| println!("  note: {note}"));
    Ok(())
}

/// A layer of a model and some more: about as many kinds of kernels as a small model has.
fn block(engine: &Engine) -> [Tensor; 5] {
    let ramp = |rows: usize, columns: usize| {
        let values: Vec<f32> = (0..rows * columns).map(|i| (i % 13) as f32 / 13.0 - 0.5).collect();
        engine.from_vec(values, [rows, columns])
    };
    let (x, w) = (ramp(128, 256), ramp(256, 256));
    let scores = x.matmul(&x.t()).softmax(-1);
    let mixed = (scores.matmul(&x) + &x).layer_norm(None, None, 1e-5);
    let hidden = mixed.matmul(&w).gelu();
    let image = ramp(3 * 32, 32)
        .reshape([1, 3, 32, 32])
        .avg_pool(&breakeven::Pool { size: vec![2, 2], ..Default::default() }, false);
    [hidden.sum(0), hidden.max(1), mixed.tanh(), image, scores.sort(1, false).0]
}
