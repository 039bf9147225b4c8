//! `scan`, `report`, `merge` and `compare` as a user calls them.

mod folder;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use folder::Folder;
use serde_json::Value;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_breakeven"));
    command.args(arguments).env("BREAKEVEN_CACHE", "off");
    command
}

fn run(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Nothing is slower: shown, or, where this machine is too noisy now, not shown.
fn is_no_alarm(output: &Output) -> bool {
    [0, 3].contains(&code(output))
}

/// A study of two small operations on the CPU.
fn scan<'a>(folder: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["scan", "--only", "relu,sum", "--device", "cpu", "--mode", "host"];
    arguments.extend(["--sizes", "1000..10000", "--output", folder]);
    arguments.extend(if more.contains(&"--seconds") { &[][..] } else { &["--seconds", "1"] });
    arguments.extend(more);
    arguments
}

fn cells(folder: &str) -> Vec<(String, u64, String)> {
    let summary: Value =
        serde_json::from_slice(&std::fs::read(Path::new(folder).join("summary.json")).unwrap()).unwrap();
    let cells = summary["runs"][0]["cells"].as_array().unwrap();
    let key = |cell: &Value| {
        let text = |name: &str| cell[name].as_str().unwrap().to_owned();
        (text("operation"), cell["elements"].as_u64().unwrap(), text("status"))
    };
    let mut cells: Vec<_> = cells.iter().map(key).collect();
    cells.sort();
    cells
}

#[test]
fn a_scan_leaves_a_run_and_every_report_of_it() {
    let folder = Folder::new("scan");
    let out = folder.path("run");
    let output = run(&scan(&out, &["--json"]));
    assert_eq!(code(&output), 0, "{}", text(&output));
    let said: Value = serde_json::from_slice(&output.stdout).expect("one JSON object and nothing else");
    assert_eq!((said["cells"].as_u64(), said["failed"].as_u64()), (Some(4), Some(0)));
    for file in
        ["manifest.json", "samples.csv", "events.jsonl", "summary.json", "summary.md", "summary.csv", "report.html"]
    {
        assert!(Path::new(&out).join(file).exists(), "{file}");
    }
    let want: Vec<_> =
        ["relu", "sum"].iter().flat_map(|op| [1000, 10_000].map(|n| ((*op).to_owned(), n, "ok".to_owned()))).collect();
    assert_eq!(cells(&out), want);
    // It is held against itself, and against another machine.
    let output = run(&["compare", &out, &out]);
    assert!(is_no_alarm(&output), "{}", text(&output));
    let other = folder.path("other");
    std::fs::create_dir(&other).unwrap();
    for file in ["samples.csv", "events.jsonl"] {
        std::fs::copy(Path::new(&out).join(file), Path::new(&other).join(file)).unwrap();
    }
    let manifest = std::fs::read_to_string(Path::new(&out).join("manifest.json")).unwrap();
    let fingerprint: Value = serde_json::from_str(&manifest).unwrap();
    let foreign = manifest.replace(fingerprint["fingerprint"].as_str().unwrap(), "0123456789abcdef");
    std::fs::write(Path::new(&other).join("manifest.json"), foreign).unwrap();
    let refused = run(&["compare", &out, &other]);
    assert_eq!(code(&refused), 5, "{}", text(&refused));
    assert!(text(&refused).contains("--across-machines"));
    assert!(is_no_alarm(&run(&["compare", &out, &other, "--across-machines"])));
    // Both side by side, with what others published.
    let merged = folder.path("merged");
    let output = run(&["merge", &out, &other, "--published", "--output", &merged]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    let page = std::fs::read_to_string(Path::new(&merged).join("summary.md")).unwrap();
    assert!(page.contains("Trueno") && page.contains("relu"));
}

#[test]
fn groups_in_any_order_give_the_same_cells() {
    let folder = Folder::new("order");
    let found: Vec<_> = ["1", "2", "3"]
        .map(|seed| {
            let out = folder.path(seed);
            let output = run(&scan(&out, &["--seed", seed]));
            assert_eq!(code(&output), 0, "{}", text(&output));
            cells(&out)
        })
        .into();
    assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{found:?}");
}

#[test]
fn cold_calls_are_of_processes_of_their_own() {
    let folder = Folder::new("cold");
    let out = folder.path("run");
    let arguments =
        ["scan", "--only", "add,softmax", "--device", "cpu", "--mode", "cold,first", "--sizes", "1000..1000"];
    let output = run(&[&arguments[..], &["--seconds", "1", "--output", &out]].concat());
    assert_eq!(code(&output), 0, "{}", text(&output));
    let summary: Value = serde_json::from_slice(&std::fs::read(Path::new(&out).join("summary.json")).unwrap()).unwrap();
    let cells = summary["runs"][0]["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4);
    for cell in cells {
        assert_eq!(cell["status"], "ok", "{cell}");
        assert!(
            cell["samples"].as_u64() >= Some(3) && cell["checksum"].is_string() && cell["ran"].is_string(),
            "{cell}"
        );
    }
    // A process has to make its engine first.
    let median = |operation: &str, mode: &str| {
        let cell = cells.iter().find(|cell| cell["operation"] == operation && cell["mode"] == mode).unwrap();
        cell["median_ns"].as_f64().unwrap()
    };
    assert!(median("add", "cold") > median("add", "first"), "{cells:?}");
}

#[test]
fn a_study_that_measured_nothing_is_no_success() {
    let folder = Folder::new("nothing");
    let out = folder.path("run");
    // A way of calling that the host does not have.
    let arguments = ["scan", "--only", "relu", "--device", "cpu", "--mode", "copy", "--sizes", "1000..1000"];
    let output = run(&[&arguments[..], &["--seconds", "1", "--output", &out]].concat());
    assert_eq!(code(&output), 4, "{}", text(&output));
    assert!(text(&output).contains("nothing was measured"), "{}", text(&output));
}

#[test]
fn rules_say_where_nothing_may_run() {
    let folder = Folder::new("rules");
    let (out, rules) = (folder.path("run"), folder.path("rules.json"));
    let output = run(&scan(&out, &[]).iter().map(|a| if *a == "cpu" { "auto" } else { *a }).collect::<Vec<_>>());
    assert_eq!(code(&output), 0, "{}", text(&output));
    let rule = |devices: &str| {
        format!(r#"{{"schema":"breakeven.rules/1","rules":[{{"operation":"relu","devices":[{devices}]}}]}}"#)
    };
    std::fs::write(&rules, rule(r#""cpu""#)).unwrap();
    assert!(is_no_alarm(&run(&["compare", &out, &out, "--rules", &rules])));
    std::fs::write(&rules, rule(r#""wgpu""#)).unwrap();
    let output = run(&["compare", &out, &out, "--rules", &rules]);
    assert_eq!(code(&output), 1, "{}", text(&output));
    assert!(text(&output).contains("relu"), "{}", text(&output));
}

#[test]
fn a_parent_that_is_killed_loses_no_finished_row_and_the_run_goes_on() {
    let folder = Folder::new("killed");
    let out = folder.path("run");
    let mut child =
        command(&scan(&out, &["--seconds", "8"])).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let finished = || {
        std::fs::read_to_string(Path::new(&out).join("events.jsonl")).map_or(0, |t| t.matches("\"finished\"").count())
    };
    let begun = Instant::now();
    while finished() == 0 {
        assert!(begun.elapsed() < Duration::from_mins(2), "no row in two minutes");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = finished();
    let output = run(&["report", &out]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    assert!(cells(&out).len() >= kept && kept > 0);
    let output = run(&["scan", "--resume", &out]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    assert_eq!(cells(&out).len(), 4);
    assert!(cells(&out).iter().all(|(_, _, status)| status == "ok"));
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_a_readable_run() {
    let folder = Folder::new("interrupt");
    let out = folder.path("run");
    let child =
        command(&scan(&out, &["--seconds", "30"])).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while !Path::new(&out).join("events.jsonl").exists() {
        assert!(begun.elapsed() < Duration::from_mins(2), "it does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 3, "{}", text(&output));
    assert!(text(&output).contains("--resume"), "{}", text(&output));
    assert_eq!(code(&run(&["report", &out])), 0);
}

#[test]
fn a_wrong_call_says_what_there_is() {
    for (arguments, want) in [
        (&["scan", "--only", "tahn"][..], "tanh"),
        (&["scan", "--dtype", "f8"], "f16"),
        (&["scan", "--mode", "warm"], "resident"),
        (&["scan", "--sizes", "big"], "1000..100000"),
        (&["scan", "--only", "relu", "--device", "gpu7", "--output", "/nowhere/at/all"], "cpu"),
        (&["report", "/no/such/run"], "/no/such/run"),
        (&["report", ".", "--format", "pdf"], "html"),
        (&["compare", "/no/such/run", "/no/such/other"], "/no/such/run"),
        (&["compare"], "--self-test"),
    ] {
        let output = run(arguments);
        assert_eq!(code(&output), 2, "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains(want), "{arguments:?}: {}", text(&output));
    }
}
