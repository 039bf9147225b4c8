//! Presets, operations, sizes, types, devices and programs that a user asks for: these are measured, and nothing else.

#[expect(dead_code, reason = "others ask for one study of two operations")]
mod calls;
mod folder;

use std::path::Path;

use calls::{code, command, run, text};
use folder::Folder;
use serde_json::Value;

/// Operation, type, device and status of every cell, and the run's manifest.
fn measured(arguments: &[&str], folder: &Folder, name: &str) -> (Vec<[String; 4]>, Value) {
    let out = folder.path(name);
    let arguments = [&["scan"], arguments, &["--seconds", "1", "--mode", "host", "--output", &out]].concat();
    // Each of its processes would measure the devices anew.
    let output = command(&arguments).env("BREAKEVEN_CACHE", folder.path("cache")).output().unwrap();
    assert_eq!(code(&output), 0, "{arguments:?}: {}", text(&output));
    let json =
        |file: &str| -> Value { serde_json::from_slice(&std::fs::read(Path::new(&out).join(file)).unwrap()).unwrap() };
    let summary = json("summary.json");
    let cells = summary["runs"][0]["cells"].as_array().unwrap();
    let cell =
        |cell: &Value| ["operation", "dtype", "device", "status"].map(|name| cell[name].as_str().unwrap().to_owned());
    (cells.iter().map(cell).collect(), json("manifest.json"))
}

#[test]
fn presets_and_choices_measure_what_they_name() {
    let folder = Folder::new("choices");
    let on_cpu = |operation: &str, dtype: &str| vec![[operation, dtype, "cpu", "ok"].map(str::to_owned)];
    let seeds = ["--seeds", "--only", "conv2d_16_to_32", "--sizes", "64..64", "--device", "cpu", "--threads", "1"];
    let (cells, manifest) = measured(&seeds, &folder, "seeds");
    assert_eq!(cells, on_cpu("conv2d_16_to_32", "f32"));
    assert_eq!(manifest["environment"]["threads"], 1);
    let models = ["--models", "--only", "mlp", "--sizes", "1..1", "--device", "cpu"];
    assert_eq!(measured(&models, &folder, "models").0, on_cpu("mlp", "f32"));
    let half = ["--quick", "--only", "relu", "--sizes", "1000..1000", "--device", "cpu", "--dtype", "f16"];
    assert_eq!(measured(&half, &folder, "half").0, on_cpu("relu", "f16"));
    // Published tables stand beside it once it is asked for.
    let page = |more: &[&str]| {
        let output = run(&[&["report", &folder.path("half"), "--format", "markdown", "--output", "-"], more].concat());
        assert_eq!(code(&output), 0, "{}", text(&output));
        text(&output)
    };
    let is_theirs = |page: &str| page.contains("Published by others, not measured by this program");
    assert!(is_theirs(&page(&["--published"])) && !is_theirs(&page(&[])));
}

/// Beside the CPU every software driver there is, and the break-even says what they are.
#[test]
fn software_drivers_are_measured_where_they_are_asked_for() {
    let folder = Folder::new("software");
    let (cells, manifest) =
        measured(&["--quick", "--software", "--only", "relu", "--sizes", "1000..1000"], &folder, "drivers");
    let drivers = manifest["environment"]["devices"].as_array().unwrap().iter().filter(|one| one["kind"] != "cpu");
    let drivers: Vec<&str> = drivers.map(|one| one["name"].as_str().unwrap()).collect();
    assert!(!drivers.is_empty(), "there is no software driver: {manifest}");
    for device in drivers.into_iter().chain(["cpu", "auto"]) {
        assert!(cells.iter().any(|cell| cell[2] == device && cell[3] == "ok"), "{device}: {cells:?}");
    }
    let output = run(&["report", &folder.path("drivers")]);
    assert!(text(&output).contains("(a software device, not a GPU)"), "{}", text(&output));
}

/// Two programs that are one, within a threshold that no noise reaches.
#[test]
fn two_programs_are_compared_in_turns() {
    let program = env!("CARGO_BIN_EXE_breakeven");
    let both = ["compare", "--bin", program, "--bin", program, "--only", "batch_uniform_32k"];
    let output = run(&[&both[..], &["--pairs", "12", "--threshold", "900", "--json"]].concat());
    assert_eq!(code(&output), 0, "{}", text(&output));
    let said: Value = serde_json::from_slice(&output.stdout).expect("one JSON object and nothing else");
    let verdicts = said["verdicts"].as_array().unwrap();
    assert_eq!(verdicts.len(), 1, "{said}");
    let found = verdicts[0]["found"].to_string();
    assert!(found.to_lowercase().contains("same") && found.contains("\"blocks\":12"), "{found}");
}
