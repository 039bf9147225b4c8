//! Reports say what the rows say, the verdict first, and several runs stay apart.

mod samples;

use breakeven_study::folder::{Facts, RunWriter, read};
use breakeven_study::merge::{merge, winners};
use breakeven_study::published::runs;
use breakeven_study::report::{REPORTS, Taken, criterion, report, taken};
use breakeven_study::{
    Cell, Copied, Crossing, Made, Mode, Pool, Run, Sample, Side, Source, Status, StudyError, Summary, SummarySchema,
    summarize,
};
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
        "## In short",
        "## Noise",
        "## Environment",
        "- vulkan:0: NVIDIA H200",
        "## Verdict",
        "- **gelu f32 host** on vulkan:0: at the only size measured on both, 1,000,000: GPU (1 of 2 sizes failed",
        "## Break-even",
        "as GPU-BLOB (the GPU BLAS offload benchmark) defines it",
        "| GPU-BLOB |",
        "| gelu | f32 | host | vulkan:0 | 1,000,000 |  |",
        "not done after 10 s",
    ];
    assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{text}");
    assert_eq!(text.matches("defines it").count(), 1, "{text}");
    Ok(())
}

/// In short says the crossings that the verdict says, and windows too.
#[test]
fn in_short_says_where_the_gpu_wins_as_the_verdict_does() -> Result<(), StudyError> {
    let mut run = run("windows", 200_000, Source::Measured)?;
    let check = |run: &mut Run, crossings: &[(u64, Side)], wins_from: Option<u64>, expected: &str| {
        let found = &mut run.break_even[0];
        let crossing = |&(elements, to): &(u64, Side)| Crossing { elements, low: elements, high: elements, to };
        (found.crossings, found.wins_from) = (crossings.iter().map(crossing).collect(), wins_from);
        let text = made("markdown", &alone(run.clone()));
        assert!(text.contains(expected), "{expected} in\n{text}");
    };
    let (to_gpu, to_cpu) = (|at: u64| (at, Side::Gpu), |at: u64| (at, Side::Cpu));
    check(&mut run, &[to_gpu(1_541_590)], Some(1_681_793), "1 of 1 operations (elements): gelu f32 from 1,541,590\n");
    check(&mut run, &[to_gpu(93_037), to_cpu(596_376)], None, "gelu f32 from 93,037 to 596,376\n");
    check(&mut run, &[to_cpu(2_000), to_gpu(9_000)], Some(10_000), "gelu f32 up to 2,000 and from 9,000\n");
    check(&mut run, &[], Some(1_000_000), "gelu f32 at 1,000,000\n");
    check(&mut run, &[], None, "pays for 0 of 1 operations\n");
    run.break_even[0].range = [1_000, 1_000_000];
    check(&mut run, &[], Some(1_000), "gelu f32 from 1,000\n");
    Ok(())
}

/// A run of these cells, each of which takes so many nanoseconds.
fn of_cells(name: &str, cells: &[(Cell, u64)]) -> Result<Run, StudyError> {
    let folder = Folder::new(&format!("report-{name}"));
    let mut manifest = manifest();
    let device = &mut manifest.environment.devices[0];
    (device.name, device.kind, manifest.environment.threads) = ("cpu".into(), "cpu".into(), 2);
    let mut writer = RunWriter::create(folder.path(), &manifest)?;
    for (cell, wall_ns) in cells {
        let id = writer.begin(0, cell)?;
        let sample = |index: u32| Sample { index, wall_ns: *wall_ns, ..Sample::default() };
        writer.samples(id, &(0..60).map(sample).collect::<Vec<_>>())?;
        writer.finish(0, id, cell, Facts { flops: Some(1_000_000), ..Facts::of(Status::Ok) })?;
    }
    Ok(summarize(&read(folder.path())?, name, Source::Measured, |_| Vec::new()))
}

/// Without a second device there is no break-even, and what operations take is the finding.
#[test]
fn a_run_of_the_cpu_alone_says_what_operations_take() -> Result<(), StudyError> {
    let product = Cell { shape: "32x32".into(), ..cell("matmul", 1024, "cpu", Mode::Resident) };
    let run = of_cells(
        "cpu-alone",
        &[
            (cell("gelu", 1_000, "cpu", Mode::Resident), 1),
            (cell("gelu", 1_000, "scalar", Mode::Host), 40_000),
            (cell("gelu", 1_000, "cpu", Mode::Host), 10_000),
            (cell("gelu", 800, "cpu", Mode::Host), 1),
            (cell("gelu", 50_000, "cpu", Mode::Host), 100_000),
            (cell("gelu", 1_000_000, "cpu", Mode::Host), 2_000_000),
            (product, 1_000),
        ],
    )?;
    let text = made("markdown", &alone(run.clone()));
    let wanted = "## What operations take, by elements (lower quartile; all sizes and ways of calling are in rows.md)

| operation | dtype | mode | on | 1,000 | 100,000 | 1,000,000 |
|---|---|---|---|---|---|---|
| gelu | f32 | host | cpu, 2 threads | 10 µs, 100.00 GFLOP/s | 50,000: 100 µs, 10.00 GFLOP/s | 2 ms, 0.50 GFLOP/s |
| gelu | f32 | host | a plain loop, 1 thread (so many times the CPU's) | 40 µs, 4.00x |  |  |
| matmul | f32 | resident | cpu, 2 threads | 32x32: 1 µs, 500.00 GMAC/s |  |  |
";
    assert!(text.contains(wanted), "{text}");
    assert!(text.contains("- **no break-even**: no size was measured on the CPU and on another device"), "{text}");
    // The same, for whoever prints it otherwise.
    let said = |taken: Taken| {
        let sizes = taken.sizes.into_values().map(|at| format!("{}: {}", at.shape, at.time));
        (taken.device, sizes.collect::<Vec<_>>().join("; "))
    };
    let wanted = [
        ("cpu", "1,000: 10 µs, 100.00 GFLOP/s; 50,000: 100 µs, 10.00 GFLOP/s; 1,000,000: 2 ms, 0.50 GFLOP/s"),
        ("scalar", "1,000: 40 µs, 4.00x"),
        ("cpu", "32x32: 1 µs, 500.00 GMAC/s"),
    ];
    assert_eq!(
        taken(&run).into_iter().map(said).collect::<Vec<_>>(),
        wanted.map(|(device, sizes)| (device.into(), sizes.into()))
    );
    let published = made("markdown", &alone(Run { source: Source::Published, ..run }));
    assert!(!published.contains("What operations take"), "tables of others are theirs: {published}");
    let two = made("markdown", &alone(self::run("two", 200_000, Source::Measured)?));
    assert!(!two.contains("What operations take") && !two.contains("no break-even"), "{two}");
    assert_eq!(taken(&self::run("two-taken", 200_000, Source::Measured)?), []);
    Ok(())
}

/// Copies by themselves run no kernel, whatever the kernel would do.
#[test]
fn copies_are_not_credited_with_arithmetic() -> Result<(), StudyError> {
    let folder = Folder::new("report-copy");
    let mut writer = RunWriter::create(folder.path(), &manifest())?;
    let cell = cell("matmul", 1_000_000, "vulkan:0", Mode::Copy);
    let id = writer.begin(0, &cell)?;
    let sample = |index: u32| Sample { index, wall_ns: 1_000_000, ..Sample::default() };
    writer.samples(id, &(0..60).map(sample).collect::<Vec<_>>())?;
    let copied = Some(Copied { upload_bytes: 8_000_000, read_bytes: 4_000_000 });
    writer.finish(0, id, &cell, Facts { flops: Some(2_000_000_000), copied, ..Facts::of(Status::Ok) })?;
    let rows = made("rows", &alone(summarize(&read(folder.path())?, "copy", Source::Measured, |_| Vec::new())));
    assert!(rows.contains("| 12.00 GB/s |") && !rows.contains("MAC"), "{rows}");
    Ok(())
}

/// Estimates for other tools are made of the samples that our rows are made of.
#[test]
fn criterion_sees_the_samples_that_count() -> Result<(), StudyError> {
    let folder = Folder::new("report-criterion");
    let mut writer = RunWriter::create(folder.path(), &manifest())?;
    let cell = cell("gelu", 1_000, "cpu", Mode::Host);
    let id = writer.begin(0, &cell)?;
    let wall_ns = |at: u32| if at.is_multiple_of(5) { 9_000 } else { 1_000 };
    let sample = |at: u32| Sample { round: at / 5, index: at % 5, wall_ns: wall_ns(at), ..Sample::default() };
    writer.samples(id, &(0..30).map(sample).collect::<Vec<_>>())?;
    writer.finish(0, id, &cell, Facts::of(Status::Ok))?;
    let files = criterion::of_run(&read(folder.path())?);
    let estimates = files.iter().find(|file| file.path.ends_with("estimates.json")).expect("estimates");
    let estimates: serde_json::Value = serde_json::from_str(&estimates.text).expect("JSON");
    assert_eq!(estimates["mean"]["point_estimate"], 1000.0);
    Ok(())
}

#[test]
fn every_row_has_a_line_of_its_own() -> Result<(), StudyError> {
    let text = made("rows", &alone(run("one", 200_000, Source::Measured)?));
    for part in ["## Rows", "1.002 ms", "4.97x"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    Ok(())
}

/// B09 as the report maker prints it.
#[test]
fn markdown_of_published_rows_prints_their_true_ratios() {
    let text = made("markdown", &published()) + &made("rows", &published());
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

/// Parts, copies, pool and caches reach the tables that people and spreadsheets read.
#[test]
fn parts_copies_pool_and_caches_are_in_every_table() -> Result<(), StudyError> {
    let folder = Folder::new("report-memory");
    let mut writer = RunWriter::create(folder.path(), &manifest())?;
    let cell = cell("gelu", 1_000_000, "vulkan:0", Mode::Host);
    let id = writer.begin(0, &cell)?;
    let sample = |index: u32| Sample { index, wall_ns: 900_000, allocate_ns: Some(4_321), ..Sample::default() };
    writer.samples(id, &(0..60).map(sample).collect::<Vec<_>>())?;
    let facts = Facts {
        pool: Some(Pool { hits: 118, misses: 2, bytes: 16_000_000 }),
        made: Some(Made { calls: 61, plans: 3, pipelines: Some(5) }),
        copied: Some(Copied { upload_bytes: 4_000_000, read_bytes: 40 }),
        ..Facts::of(Status::Ok)
    };
    writer.finish(0, id, &cell, facts)?;
    let summary = alone(summarize(&read(folder.path())?, "memory", Source::Measured, |_| Vec::new()));
    let rows = made("rows", &summary);
    let parts_are_explained = "## Where the time went (lower quartiles; kernels by the device's clock)\n\nParts do not add up to the whole call: ";
    for part in [parts_are_explained, "| 4.321 µs |", "| 4 MB | 40 B | 118 | 2 | 16 MB | 3 in 61 calls | 5 |"] {
        assert!(rows.contains(part), "{part} is missing in\n{rows}");
    }
    let csv = made("csv", &summary);
    let (names, values) = csv.split_once('\n').expect("a header and a row");
    let field = |name: &str| {
        let at = names.split(',').position(|known| known == name).unwrap_or_else(|| panic!("{name} in {names}"));
        values.trim_end().split(',').nth(at).expect("as many as names").to_owned()
    };
    let wanted = [
        ("allocate_ns", "4321"),
        ("upload_bytes", "4000000"),
        ("read_bytes", "40"),
        ("pool_hits", "118"),
        ("pool_misses", "2"),
        ("pool_bytes", "16000000"),
        ("calls", "61"),
        ("plans_made", "3"),
        ("pipelines_made", "5"),
    ];
    for (name, value) in wanted {
        assert_eq!(field(name), value, "{name}");
    }
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

/// `wgpu:0` is something else on each machine and through each interface.
#[test]
fn merged_runs_call_devices_by_interface_and_adapter() -> Result<(), StudyError> {
    let named = |id: &str, backend: &str, device: &str| -> Result<Run, StudyError> {
        let mut run = run(id, 200_000, Source::Measured)?;
        let listed = &mut run.manifest.environment.devices[0];
        (listed.backend, listed.device) = (backend.into(), device.into());
        Ok(run)
    };
    let runs = [
        named("vulkan", "wgpu/vulkan", "NVIDIA H200")?,
        named("dx12", "wgpu/dx12", "NVIDIA H200")?,
        named("metal", "wgpu/metal", "Apple M4 Pro")?,
        named("gl", "wgpu/gl", "AMD Radeon RX 7900 (radeonsi, navi31)")?,
    ];
    let merged = merge(runs.iter().cloned().map(alone).collect())?;
    let of = |id: &str| merged.runs.iter().find(|run| run.id == id).expect("merged");
    for (id, name) in [
        ("vulkan", "vulkan NVIDIA H200"),
        ("dx12", "dx12 NVIDIA H200"),
        ("metal", "metal Apple M4 Pro"),
        ("gl", "gl AMD Radeon RX 7900"),
    ] {
        let run = of(id);
        assert_eq!((run.break_even[0].gpu.as_str(), run.break_even[0].cpu.as_str()), (name, "cpu"));
        assert_eq!(run.manifest.environment.devices[0].name, name);
        assert!(run.cells.iter().all(|row| [name, "cpu"].contains(&row.cell.device.as_str())));
    }
    let markdown = made("markdown", &merged);
    assert!(markdown.contains("dx12 NVIDIA H200") && !markdown.contains("vulkan:0"), "{markdown}");
    assert_eq!(merge(vec![merged.clone()])?, merged, "what has its name keeps it");
    // Where a verdict names a device, it is that one.
    let mut told = runs[0].clone();
    told.break_even[0].verdict =
        "none in [1, 2]: CPU at every size (1 of 4 sizes failed on vulkan:0, 2 of 4 sizes would take too long on vulkan:0)".into();
    let renamed = &merge(vec![alone(told)])?.runs[0].break_even[0].verdict;
    assert!(
        renamed.ends_with("failed on vulkan NVIDIA H200, 2 of 4 sizes would take too long on vulkan NVIDIA H200)"),
        "{renamed}"
    );
    // Two of the same in one machine are told apart.
    let mut twins = runs[0].clone();
    let mut second = twins.manifest.environment.devices[0].clone();
    second.name = "vulkan:1".into();
    twins.manifest.environment.devices.push(second);
    let names = |summary: &Summary| -> Vec<String> {
        summary.runs[0].manifest.environment.devices.iter().map(|device| device.name.clone()).collect()
    };
    assert_eq!(names(&merge(vec![alone(twins)])?), ["vulkan NVIDIA H200", "vulkan NVIDIA H200 #2"]);
    Ok(())
}

/// Four machines, three systems and five interfaces, CUDA among them, stand side by side: never pooled, with the winner where it is clear.
#[test]
fn machines_systems_and_interfaces_stand_side_by_side() -> Result<(), StudyError> {
    let on = |id: &str, os: &str, backend: &str, device: &str, gpu_ns: u64| -> Result<Run, StudyError> {
        let mut run = run(id, gpu_ns, Source::Measured)?;
        run.manifest.environment.os = os.into();
        let listed = &mut run.manifest.environment.devices[0];
        (listed.backend, listed.device) = (backend.into(), device.into());
        Ok(run)
    };
    let runs = [
        on("linux-cuda", "Linux (Debian 12)", "cuda", "NVIDIA H200", 100_000)?,
        on("linux-vulkan", "Linux (Debian 12)", "wgpu/vulkan", "NVIDIA H200", 200_000)?,
        on("windows-dx12", "Windows 11 (10.0.26100)", "wgpu/dx12", "NVIDIA GeForce RTX 4090", 300_000)?,
        on("windows-gl", "Windows 11 (10.0.26100)", "wgpu/gl", "AMD Radeon RX 7900", 400_000)?,
        on("macos-metal", "macOS 26.1", "wgpu/metal", "Apple M4 Pro", 300_050)?,
    ];
    let merged = merge(runs.iter().cloned().map(alone).collect())?;
    let kept: Vec<usize> = merged.runs.iter().map(|run| run.cells.len()).collect();
    assert_eq!((merged.runs.len(), kept), (5, vec![3; 5]), "no row is lost and none is made of two");
    let [winner] = &winners(&merged)[..] else { panic!("one size that all measured") };
    let places: Vec<(&str, &str)> =
        winner.places.iter().map(|place| (place.run.as_str(), place.device.as_str())).collect();
    let wanted = [
        ("linux-cuda", "cuda NVIDIA H200"),
        ("linux-vulkan", "vulkan NVIDIA H200"),
        ("windows-dx12", "dx12 NVIDIA GeForce RTX 4090"),
        ("macos-metal", "metal Apple M4 Pro"),
        ("windows-gl", "gl AMD Radeon RX 7900"),
    ];
    assert_eq!((places, winner.is_clear), (wanted.to_vec(), true));
    let markdown = made("markdown", &merged);
    for part in [
        "- Linux (Debian 12), kernel",
        "- Windows 11 (10.0.26100), kernel",
        "- macOS 26.1, kernel",
        "linux-cuda cuda NVIDIA H200 101.5 µs",
    ] {
        assert!(markdown.contains(part), "{part} in\n{markdown}");
    }
    // Windows and macOS by themselves are too near to call.
    let near = merge(runs[2..].iter().filter(|run| run.id != "windows-gl").cloned().map(alone).collect())?;
    assert!(!winners(&near)[0].is_clear && made("markdown", &near).contains("no clear winner; windows-dx12 dx12"));
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
