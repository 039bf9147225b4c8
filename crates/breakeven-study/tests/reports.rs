//! Reports say what the rows say, the verdict first, and several runs stay apart.

mod samples;

use breakeven_study::folder::{Facts, RunWriter, read};
use breakeven_study::merge::{merge, winners};
use breakeven_study::published::runs;
use breakeven_study::report::{REPORTS, report};
use breakeven_study::{Mode, Run, Sample, Source, Status, StudyError, Summary, SummarySchema, summarize};
use samples::{Folder, cell, manifest};

fn made(name: &str, summary: &Summary) -> String {
    (report(name).expect("a report").make)(summary)
}

fn published() -> Summary {
    Summary { schema: SummarySchema {}, runs: runs() }
}

/// A run called `id` whose GPU takes `gpu_ns` where the CPU takes 1 ms.
fn run(id: &str, gpu_ns: u64, source: Source) -> Result<Run, StudyError> {
    let folder = Folder::new(&format!("report-{id}"));
    let mut writer = RunWriter::create(folder.path(), &manifest())?;
    for (device, wall_ns) in [("cpu", 1_000_000), ("vulkan:0", gpu_ns)] {
        let cell = cell("gelu", 1_000_000, device, Mode::Host);
        let id = writer.begin(0, &cell)?;
        let sample = |index: u32| Sample { index, wall_ns: wall_ns + 100 * u64::from(index), ..Sample::default() };
        writer.samples(id, &(0..60).map(sample).collect::<Vec<_>>())?;
        writer.finish(0, id, &cell, Facts { bytes: Some(8_000_000), ..Facts::of(Status::Ok) })?;
    }
    let failed = cell("gelu", 2_000_000, "vulkan:0", Mode::Host);
    let number = writer.begin(0, &failed)?;
    writer.finish(0, number, &failed, Facts::failed(Status::Timeout, "not done after 10 s"))?;
    Ok(summarize(&read(folder.path())?, id, source, |_| Vec::new()))
}

fn alone(run: Run) -> Summary {
    Summary { schema: SummarySchema {}, runs: vec![run] }
}

#[test]
fn markdown_has_the_verdict_first() -> Result<(), StudyError> {
    let text = made("markdown", &alone(run("one", 200_000, Source::Measured)?));
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is missing in\n{text}"));
    let order = [
        "## Verdict",
        "GPU at every size",
        "## Break-even",
        "not done after 10 s",
        "## Rows",
        "## Noise",
        "## Environment",
    ];
    assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{text}");
    assert!(at("1.002 ms") > 0 && at("4.97x") > 0);
    Ok(())
}

/// B09 as the report maker prints it.
#[test]
fn markdown_of_published_rows_prints_their_true_ratios() {
    let text = made("markdown", &published());
    for part in ["609,035x", "0.24 GMAC/s", "none in [20,000, 2,000,000]: CPU at every size", "Published by others"] {
        assert!(text.contains(part), "{part} is missing");
    }
    assert!(!text.contains("| 609x") && !text.contains("241.7"));
}

#[test]
fn simulated_runs_say_so() -> Result<(), StudyError> {
    assert!(
        made("markdown", &alone(run("simulated", 1, Source::Simulated)?)).contains("**Simulated: no device ran.**")
    );
    Ok(())
}

#[test]
fn csv_has_as_many_fields_in_each_line() -> Result<(), StudyError> {
    let text = made("csv", &alone(run("csv", 5, Source::Measured)?));
    let fields: Vec<usize> = text.lines().map(|line| line.matches(',').count()).collect();
    assert_eq!(fields, vec![fields[0]; 4]);
    assert!(text.contains("timeout,not done after 10 s"));
    Ok(())
}

#[test]
fn json_is_read_back_as_it_was() -> Result<(), StudyError> {
    let summary = alone(run("json", 123, Source::Measured)?);
    let again: Summary = serde_json::from_str(&made("json", &summary)).expect("written by us");
    assert_eq!(again, summary);
    Ok(())
}

#[test]
fn runs_are_merged_and_never_pooled() -> Result<(), StudyError> {
    let (slow, fast) = (run("slow", 500_000, Source::Measured)?, run("fast", 100_000, Source::Measured)?);
    let merged = merge(vec![alone(slow.clone()), alone(fast.clone()), alone(slow.clone()), published()])?;
    assert_eq!(merged.runs.len(), 2 + runs().len());
    let winners = winners(&merged);
    let [winner] = &winners[..] else { panic!("{winners:?}") };
    assert_eq!((winner.places[0].run.as_str(), winner.places.len(), winner.is_clear), ("fast", 2, true));
    assert!(made("markdown", &merged).contains("## Runs side by side"));
    let mut other = slow.clone();
    other.noise.floor += 1.0;
    assert!(merge(vec![alone(slow), alone(other)]).unwrap_err().to_string().contains("two different runs"));
    Ok(())
}

#[test]
fn simulated_runs_are_not_mixed_with_others() -> Result<(), StudyError> {
    let simulated = alone(run("made-up", 1, Source::Simulated)?);
    let why = merge(vec![simulated.clone(), published()]).unwrap_err().to_string();
    assert!(why.contains("could pass for measurements"), "{why}");
    assert!(merge(vec![simulated]).is_ok());
    Ok(())
}

#[test]
fn names_and_files_of_reports_are_distinct() {
    for (index, one) in REPORTS.iter().enumerate() {
        assert!(REPORTS[..index].iter().all(|other| other.name != one.name && other.file != one.file));
    }
    assert!(report("pdf").is_none());
}
