//! What the writers write is what the schemas say, and what the schemas refuse is wrong.

mod samples;

use std::fs;

use breakeven_study::folder::{Event, Facts, GpuReading, ProcessorTime, Reading, RunWriter, names, read};
use breakeven_study::published::{held_against, runs};
use breakeven_study::verdict::{Change, Rules, Verdict};
use breakeven_study::{
    Ceiling, ComparisonSchema, Copied, Flag, Flags, Made, Manifest, Mode, Pool, Sample, Source, Status, Stop,
    StudyError, Summary, SummarySchema, summarize,
};
use samples::schema::validate;
use samples::{Folder, cell, manifest};
use serde_json::{Value, json};

/// A schema of this repository, ready to check.
struct Check(Value);

impl Check {
    fn new(name: &str) -> Check {
        let text = fs::read_to_string(format!("{}/schemas/{name}.schema.json", env!("CARGO_MANIFEST_DIR")));
        Check(parsed(&text.expect("a schema")))
    }

    fn accepts(&self, value: &Value) {
        if let Err(why) = validate(&self.0, value) {
            panic!("{why}\n{value}");
        }
    }

    fn refuses(&self, value: &Value, change: impl Fn(&mut Value)) {
        let mut changed = value.clone();
        change(&mut changed);
        assert!(validate(&self.0, &changed).is_err(), "accepted {changed}");
    }
}

/// Readings with all that sensors can say.
fn readings() -> [Reading; 2] {
    let gpus = vec![GpuReading { name: "card0".into(), hz: Some(1_980_000_000), celsius: None }];
    let absent = vec!["thermal zones".into()];
    let cpu_hz = Some([2_300_000_000, 3_400_000_000]);
    let processor = Some(ProcessorTime { all_ticks: 5000, stolen_ticks: 3 });
    [
        Reading { when: "before gelu f32".into(), cpu_hz, gpus, absent, ..Reading::default() },
        Reading { throttlings: Some(3), celsius: Some(45.5), processor, ..Reading::default() },
    ]
}

/// All that can be found for a cell.
fn facts() -> Facts {
    Facts {
        stop: Some(Stop::StableNoise),
        bytes: Some(8000),
        flops: Some(1000),
        predicted_ns: Some(1.5),
        checksum: Some("00ff".into()),
        ran: Some("vulkan:0, NVIDIA H200".into()),
        pool: Some(Pool { hits: 1, misses: 2, bytes: 3 }),
        made: Some(Made { calls: 600, plans: 1, pipelines: Some(2) }),
        copied: Some(Copied { upload_bytes: 4000, read_bytes: 4000 }),
        degenerate: Some(0.0),
        waited: Some(0.3),
        ..Facts::of(Status::Ok)
    }
}

/// A run with everything that a run can hold, which was interrupted and gone on with.
fn full(folder: &Folder) -> Result<(), StudyError> {
    let mut run = RunWriter::create(folder.path(), &manifest())?;
    run.record(1, Event::Sentinel { round: 0, wall_ns: 100 })?;
    run.record(1, Event::Ceiling(Ceiling::unmeasured("cpu")))?;
    readings().into_iter().try_for_each(|reading| run.record(1, Event::Sensors(reading)))?;
    run.record(1, Event::Note { text: "the machine is loaded".into() })?;
    let cells = [
        ("cpu", Mode::Host, facts()),
        ("vulkan:0", Mode::Host, facts()),
        ("auto", Mode::Host, facts()),
        ("vulkan:0", Mode::Chain(8), Facts::failed(Status::Lost, "lost")),
        ("cpu", Mode::Chain(8), Facts::left_out("one call is predicted to take 6 s")),
    ];
    for (device, mode, facts) in cells {
        let cell = cell("gelu", 1000, device, mode);
        let id = run.begin(2, &cell)?;
        let flags = |index| match index {
            0 => Flags::NONE.with(Flag::WarmUp).with(Flag::Throttled),
            1 => Flags::NONE.with(Flag::InParts),
            2 => Flags::NONE.with(Flag::BadClock),
            _ => Flags::NONE,
        };
        let slow = if device == "auto" { 500 } else { 0 };
        let sample = |index: u32| Sample {
            index,
            wall_ns: 1000 + slow + u64::from(index),
            kernel_ns: Some(10),
            flags: flags(index),
            ..Sample::default()
        };
        let count = if facts.is_left_out() { 0 } else { 600 };
        run.samples(id, &(0..count).map(sample).collect::<Vec<_>>())?;
        run.finish(3, id, &cell, facts)?;
    }
    drop(run);
    let later = Manifest { started: "2026-11-30T08:00:00Z".into(), ..manifest() };
    RunWriter::resume(folder.path(), &later)?.record(4, Event::Stopped { why: "done".into() })
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_run_folder_is_what_its_schemas_say() -> Result<(), StudyError> {
    let folder = Folder::new("schemas");
    full(&folder)?;
    let text = |name: &str| fs::read_to_string(folder.path().join(name)).expect("written");

    let check = Check::new("manifest");
    let manifest = parsed(&text(names::MANIFEST));
    check.accepts(&manifest);
    check.refuses(&manifest, |value| value["seed"] = json!(-1));
    check.refuses(&manifest, |value| value["schema"] = json!("breakeven.manifest/2"));
    check.refuses(&manifest, |value| value["hostname"] = json!("a"));

    let check = Check::new("events");
    let events: Vec<Value> = text(names::EVENTS).lines().map(parsed).collect();
    for event in &events {
        check.accepts(event);
    }
    let opened: Vec<&Value> = events.iter().filter(|event| event["event"] == "opened").collect();
    let started: Vec<&Value> = opened.iter().map(|event| &event["by"]["started"]).collect();
    assert_eq!(started, ["2026-11-29T08:00:00Z", "2026-11-30T08:00:00Z"], "who began it, and who went on with it");
    check.refuses(opened[1], |value| value["by"]["arguments"] = json!("scan"));
    let left_out = events.iter().find(|event| event["status"] == "skipped").expect("there was no time for one");
    assert_eq!((&left_out["stop"], &left_out["samples"]), (&json!("budget"), &json!(0)));
    check.refuses(left_out, |value| value["stop"] = json!("no time"));
    for event in &events {
        check.refuses(event, |value| value["event"] = json!("exploded"));
        check.refuses(event, |value| value["extra"] = json!(1));
    }

    let check = Check::new("samples");
    let samples = text(names::SAMPLES);
    let (header, rows) = samples.split_once('\n').expect("a header");
    let field = |(name, text): (&str, &str)| -> (String, Value) {
        let flags = || text.split('+').filter(|flag| !flag.is_empty()).collect::<Vec<_>>();
        (name.into(), if name == "flags" { json!(flags()) } else { serde_json::from_str(text).unwrap_or_default() })
    };
    let fields = |row: &str| header.split(',').zip(row.split(',')).map(field).collect::<serde_json::Map<_, _>>();
    let object = |row: &str| Value::from(fields(row));
    for row in rows.lines() {
        check.accepts(&object(row));
    }
    check.refuses(&object(rows.lines().next().expect("rows")), |value| value["wall_ns"] = Value::Null);
    Ok(())
}

#[test]
fn summaries_are_what_their_schema_says() -> Result<(), StudyError> {
    let folder = Folder::new("schemas-summary");
    full(&folder)?;
    let run = summarize(&read(folder.path())?, "full", Source::Measured, |cells| held_against("", cells));
    assert_eq!((run.resumed.len(), run.cells.iter().filter(|row| row.status == Status::Skipped).count()), (1, 1));
    assert!(run.sensed.celsius.is_some() && run.sensed.gpus.len() == 1, "{:?}", run.sensed);
    assert!(run.regret.as_ref().is_some_and(|regret| regret.rows.len() == 1), "{:?}", run.regret);
    let check = Check::new("summary");
    for runs in [vec![run], runs(), vec![]] {
        let summary = Summary { schema: SummarySchema {}, runs };
        let value = serde_json::to_value(&summary).expect("JSON");
        check.accepts(&value);
        check.refuses(&value, |value| value["schema"] = json!("breakeven.summary/2"));
        if !summary.runs.is_empty() {
            check.refuses(&value, |value| value["runs"][0]["source"] = json!("guessed"));
            check.refuses(&value, |value| value["runs"][0]["resumed"] = json!([{ "started": "today" }]));
            check.refuses(&value, |value| value["runs"][0]["sensed"]["cpu_hz"] = json!([1]));
            check.refuses(&value, |value| value["runs"][0]["cells"][0]["mode"] = json!("warm"));
            check.refuses(&value, |value| value["runs"][0]["cells"][0]["q1_ns"] = json!(-1.0));
        }
    }
    Ok(())
}

#[test]
fn rule_files_are_what_their_schema_says() {
    let text = r#"{"schema":"breakeven.rules/1","rules":[{"operation":"*","devices":["cpu"]},
        {"operation":"add","elements":[0,1000],"devices":["cpu"],"why":"a GPU never pays here"}]}"#;
    let check = Check::new("rules");
    check.accepts(&parsed(text));
    check.accepts(&serde_json::to_value(Rules::parse(text).expect("rules")).expect("JSON"));
    check.refuses(&parsed(text), |value| value["rules"][0]["device"] = json!("cpu"));
}

/// What `compare --json` says of a cell; the program's own output is checked where the program is.
#[test]
fn verdicts_are_what_the_schema_of_comparisons_says() {
    let change = Change { ratio: 1.1, low: 1.08, high: 1.12, blocks: 40 };
    let verdicts = [
        Verdict::Faster(change),
        Verdict::Slower(change),
        Verdict::Same(change),
        Verdict::Ambiguous { change: Some(change), why: "the interval reaches over 3%".into() },
        Verdict::Ambiguous { change: None, why: "0 pairs are too few".into() },
        Verdict::Missing,
        Verdict::Invalid { why: "wrong in B".into() },
    ];
    let check = Check::new("comparison");
    let cell = cell("gelu", 1000, "cpu", Mode::Host);
    let of = |verdict: &Verdict| json!({ "cell": cell, "found": verdict, "confirmed": false });
    let id = ComparisonSchema::ID;
    let whole =
        json!({ "schema": id, "exit": 3, "verdicts": verdicts.iter().map(of).collect::<Vec<_>>(), "notes": ["quiet"] });
    check.accepts(&whole);
    check.accepts(&json!({ "schema": id, "exit": 5, "verdicts": [], "notes": ["other machines"] }));
    check.accepts(
        &json!({ "schema": id, "cells": 4, "false_alarms": 0, "slower_percent": 10.0, "found": 4, "stopped": false }),
    );
    for at in 0..verdicts.len() {
        check.refuses(&whole, |value| value["verdicts"][at]["found"]["verdict"] = json!("WORSE"));
        check.refuses(&whole, |value| value["verdicts"][at]["found"]["extra"] = json!(1));
    }
    check.refuses(&whole, |value| value["verdicts"][0]["found"]["low"] = json!("1.08"));
    check.refuses(&whole, |value| value["verdicts"][0]["cell"]["mode"] = json!("warm"));
    check.refuses(&whole, |value| value["exit"] = json!(2));
    check.refuses(&whole, |value| value["schema"] = json!("breakeven.comparison/2"));
}

#[test]
fn the_checker_of_schemas_refuses_what_it_should() {
    let schema = json!({"type": ["object", "null"], "properties": {"a": {"type": "integer", "minimum": 0},
        "b": {"type": "array", "items": {"enum": ["x", null]}, "minItems": 1, "maxItems": 2},
        "c": {"oneOf": [{"const": 1}, {"type": "string", "pattern": "^(chain-[1-9][0-9]*|idle-[0-9]+)$"}]}},
        "required": ["a"], "additionalProperties": false});
    for good in
        [json!(null), json!({"a": 0}), json!({"a": 1, "b": ["x", null], "c": "idle-20"}), json!({"a": 1, "c": 1})]
    {
        assert_eq!(validate(&schema, &good), Ok(()));
    }
    for bad in [
        json!([]),
        json!({}),
        json!({"a": -1}),
        json!({"a": 0.5}),
        json!({"a": 0, "d": 0}),
        json!({"a": 0, "b": []}),
        json!({"a": 0, "b": ["x", "x", "x"]}),
        json!({"a": 0, "b": ["y"]}),
        json!({"a": 0, "c": "chain-"}),
        json!({"a": 0, "c": "chain-1x"}),
        json!({"a": 0, "c": "chain-0"}),
    ] {
        assert!(validate(&schema, &bad).is_err(), "{bad}");
    }
}
