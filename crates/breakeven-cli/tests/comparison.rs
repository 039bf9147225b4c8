//! `compare --json` as programs read it: what it prints is what its schema says.

#[path = "../../breakeven-study/tests/samples/schema.rs"]
mod schema;

#[allow(dead_code, reason = "each test file uses a part")]
mod calls;
mod folder;

use std::path::Path;

use breakeven_study::folder::{Facts, RunWriter};
use breakeven_study::{Cell, Environment, Manifest, ManifestSchema, Mode, Sample, Status};
use calls::{code, run};
use folder::Folder;
use serde_json::Value;

/// A run of sums at two sizes, of which the second has no time unless `times` has one for it.
fn recorded(to: &str, fingerprint: &str, times: [Option<u64>; 2]) {
    let manifest = Manifest {
        schema: ManifestSchema {},
        started: "2026-11-29T08:00:00Z".into(),
        version: "0.1.0".into(),
        arguments: vec!["scan".into()],
        seed: 1,
        fingerprint: fingerprint.into(),
        environment: Environment::default(),
    };
    let mut writer = RunWriter::create(Path::new(to), &manifest).unwrap();
    for (elements, wall_ns) in [1000, 2000].into_iter().zip(times) {
        let (operation, shape, dtype, device) = ("sum".into(), elements.to_string(), "f32".into(), "cpu".into());
        let cell = Cell { operation, elements, shape, dtype, device, mode: Mode::Host };
        let id = writer.begin(0, &cell).unwrap();
        let sample = |at: u32| Sample {
            round: at / 5,
            index: at % 5,
            wall_ns: wall_ns.unwrap_or_default() + u64::from(at % 7),
            ..Sample::default()
        };
        let count = if wall_ns.is_some() { 200 } else { 0 };
        writer.samples(id, &(0..count).map(sample).collect::<Vec<_>>()).unwrap();
        let failed = || Facts::failed(Status::Wrong, "element 3 is 1 instead of 2");
        writer.finish(0, id, &cell, wall_ns.map_or_else(failed, |_| Facts::of(Status::Ok))).unwrap();
    }
}

#[test]
fn what_compare_prints_is_what_its_schema_says() {
    let folder = Folder::new("comparison");
    let [base, slower, wrong, other] = ["base", "slower", "wrong", "other"].map(|name| folder.path(name));
    recorded(&base, "cafe", [Some(10_000), Some(20_000)]);
    recorded(&slower, "cafe", [Some(30_000), Some(20_000)]);
    recorded(&wrong, "cafe", [Some(10_000), None]);
    recorded(&other, "beef", [Some(10_000), Some(20_000)]);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../breakeven-study/schemas/comparison.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let found = |more: &[&str]| {
        let output = run(&[&["compare", "--json"], more].concat());
        let said: Value = serde_json::from_slice(&output.stdout).expect("one JSON object and nothing else");
        assert_eq!(schema::validate(&schema, &said), Ok(()), "{said}");
        assert_eq!(said["exit"].as_i64(), Some(code(&output).into()), "{said}");
        let verdicts = said["verdicts"].as_array().expect("a list").iter();
        let verdicts: Vec<(String, bool)> = verdicts
            .map(|one| (one["found"]["verdict"].as_str().unwrap().to_owned(), one["confirmed"].as_bool().unwrap()))
            .collect();
        (code(&output), verdicts)
    };
    let are =
        |first: (&str, bool), second: (&str, bool)| [first, second].map(|(name, is)| (name.to_owned(), is)).to_vec();
    assert_eq!(found(&[&base, &slower]), (3, are(("SLOWER", false), ("SAME", false))));
    assert_eq!(found(&[&base, &slower, "--again", &slower]), (1, are(("SLOWER", true), ("SAME", false))));
    assert_eq!(found(&[&base, &wrong]), (1, are(("SAME", false), ("INVALID", false))));
    assert_eq!(found(&[&base, &other]), (5, vec![]));
    let output = run(&["compare", "--self-test", "--simulated", "--only", "sum", "--json"]);
    let said: Value = serde_json::from_slice(&output.stdout).expect("one JSON object and nothing else");
    assert_eq!((schema::validate(&schema, &said), code(&output)), (Ok(()), 0), "{said}");
}
