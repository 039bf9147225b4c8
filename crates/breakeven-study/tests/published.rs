//! The reports that others published, fed to the report maker: it cannot write what they wrote.

use breakeven_study::published::{held_against, runs};
use breakeven_study::units::{rate, ratio, time};
use breakeven_study::{Cell, CellSummary, Mode, Run, Source, Status, Target};

fn run(id: &str) -> Run {
    runs().into_iter().find(|run| run.id == id).expect("a known report")
}

/// A row of a million elements.
fn timed(operation: &str, device: &str, q1_ns: f64) -> CellSummary {
    let (operation, shape, dtype, device) = (operation.into(), "1000000".into(), "f32".into(), device.into());
    let cell = Cell { operation, elements: 1_000_000, shape, dtype, device, mode: Mode::Host };
    CellSummary { q1_ns: Some(q1_ns), ..CellSummary::unmeasured(cell, Status::Ok) }
}

/// The rows of an operation at a shape: the host's, the GPU's.
fn rows<'a>(run: &'a Run, operation: &str, shape: &str) -> [&'a CellSummary; 2] {
    let is_it = |row: &&CellSummary| row.cell.operation == operation && row.cell.shape == shape;
    let found: Vec<_> = run.cells.iter().filter(is_it).collect();
    found.try_into().expect("two rows")
}

/// B09: ratios and rates come from the times, with their units.
#[test]
fn b09_ratios_and_rates_follow_from_the_times() {
    let trueno = run("published-trueno-2025-11-17");
    let [scalar, gpu] = rows(&trueno, "add", "1000").map(|row| row.q1_ns.expect("published"));
    assert_eq!([time(gpu), time(scalar)], ["31.95 ms", "52.46 ns"]);
    assert_eq!(ratio(gpu / scalar), "609,035x");

    let [_, gpu] = rows(&run("published-trueno-2025-11-23"), "matmul", "100x100").map(Clone::clone);
    let macs = gpu.flops.expect("of a product") as f64 / 2.0;
    assert_eq!(rate(macs / gpu.q1_ns.expect("published") * 1e9, "MAC"), "0.24 GMAC/s");
}

#[test]
fn supervm_finds_the_cpu_at_every_size() {
    for id in ["published-supervm-2025-11-12", "published-supervm-2025-11-12-dx12"] {
        let [found] = &run(id).break_even[..] else { panic!("one operation") };
        assert!(found.verdict.ends_with("CPU at every size"), "{id}: {}", found.verdict);
        assert_eq!((found.wins_from, found.gpu_blob), (None, None));
    }
}

/// Seven compositions of batches, each as long as its tasks together, which `scan` measures under the same names and sizes.
#[test]
fn supervms_batches_are_taken_over_whole() {
    let batches = run("published-supervm-2025-11-12-batches");
    let found: Vec<(&str, u64, String)> = batches
        .cells
        .iter()
        .map(|row| (row.cell.operation.as_str(), row.cell.elements, time(row.q1_ns.expect("published"))))
        .collect();
    let wanted = [
        ("batch_uniform_32k", 128_000, "5.572 ms"),
        ("batch_uniform_64k", 256_000, "3.628 ms"),
        ("batch_similar", 103_000, "2.812 ms"),
        ("batch_alternating", 120_000, "2.176 ms"),
        ("batch_diverse", 360_000, "4.752 ms"),
        ("batch_large", 4_000_000, "17.68 ms"),
        ("batch_large_alternating", 2_304_000, "11.93 ms"),
    ];
    assert_eq!(found, wanted.map(|(name, elements, time)| (name, elements, time.to_string())));
    assert!(
        batches.cells.iter().all(|row| row.flags[1].contains("printed for each task")) && batches.break_even.is_empty()
    );
}

/// Both tables of `AiDotNet` say that the CPU's library wins everything, whatever is claimed elsewhere.
#[test]
fn aidotnets_tables_have_both_libraries() {
    for (id, library, product) in [
        ("published-aidotnet-2025-12-28", "torchsharp", "9.80x"),
        ("published-aidotnet-2025-12-28-tensorflow", "tensorflow", "22.6x"),
    ] {
        let run = run(id);
        let [host, gpu] = rows(&run, "matmul", "512x512");
        assert_eq!((host.cell.device.as_str(), run.cells.len()), (library, 22));
        // As the study calls it, so that both stand side by side.
        rows(&run, "conv2d_16_to_32", "1x16x64x64 32x16x3x3");
        assert_eq!(ratio(gpu.q1_ns.expect("published") / host.q1_ns.expect("published")), product);
        assert!(run.break_even.iter().all(|found| found.wins_from.is_none()), "{id}");
        let adds = run.targets.iter().find(|target| target.claim == "50x over the CPU at 1,000,000").expect("a claim");
        assert_eq!(adds.met, Some(false), "{id}: {}", adds.why);
    }
}

#[test]
fn truenos_own_rows_do_not_bear_its_goals_out() {
    let met = |id: &str, operation: &str, claim: &str| {
        let targets = run(id).targets;
        let target = targets.iter().find(|target| target.operation == operation && target.claim == claim);
        target.expect("a claim about it").met
    };
    let (first, second) = ("published-trueno-2025-11-17", "published-trueno-2025-11-23");
    assert_eq!(met(second, "add", "20-50x over scalar from 1,000,000"), Some(false));
    assert_eq!(met(second, "matmul", "20-50x over scalar"), Some(true));
    assert_eq!(met(first, "matmul", "20-50x over scalar"), Some(false));
}

#[test]
fn published_rows_are_marked_as_such() {
    for run in runs() {
        assert_eq!(run.source, Source::Published);
        assert!(run.cells.iter().all(|row| row.ran.as_deref().is_some_and(|ran| ran.contains("says"))));
    }
}

/// A scalar loop is what claims over scalar are about, and no baseline for those over SIMD or over the CPU.
#[test]
fn claims_over_the_cpu_are_not_held_against_a_scalar_loop() {
    let got = |cells: &[CellSummary], claim: &str| {
        let targets = held_against("", cells);
        targets.into_iter().find(|target| target.claim == claim).expect("a claim about 1,000,000 elements").got
    };
    let (over_scalar, over_simd) = ("20-50x over scalar from 1,000,000", "10-25x over AVX2 from 1,000,000");
    let (over_cpu, faster) = ("50x over the CPU at 1,000,000", "GPU faster from 100,000");
    let mut cells = vec![timed("add", "scalar", 1e6), timed("add", "vulkan:0", 1e5)];
    assert_eq!(got(&cells, over_scalar), Some(10.0));
    for claim in [over_simd, over_cpu, faster] {
        assert_eq!(got(&cells, claim), None, "{claim}");
    }
    cells.push(timed("add", "cpu", 2e5));
    assert_eq!(got(&cells, over_scalar), Some(10.0));
    for claim in [over_simd, over_cpu, faster] {
        assert_eq!(got(&cells, claim), Some(2.0), "{claim}");
    }
}

/// Why a claim is met or not follows from what was measured of the GPU's call; a table of times alone does not tell.
#[test]
fn targets_say_what_decides() {
    let why = |cells: &[CellSummary], claim: &str| {
        let targets = held_against("Trueno", cells);
        targets.into_iter().find(|target| target.claim == claim).expect("a claim about 1,000,000 elements").why
    };
    let mut cells = vec![timed("add", "cpu", 4e5), timed("add", "vulkan:0", 1.5e6)];
    let over_simd = "10-25x over AVX2 from 1,000,000";
    let (times, over) =
        ("1,000,000 elements, host to host: cpu 400 µs, vulkan:0 1.5 ms; ", "the CPU used SIMD and its threads");
    assert_eq!(why(&cells, over_simd), format!("{times}where the GPU's time went is not known; {over}"));
    let mut copy = timed("add", "vulkan:0", 1.2e6);
    copy.cell.mode = Mode::Copy;
    cells.push(copy);
    assert_eq!(why(&cells, over_simd), format!("{times}the copies alone take 1.2 ms, longer than all of cpu; {over}"));
    let over_scalar = why(&cells, "20-50x over scalar from 1,000,000");
    assert!(
        over_scalar.ends_with("longer than all of cpu; this is over SIMD and all threads, not over a scalar loop"),
        "{over_scalar}"
    );
}

/// The goals over AVX2 that stand at the head of its benchmark are held against sizes of their own.
#[test]
fn truenos_goals_over_simd_are_all_there() {
    let of_size = |elements: u64, device: &str, q1_ns: f64| {
        let mut row = timed("add", device, q1_ns);
        (row.cell.elements, row.cell.shape) = (elements, elements.to_string());
        row
    };
    let sizes = [(10_000, 1.9), (100_000, 5.0), (1_000_000, 9.0)];
    let cells: Vec<CellSummary> = sizes
        .into_iter()
        .flat_map(|(n, times)| [of_size(n, "cpu", 1e5 * times), of_size(n, "vulkan:0", 1e5)])
        .collect();
    let found: Vec<(String, Option<bool>)> = held_against("Trueno", &cells)
        .into_iter()
        .filter(|target| target.claim.contains("AVX2"))
        .map(|target| (target.claim, target.met))
        .collect();
    let wanted = [
        ("2-5x over AVX2 at 10,000", Some(false)),
        ("5-15x over AVX2 at 100,000", Some(true)),
        ("10-25x over AVX2 from 1,000,000", Some(false)),
    ];
    assert_eq!(found, wanted.map(|(claim, met)| (claim.to_string(), met)));
}

#[test]
fn a_claim_without_rows_is_neither_met_nor_missed() {
    let targets = held_against("", &[]);
    let is_open = |target: &Target, why: &str| target.met.is_none() && target.got.is_none() && target.why == why;
    assert!(targets.len() >= 10 && targets.iter().all(|target| is_open(target, "nothing was measured")));
    let on_cpu = held_against("", &[timed("add", "cpu", 2e5)]);
    assert!(on_cpu.iter().all(|target| is_open(target, "no GPU was measured")), "{on_cpu:?}");
    let elsewhere = held_against("AiDotNet", &[timed("tanh", "cpu", 2e5), timed("tanh", "wgpu:0", 1e5)]);
    let why = "matmul of 4,194,304 elements was not measured from host to host";
    assert!(elsewhere.iter().any(|target| is_open(target, why)), "{elsewhere:?}");
}

/// Volta's claim is about twenty calls, not about one graph of twenty additions.
#[test]
fn the_claim_about_many_calls_is_held_against_many_calls() {
    let timed = |operation: &str, q1_ns: f64| {
        let (operation, shape, dtype) = (operation.into(), "5120".into(), "f32".into());
        let cell = Cell { operation, elements: 5_120, shape, dtype, device: "vulkan:0".into(), mode: Mode::Host };
        CellSummary { q1_ns: Some(q1_ns), ..CellSummary::unmeasured(cell, Status::Ok) }
    };
    let got = |cells: &[CellSummary]| held_against("Volta", cells).remove(0).got;
    let mut cells = vec![timed("many_small_calls", 2e5), timed("single_large_relu", 1e5)];
    assert_eq!(got(&cells), None);
    cells.push(timed("many_small_relus", 2e6));
    assert_eq!(got(&cells), Some(20.0));
    for row in &mut cells {
        row.parts.wait_ns = row.q1_ns.map(|ns| ns / 2.0);
    }
    let why = held_against("Volta", &cells).remove(0).why;
    let waits = "waiting for the device, its kernel and transfers among that, takes";
    assert_eq!(
        why,
        format!("on vulkan:0: 2 ms and 100 µs, 20.0x; of the many, {waits} 1 ms; of the one, {waits} 50 µs")
    );
}
