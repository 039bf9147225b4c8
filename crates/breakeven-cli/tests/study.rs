//! `scan`, `report`, `merge` and `compare` as a user calls them.

mod calls;
mod folder;

use std::path::Path;
use std::process::Output;

use calls::{cells, code, command, run, scan, text};
use folder::Folder;
use serde_json::{Value, json};

/// Nothing is slower: shown, or, where this machine is too noisy now, not shown.
fn is_no_alarm(output: &Output) -> bool {
    [0, 3].contains(&code(output))
}

#[test]
fn a_scan_leaves_a_run_and_every_report_of_it() {
    let folder = Folder::new("scan");
    let out = folder.path("run");
    let output = run(&scan(&out, &["--json"]));
    assert_eq!(code(&output), 0, "{}", text(&output));
    let said: Value = serde_json::from_slice(&output.stdout).expect("one JSON object and nothing else");
    let counted = ["cells", "failed", "left_out"].map(|name| said[name].as_u64());
    assert_eq!(counted, [Some(4), Some(0), Some(0)]);
    for file in
        ["manifest.json", "samples.csv", "events.jsonl", "summary.json", "summary.md", "summary.csv", "report.html"]
    {
        assert!(Path::new(&out).join(file).exists(), "{file}");
    }
    let want: Vec<_> =
        ["relu", "sum"].iter().flat_map(|op| [1000, 10_000].map(|n| ((*op).to_owned(), n, "ok".to_owned()))).collect();
    assert_eq!(cells(&out), want);
    // What the CPU does at most, measured in the same run.
    let summary = std::fs::read(Path::new(&out).join("summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    let ceilings = summary["runs"][0]["ceilings"].as_array().expect("ceilings");
    let of_cpu = ceilings.iter().find(|ceiling| ceiling["device"] == "cpu").expect("of the CPU");
    let rates = ["flops", "bytes_per_s"].map(|name| of_cpu[name].as_f64());
    assert!(rates.iter().all(|rate| rate.is_some_and(|rate| rate > 1e8)), "{of_cpu}");
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
    let refused = run(&["scan", "--resume", &other]);
    assert_eq!(code(&refused), 5, "{}", text(&refused));
    assert!(text(&refused).contains("begin a new run"), "{}", text(&refused));
    // Both side by side, with what others published.
    let merged = folder.path("merged");
    let output = run(&["merge", &out, &other, "--published", "--output", &merged]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    let page = std::fs::read_to_string(Path::new(&merged).join("summary.md")).unwrap();
    assert!(page.contains("Trueno") && page.contains("relu"));
}

/// A copy of the run `from`, with its samples and its manifest changed.
fn altered(from: &str, to: &str, factor: f64, manifest: impl Fn(&mut Value)) {
    std::fs::create_dir(to).unwrap();
    let text = |name: &str| std::fs::read_to_string(Path::new(from).join(name)).unwrap();
    let write = |name: &str, text: String| std::fs::write(Path::new(to).join(name), text).unwrap();
    let longer = |line: &str| {
        let mut fields: Vec<String> = line.split(',').map(str::to_owned).collect();
        fields[3] = fields[3].parse::<f64>().map_or(fields[3].clone(), |ns| format!("{:.0}", ns * factor));
        fields.join(",") + "\n"
    };
    write("samples.csv", text("samples.csv").lines().map(longer).collect());
    write("events.jsonl", text("events.jsonl"));
    let mut changed = serde_json::from_str(&text("manifest.json")).unwrap();
    manifest(&mut changed);
    write("manifest.json", changed.to_string());
}

/// A run of two cells with samples enough for verdicts, however busy the machine is that runs this.
fn recorded(to: &str) {
    std::fs::create_dir(to).unwrap();
    let write = |name: &str, text: String| std::fs::write(Path::new(to).join(name), text).unwrap();
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/studies/two-cores/manifest.json");
    write("manifest.json", std::fs::read_to_string(manifest).unwrap());
    let mut events = r#"{"at_ns":0,"event":"opened","schema":"breakeven.events/1"}"#.to_owned() + "\n";
    let mut samples = OLD_SAMPLES.lines().next().unwrap().to_owned() + "\n";
    for (id, operation) in ["relu", "sum"].into_iter().enumerate() {
        let cell = json!({"operation": operation, "elements": 1000, "shape": "1000", "dtype": "f32", "device": "cpu", "mode": "host"});
        let begun = json!({"at_ns": 1, "event": "begun", "id": id, "cell": cell});
        let finished = json!({"at_ns": 2, "event": "finished", "id": id, "samples": 200, "status": "ok"});
        events.extend([begun.to_string(), "\n".into(), finished.to_string(), "\n".into()]);
        samples.extend((0..200).map(|index| format!("{id},0,{index},{},,,,,,,\n", 10_000 + index % 7)));
    }
    write("events.jsonl", events);
    write("samples.csv", samples);
}

#[test]
fn what_two_folders_show_is_not_confirmed_until_a_second_run_shows_it_too() {
    let folder = Folder::new("confirm");
    let [out, slow, again, other] = ["run", "slow", "again", "other"].map(|name| folder.path(name));
    recorded(&out);
    altered(&out, &slow, 3.0, |_| {});
    altered(&out, &again, 3.0, |_| {});
    altered(&out, &other, 1.0, |manifest| {
        manifest["fingerprint"] = "0123456789abcdef".into();
        manifest["environment"]["cores"] = 4096.into();
    });
    let once = run(&["compare", &out, &slow]);
    assert_eq!(code(&once), 3, "{}", text(&once));
    for part in [
        "SLOWER",
        ", not confirmed: measured at different times",
        "neither shown nor refuted (exit code 3)",
        "--again RUN",
        "--bin OLD --bin NEW --only relu,sum --device cpu --mode host",
    ] {
        assert!(text(&once).contains(part), "{part} in {}", text(&once));
    }
    let twice = run(&["compare", &out, &slow, "--again", &again]);
    assert_eq!(code(&twice), 1, "{}", text(&twice));
    assert!(text(&twice).contains("SLOWER") && !text(&twice).contains("not confirmed"), "{}", text(&twice));
    let refuted = run(&["compare", &out, &slow, "--again", &out]);
    assert_eq!(code(&refuted), 3, "{}", text(&refuted));
    assert!(text(&refuted).contains("not seen again"), "{}", text(&refuted));
    // What differs between machines is said where the comparison is refused.
    for arguments in [&["compare", &out, &other][..], &["compare", &out, &slow, "--again", &other]] {
        let refused = run(arguments);
        assert_eq!(code(&refused), 5, "{}", text(&refused));
        assert!(text(&refused).contains("in A, 4096 in B") && text(&refused).contains("--across-machines"));
    }
}

/// Exact, since no real clock has a part in it: 5% is found and the same with itself gives no alarm.
#[test]
fn the_self_test_on_a_simulated_machine_finds_five_percent_and_gives_no_alarm() {
    let test = ["compare", "--self-test", "--simulated", "--only", "gelu,sum", "--json", "--slower"];
    let with = |percent: &str| {
        let output = run(&[&test[..], &[percent]].concat());
        let said: Value = serde_json::from_slice(&output.stdout).expect("one JSON object and nothing else");
        assert!(output.stderr.is_empty(), "progress is for terminals: {}", text(&output));
        (code(&output), ["cells", "false_alarms", "found"].map(|name| said[name].as_u64().unwrap()))
    };
    assert_eq!(with("5"), (0, [4, 0, 4]));
    // A check that cannot fail is none: 1% is below the threshold, so it is not found, and that is a failure.
    assert_eq!(with("1"), (1, [4, 0, 0]));
}

/// What tools for criterion read, below any folder: names, medians of the very samples, and nothing else written.
#[test]
fn criterion_files_are_written_and_read_back() {
    let folder = Folder::new("criterion");
    let (out, to) = (folder.path("run"), folder.path("target/criterion"));
    assert_eq!(code(&run(&scan(&out, &[]))), 0);
    let output = run(&["report", &out, "--criterion", &to]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    assert!(text(&output).contains("8 files"), "two files for each of four cells: {}", text(&output));
    let read = |name: &str| -> Value {
        let path = Path::new(&to).join("relu f32/cpu host/1000/new").join(name);
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    };
    assert_eq!(read("benchmark.json")["full_id"], "relu f32/cpu host/1000");
    let summary: Value = serde_json::from_slice(&std::fs::read(Path::new(&out).join("summary.json")).unwrap()).unwrap();
    let is_it = |cell: &&Value| cell["operation"] == "relu" && cell["elements"] == 1000;
    let cell = summary["runs"][0]["cells"].as_array().unwrap().iter().find(is_it).unwrap();
    let median = read("estimates.json")["median"]["point_estimate"].as_f64().unwrap();
    let (least, most) = (cell["min_ns"].as_f64().unwrap(), cell["median_ns"].as_f64().unwrap());
    assert!(least <= median && median <= 1.5 * most, "{median} {cell}");
    // As criterion does it, what was there is the base that its tools compare with.
    let other = folder.path("other");
    assert_eq!(code(&run(&scan(&other, &[]))), 0);
    let estimates =
        |of: &str| std::fs::read(Path::new(&to).join(format!("relu f32/cpu host/1000/{of}/estimates.json"))).unwrap();
    let first = estimates("new");
    for _ in 0..2 {
        let before = estimates("new");
        assert_eq!(code(&run(&["report", &other, "--criterion", &to])), 0);
        assert!(estimates("base") == before && estimates("new") != first);
    }
    let no_samples = run(&["report", &format!("{out}/summary.json"), "--criterion", &to]);
    assert_eq!(code(&no_samples), 2, "{}", text(&no_samples));
    assert!(text(&no_samples).contains(&format!("has the raw samples (samples.csv, events.jsonl): name {out}\n")));
}

/// The manifests that are committed were written by earlier versions.
#[test]
fn committed_manifests_are_read() {
    let studies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/studies");
    for (study, has_gpu) in [("h200", true), ("two-cores", true), ("two-cores-whole", false)] {
        let folder = Folder::new(study);
        std::fs::copy(studies.join(study).join("manifest.json"), folder.path("manifest.json")).unwrap();
        std::fs::write(folder.path("events.jsonl"), OLD_EVENTS).unwrap();
        std::fs::write(folder.path("samples.csv"), OLD_SAMPLES).unwrap();
        let path = folder.path("");
        assert_eq!(code(&run(&["report", &path])), 0, "{study}");
        assert_eq!(cells(&path), [("relu".to_owned(), 1000, "ok".to_owned())]);
        let merged = folder.path("merged");
        let output = run(&["merge", &path, "--output", &merged]);
        assert_eq!(code(&output), 0, "{}", text(&output));
        let page = std::fs::read_to_string(Path::new(&merged).join("summary.md")).unwrap();
        assert!(page.contains("- vulkan ") == has_gpu && !page.contains("- wgpu:0: "), "{page}");
        assert!([0, 3].contains(&code(&run(&["compare", &path, &path]))));
    }
}

/// A folder as it was written before plans, copies and who went on were written down.
const OLD_EVENTS: &str = r#"{"at_ns":0,"event":"opened","schema":"breakeven.events/1"}
{"at_ns":1,"event":"begun","id":0,"cell":{"operation":"relu","elements":1000,"shape":"1000","dtype":"f32","device":"cpu","mode":"host"}}
{"at_ns":2,"event":"finished","id":0,"samples":2,"status":"ok","why":null,"stop":"budget","bytes":8000,"flops":1000,"predicted_ns":1.5,"checksum":"00ff","ran":"cpu","pool":null,"degenerate":null}
{"at_ns":3,"event":"opened","schema":"breakeven.events/1"}
{"at_ns":4,"event":"stopped","why":"done"}
"#;

const OLD_SAMPLES: &str = "cell,round,index,wall_ns,allocate_ns,upload_ns,dispatch_ns,kernel_ns,read_ns,wait_ns,flags
0,0,0,1000,,,,,,,
0,0,1,1001,,,,,,,
";

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

/// A run whose logs have no finished cell, and one that failed before it was gone on with.
#[test]
fn what_is_not_finished_and_what_failed_before_is_said() {
    let folder = Folder::new("unfinished");
    let (out, empty) = (folder.path("run"), folder.path("empty"));
    assert_eq!(code(&run(&scan(&out, &[]))), 0);
    altered(&out, &empty, 1.0, |_| {});
    std::fs::write(Path::new(&empty).join("events.jsonl"), OLD_EVENTS.lines().next().unwrap().to_owned() + "\n")
        .unwrap();
    std::fs::write(Path::new(&empty).join("samples.csv"), OLD_SAMPLES.lines().next().unwrap().to_owned() + "\n")
        .unwrap();
    let output = run(&["report", &empty]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    assert!(
        text(&output).contains("no cell of it is finished") && text(&output).contains("floor not known"),
        "{}",
        text(&output)
    );
    let page = std::fs::read_to_string(Path::new(&empty).join("summary.md")).unwrap();
    assert!(page.contains("No cell of this run is finished"), "{page}");
    let output = run(&["compare", &empty, &out]);
    assert_eq!(code(&output), 3, "{}", text(&output));
    assert!(text(&output).contains("no finished cell"), "{}", text(&output));
    // Nothing is left to measure, and what failed before has failed.
    let events = Path::new(&out).join("events.jsonl");
    let failed = std::fs::read_to_string(&events).unwrap().replacen(r#""status":"ok""#, r#""status":"wrong""#, 1);
    std::fs::write(&events, failed).unwrap();
    let output = run(&["scan", "--resume", &out, "--json"]);
    assert_eq!(code(&output), 1, "{}", text(&output));
    let said: Value = serde_json::from_slice(&output.stdout).expect("one JSON object and nothing else");
    assert_eq!((said["cells"].as_u64(), said["failed"].as_u64()), (Some(4), Some(1)));
}

#[test]
fn a_wrong_call_says_what_there_is() {
    for (arguments, want) in [
        (&["scan", "--only", "tahn"][..], "tanh"),
        (&["scan", "--dtype", "f8"], "f16"),
        (&["scan", "--mode", "warm"], "resident"),
        (&["scan", "--mode", "chain-0"], "chain-k (k calls in a row, 1 to 1000)"),
        (&["scan", "--sizes", "big"], "1000..100000"),
        (
            &["scan", "--only", "matmul", "--sizes", "5000..100000"],
            "matmul 32, 100, 256, 512, 1024 (the side of both matrices)",
        ),
        (&["scan", "--only", "relu", "--device", "gpu7", "--output", "/nowhere/at/all"], "cpu"),
        (&["report", "/no/such/run"], "/no/such/run"),
        (&["report", ".", "--format", "pdf"], "html"),
        (&["compare", "/no/such/run", "/no/such/other"], "/no/such/run"),
        (&["compare", "--bin", "/no/such/program", "--bin", "/no/such/other"], "/no/such/program cannot be started"),
        (&["compare"], "--self-test"),
    ] {
        let output = run(arguments);
        assert_eq!(code(&output), 2, "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains(want), "{arguments:?}: {}", text(&output));
        assert!(!text(&output).contains("breakeven: breakeven:"), "{arguments:?}: {}", text(&output));
    }
}

/// A summary has no raw samples, which verdicts are made of.
#[test]
fn compare_says_that_it_wants_folders_and_which() {
    let folder = Folder::new("wanted");
    let [out, merged, alone] = ["run", "merged", "alone"].map(|name| folder.path(name));
    recorded(&out);
    assert_eq!(code(&run(&["report", &out])), 0);
    assert_eq!(code(&run(&["merge", &out, "--output", &merged])), 0);
    std::fs::create_dir(&alone).unwrap();
    let check = |given: &str, wanted: &str| {
        let output = run(&["compare", &out, given]);
        assert_eq!((code(&output), text(&output)), (2, format!("breakeven: {given} {wanted}\n")));
    };
    let is_file =
        "is a file, and what is wanted here is a run folder, which has the raw samples (samples.csv, events.jsonl)";
    check(&format!("{out}/summary.json"), &format!("{is_file}: name {out}"));
    check(&format!("{merged}/summary.json"), is_file);
    check(&alone, "is no run folder, as `breakeven scan` writes one: it has no manifest.json");
}

#[cfg(unix)]
#[test]
fn what_is_not_there_is_told_once() {
    let output = run(&["report", "/no/such/run"]);
    assert_eq!(text(&output), "breakeven: /no/such/run: No such file or directory (os error 2)\n");
}

#[test]
fn a_run_without_a_second_device_says_what_operations_take() {
    let folder = Folder::new("takes");
    let out = folder.path("run");
    recorded(&out);
    let output = run(&["report", &out]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    let said =
        "  no break-even: no size was measured on the CPU and on another device; what operations take (lower quartile):
  relu               f32   host      cpu        1,000: 10";
    assert!(text(&output).contains(said), "{}", text(&output));
}

#[test]
fn the_help_of_scan_says_what_sizes_count_and_how_it_ends() {
    let output = run(&["scan", "--help"]);
    let said = text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "Examples:",
        "breakeven scan --resume runs/products",
        "Exit codes: 0 ",
        "They count elements (1000 to 4000000), for matmul the side of both matrices (32 to 2048)",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
}

/// As by `| head -1` once that has its line: nobody reads, and nothing is wrong.
#[cfg(unix)]
#[test]
fn a_reader_that_is_gone_ends_a_command_quietly() {
    let folder = Folder::new("pipe");
    let out = folder.path("run");
    recorded(&out);
    for arguments in
        [&["report", &out][..], &["report", &out, "--format", "csv", "--output", "-"], &["report", &out, "--json"]]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(arguments).stdout(writer).output().unwrap();
        assert_eq!((code(&output), text(&output).as_str()), (141, ""), "{arguments:?}");
    }
}
