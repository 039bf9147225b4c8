//! Two run folders compared: only on the same machine, and lost cells are not forgotten.

mod samples;

use breakeven_study::folder::{Facts, GpuReading, Reading, Recorded, RecordedCell, RunWriter, Sentinel, read};
use breakeven_study::stats::Random;
use breakeven_study::verdict::{Rule, Verdict, compare_runs, differences};
use breakeven_study::{Manifest, Mode, Sample, Status, StudyError};
use samples::noise::LoadedMachine;
use samples::{Folder, cell, manifest};

/// A run of "gelu" at three sizes, each sample taking `ratio` of 1 ns an element.
fn run(name: &str, manifest: &Manifest, ratio: f64, noise: f64) -> Result<Recorded, StudyError> {
    let folder = Folder::new(&format!("runs-{name}"));
    let mut run = RunWriter::create(folder.path(), manifest)?;
    let mut random = Random::new(name.len() as u64);
    for elements in [10_000u64, 100_000, 1_000_000] {
        let cell = cell("gelu", elements, "cpu", Mode::Host);
        let id = run.begin(0, &cell)?;
        let mut sample = |index: u32| {
            let wall_ns = elements as f64 * ratio * (noise * random.normal()).exp();
            Sample { round: index / 5, index, wall_ns: wall_ns as u64, ..Sample::default() }
        };
        run.samples(id, &(0..500).map(&mut sample).collect::<Vec<_>>())?;
        run.finish(0, id, &cell, Facts::of(Status::Ok))?;
    }
    read(folder.path())
}

fn code(a: &Recorded, b: &Recorded) -> u8 {
    let rule = Rule::default();
    compare_runs(a, b, &rule, false).expect("the same machine").exit(&rule).code()
}

/// The code where a second run of B's program gave the very same.
fn code_confirmed(a: &Recorded, b: &Recorded) -> u8 {
    let rule = Rule::default();
    let found = compare_runs(a, b, &rule, false).expect("the same machine");
    found.clone().confirmed_by(&found).exit(&rule).code()
}

#[test]
fn a_slower_run_fails_once_it_is_confirmed_and_the_same_passes() -> Result<(), StudyError> {
    let a = run("a", &manifest(), 1.0, 0.02)?;
    let codes = |a: &Recorded, b: &Recorded| (code(a, b), code_confirmed(a, b));
    assert_eq!(codes(&a, &run("same", &manifest(), 1.0, 0.02)?), (0, 0));
    assert_eq!(codes(&a, &run("slower", &manifest(), 1.1, 0.02)?), (3, 1));
    assert_eq!(codes(&a, &run("faster", &manifest(), 0.8, 0.02)?), (0, 0));
    // Noise widens the threshold and hides nothing that is beyond it.
    assert_eq!(codes(&run("restless", &manifest(), 1.0, 0.15)?, &run("tripled", &manifest(), 3.0, 0.15)?), (3, 1));
    assert_eq!(codes(&run("loud", &manifest(), 1.0, 0.8)?, &run("louder", &manifest(), 1.1, 0.8)?), (3, 3));
    Ok(())
}

/// What needs no second run to be true is not softened by what does.
#[test]
fn what_is_wrong_or_lost_outweighs_what_is_not_confirmed() -> Result<(), StudyError> {
    let a = run("base", &manifest(), 1.0, 0.02)?;
    let mut b = run("slower-and-lost", &manifest(), 1.1, 0.02)?;
    let lost = b.cells.pop().expect("three cells");
    assert_eq!(code(&a, &b), 4);
    b.cells.push(RecordedCell { facts: Facts::failed(Status::Wrong, "element 3 is 1 instead of 2"), ..lost });
    assert_eq!(code(&a, &b), 1);
    Ok(())
}

#[test]
fn a_cell_that_is_lost_or_fails_is_told() -> Result<(), StudyError> {
    let a = run("whole", &manifest(), 1.0, 0.02)?;
    let mut b = run("part", &manifest(), 1.0, 0.02)?;
    let mut lost = b.cells.remove(0);
    assert_eq!(code(&a, &b), 4);
    lost.facts = Facts::failed(Status::Timeout, "not done after 10 s");
    b.cells.push(lost);
    let found = compare_runs(&a, &b, &Rule::default(), false)?;
    assert_eq!(found.verdicts[0].1, Verdict::Invalid { why: "timeout in B: not done after 10 s".into() });
    assert_eq!(code(&a, &b), 1);
    assert_eq!(code(&b, &a), 1);
    Ok(())
}

/// A cell that neither run tried is nobody's loss; one that A alone measured is, and one that B alone did is held against nothing.
#[test]
fn what_neither_run_measured_has_no_verdict() -> Result<(), StudyError> {
    let unsupported = (Verdict::Invalid { why: "unsupported in B: no f64".into() }, 1);
    let cases = [
        ("unsupported", Facts::failed(Status::Unsupported, "no f64"), unsupported),
        ("left-out", Facts::left_out("one call takes 6 s"), (Verdict::Missing, 4)),
    ];
    for (name, facts, told) in cases {
        let whole = run(&format!("all-{name}"), &manifest(), 1.0, 0.02)?;
        let mut part = run(&format!("some-{name}"), &manifest(), 1.0, 0.02)?;
        part.cells[1].facts = facts.clone();
        part.cells[1].samples.clear();
        let compare = |a, b| compare_runs(a, b, &Rule::default(), false);
        let both = compare(&part, &part)?;
        assert_eq!((both.verdicts.len(), both.new.len(), both.exit(&Rule::default()).code()), (2, 0, 0), "{name}");
        assert!(both.notes[1].starts_with("1 cell was measured in neither run"), "{:?}", both.notes);
        let more = compare(&part, &whole)?;
        assert_eq!((more.verdicts.len(), more.new.len(), more.exit(&Rule::default()).code()), (2, 1, 0), "{name}");
        assert!(more.notes[1].starts_with("1 cell was measured in B alone"), "{:?}", more.notes);
        let lost = (compare(&whole, &part)?.verdicts[1].1.clone(), code(&whole, &part));
        assert_eq!(lost, told);
        // A folder that lost the whole row has lost nothing that was measured.
        let mut without = part.clone();
        without.cells.remove(1);
        assert_eq!((code(&part, &without), code(&without, &part)), (0, 0), "{name}");
    }
    let nothing = compare_runs(
        &run("with", &manifest(), 1.0, 0.02)?,
        &run("too", &manifest(), 1.0, 0.02)?,
        &Rule::default(),
        false,
    )?;
    assert_eq!(nothing.notes.len(), 1, "{:?}", nothing.notes);
    Ok(())
}

/// B10: another governor, driver or clock is another machine.
#[test]
fn b10_runs_of_different_machines_are_not_compared_unless_told() -> Result<(), StudyError> {
    let mut other = manifest();
    other.fingerprint = "beef".into();
    other.environment.governor = Some("powersave".into());
    let (a, b) = (run("here", &manifest(), 1.0, 0.02)?, run("there", &other, 1.0, 0.02)?);
    let why = compare_runs(&a, &b, &Rule::default(), false).unwrap_err().to_string();
    assert!(
        why.contains("do not have the same fingerprint") && why.contains("governor: not known in A, powersave in B"),
        "{why}"
    );
    let found = compare_runs(&a, &b, &Rule::default(), true)?;
    assert!(found.notes.iter().any(|note| note.contains("measured on different machines")), "{:?}", found.notes);
    Ok(())
}

/// B10: the same machine in another thermal state is told, as far as its sensors could be read.
#[test]
fn b10_runs_in_another_thermal_state_are_told() -> Result<(), StudyError> {
    let sensed = |celsius: Option<f64>, lowered: Option<u64>, gpu: Option<f64>| -> Result<Recorded, StudyError> {
        let mut run = run("heat", &manifest(), 1.0, 0.02)?;
        let reading = |throttlings| Reading {
            celsius,
            throttlings,
            gpus: vec![GpuReading { name: "card0".into(), hz: None, celsius: gpu }],
            ..Reading::default()
        };
        run.sensors = vec![reading(lowered.map(|_| 100)), reading(lowered.map(|times| 100 + times))];
        Ok(run)
    };
    let cool = sensed(Some(45.0), Some(2), Some(50.0))?;
    let check = |b: Recorded, expected: &[&str]| {
        let notes = compare_runs(&cool, &b, &Rule::default(), false).expect("the same machine").notes;
        assert_eq!(notes[1..], *expected);
    };
    check(sensed(Some(54.0), Some(4), Some(59.0))?, &[]);
    check(sensed(None, None, None)?, &[]);
    let lowered =
        "heat or power lowered clocks 2 times in A and 12 times in B, which alone can make one of them slower";
    let hotter = "another thermal state, at the hottest: the machine was at 45.0 °C in A and 84.5 °C in B, card0 was at 50.0 °C in A and 88.0 °C in B";
    check(sensed(Some(84.5), Some(12), Some(88.0))?, &[lowered, hotter]);
    Ok(())
}

#[test]
fn what_differs_between_machines_is_listed_thing_by_thing() -> Result<(), StudyError> {
    let mut other = manifest();
    other.fingerprint = "beef".into();
    other.environment.cores = 16;
    other.environment.devices[0].driver = "591.0".into();
    let (a, b) = (run("one", &manifest(), 1.0, 0.02)?, run("other", &other, 1.0, 0.02)?);
    let wanted =
        ["cores: 2 in A, 16 in B", "vulkan:0: NVIDIA H200 (vulkan, 580.1) in A, NVIDIA H200 (vulkan, 591.0) in B"];
    assert_eq!(differences(&a, &b), wanted);
    other.environment.devices.clear();
    let b = run("without", &other, 1.0, 0.02)?;
    assert_eq!(differences(&a, &b)[1], "vulkan:0: NVIDIA H200 (vulkan, 580.1) in A, not there in B");
    assert!(differences(&a, &a)[0].contains("nothing that is written down"));
    Ok(())
}

#[test]
fn what_is_slower_must_be_slower_in_a_second_run_too() -> Result<(), StudyError> {
    let rule = Rule::default();
    let a = run("first", &manifest(), 1.0, 0.02)?;
    let found = |name: &str, ratio| compare_runs(&a, &run(name, &manifest(), ratio, 0.02)?, &rule, false);
    let slower = found("once", 1.1)?;
    assert_eq!((slower.to_confirm().count(), slower.exit(&rule).code()), (3, 3));
    let confirmed = slower.clone().confirmed_by(&found("twice", 1.1)?);
    assert_eq!((confirmed.to_confirm().count(), confirmed.exit(&rule).code()), (3, 1));
    let refuted = slower.confirmed_by(&found("not-again", 1.0)?);
    assert_eq!((refuted.to_confirm().count(), refuted.exit(&rule).code()), (0, 3));
    assert!(refuted.verdicts[0].1.to_string().contains("not seen again"), "{:?}", refuted.verdicts[0]);
    Ok(())
}

/// A run as `scan` takes it on a loaded machine: 12 cells one after the other, each of so many rounds of five, each a little faster or slower in this
/// process than in another, those below `slowed` by 15% more.
fn scanned(seed: u64, rounds: u32, slowed: usize) -> Recorded {
    let (mut machine, mut process) = (LoadedMachine::new(seed), Random::new(seed));
    let mut recorded = recorded();
    let times: Vec<f64> = (0..12)
        .map(|index| 100_000.0 * (0.01 * process.normal()).exp() * if index < slowed { 1.15 } else { 1.0 })
        .collect();
    let mut samples = vec![Vec::new(); times.len()];
    let mut turn = |round: u32, index: usize| {
        // Best of three.
        let wall_ns = (0..3).map(|_| machine.sample(50_000.0) as u64).min().expect("three");
        recorded.sentinels.push(Sentinel { round, wall_ns });
        let sample =
            |at| Sample { round, index: at, wall_ns: machine.sample(times[index]) as u64, ..Sample::default() };
        samples[index].extend((0..5).map(sample));
    };
    // The first five of a size by themselves.
    (0..times.len()).for_each(|index| (0..5).for_each(|round| turn(round, index)));
    (5..rounds).for_each(|round| (0..times.len()).for_each(|index| turn(round, index)));
    for (samples, elements) in samples.into_iter().zip(1000..) {
        let cell = cell("gelu", elements, "cpu", Mode::Host);
        recorded.cells.push(RecordedCell { cell, facts: Facts::of(Status::Ok), samples });
    }
    recorded
}

/// Without cells.
fn recorded() -> Recorded {
    let folder = Folder::new(&format!("runs-empty-{:?}", std::thread::current().id()));
    RunWriter::create(folder.path(), &manifest()).expect("a folder");
    read(folder.path()).expect("it was just written")
}

/// How many of 40 comparisons of two scans call any cell slower or faster, and how many cells of all are called slower, same and neither.
fn counted(rounds: u32, slowed: usize) -> (usize, [usize; 3]) {
    let (mut alarms, mut cells) = (0, [0; 3]);
    for seed in 0..40 {
        let (a, b) = (scanned(2 * seed, rounds, 0), scanned(2 * seed + 1, rounds, slowed));
        let found = compare_runs(&a, &b, &Rule::default(), false).expect("the same machine");
        alarms += usize::from(found.to_confirm().count() > 0);
        for (_, verdict) in &found.verdicts {
            let place = match verdict {
                Verdict::Slower(_) => 0,
                Verdict::Same(_) => 1,
                _ => 2,
            };
            cells[place] += 1;
        }
    }
    (alarms, cells)
}

/// Neighbours disturb rounds and whole processes here, up to twice as slow: hardly ever an alarm all the same, and what is slower is found the more often
/// the more rounds there are.
#[test]
fn two_scans_of_the_same_give_no_alarm_and_those_of_slower_code_are_found() {
    let (few, many) = (counted(12, 0), counted(40, 0));
    assert!(few.0 <= 1 && many.0 <= 1, "{few:?} {many:?}");
    let [third, all] = [4, 12].map(|slowed| counted(40, slowed));
    assert!(third.0 >= 12 && all.0 >= 20 && all.1[0] >= 4 * third.1[0], "{third:?} {all:?}");
}

/// Five rounds are what a scan takes that has no time: taken one after the other, they are as slow as the machine is then.
#[test]
fn few_rounds_decide_nothing() {
    assert_eq!(counted(5, 12), (0, [0, 0, 480]));
    let found = compare_runs(&scanned(1, 5, 0), &scanned(2, 5, 0), &Rule::default(), false).expect("the same machine");
    assert_eq!(found.exit(&Rule::default()).code(), 3);
    let said = found.verdicts[0].1.to_string();
    assert!(said.contains("5 rounds are too few") && said.contains("12 are needed"), "{said}");
}

/// B as a whole on a lower clock: the sentinel tells, and no cell is called slower.
#[test]
fn a_machine_that_is_slower_as_a_whole_is_no_slower_code() {
    let (a, mut b) = (scanned(1, 40, 0), scanned(2, 40, 0));
    let longer = |ns: &mut u64| *ns = *ns * 13 / 10;
    b.cells.iter_mut().flat_map(|cell| &mut cell.samples).for_each(|sample| longer(&mut sample.wall_ns));
    let slowed = compare_runs(&a, &b, &Rule::default(), false).expect("the same machine");
    assert!(slowed.to_confirm().count() > 6, "slower code: {:?}", slowed.verdicts);
    b.sentinels.iter_mut().for_each(|sentinel| longer(&mut sentinel.wall_ns));
    let found = compare_runs(&a, &b, &Rule::default(), false).expect("the same machine");
    assert_eq!(found.to_confirm().count(), 0, "{:?}", found.verdicts);
    assert!(
        found.notes[0].contains("plain arithmetic by 2") || found.notes[0].contains("plain arithmetic by 3"),
        "{:?}",
        found.notes
    );
}

/// The exit code and how many are called slower where `slowed` of 44 cells take `ratio` of the time.
fn of_forty_four(slowed: usize, ratio: f64) -> (u8, usize) {
    let row = |index: usize, ratio: f64, seed: u64| {
        let mut random = Random::new(seed + index as u64);
        let sample = |at: u32| {
            let wall_ns = 1e6 * ratio * (0.003 * random.normal()).exp();
            Sample { round: at / 5, index: at % 5, wall_ns: wall_ns as u64, ..Sample::default() }
        };
        let cell = cell("gelu", 1000 + index as u64, "cpu", Mode::Host);
        RecordedCell { cell, facts: Facts::of(Status::Ok), samples: (0..100).map(sample).collect() }
    };
    let (mut a, mut b) = (recorded(), recorded());
    a.cells = (0..44).map(|index| row(index, 1.0, 1000)).collect();
    b.cells = (0..44).map(|index| row(index, if index < slowed { ratio } else { 1.0 }, 2000)).collect();
    let found = compare_runs(&a, &b, &Rule::default(), false).expect("the same machine");
    (found.exit(&Rule::default()).code(), found.to_confirm().count())
}

/// On a machine with two cores one cell or two of 44 were up to a third slower in another process of the same program.
#[test]
fn a_cell_or_two_of_many_may_be_what_processes_differ_by() {
    assert_eq!(of_forty_four(0, 1.0), (0, 0));
    assert_eq!((of_forty_four(1, 1.2), of_forty_four(2, 1.2)), ((3, 0), (3, 0)));
    assert_eq!((of_forty_four(3, 1.2), of_forty_four(1, 3.0)), ((3, 3), (3, 1)));
}

/// Cells that differ from run to run by a third: on such a machine one that is twice as slow may be the same.
#[test]
fn on_a_machine_that_is_unusable_nothing_is_concluded() {
    let run = |seed: u64, slowed: usize| {
        let mut run = recorded();
        let mut level = Random::new(seed);
        run.cells = (0..20)
            .map(|index| {
                let ns = 1e6 * (0.3 * level.normal()).exp() * if index < slowed { 4.0 } else { 1.0 };
                let sample = |at: u32| Sample {
                    round: at / 5,
                    index: at % 5,
                    wall_ns: ns as u64 + u64::from(at),
                    ..Sample::default()
                };
                let cell = cell("gelu", 1000 + index as u64, "cpu", Mode::Host);
                RecordedCell { cell, facts: Facts::of(Status::Ok), samples: (0..100).map(sample).collect() }
            })
            .collect();
        run
    };
    let found = compare_runs(&run(1, 0), &run(2, 8), &Rule::default(), false).expect("the same machine");
    assert_eq!((found.to_confirm().count(), found.exit(&Rule::default()).code()), (0, 3));
    let said = found.verdicts.iter().filter(|(_, verdict)| verdict.to_string().contains("nothing can be concluded"));
    assert!(said.count() >= 8, "{:?}", found.verdicts);
}
