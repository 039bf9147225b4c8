//! What the engine's own choice costs is computed where it was measured beside devices by hand, and nowhere else.

mod samples;

use breakeven_study::folder::{Facts, RunWriter, read};
use breakeven_study::report::report;
use breakeven_study::{Mode, Regret, Run, Sample, Source, Status, StudyError, Summary, SummarySchema, summarize};
use samples::{Folder, cell, manifest};

/// A row: operation, device, the device that it ran on, its time.
type Row = (&'static str, &'static str, &'static str, u64);

fn run(name: &str, rows: &[Row], noise: u64) -> Result<Run, StudyError> {
    let folder = Folder::new(&format!("regret-{name}"));
    let mut writer = RunWriter::create(folder.path(), &manifest())?;
    for &(operation, device, ran, wall_ns) in rows {
        let cell = cell(operation, 1_000_000, device, Mode::Host);
        let id = writer.begin(0, &cell)?;
        let jitter = |index: u32| u64::from(index * 7 % 13) * noise;
        let sample = |index: u32| Sample { index, wall_ns: wall_ns + jitter(index), ..Sample::default() };
        writer.samples(id, &(0..60).map(sample).collect::<Vec<_>>())?;
        let (ran, predicted_ns) = (Some(format!("{ran}, hardware (driver)")), Some(wall_ns as f64 / 2.0));
        writer.finish(0, id, &cell, Facts { ran, predicted_ns, ..Facts::of(Status::Ok) })?;
    }
    Ok(summarize(&read(folder.path())?, name, Source::Measured, |_| Vec::new()))
}

fn regret(name: &str, rows: &[Row]) -> Result<Regret, StudyError> {
    Ok(run(name, rows, 1)?.regret.expect("everything was measured"))
}

fn three(operation: &'static str, auto: (&'static str, u64), cpu: u64, gpu: u64) -> [Row; 3] {
    [(operation, "auto", auto.0, auto.1), (operation, "cpu", "cpu", cpu), (operation, "vulkan:0", "vulkan:0", gpu)]
}

fn mixed() -> Vec<Row> {
    [
        // Wrong: the GPU takes a half.
        three("gelu", ("cpu", 1_000_000), 1_000_000, 500_000),
        // Right, and as fast.
        three("add", ("cpu", 100_000), 100_000, 900_000),
        // Right, and yet slower: what choosing costs.
        three("mul", ("vulkan:0", 112_000), 500_000, 100_000),
        // Another device, and no slower than 5%.
        three("exp", ("cpu", 103_000), 103_000, 100_000),
    ]
    .concat()
}

#[test]
fn the_choice_is_held_against_the_best_device_by_hand() -> Result<(), StudyError> {
    let found = regret("mixed", &mixed())?;
    assert_eq!((found.cells, found.slower, found.wrong_device, found.rows.len()), (4, 2, 1, 2));
    let worst = &found.rows[0];
    assert_eq!(
        (worst.operation.as_str(), worst.chose.as_deref(), worst.best.as_str()),
        ("gelu", Some("cpu"), "vulkan:0")
    );
    assert_eq!((worst.chose_predicted_ns, worst.best_predicted_ns), (Some(5e5), Some(2.5e5)));
    assert!((found.worst - 1.0).abs() < 0.01 && worst.regret == found.worst, "{found:?}");
    assert!(found.median > 0.0 && found.median < 0.13 && found.p90 == found.worst, "{found:?}");
    assert_eq!(found.rows[1].chose.as_deref(), Some("vulkan:0"));
    let said = "more than 5% slower than the best device by hand in 2 of 4 cells (50.0%); in 1 of these another device was the better one";
    assert!(found.verdict.contains(said) && !found.verdict.contains("inconclusive"), "{}", found.verdict);
    Ok(())
}

#[test]
fn nothing_is_said_where_a_side_is_missing() -> Result<(), StudyError> {
    let rows = mixed();
    for (name, missing) in [("auto", "auto"), ("cpu", "cpu"), ("gpu", "vulkan:0")] {
        let left: Vec<Row> = rows.iter().copied().filter(|row| row.1 != missing).collect();
        assert_eq!(run(name, &left, 1)?.regret, None, "{missing}");
    }
    Ok(())
}

/// Two devices by hand are equally fast, and one was lucky in the rounds that choose: its luck is not held against the engine.
#[test]
fn the_luck_of_a_round_is_no_reproach() -> Result<(), StudyError> {
    let folder = Folder::new("regret-luck");
    let mut writer = RunWriter::create(folder.path(), &manifest())?;
    for (device, even_ns) in [("auto", 100_000), ("cpu", 100_000), ("vulkan:0", 80_000)] {
        let cell = cell("gelu", 1_000_000, device, Mode::Host);
        let id = writer.begin(0, &cell)?;
        let wall_ns = |round: u32| if round.is_multiple_of(2) { even_ns } else { 100_000 };
        let sample = |at: u32| Sample { round: at / 5, index: at % 5, wall_ns: wall_ns(at / 5), ..Sample::default() };
        writer.samples(id, &(0..30).map(sample).collect::<Vec<_>>())?;
        writer.finish(0, id, &cell, Facts::of(Status::Ok))?;
    }
    let run = summarize(&read(folder.path())?, "luck", Source::Measured, |_| Vec::new());
    let found = run.regret.expect("everything was measured");
    assert_eq!((found.slower, found.worst), (0, 0.0), "{found:?}");
    assert!(run.noise.floor > 0.2, "even and odd rounds differ by 20%: {:?}", run.noise);
    Ok(())
}

#[test]
fn a_plain_loop_is_no_device() -> Result<(), StudyError> {
    let mut rows = mixed();
    rows.push(("gelu", "scalar", "a loop on one thread", 1_000));
    assert_eq!(regret("scalar", &rows)?, regret("without-scalar", &mixed())?);
    rows.retain(|row| row.1 != "vulkan:0");
    assert_eq!(run("scalar-alone", &rows, 1)?.regret, None);
    Ok(())
}

#[test]
fn a_machine_that_cannot_tell_says_so() -> Result<(), StudyError> {
    let small = three("mul", ("vulkan:0", 1_060_000), 5_000_000, 1_000_000);
    let small = run("noisy-small", &small, 100_000)?;
    let said = small.regret.expect("measured").verdict;
    assert!(small.noise.floor > 0.025 && said.ends_with("so this is inconclusive"), "{said}");
    // What is slower by more than noise can be is said all the same.
    let run = run("noisy", &mixed(), 100_000)?;
    let found = run.regret.expect("measured");
    assert!(run.noise.floor > 0.25 && (found.slower, found.certain) == (1, 1), "{found:?}");
    assert!(found.verdict.ends_with("so for certain") && !found.verdict.contains("inconclusive"), "{}", found.verdict);
    Ok(())
}

#[test]
fn every_report_says_it_and_shows_the_worst() -> Result<(), StudyError> {
    let summary = Summary { schema: SummarySchema {}, runs: vec![run("reports", &mixed(), 1)?] };
    let made = |name: &str| (report(name).expect("listed").make)(&summary);
    let markdown = made("markdown");
    let at = |part: &str| markdown.find(part).unwrap_or_else(|| panic!("{part} is missing in\n{markdown}"));
    let order = [
        "## In short",
        "pays for 3 of 4",
        "breakeven's own choice",
        "2 of 4 cells",
        "## Where the automatic choice was wrong or slow",
        "| gelu |",
        "## Verdict",
    ];
    assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{markdown}");
    assert!(markdown.contains("| cpu | 1 ms | 500 µs | vulkan:0 | 500 µs | 250 µs | +100.0% |"), "{markdown}");
    let alone = "In 1 cell no other device is known to have been the better one and it took more than 5% longer all the same, up to 12.0%";
    assert!(markdown.contains(alone) && !markdown.contains("| mul | 1000000 | f32 | host | vulkan:0 |"), "{markdown}");
    let html = made("html");
    let plain = &html[..html.find("<script").expect("a script")];
    assert!(plain.contains("2 of 4 cells") && plain.contains("Where the automatic choice was wrong or slow"));
    let json: Summary = serde_json::from_str(&made("json")).expect("written by us");
    assert_eq!(json, summary);
    Ok(())
}
