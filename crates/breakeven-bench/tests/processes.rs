//! Studies whose child processes crash, hang, refuse or say nonsense: every finished row stays, and what failed is a row.
#![cfg(unix)]

mod written;

use std::cell::Cell as Counter;
use std::path::PathBuf;

use breakeven_bench::scan::duel::{Contestant, Duel, Pairs, duel};
use breakeven_bench::scan::preset::Group;
use breakeven_bench::scan::study::{Progress, Seen, Study, look, run};
use breakeven_bench::scan::task::{Effort, Measure, Setting};
use breakeven_study::folder::{Recorded, RunWriter, read};
use breakeven_study::verdict::{Blocks, Rule, judge};
use breakeven_study::{Environment, Mode, Status, Stop};
use written::manifest;

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("breakeven-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A study of one group whose children are this script of a shell; `$1` is a file of its own.
fn study(script: &str, folder: &Folder) -> Study {
    let group = Group { operation: "relu", dtype: "f32".to_owned(), sizes: vec![1000], modes: vec![Mode::Host] };
    let note = folder.0.with_extension("note").display().to_string();
    Study {
        program: PathBuf::from("/bin/sh"),
        arguments: vec!["-c".to_owned(), format!("read task; {script}"), "child".to_owned(), note],
        groups: vec![group],
        devices: vec!["cpu".to_owned()],
        scalar: false,
        seen: vec![],
        effort: Effort {
            rounds: 1,
            block: 1,
            budget_ms: 1,
            warm_up_ms: 0,
            deadline_ms: 1000,
            silence_ms: 1500,
            slowed: 0.0,
            limit: None,
        },
        setting: Setting::default(),
        seed: 1,
    }
}

fn cell(device: &str) -> String {
    format!(r#"{{"operation":"relu","elements":1000,"shape":"1000","dtype":"f32","device":"{device}","mode":"host"}}"#)
}

fn begun(device: &str) -> String {
    format!(r#"echo '{{"line":"begun","cell":{}}}'; "#, cell(device))
}

fn done(device: &str) -> String {
    let sample = r#"{"round":0,"index":0,"wall_ns":5000,"flags":""}"#;
    format!(r#"echo '{{"line":"done","cell":{},"facts":{{"status":"ok"}},"samples":[{sample}]}}'; "#, cell(device))
}

fn outcome(name: &str, devices: &[&str], script: &str) -> Recorded {
    outcome_and_incomplete(name, devices, script).0
}

/// What a run over these devices leaves, and how many of its groups are incomplete.
fn outcome_and_incomplete(name: &str, devices: &[&str], script: &str) -> (Recorded, usize) {
    let folder = Folder::new(name);
    let mut writer = RunWriter::create(&folder.0, &manifest(Environment::default())).unwrap();
    let incomplete = run(&on(devices, study(script, &folder)), &mut writer, &|| false, &mut |_| ()).unwrap();
    let _ = std::fs::remove_file(folder.0.with_extension("note"));
    (read(&folder.0).unwrap(), incomplete)
}

fn on(devices: &[&str], study: Study) -> Study {
    Study { devices: devices.iter().map(|device| (*device).to_owned()).collect(), ..study }
}

/// What a child that looks at the machine is heard to say, where somebody asks to stop or not.
fn seen(name: &str, script: &str, is_stopped: bool) -> Result<Option<Seen>, String> {
    let folder = Folder::new(name);
    look(&study(script, &folder), true, &|| is_stopped).map_err(|error| error.to_string())
}

const MACHINE: &str = r#"echo '{"line":"machine","environment":{"cpu":"a processor","cores":2,"threads":2,"isa":"avx2","memory_bytes":1,"os":"","kernel":"","governor":null,"virtual":null,"devices":[]}}'; "#;

/// Drivers crash and hang when a process ends, and what machine it is was said before: a run that goes on must not end for that.
#[test]
fn a_look_counts_once_the_machine_is_known_however_its_process_ends() {
    for (end, why) in [("kill -9 $$", "signal: 9"), ("exit 3", "3"), ("exec sleep 1000", "silent")] {
        let seen = seen("look-ends", &format!("{MACHINE}{end}"), false).unwrap().expect("nobody asked to stop");
        assert_eq!(seen.environment.cpu, "a processor");
        assert!(seen.notes.len() == 1 && seen.notes[0].contains(why), "{:?}", seen.notes);
    }
    assert_eq!(seen("look-done", MACHINE, false).unwrap().expect("nobody asked to stop").notes, Vec::<String>::new());
}

#[test]
fn a_look_that_says_nothing_says_why_and_one_that_is_stopped_is_no_error() {
    let why = seen("look-crashes", "echo it broke >&2; kill -9 $$", false).unwrap_err();
    assert!(why.contains("signal: 9") && why.contains("it broke"), "{why}");
    let why = seen("look-refuses", "echo there is no such device >&2; exit 2", false).unwrap_err();
    assert_eq!(why, "there is no such device");
    assert!(seen("look-silent", "exit 0", false).unwrap_err().contains("said nothing"));
    assert_eq!(seen("look-stopped", "exec sleep 1000", true), Ok(None));
}

fn statuses(recorded: &Recorded) -> Vec<(&str, Status, usize)> {
    recorded.cells.iter().map(|c| (c.cell.device.as_str(), c.facts.status, c.samples.len())).collect()
}

#[test]
fn a_child_that_is_killed_is_a_row_and_the_others_are_measured_by_the_next_one() {
    let first = format!("{}{}{}kill -9 $$", begun("a"), done("a"), begun("b"));
    let second = format!("{}{}", begun("c"), done("c"));
    let recorded =
        outcome("killed", &["a", "b", "c"], &format!("if [ -e $1 ]; then {second} else touch $1; {first}; fi"));
    let want = [("a", Status::Ok, 1), ("b", Status::Crash, 0), ("c", Status::Ok, 1)];
    assert_eq!(statuses(&recorded), want);
    let why = recorded.cells[1].facts.why.as_deref().unwrap();
    assert!(why.contains("signal: 9"), "{why}");
}

#[test]
fn a_child_that_hangs_is_ended_and_is_a_row() {
    let script =
        format!("if [ -e $1 ]; then exit 0; fi; touch $1; {}{}{}exec sleep 1000", begun("a"), done("a"), begun("b"));
    let begun = std::time::Instant::now();
    let recorded = outcome("hangs", &["a", "b"], &script);
    assert_eq!(statuses(&recorded), [("a", Status::Ok, 1), ("b", Status::Timeout, 0)]);
    assert!(begun.elapsed().as_secs() < 60, "the silence was waited for and no more");
}

#[test]
fn a_child_that_crashes_before_any_cell_is_tried_twice_and_the_rest_says_why() {
    let recorded = outcome("crashes", &["cpu"], "echo x >> $1; echo it broke >&2; exit 3");
    assert_eq!(statuses(&recorded), [("cpu", Status::Skipped, 0)]);
    let why = recorded.cells[0].facts.why.as_deref().unwrap();
    assert!(why.contains("it broke") && why.contains("given up after 2 processes"), "{why}");
    assert_eq!(recorded.notes.iter().filter(|note| note.contains("its process ended")).count(), 2);
    assert_eq!(recorded.notes.iter().filter(|note| note.contains("given up")).count(), 1, "{:?}", recorded.notes);
}

#[test]
fn a_child_that_refuses_is_asked_once_and_its_cells_are_rows() {
    let recorded = outcome("refuses", &["cpu"], "echo breakeven: there is no such device >&2; exit 2");
    assert_eq!(statuses(&recorded), [("cpu", Status::Skipped, 0)]);
    assert_eq!(recorded.cells[0].facts.why.as_deref(), Some("there is no such device"));
    let notes: Vec<&String> = recorded.notes.iter().filter(|note| note.contains("no such device")).collect();
    assert_eq!(notes.len(), 1, "{:?}", recorded.notes);
}

#[test]
fn what_a_child_leaves_out_is_a_row_and_the_run_is_incomplete() {
    let (recorded, incomplete) =
        outcome_and_incomplete("leaves-out", &["a", "b"], &format!("{}{}", begun("a"), done("a")));
    assert_eq!((statuses(&recorded), incomplete), (vec![("a", Status::Ok, 1), ("b", Status::Skipped, 0)], 1));
    let why = recorded.cells[1].facts.why.as_deref().unwrap();
    assert!(why.contains("left out") && recorded.notes.iter().any(|note| note.contains("left out")), "{why}");
    let whole = format!("{}{}{}{}", begun("a"), done("a"), begun("b"), done("b"));
    assert_eq!(outcome_and_incomplete("whole", &["a", "b"], &whole).1, 0);
}

#[test]
fn what_was_not_tried_is_tried_when_the_run_goes_on_and_what_was_is_not() {
    let folder = Folder::new("retried");
    let mut writer = RunWriter::create(&folder.0, &manifest(Environment::default())).unwrap();
    let first = study(&format!("{}{}", begun("a"), done("a")), &folder);
    run(&on(&["a", "b"], first), &mut writer, &|| false, &mut |_| ()).unwrap();
    drop(writer);
    let mut writer = RunWriter::resume(&folder.0, &manifest(Environment::default())).unwrap();
    let again = study(&format!("{}{}", begun("b"), done("b")), &folder);
    assert_eq!(run(&on(&["a", "b"], again), &mut writer, &|| false, &mut |_| ()).unwrap(), 0);
    assert_eq!(statuses(&read(&folder.0).unwrap()), [("a", Status::Ok, 1), ("b", Status::Ok, 1)]);
}

#[test]
fn finished_rows_stay_when_the_next_processes_end_before_any_cell() {
    let first = format!("{}{}{}kill -9 $$", begun("a"), done("a"), begun("b"));
    let recorded =
        outcome("then-crashes", &["a", "b", "cpu"], &format!("if [ -e $1 ]; then exit 3; else touch $1; {first}; fi"));
    let want = [("a", Status::Ok, 1), ("b", Status::Crash, 0), ("cpu", Status::Skipped, 0)];
    assert_eq!(statuses(&recorded), want);
}

/// A study of cold calls whose children are this script.
fn cold(name: &str, script: &str) -> Recorded {
    let folder = Folder::new(name);
    let mut writer = RunWriter::create(&folder.0, &manifest(Environment::default())).unwrap();
    let study = study(script, &folder);
    let groups = study.groups.iter().map(|group| Group { modes: vec![Mode::Cold], ..group.clone() }).collect();
    let seen = vec!["cpu".to_owned(), "wgpu:0".to_owned(), "auto".to_owned()];
    let study = Study { groups, devices: vec![], seen, ..study };
    run(&study, &mut writer, &|| false, &mut |_| ()).unwrap();
    let _ = std::fs::remove_file(folder.0.with_extension("note"));
    read(&folder.0).unwrap()
}

#[test]
fn each_cold_call_has_a_process_of_its_own() {
    // Each process says its own number.
    let sample = r#"{"round":0,"index":0,"wall_ns":'$$',"flags":""}"#;
    let script =
        format!(r#"echo '{{"line":"done","cell":{},"facts":{{"status":"ok"}},"samples":[{sample}]}}'"#, cell("a"));
    let recorded = cold("cold", &script);
    assert_eq!(recorded.cells.len(), 3);
    let mut processes: Vec<u64> = Vec::new();
    for row in &recorded.cells {
        assert_eq!((row.cell.mode, row.facts.status, row.facts.stop), (Mode::Cold, Status::Ok, Some(Stop::Budget)));
        assert!((3..=5).contains(&row.samples.len()), "{row:?}");
        assert!(row.samples.iter().zip(0..).all(|(sample, round)| sample.round == round));
        processes.extend(row.samples.iter().map(|sample| sample.wall_ns));
    }
    let all = processes.len();
    processes.sort_unstable();
    processes.dedup();
    assert_eq!(processes.len(), all);
}

#[test]
fn a_cold_call_that_crashes_or_is_refused_is_a_row_and_is_not_tried_again() {
    let recorded = cold("cold-crashes", "echo x >> $1; kill -9 $$");
    assert!(recorded.cells.iter().all(|row| row.facts.status == Status::Crash && row.samples.is_empty()));
    let recorded = cold("cold-refuses", "echo there is no such device >&2; exit 2");
    assert_eq!(recorded.cells.len(), 3);
    assert!(recorded.cells.iter().all(|row| row.facts.status == Status::Skipped), "{:?}", recorded.cells);
}

#[test]
fn sensors_are_read_before_and_after_each_group() {
    let recorded = outcome("sensors", &["a"], &format!("{}{}", begun("a"), done("a")));
    let when: Vec<&str> = recorded.sensors.iter().map(|reading| reading.when.as_str()).collect();
    assert_eq!(when, ["before relu f32", "after relu f32"]);
}

#[test]
fn what_is_not_understood_is_noted_and_nothing_else_is_lost() {
    let recorded = outcome("nonsense", &["a"], &format!("{}echo rubbish; {}", begun("a"), done("a")));
    assert_eq!(statuses(&recorded), [("a", Status::Ok, 1)]);
    assert!(recorded.notes.iter().any(|note| note.contains("rubbish")), "{:?}", recorded.notes);
}

#[test]
fn a_study_that_is_stopped_keeps_what_is_finished_and_goes_on_where_it_was() {
    let folder = Folder::new("stopped");
    let mut writer = RunWriter::create(&folder.0, &manifest(Environment::default())).unwrap();
    let script = format!("{}{}{}exec sleep 1000", begun("a"), done("a"), begun("b"));
    let finished = Counter::new(0);
    let count = |progress: Progress| finished.set(finished.get() + usize::from(matches!(progress, Progress::Done(..))));
    run(&on(&["a", "b"], study(&script, &folder)), &mut writer, &|| finished.get() > 0, &mut { count }).unwrap();
    drop(writer);
    assert_eq!(statuses(&read(&folder.0).unwrap()), [("a", Status::Ok, 1)]);
    let mut writer = RunWriter::resume(&folder.0, &manifest(Environment::default())).unwrap();
    // The child is told what there is already.
    let script = format!(
        "case \"$task\" in *'\"without\":[{{'*'\"device\":\"a\"'*) {}{};; *) exit 2;; esac",
        begun("b"),
        done("b")
    );
    run(&on(&["a", "b"], study(&script, &folder)), &mut writer, &|| false, &mut |_| ()).unwrap();
    assert_eq!(statuses(&read(&folder.0).unwrap()), [("a", Status::Ok, 1), ("b", Status::Ok, 1)]);
}

/// A program that answers each turn with these lines.
fn contestant(answers: &str) -> Contestant {
    let script = format!(
        "read task; echo '{{\"line\":\"ready\"}}'; while read go; do {answers} echo '{{\"line\":\"ready\"}}'; done"
    );
    let arguments = vec!["-c".to_owned(), script];
    Contestant { program: PathBuf::from("/bin/sh"), arguments, slowed: 0.0 }
}

fn turn(device: &str, wall_ns: &str, wrong: &str) -> String {
    let cell = cell(device);
    format!(r#"echo '{{"line":"turn","cell":{cell},"wall_ns":{wall_ns},"wrong":{wrong}}}'; "#)
}

fn measure_task(folder: &Folder) -> Measure {
    Measure {
        operation: "relu".to_owned(),
        dtype: "f32".to_owned(),
        sizes: vec![1000],
        devices: vec![],
        scalar: false,
        modes: vec![Mode::Host],
        without: vec![],
        seed: 1,
        effort: study("", folder).effort,
        setting: Setting::default(),
    }
}

fn found(a: &str, b: &str) -> Result<Vec<(String, Duel)>, breakeven_bench::scan::Error> {
    let task = measure_task(&Folder::new("duel"));
    let [a, b] = [a, b].map(contestant);
    let told = Counter::new(0);
    let is_known = |_: &Blocks| true;
    let tell = |done| told.set(told.get() + done);
    let pairs = Pairs { count: 20, least: 12, is_known: &is_known, stopped: &|| false, tell: &tell };
    let found = duel([&a, &b], &task, pairs)?;
    assert_eq!(told.get(), (0..20).sum::<usize>(), "each pair is told");
    Ok(found.into_iter().map(|(cell, duel)| (cell.device, duel)).collect())
}

#[test]
fn two_programs_in_turns_are_compared_cell_by_cell() {
    let a = turn("cpu", "[100,101,102,103,104]", "null");
    for (b, wanted) in
        [("[100,101,102,103,104]", "SAME"), ("[110,111,112,113,114]", "SLOWER"), ("[80,81,82,83,84]", "FASTER")]
    {
        let found = found(&a, &turn("cpu", b, "null")).unwrap();
        let [(device, duel)] = &found[..] else { panic!("{found:?}") };
        assert_eq!((device.as_str(), duel.blocks.count(), &duel.wrong), ("cpu", 20, &None));
        let verdict = judge(&duel.blocks, &Rule::default()).to_string();
        assert!(verdict.starts_with(wanted), "{verdict}");
    }
}

/// Where the memory of a process lies is a difference of processes and not of programs.
#[test]
fn each_pair_of_a_duel_is_of_new_processes() {
    let folder = Folder::new("processes");
    std::fs::create_dir_all(&folder.0).unwrap();
    let starts = folder.0.join("starts");
    let Contestant { program, arguments, slowed } = contestant(&turn("cpu", "[100]", "null"));
    let script = format!("echo >> '{}'; {}", starts.display(), arguments[1]);
    let one = Contestant { program, arguments: vec![arguments[0].clone(), script], slowed };
    // Unknown until there are so many; whether they are is asked after five and after ten.
    for (known_from, pairs) in [(5, 5), (6, 10), (11, 20)] {
        let is_known = |blocks: &Blocks| blocks.count() >= known_from;
        let how = Pairs { count: 5, least: 5, is_known: &is_known, stopped: &|| false, tell: &|_| () };
        let found = duel([&one, &one], &measure_task(&folder), how).unwrap();
        let blocks: Vec<usize> = found.values().map(|duel| duel.blocks.count()).collect();
        let processes = std::fs::read_to_string(&starts).unwrap().lines().count();
        assert_eq!((blocks, processes), (vec![pairs], 2 * pairs));
        std::fs::remove_file(&starts).unwrap();
    }
}

/// One process of many that breaks off is told with its reason, and what was found of other tasks stays.
#[test]
fn a_process_that_breaks_off_in_a_later_pair_makes_the_cells_wrong() {
    let folder = Folder::new("breaks-off");
    std::fs::create_dir_all(&folder.0).unwrap();
    let starts = folder.0.join("starts").display().to_string();
    let Contestant { program, arguments, slowed } = contestant(&turn("cpu", "[100]", "null"));
    let script = format!(
        "echo >> '{starts}'; [ $(wc -l < '{starts}') -lt 6 ] || {{ echo no memory >&2; exit 1; }}; {}",
        arguments[1]
    );
    let one = Contestant { program, arguments: vec![arguments[0].clone(), script], slowed };
    let pairs = Pairs { count: 20, least: 12, is_known: &|_| true, stopped: &|| false, tell: &|_| () };
    let found = duel([&one, &one], &measure_task(&folder), pairs).unwrap();
    let [duel] = &found.into_values().collect::<Vec<_>>()[..] else { panic!("one cell") };
    let why = duel.wrong.as_deref().unwrap();
    assert!(why.contains("pair 3 of processes") && why.contains("no memory"), "{why}");
    assert_eq!(duel.blocks.count(), 2);
}

#[test]
fn what_fails_or_is_missing_in_one_program_is_said() {
    let good = turn("cpu", "[100,100,100,100,100]", "null");
    let bad = turn("cpu", "[]", r#""element 3 is 1 instead of 2""#);
    for (a, b, why) in [(&good, &bad, "the second program: element 3"), (&bad, &good, "the first program: element 3")] {
        let found = found(a, b).unwrap();
        assert!(found[0].1.wrong.as_deref().unwrap().contains(why), "{found:?}");
    }
    let other = turn("other", "[100,100,100,100,100]", "null");
    let found = found(&good, &other).unwrap();
    let why: Vec<&str> = found.iter().map(|(_, duel)| duel.wrong.as_deref().unwrap()).collect();
    assert_eq!(why, ["the second program does not measure it", "the first program does not measure it"]);
}

#[test]
fn a_program_that_ends_or_is_silent_ends_a_duel() {
    let good = turn("cpu", "[100,100,100,100,100]", "null");
    let why = found(&good, "echo breakeven: it broke >&2; exit 3;").unwrap_err().to_string();
    assert_eq!(why, "/bin/sh ended (exit status: 3): it broke");
    let why = found(&good, "sleep 1000;").unwrap_err().to_string();
    assert!(why.starts_with("/bin/sh said nothing for"), "{why}");
    let why = found(&good, "echo nonsense;").unwrap_err().to_string();
    assert!(why.starts_with("/bin/sh said what is not understood"), "{why}");
}
