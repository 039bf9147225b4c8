//! `breakeven run`, `explain` and `trace`, as a user calls them.

mod folder;

use std::path::Path;
use std::process::{Command, Output};

use breakeven::Engine;
use folder::Folder;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/layer.onnx");

fn call(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_breakeven"));
    command.args(args).env("BREAKEVEN_CACHE", "off").output().expect("the command starts")
}

fn succeed(args: &[&str]) -> String {
    let output = call(args);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && errors.is_empty(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

fn fail(args: &[&str]) -> String {
    let output = call(args);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &[][..]), "{args:?}");
    String::from_utf8(output.stderr).expect("text")
}

fn engine() -> Engine {
    Engine::builder().gpus(false).no_cache().build().expect("a CPU is always there")
}

#[test]
fn a_model_runs_on_arrays_of_numpy() {
    let (folder, engine) = (Folder::new("arrays"), engine());
    let x = engine.tensor(&[1.0, 2.0, -1.0, 0.0], [2, 2]);
    std::fs::write(folder.path("x.npy"), x.to_npy().expect("numpy has f32")).expect("it is written");
    let (input, output) = (format!("x={}", folder.path("x.npy")), format!("y={}", folder.path("y.npy")));
    let line = succeed(&["run", MODEL, "--on", "cpu", "--input", &input, "--output", &output]);
    assert!(line.starts_with("layer.onnx: ") && line.contains("; cpu: ") && line.contains("0 bytes copied"), "{line}");
    let y = std::fs::read(folder.path("y.npy")).expect("it was written");
    let y = engine.tensor_from_npy(y).expect("it is an array").to_vec::<f32>().expect("the CPU has it");
    // By hand: the sums are [2, 3.25, 0.5] and [-1, 1.25, 0.5].
    let softmax = |sums: [f32; 3]| {
        let powers = sums.map(|s| s.max(0.0).exp());
        powers.map(|p| p / powers.iter().sum::<f32>())
    };
    let wanted = [softmax([2.0, 3.25, 0.5]), softmax([-1.0, 1.25, 0.5])].concat();
    assert!(y.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 1e-6), "{y:?}, not {wanted:?}");
}

#[test]
fn an_archive_goes_in_and_out() {
    let (folder, archive) = (Folder::new("archive"), "out.npz");
    let line =
        succeed(&["run", MODEL, "--on", "cpu", "--random", "--dim", "batch=4", "--output", &folder.path(archive)]);
    assert!(line.contains("out.npz") && Path::new(&folder.path(archive)).exists(), "{line}");
    let text = fail(&["run", MODEL, "--on", "cpu", "--input", &folder.path(archive)]);
    assert_eq!(text, "breakeven: the model has no input 'y', but 'x'\n");
}

#[test]
fn data_instead_of_text() {
    let text = succeed(&["run", MODEL, "--on", "cpu", "--random", "--repeat", "3", "--json"]);
    let data: serde_json::Value = serde_json::from_str(&text).expect("one object");
    assert_eq!(data["seconds"].as_array().map(Vec::len), Some(3));
    assert_eq!(data["outputs"][0], serde_json::json!({"name": "y", "dtype": "f32", "shape": [1, 3]}));
    let text = succeed(&["explain", MODEL, "--on", "cpu", "--random", "--json"]);
    let data: serde_json::Value = serde_json::from_str(&text).expect("a list");
    assert!(data.as_array().is_some_and(|steps| steps.iter().all(|step| step["reason"].is_string())), "{text}");
}

/// Three runs on a software adapter: what was compiled for the first serves the others.
#[test]
fn what_a_gpu_made_and_found_again_is_told() {
    // Drivers say things of their own on the way, such as which variables they miss.
    let output = call(&["run", MODEL, "--on", "wgpu:0", "--random", "--repeat", "3", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let data: serde_json::Value = serde_json::from_str(&text).expect("one object");
    let count = |name: &str| data["counts"]["wgpu:0"][name].as_u64().unwrap_or_else(|| panic!("no {name}: {text}"));
    assert!(count("submits") >= 3 && count("dispatches") >= 3 && count("bind_group_hits") >= 1, "{text}");
    // Two threads may compile the same text, of which one is kept.
    assert!(count("pipelines_kept") >= 1 && count("pipelines") >= count("pipelines_kept"), "{text}");
    assert_eq!(data["counts"]["cpu"], serde_json::json!({}), "it has neither pipelines nor submissions");
}

#[test]
fn a_frozen_plan_is_followed() {
    let folder = Folder::new("frozen");
    let path = folder.path("plan.json");
    let with = |dim| ["run", MODEL, "--on", "cpu", "--random", "--dim", dim, "--freeze", path.as_str()];
    succeed(&with("batch=2"));
    succeed(&with("batch=2"));
    let text = fail(&with("batch=3"));
    assert!(text.contains("the frozen plan was made from another graph"), "{text}");
}

/// The file is an object of complete events and names; each step of the plan is in one event.
#[test]
fn a_trace_is_a_file_that_viewers_read() {
    let folder = Folder::new("trace");
    let path = folder.path("trace.json");
    let with = |more: &[&'static str]| {
        let args = ["trace", MODEL, "--on", "cpu", "--random", "--output", path.as_str()];
        succeed(&args.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>())
    };
    let line = with(&["--warm-up", "2"]);
    assert!(line.starts_with("layer.onnx: ") && line.contains("wrote ") && line.contains(" of kernels"), "{line}");
    let told: serde_json::Value = serde_json::from_str(&with(&["--json"])).expect("one object");
    let text = std::fs::read_to_string(&path).expect("it was written");
    let file: serde_json::Value = serde_json::from_str(&text).expect("one object");
    let events = file["traceEvents"].as_array().expect("a list");
    let complete: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert_eq!(Some(complete.len() as u64), told["events"].as_u64());
    for event in events {
        assert!(event["pid"].is_u64() && event["tid"].is_u64() && event["name"].is_string(), "{event}");
        let is_timed = event["ts"].is_number() && event["dur"].is_number() && event["args"]["steps"].is_array();
        assert!(is_timed || event["ph"] == "M", "{event}");
    }
    let steps = complete.iter().flat_map(|event| event["args"]["steps"].as_array().expect("a list"));
    let mut steps: Vec<u64> = steps.map(|step| step.as_u64().expect("a number")).collect();
    steps.sort_unstable();
    assert!(steps.len() > 2 && steps.iter().copied().eq(0..steps.len() as u64), "{steps:?}");
    let names: Vec<&str> = complete.iter().filter_map(|event| event["name"].as_str()).collect();
    assert!(names.contains(&"plan") && names.iter().any(|name| name.contains("matmul")), "{names:?}");
}

#[test]
fn errors_say_what_to_do() {
    let text = fail(&["run", MODEL, "--on", "cpu"]);
    let wanted =
        "breakeven: no input is given for 'x' (f32[batch, 2]): say --input NAME=FILE.npy for each, or --random\n";
    assert_eq!(text, wanted);
    let text = fail(&["run", MODEL, "--on", "npu:0", "--random"]);
    // Drivers may say something of their own before.
    assert!(text.contains("breakeven: there is no device 'npu:0'; there are auto, cpu"), "{text}");
    let text = fail(&["run", MODEL, "--on", "cpu", "--random", "--dim", "size=4"]);
    assert_eq!(text, "breakeven: --dim size: the model has no such dimension, but batch\n");
    let text = fail(&["explain", "no-such-file.onnx", "--random"]);
    assert!(text.starts_with("breakeven: no-such-file.onnx: cannot be read"), "{text}");
}

/// Case D09: a backend is chosen by surprise, and a wrong name is taken for none.
#[test]
fn d09_the_interface_is_chosen_or_told_which_there_are() {
    let output = call(&["devices", "--backend", "bogus"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(told.contains("not vulkan, metal, dx12 or gl"), "{told}");
    // Drivers say things of their own on the way, such as which variables they miss.
    let devices = |backend: &str| {
        let output = call(&["devices", "--backend", backend]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let told = devices("vulkan");
    assert!(told.contains("through vulkan alone") && !told.contains("wgpu/gl"), "{told}");
    let told = devices("gl");
    assert!(told.contains("through gl alone") && !told.contains("wgpu/vulkan"), "{told}");
}

/// How each device does, what it holds of what it may hold, and what is in flight there.
#[test]
fn devices_are_told_with_their_health() {
    let output = call(&["--json", "devices", "--software"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let all = told["devices"].as_array().expect("there is a list");
    let ready: Vec<_> = all.iter().filter(|device| device["state"] == "ready").collect();
    assert!(ready.len() > 1, "no software adapter is ready: {told}");
    for device in ready {
        let memory = &device["memory"];
        assert_eq!((&device["health"], &device["health_reason"]), (&"healthy".into(), &serde_json::Value::Null));
        assert_eq!((&memory["in_flight_submissions"], &memory["in_flight_bytes"]), (&0.into(), &0.into()));
        let (used, budget) = (memory["used_bytes"].as_u64(), memory["budget_bytes"].as_u64());
        // What a software driver tells is the whole machine's.
        assert!(budget.is_none() || device["kind"] != "Software", "{device}");
        assert!(used.is_some_and(|used| budget.is_none_or(|budget| used < budget)), "{device}");
        let is_told = device["kind"] != "Software" || device["counts"]["pipelines"].is_u64();
        assert!(is_told && device["pools"]["memory"].is_array(), "{device}");
    }
    let text = String::from_utf8_lossy(&call(&["devices", "--software"]).stdout).into_owned();
    assert!(text.contains("\n         healthy, ") && text.contains(" in use, nothing in flight"), "{text}");
}

/// Case L04: nobody is told which limits a device was asked for, and which it granted.
#[test]
fn l04_limits_are_told_as_asked_and_granted() {
    let output = call(&["--json", "devices", "--software", "--limits", "webgpu"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let limits = |kind: &str| {
        let all = told["devices"].as_array().expect("there is a list").iter();
        let of = all.filter(|device| device["kind"] == kind && device["state"] == "ready");
        of.map(|device| &device["limits"]).collect::<Vec<_>>()
    };
    let [cpu] = limits("Cpu")[..] else { panic!("one CPU: {told}") };
    assert_eq!(cpu["asked"], "host");
    assert!(cpu["memory_bytes"].as_u64().is_none_or(|bytes| bytes > 64 << 20), "{cpu}");
    let software = limits("Software");
    assert!(!software.is_empty(), "no software adapter is ready: {told}");
    for limits in software {
        let bytes = |name: &str| limits[name].as_u64().expect("it is a number");
        assert_eq!(limits["asked"], "webgpu");
        assert_eq!(bytes("max_buffer_bytes"), 256 << 20, "{limits}");
        // But for what alignment takes of it.
        assert!(
            (128 << 20) - 4096 <= bytes("max_binding_bytes") && bytes("max_binding_bytes") <= 128 << 20,
            "{limits}"
        );
        assert!((1..=8).contains(&bytes("max_bindings")), "{limits}");
    }
}
