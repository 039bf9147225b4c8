//! Run folders: what was finished is there, at whatever byte the writer was killed.

mod samples;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use breakeven_study::folder::{Event, Facts, RunWriter, names, read};
use breakeven_study::report::{REPORTS, report};
use breakeven_study::{
    Cell, Copied, Made, Manifest, Mode, Pool, Run, Sample, Source, Status, Stop, StudyError, Summary, SummarySchema,
    summarize,
};
use samples::{Folder, cell, manifest};

/// Three cells, the last of which is begun and has samples.
fn write(path: &Path) -> Result<(), StudyError> {
    let mut run = RunWriter::create(path, &manifest())?;
    run.record(5, Event::Sentinel { round: 0, wall_ns: 1000 })?;
    for elements in [1000, 2000, 3000] {
        let cell = cell("gelu", elements, "cpu", Mode::Host);
        let id = run.begin(10, &cell)?;
        run.samples(id, &three(elements))?;
        if elements < 3000 {
            run.finish(20, id, &cell, Facts::of(Status::Ok))?;
        }
    }
    Ok(())
}

fn three(wall_ns: u64) -> Vec<Sample> {
    (0..3).map(|index| Sample { index, wall_ns: wall_ns + u64::from(index), ..Sample::default() }).collect()
}

#[test]
fn a_run_is_read_as_it_was_written() -> Result<(), StudyError> {
    let folder = Folder::new("written");
    write(folder.path())?;
    let run = read(folder.path())?;
    assert_eq!(run.manifest, manifest());
    assert_eq!(run.cells.len(), 2);
    assert_eq!(run.cells[1].cell, cell("gelu", 2000, "cpu", Mode::Host));
    assert_eq!(run.cells[1].samples, three(2000));
    assert_eq!(run.unfinished, [cell("gelu", 3000, "cpu", Mode::Host)]);
    assert_eq!(run.sentinels.len(), 1);
    assert_eq!((run.notes, run.stopped), (vec![], None));
    Ok(())
}

/// Cuts `name` at each byte, as a killed writer leaves it.
fn cut_everywhere(name: &str, check: impl Fn(&Path, usize)) {
    let whole = Folder::new(&format!("whole-{name}"));
    write(whole.path()).expect("an empty folder");
    let bytes = fs::read(whole.path().join(name)).expect("just written");
    for end in 0..bytes.len() {
        fs::write(whole.path().join(name), &bytes[..end]).expect("writable");
        check(whole.path(), end);
    }
}

#[test]
fn events_cut_anywhere_keep_each_cell_whose_line_is_whole() {
    let whole = Folder::new("events");
    write(whole.path()).expect("an empty folder");
    let bytes = fs::read(whole.path().join(names::EVENTS)).expect("just written");
    let finished = |end: usize| {
        let text = String::from_utf8_lossy(&bytes[..end]);
        let lines = text.rfind('\n').map_or(0, |at| at + 1);
        text[..lines].matches("\"finished\"").count()
    };
    // Samples are written before their cell is finished, but after it is begun: cut both logs as a killed writer would.
    let samples = fs::read(whole.path().join(names::SAMPLES)).expect("just written");
    for end in 0..bytes.len() {
        let begun = String::from_utf8_lossy(&bytes[..end]).matches("\"cell\":{").count();
        let lines = if begun == 0 { 1 } else { 1 + 3 * finished(end).max(begun.saturating_sub(1)) };
        let kept: Vec<u8> = samples.split_inclusive(|&byte| byte == b'\n').take(lines).flatten().copied().collect();
        fs::write(whole.path().join(names::SAMPLES), kept).expect("writable");
        fs::write(whole.path().join(names::EVENTS), &bytes[..end]).expect("writable");
        let run = read(whole.path()).unwrap_or_else(|error| panic!("cut at {end}: {error}"));
        assert_eq!(run.cells.len(), finished(end), "cut at {end}");
    }
}

#[test]
fn samples_cut_anywhere_are_read_and_resumed() {
    cut_everywhere(names::SAMPLES, |path, end| {
        let run = read(path).unwrap_or_else(|error| panic!("cut at {end}: {error}"));
        assert!(run.cells.iter().all(|cell| cell.samples.len() == 3), "cut at {end}");
        let mut again = RunWriter::resume(path, &manifest()).expect("the same machine");
        let cell = cell("gelu", 4000, "cpu", Mode::Host);
        let id = again.begin(30, &cell).expect("writable");
        again.samples(id, &three(4000)).expect("writable");
        again.finish(40, id, &cell, Facts::of(Status::Ok)).expect("writable");
        let resumed = read(path).unwrap_or_else(|error| panic!("resumed after {end}: {error}"));
        assert_eq!(resumed.cells.len(), run.cells.len() + 1, "resumed after {end}");
        assert_eq!(resumed.cells.last().expect("one more").samples, three(4000));
        // The events grew; the next cut starts from the first writer's again.
        let events = fs::read_to_string(path.join(names::EVENTS)).expect("just written");
        let first: String = events.split_inclusive('\n').take(7).collect();
        fs::write(path.join(names::EVENTS), first).expect("writable");
    });
}

#[test]
fn a_resumed_run_knows_what_is_done() -> Result<(), StudyError> {
    let folder = Folder::new("resumed");
    write(folder.path())?;
    let mut run = RunWriter::resume(folder.path(), &manifest())?;
    assert_eq!(run.finished().len(), 2);
    let third = cell("gelu", 3000, "cpu", Mode::Host);
    let id = run.begin(1, &third)?;
    run.samples(id, &three(7))?;
    run.finish(2, id, &third, Facts::of(Status::Ok))?;
    let read = read(folder.path())?;
    assert_eq!(read.cells.len(), 3);
    assert_eq!(read.cells[2].samples, three(7), "samples of the first attempt are not mixed in");
    assert!(read.unfinished.is_empty());
    Ok(())
}

/// What is kept of a study in this repository, or arrived without its largest file: nothing is read from it that could replace its findings.
#[test]
fn a_folder_without_raw_samples_is_no_empty_run() -> Result<(), StudyError> {
    for gone in [&[names::EVENTS, names::SAMPLES][..], &[names::SAMPLES]] {
        let folder = Folder::new("without-samples");
        write(folder.path())?;
        for name in gone {
            fs::remove_file(folder.path().join(name)).expect("just written");
        }
        fs::write(folder.path().join("summary.md"), "what was found").expect("writable");
        let why = read(folder.path()).expect_err("there is nothing to read").to_string();
        for part in ["has no cell", "events.jsonl and samples.csv", "are not all there", "summary.md"] {
            assert!(why.contains(part), "{part} in {why}");
        }
    }
    Ok(())
}

#[test]
fn another_machine_does_not_resume() -> Result<(), StudyError> {
    let folder = Folder::new("foreign");
    write(folder.path())?;
    let mut other = manifest();
    other.fingerprint = "beef".into();
    let error = RunWriter::resume(folder.path(), &other).unwrap_err();
    assert!(matches!(error, StudyError::OtherMachine { .. }), "{error}");
    let why = error.to_string();
    assert!(why.contains("beef") && why.contains("begin a new run"), "{why}");
    assert!(RunWriter::create(folder.path(), &other).unwrap_err().to_string().contains("resume it"));
    Ok(())
}

#[test]
fn other_versions_and_damage_are_refused() {
    let folder = Folder::new("versions");
    let check = |file: &str, from: &str, to: &str, says: &str| {
        let _ = fs::remove_dir_all(folder.path());
        write(folder.path()).expect("an empty folder");
        let path = folder.path().join(file);
        let text = fs::read_to_string(&path).expect("just written");
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replacen(from, to, 1)).expect("writable");
        let why = read(folder.path()).unwrap_err().to_string();
        assert!(why.contains(says), "{why}");
    };
    check(names::MANIFEST, "breakeven.manifest/1", "breakeven.manifest/2", "measure again");
    check(names::EVENTS, "breakeven.events/1", "breakeven.events/2", "measure again");
    check(names::SAMPLES, "wall_ns", "wall_us", "measure again");
    check(names::SAMPLES, "0,0,1,1001", "0,0,1,x", "line 3");
    check(names::EVENTS, "\"sentinel\"", "\"sentinels\"", "line 2");
}

/// Rows as 100 cells of 10,000 samples.
fn a_million(path: &Path) -> Result<(), StudyError> {
    let mut run = RunWriter::create(path, &manifest())?;
    let parts = Sample { wall_ns: 123_456, kernel_ns: Some(4321), dispatch_ns: Some(9876), ..Sample::default() };
    let samples: Vec<Sample> = (0..10_000).map(|index| Sample { index, ..parts }).collect();
    for elements in 0..100 {
        let cell = cell("gelu", elements, "cpu", Mode::Host);
        let id = run.begin(0, &cell)?;
        run.samples(id, &samples)?;
        run.finish(0, id, &cell, Facts::of(Status::Ok))?;
    }
    Ok(())
}

fn load_a_million(within: Duration) -> Result<(), StudyError> {
    let folder = Folder::new("million");
    a_million(folder.path())?;
    let start = Instant::now();
    let run = read(folder.path())?;
    let took = start.elapsed();
    assert_eq!(run.cells.iter().map(|cell| cell.samples.len()).sum::<usize>(), 1_000_000);
    println!("1,000,000 samples in {} ms", took.as_millis());
    assert!(took < within, "{took:?}");
    let start = Instant::now();
    let summary =
        Summary { schema: SummarySchema {}, runs: vec![summarize(&run, "million", Source::Simulated, |_| vec![])] };
    println!("summarised in {} ms", start.elapsed().as_millis());
    for report in REPORTS {
        let bytes = (report.make)(&summary).len();
        assert!(bytes < 5_000_000, "{}: {bytes} bytes", report.name);
    }
    Ok(())
}

/// As many cells as thirty operations at ten sizes in six modes on five devices, and more, with all that a scan says of a cell.
#[test]
fn the_page_of_ten_thousand_cells_is_bounded_and_says_what_it_leaves_out() -> Result<(), StudyError> {
    let folder = Folder::new("ten-thousand");
    let mut run = RunWriter::create(folder.path(), &manifest())?;
    let parts =
        Sample { dispatch_ns: Some(98_765), kernel_ns: Some(1_234_567), wait_ns: Some(456_789), ..Sample::default() };
    let parts = Sample { allocate_ns: Some(12_345), upload_ns: Some(1_456_789), read_ns: Some(1_678_912), ..parts };
    let ran = "wgpu:0, NVIDIA H200 (vulkan, 580.126.09); tiles of 128 x 128 by tensor cores, f16 in and f32 out";
    let facts = Facts {
        bytes: Some(48_000_000),
        flops: Some(96_000_000),
        predicted_ns: Some(2_345_678.9),
        checksum: Some("91eaa368fe3c8147".into()),
        ran: Some(ran.into()),
        stop: Some(Stop::StableNoise),
        pool: Some(Pool { hits: 123, misses: 4, bytes: 123_456_789 }),
        made: Some(Made { calls: 125, plans: 1, pipelines: Some(1) }),
        copied: Some(Copied { upload_bytes: 32_000_000, read_bytes: 16_000_000 }),
        ..Facts::of(Status::Ok)
    };
    for index in 0..10_000u64 {
        let device = ["cpu", "vulkan:0"][index as usize % 2];
        let cell =
            cell(&format!("batch_alternating_{}", index / 400), 1_000_000 + index % 400 / 2, device, Mode::Chain(16));
        // Every second operation is one of matrices.
        let shape = if index / 400 % 2 == 0 { cell.shape.clone() } else { format!("1000x{}", 1_000 + index % 400 / 2) };
        let cell = Cell { shape, ..cell };
        let wall = |at| 3_456_789 + u64::from(at * 7919 % 60) * 1001 + index;
        let sample = |at: u32| Sample { round: at / 5, index: at % 5, wall_ns: wall(at), ..parts };
        let id = run.begin(0, &cell)?;
        run.samples(id, &(0..60).map(sample).collect::<Vec<_>>())?;
        let broken =
            Facts::failed(Status::Wrong, "element 3 is 1 instead of 2, which is not what was to be computed at all");
        run.finish(0, id, &cell, if index % 20 == 7 { broken } else { facts.clone() })?;
    }
    let run = summarize(&read(folder.path())?, "ten thousand", Source::Simulated, |_| vec![]);
    let page = (report("html").expect("listed").make)(&Summary { schema: SummarySchema {}, runs: vec![run.clone()] });
    println!("{} bytes", page.len());
    assert!(page.len() <= 5_000_000, "{} bytes", page.len());
    // Every cell is drawn, the worst are told in full, and the plain tables end somewhere.
    assert_eq!((page.matches("\"q1_ns\":").count(), page.matches("\"brief\":true").count()), (9_500, 9_400));
    assert!(page.contains("<p>300 more failed: they are in summary.csv.</p>"), "500 failed");
    let few = Run { cells: run.cells[..4_000].to_vec(), ..run };
    let page = (report("html").expect("listed").make)(&Summary { schema: SummarySchema {}, runs: vec![few] });
    assert!(page.len() <= 5_000_000 && !page.contains("\"brief\":true"), "{} bytes", page.len());
    Ok(())
}

#[test]
fn a_million_samples_are_read() -> Result<(), StudyError> {
    // Not optimised, on a machine that others use.
    load_a_million(Duration::from_secs(20))
}

#[test]
#[ignore = "a time of optimised code: cargo test --release -p breakeven-study --test folder -- --ignored --nocapture"]
fn a_million_samples_are_read_within_two_seconds() -> Result<(), StudyError> {
    load_a_million(Duration::from_secs(2))
}

/// Who went on with a run stands beside who began it, and reaches the reports; runs of versions that did not write it down are read.
#[test]
fn the_arguments_of_whoever_went_on_are_kept() -> Result<(), StudyError> {
    let folder = Folder::new("gone-on-with");
    write(folder.path())?;
    let arguments = vec!["scan".to_string(), "--resume".into(), "runs/one".into()];
    let later = Manifest { started: "2026-11-30T08:00:00Z".into(), arguments: arguments.clone(), ..manifest() };
    drop(RunWriter::resume(folder.path(), &later)?);
    let run = read(folder.path())?;
    assert_eq!((&run.manifest, run.resumed.len()), (&manifest(), 1));
    assert_eq!((&run.resumed[0].arguments, run.resumed[0].started.as_str()), (&arguments, "2026-11-30T08:00:00Z"));
    let summary = summarize(&run, "one", Source::Measured, |_| Vec::new());
    let markdown =
        (report("markdown").expect("listed").make)(&Summary { schema: SummarySchema {}, runs: vec![summary] });
    assert!(markdown.contains("gone on with at 2026-11-30T08:00:00Z: `scan --resume runs/one`"), "{markdown}");

    let events = folder.path().join(names::EVENTS);
    let text = fs::read_to_string(&events).expect("written");
    let old = |line: &str| match line.split_once(",\"by\"") {
        Some((before, _)) => before.to_string() + "}\n",
        None => line.to_string() + "\n",
    };
    fs::write(&events, text.lines().map(old).collect::<String>()).expect("written");
    let old = read(folder.path())?;
    assert_eq!((old.cells, old.resumed), (run.cells, vec![]));
    Ok(())
}
