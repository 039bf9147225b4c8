//! From a run folder to its summary: what a reader is told follows from the rows.

mod samples;

use breakeven_study::folder::{Event, Facts, GpuReading, Reading, RunWriter, read};
use breakeven_study::published::held_against;
use breakeven_study::report::report;
use breakeven_study::stats::Random;
use breakeven_study::{
    Ceiling, Cell, Flag, Flags, Mode, NoiseVerdict, Run, Sample, Source, Status, StudyError, Summary, SummarySchema,
    WarmUp, summarize,
};
use samples::{Folder, cell, manifest};

/// A run folder with the given cells, as summarised.
fn summary(name: &str, cells: &[(Cell, Facts, Vec<Sample>)]) -> Result<Run, StudyError> {
    let folder = Folder::new(&format!("summary-{name}"));
    let mut run = RunWriter::create(folder.path(), &manifest())?;
    for round in 0..5 {
        run.record(0, Event::Sentinel { round, wall_ns: 1000 + 10 * u64::from(round) })?;
    }
    run.record(0, Event::Ceiling(Ceiling { flops: Some(1e11), ..Ceiling::unmeasured("cpu") }))?;
    for (cell, facts, samples) in cells {
        let id = run.begin(0, cell)?;
        run.samples(id, samples)?;
        run.finish(0, id, cell, facts.clone())?;
    }
    Ok(summarize(&read(folder.path())?, name, Source::Simulated, |_| Vec::new()))
}

/// 60 samples around `wall_ns`, 1% apart.
fn around(wall_ns: f64) -> Vec<Sample> {
    let mut random = Random::new(wall_ns.to_bits());
    let time = |random: &mut Random| (wall_ns * (0.01 * random.normal()).exp()) as u64;
    (0..60).map(|index| Sample { index, wall_ns: time(&mut random), ..Sample::default() }).collect()
}

fn ok(operation: &str, elements: u64, device: &str, wall_ns: f64) -> (Cell, Facts, Vec<Sample>) {
    (cell(operation, elements, device, Mode::Host), Facts::of(Status::Ok), around(wall_ns))
}

/// Sizes from 1,000 to 1,000,000 where the GPU takes 100 us and 0.1 ns an element, the CPU 1 ns an element.
fn gelu() -> Vec<(Cell, Facts, Vec<Sample>)> {
    let sizes = [1_000, 10_000, 100_000, 1_000_000];
    let cpu = sizes.map(|elements| ok("gelu", elements, "cpu", elements as f64));
    let gpu = sizes.map(|elements| ok("gelu", elements, "vulkan:0", 1e5 + 0.1 * elements as f64));
    cpu.into_iter().chain(gpu).collect()
}

#[test]
fn a_break_even_is_found_with_its_interval() -> Result<(), StudyError> {
    let run = summary("gelu", &gelu())?;
    let [found] = &run.break_even[..] else { panic!("{:?}", run.break_even) };
    let [crossing] = found.crossings[..] else { panic!("{found:?}") };
    assert!(crossing.low <= crossing.elements && crossing.elements <= crossing.high);
    assert!((90_000..130_000).contains(&crossing.elements), "{crossing:?}");
    assert_eq!((found.wins_from, found.gpu_blob, found.range), (Some(1_000_000), Some(1_000_000), [1_000, 1_000_000]));
    assert!(found.verdict.starts_with("GPU from 1"), "{}", found.verdict);
    assert_eq!(run.noise.verdict, NoiseVerdict::Quiet);
    assert_eq!(run.ceilings[0].flops, Some(1e11));
    assert_eq!(run.cells[0].warm_up, Some(WarmUp::Steady));
    Ok(())
}

#[test]
fn failed_operations_earn_no_time() -> Result<(), StudyError> {
    let mut cells = gelu();
    cells[7].1 = Facts::failed(Status::Lost, "the device was lost after 40 samples");
    let run = summary("lost", &cells)?;
    let row = &run.cells[7];
    assert_eq!((row.status, row.q1_ns, row.min_ns, row.samples), (Status::Lost, None, None, 0));
    assert_eq!(row.why.as_deref(), Some("the device was lost after 40 samples"));
    assert_eq!(
        run.break_even[0].verdict,
        "none in [1,000, 100,000]: CPU at every size (1 of 4 sizes failed on vulkan:0)"
    );
    Ok(())
}

/// What was left out for want of time is neither a failure nor a part of the range in which nothing was found.
#[test]
fn sizes_that_were_left_out_are_no_part_of_what_is_found() -> Result<(), StudyError> {
    let mut cells = gelu();
    cells[3].1 = Facts::left_out("one call is predicted to take 6 s");
    cells[3].2.clear();
    for left_out in [6, 7] {
        cells[left_out].1 = Facts::left_out("one call took 5 s");
        cells[left_out].2.clear();
    }
    cells[5].1 = Facts::failed(Status::Lost, "the device was lost");
    let run = summary("left-out", &cells)?;
    let said = "at the only size measured on both, 1,000: CPU (1 of 4 sizes failed on vulkan:0, \
                1 of 4 sizes would take too long on cpu, 2 of 4 sizes would take too long on vulkan:0)";
    assert_eq!((run.break_even[0].verdict.as_str(), run.break_even[0].range), (said, [1_000, 1_000]));
    assert_eq!((run.cells[7].status, run.cells[7].q1_ns), (Status::Skipped, None));
    cells.iter_mut().filter(|(cell, ..)| cell.device != "cpu").for_each(|(_, facts, samples)| {
        *facts = Facts::left_out("one call took 5 s");
        samples.clear();
    });
    let nowhere = "no size was measured on both (1 of 4 sizes would take too long on cpu, 4 of 4 sizes would take too long on vulkan:0)";
    assert_eq!(summary("left-out-everywhere", &cells)?.break_even[0].verdict, nowhere);
    Ok(())
}

/// Times that other work made longer may agree with each other, so the floor does not show it.
#[test]
fn rows_that_were_measured_beside_other_work_say_so() -> Result<(), StudyError> {
    let with = |waited: [Option<f64>; 4]| -> Result<Run, StudyError> {
        let mut cells = gelu();
        cells.truncate(4);
        cells.iter_mut().zip(waited).for_each(|(cell, waited)| cell.1.waited = waited);
        summary(&format!("contended-{}", waited[0].is_some()), &cells)
    };
    let crowded = with([Some(0.31), Some(0.01), None, Some(0.0)])?;
    assert_eq!(crowded.cells[0].flags, ["beside other work: a thread waited for a core for 31% of the time"]);
    assert_eq!(
        (crowded.cells[1].flags.len(), crowded.noise.contended, crowded.noise.verdict),
        (0, 1, NoiseVerdict::Noisy)
    );
    let said = markdown(crowded);
    assert!(said.contains("in 1 of 4 rows a thread was ready and had no core for 5% of the time"), "{said}");
    let unknown = with([None; 4])?;
    assert_eq!((unknown.noise.contention_watched, unknown.noise.verdict), (false, NoiseVerdict::Quiet));
    assert!(markdown(unknown).contains("whether other work held the cores was not watched"));
    Ok(())
}

/// B01: a call that is submitted within 10 us and ends after 5 ms takes 5 ms, and the 10 us have a column of their own.
#[test]
fn b01_the_time_of_a_call_is_not_that_of_its_submission() -> Result<(), StudyError> {
    let late = |sample: Sample| Sample { dispatch_ns: Some(10_000), wait_ns: Some(4_990_000), ..sample };
    let samples = around(5e6).into_iter().map(late).collect();
    let run = summary("b01", &[(cell("matmul", 1 << 20, "vulkan:0", Mode::Host), Facts::of(Status::Ok), samples)])?;
    let row = &run.cells[0];
    let q1 = row.q1_ns.expect("measured");
    assert!((q1 / 5e6 - 1.0).abs() < 0.05, "{q1}");
    assert_eq!((row.parts.dispatch_ns, row.parts.wait_ns, row.parts.kernel_ns), (Some(1e4), Some(4.99e6), None));
    Ok(())
}

/// B04: clocks that were lowered are dropped and counted, and a row of nothing else is marked, not empty.
#[test]
fn b04_throttled_rows_are_marked_and_never_empty() -> Result<(), StudyError> {
    let hot = |sample: Sample| Sample { flags: Flags::NONE.with(Flag::Throttled), ..sample };
    let (mut some, mut all) = (ok("gelu", 1000, "cpu", 1e3), ok("gelu", 2000, "cpu", 2e3));
    some.2.iter_mut().take(20).for_each(|sample| *sample = hot(*sample));
    all.2.iter_mut().for_each(|sample| *sample = hot(*sample));
    let run = summary("b04", &[some, all])?;
    assert_eq!((run.cells[0].samples, run.cells[0].dropped, run.noise.throttled), (40, 20, 20));
    assert_eq!(run.cells[1].flags, ["throttled throughout"]);
    assert!(run.cells[1].q1_ns.is_some());
    Ok(())
}

/// B05: a call that does nothing is flagged, at any size, and a checksum of the output is kept.
#[test]
fn b05_work_that_was_optimised_away_is_flagged() -> Result<(), StudyError> {
    let mut cells = [ok("add", 1, "cpu", 25.0), ok("add", 1_000_000, "cpu", 25.0), ok("add", 999_999, "cpu", 1e5)];
    cells[2].1.checksum = Some("00ff".into());
    let run = summary("b05", &cells)?;
    let flagged: Vec<bool> = run.cells.iter().map(|row| !row.flags.is_empty()).collect();
    assert_eq!(flagged, [false, true, false]);
    assert!(run.cells[1].flags[0].contains("was anything computed?"), "{:?}", run.cells[1].flags);
    assert_eq!(run.cells[2].checksum.as_deref(), Some("00ff"));
    Ok(())
}

#[test]
fn decayed_data_and_unusable_kernel_times_are_flagged() -> Result<(), StudyError> {
    let mut cell = ok("mul", 1000, "vulkan:0", 1e5);
    cell.1.degenerate = Some(0.25);
    cell.2.iter_mut().for_each(|sample| sample.kernel_ns = Some(u64::MAX));
    let run = summary("decay", &[cell])?;
    assert_eq!(
        run.cells[0].flags,
        [
            "25.0% of the output is denormal, not finite, or all of it zero",
            "60 kernel times of the device's clock were unusable"
        ]
    );
    assert_eq!(run.cells[0].parts.kernel_ns, None);
    Ok(())
}

/// Too few samples to tell the noise: null in files, and not a floor of 100%.
#[test]
fn noise_that_is_not_known_is_null() -> Result<(), StudyError> {
    let mut few = ok("gelu", 1000, "cpu", 1e3);
    few.2.truncate(5);
    let run = summary("unknown", &[few])?;
    assert_eq!(run.noise.verdict, NoiseVerdict::Unusable);
    let written = serde_json::to_value(&run).expect("JSON");
    assert_eq!(written["noise"]["floor"], serde_json::Value::Null);
    assert_eq!(serde_json::from_value::<Run>(written).expect("written by us"), run);
    let text = markdown(run);
    assert!(text.contains("differs by is not known") && !text.contains("inf"), "{text}");
    Ok(())
}

/// Whether clocks were lowered is known where their counts were read, also if they stayed what they were.
#[test]
fn counts_of_lowered_clocks_that_stay_are_no_ignorance() -> Result<(), StudyError> {
    let said = |throttlings: Option<u64>| -> Result<(bool, String), StudyError> {
        let folder = Folder::new(&format!("summary-watched-{}", throttlings.is_some()));
        let mut run = RunWriter::create(folder.path(), &manifest())?;
        run.record(0, Event::Sensors(Reading { throttlings, ..Reading::default() }))?;
        let (cell, facts, samples) = ok("gelu", 1000, "cpu", 1e3);
        let id = run.begin(0, &cell)?;
        run.samples(id, &samples)?;
        run.finish(0, id, &cell, facts)?;
        let run = summarize(&read(folder.path())?, "watched", Source::Simulated, |_| Vec::new());
        Ok((run.noise.throttling_watched, markdown(run)))
    };
    let ((watched, text), (unwatched, other)) = (said(Some(0))?, said(None)?);
    assert!(watched && text.contains("no sample was taken while a clock was lowered"), "{text}");
    assert!(!unwatched && other.contains("not watched"), "{other}");
    Ok(())
}

/// B04: clocks and temperatures stand in the report where they could be read, and where not, that they could not be and why.
#[test]
fn b04_clocks_and_temperatures_are_in_the_report() -> Result<(), StudyError> {
    let with = |name: &str, readings: Vec<Reading>| -> Result<Run, StudyError> {
        let folder = Folder::new(&format!("summary-sensed-{name}"));
        let mut run = RunWriter::create(folder.path(), &manifest())?;
        readings.into_iter().try_for_each(|reading| run.record(0, Event::Sensors(reading)))?;
        drop(run);
        Ok(summarize(&read(folder.path())?, name, Source::Simulated, |_| Vec::new()))
    };
    let gpu = |hz, celsius| GpuReading { name: "card0".into(), hz: Some(hz), celsius };
    let cool = Reading { cpu_hz: Some([2_300_000_000, 3_000_000_000]), celsius: Some(45.5), ..Reading::default() };
    let hot = Reading { cpu_hz: Some([1_200_000_000, 3_400_000_000]), celsius: Some(82.0), ..Reading::default() };
    let readings = vec![
        Reading { gpus: vec![gpu(345_000_000, Some(40.0))], throttlings: Some(5), ..cool },
        Reading { gpus: vec![gpu(1_980_000_000, Some(71.0))], throttlings: Some(8), ..hot },
    ];
    let known = with("known", readings)?;
    assert_eq!((known.sensed.cpu_hz, known.sensed.celsius), (Some([1_200_000_000, 3_400_000_000]), Some(82.0)));
    let said = "In 2 readings: cores ran at 1.20 to 3.40 GHz, the machine was at 82.0 °C at the hottest, counts of lowered clocks rose by 3, \
                card0 ran at 0.34 to 1.98 GHz (71.0 °C at the hottest).";
    assert!(markdown(known.clone()).contains(said), "{}", markdown(known));
    let nothing = Reading {
        absent: vec!["clocks of the processor (cpufreq)".into(), "thermal zones".into()],
        ..Reading::default()
    };
    let said = "no clock and no temperature could be read. Could not be read, since the system has no file of it (only Linux has such files, most virtual machines show no \
                sensors, and NVIDIA's driver none of a GPU): clocks of the processor (cpufreq), thermal zones.";
    let unknown = markdown(with("unknown", vec![nothing])?);
    assert!(unknown.contains(said), "{unknown}");
    assert!(markdown(with("not-read", vec![])?).contains("No clocks and temperatures are known."));
    Ok(())
}

fn markdown(run: Run) -> String {
    (report("markdown").expect("listed").make)(&Summary { schema: SummarySchema {}, runs: vec![run] })
}

#[test]
fn groups_in_any_order_give_the_same() -> Result<(), StudyError> {
    let mut cells = gelu();
    let forwards = summary("order", &cells)?;
    cells.reverse();
    let backwards = summary("order", &cells)?;
    assert_eq!(forwards.break_even, backwards.break_even);
    Ok(())
}

#[test]
fn claims_are_held_against_hardware_that_was_named() -> Result<(), StudyError> {
    let rows = |device: &str| vec![ok("add", 1_000_000, "cpu", 1e6), ok("add", 1_000_000, device, 1e4)];
    let met = |device: &str, kind: &str| -> Result<Option<bool>, StudyError> {
        let folder = Folder::new(&format!("claims-{device}-{kind}"));
        let mut manifest = manifest();
        manifest.environment.devices[0].kind = kind.into();
        let mut run = RunWriter::create(folder.path(), &manifest)?;
        for (cell, facts, samples) in rows(device) {
            let id = run.begin(0, &cell)?;
            run.samples(id, &samples)?;
            run.finish(0, id, &cell, facts)?;
        }
        let run = summarize(&read(folder.path())?, "claims", Source::Simulated, |cells| held_against("Trueno", cells));
        let claim = run.targets.iter().find(|target| target.claim.starts_with("20-50x"));
        Ok(claim.expect("a claim about 1,000,000 elements").met)
    };
    assert_eq!(met("vulkan:0", "discrete")?, Some(true));
    assert_eq!(met("vulkan:0", "software")?, None);
    assert_eq!(met("auto", "discrete")?, None);
    Ok(())
}

/// A ceiling is the most that was seen: a row that did better than the ceiling's own measurement raises it, one in a cache does not.
#[test]
fn ceilings_are_raised_by_rows_that_reached_more() -> Result<(), StudyError> {
    let folder = Folder::new("raised");
    let mut run = RunWriter::create(folder.path(), &manifest())?;
    let known = Ceiling {
        flops: Some(1e11),
        bytes_per_s: Some(1e10),
        upload_bytes_per_s: Some(1e9),
        ..Ceiling::unmeasured("cpu")
    };
    run.record(0, Event::Ceiling(known))?;
    run.record(0, Event::Ceiling(Ceiling::unmeasured("vulkan:0")))?;
    let mut add_cell = |cell: Cell, bytes: u64, flops: u64| -> Result<(), StudyError> {
        let id = run.begin(0, &cell)?;
        let sample = |index: u32| Sample { index, wall_ns: 1_000_000, ..Sample::default() };
        run.samples(id, &(0..30).map(sample).collect::<Vec<_>>())?;
        run.finish(0, id, &cell, Facts { bytes: Some(bytes), flops: Some(flops), ..Facts::of(Status::Ok) })
    };
    let add = std::cell::RefCell::new(&mut add_cell);
    let add_as = |dtype: &str, mode: Mode, bytes: u64| {
        let cell = Cell { dtype: dtype.into(), ..cell("matmul", 3_000, "cpu", mode) };
        (add.borrow_mut())(cell, bytes, 1 << 40)
    };
    let add = |device: &str, elements: u64, bytes: u64, flops: u64| {
        (add.borrow_mut())(cell("matmul", elements, device, Mode::Resident), bytes, flops)
    };
    // 1 ms each. 2e11 operations a second are more than the ceiling; 1e12 bytes a second come from a cache.
    add("cpu", 1_000, 1_000_000_000, 200_000_000)?;
    add("vulkan:0", 1_000, 1 << 31, 1_000)?;
    let ceilings = |folder: &Folder| -> Result<Vec<Ceiling>, StudyError> {
        Ok(summarize(&read(folder.path())?, "raised", Source::Simulated, |_| Vec::new()).ceilings)
    };
    let found = ceilings(&folder)?;
    assert_eq!(
        (found[0].flops, found[0].bytes_per_s, found[0].upload_bytes_per_s),
        (Some(2e11), Some(1e10), Some(1e9))
    );
    assert_eq!(found[1], Ceiling::unmeasured("vulkan:0"), "what was not measured is not guessed from rows");
    // Neither f16 nor a copy says what f32 arithmetic can do.
    add_as("f16", Mode::Resident, 1_000)?;
    add_as("f32", Mode::Copy, 1 << 40)?;
    assert_eq!(ceilings(&folder)?, found);
    // More than any cache holds: 2 GiB in 1 ms.
    add("cpu", 2_000, 1 << 31, 1_000)?;
    let found = ceilings(&folder)?;
    assert_eq!((found[0].flops, found[0].bytes_per_s), (Some(2e11), Some((1u64 << 31) as f64 * 1e3)));
    Ok(())
}
