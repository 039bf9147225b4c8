//! Two run folders compared: only on the same machine, and lost cells are not forgotten.

mod samples;

use breakeven_study::folder::{Facts, Recorded, RunWriter, read};
use breakeven_study::stats::Random;
use breakeven_study::verdict::{Rule, Verdict, compare_runs};
use breakeven_study::{Manifest, Mode, Sample, Status, StudyError};
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

#[test]
fn a_slower_run_fails_and_the_same_passes() -> Result<(), StudyError> {
    let a = run("a", &manifest(), 1.0, 0.02)?;
    assert_eq!(code(&a, &run("same", &manifest(), 1.0, 0.02)?), 0);
    assert_eq!(code(&a, &run("slower", &manifest(), 1.1, 0.02)?), 1);
    assert_eq!(code(&a, &run("faster", &manifest(), 0.8, 0.02)?), 0);
    assert_eq!(code(&run("loud", &manifest(), 1.0, 0.8)?, &run("louder", &manifest(), 1.1, 0.8)?), 3);
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

/// B10: another governor, driver or clock is another machine.
#[test]
fn b10_runs_of_different_machines_are_not_compared_unless_told() -> Result<(), StudyError> {
    let mut other = manifest();
    other.fingerprint = "beef".into();
    other.environment.governor = Some("powersave".into());
    let (a, b) = (run("here", &manifest(), 1.0, 0.02)?, run("there", &other, 1.0, 0.02)?);
    let why = compare_runs(&a, &b, &Rule::default(), false).unwrap_err().to_string();
    assert!(
        why.contains("do not have the same fingerprint") && why.contains("governor null and \"powersave\""),
        "{why}"
    );
    let found = compare_runs(&a, &b, &Rule::default(), true)?;
    assert!(found.notes.iter().any(|note| note.contains("measured on different machines")), "{:?}", found.notes);
    Ok(())
}
