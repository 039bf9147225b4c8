//! The study as Markdown: what was found and on what, before the long lists.

mod rows;
pub mod times;
mod verdict;

use std::collections::BTreeMap;

use crate::breakeven::grouped;
use crate::merge::{Winner, winners};
use crate::stats::CONTENDED;
use crate::units::{rate, ratio, time};
use crate::{BreakEven, CellSummary, Crossing, Mode, Run, Source, Status, Summary, Target};

/// The text of `summary.md`: what was found, on one page.
pub fn make(summary: &Summary) -> String {
    text("# Break-even study\n", summary, |run| {
        let first = [verdict::short(run), times::times(run), Some(noise(run)), Some(environment(run))];
        let lists = [verdict::own_choice(run), verdict::verdicts(run), break_even(run), failures(run), targets(run)];
        [&first[..], &lists].concat()
    }) + &side_by_side(summary).map_or(String::new(), |section| format!("\n{section}"))
}

/// The text of `rows.md`: every row, with where its time went and how near it came to what the device can do.
pub fn every_row(summary: &Summary) -> String {
    text("# Break-even study: all rows\n", summary, |run| {
        vec![rows(run), rows::parts(run), rows::memory(run), rows::roofs(run)]
    })
}

fn text(title: &str, summary: &Summary, sections: impl Fn(&Run) -> Vec<Option<String>>) -> String {
    let of = |run| [heading(run, summary.runs.len() > 1), sections(run)].concat();
    let all = summary.runs.iter().flat_map(of).flatten();
    all.fold(title.to_string(), |text, section| text + "\n" + &section)
}

/// Whose rows follow, where that has to be said.
fn heading(run: &Run, is_one_of_several: bool) -> Vec<Option<String>> {
    let warning = match run.source {
        Source::Measured => None,
        Source::Published => Some("**Published by others, not measured by this program.**\n".to_string()),
        Source::Simulated => Some("**Simulated: no device ran.**\n".to_string()),
    };
    vec![is_one_of_several.then(|| format!("# {}\n", run.id)), warning]
}

/// A section with a table; `None` without rows.
fn table(title: &str, header: &[&str], rows: &[Vec<String>]) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let line =
        |cells: &[String]| format!("| {} |\n", cells.iter().map(|cell| escaped(cell)).collect::<Vec<_>>().join(" | "));
    let header: Vec<String> = header.iter().map(ToString::to_string).collect();
    let rule = format!("|{}\n", "---|".repeat(header.len()));
    let body: String = rows.iter().map(|row| line(row)).collect();
    Some(format!("## {title}\n\n{}{rule}{body}", line(&header)))
}

/// The section `table` with a sentence between its title and its rows: what is to be known before they are read.
fn introduced(table: Option<String>, sentence: &str) -> Option<String> {
    let table = table?;
    let (title, rows) = table.split_once("\n\n").expect("a section has a title");
    Some(format!("{title}\n\n{sentence}\n\n{rows}"))
}

fn escaped(cell: &str) -> String {
    cell.replace('|', "\\|").replace('\n', " ")
}

fn break_even(run: &Run) -> Option<String> {
    let size = |size: Option<u64>| size.map_or("never".to_string(), grouped);
    let row = |found: &BreakEven| {
        vec![
            found.operation.clone(),
            found.dtype.clone(),
            found.mode.to_string(),
            found.gpu.clone(),
            sizes(found.range),
            found.crossings.iter().map(crossing).collect::<Vec<_>>().join("; "),
            found.band.map(|[low, high]| format!("{} to {}", grouped(low), grouped(high))).unwrap_or_default(),
            size(found.wins_from),
            size(found.gpu_blob),
        ]
    };
    let header =
        ["operation", "dtype", "mode", "GPU", "sizes", "changes at (95%)", "within 5%", "GPU wins from", "GPU-BLOB"];
    let rows: Vec<Vec<String>> = run.break_even.iter().map(row).collect();
    introduced(table("Break-even, in elements", &header, &rows), THRESHOLDS)
}

/// What the last two columns of break-evens hold. How GPU-BLOB computes its own is in [`crate::breakeven::Curves::gpu_blob`].
const THRESHOLDS: &str = "\"GPU wins from\" is the smallest size from which the GPU is faster at all larger ones that were measured. \"GPU-BLOB\" is the offload threshold as \
GPU-BLOB (the GPU BLAS offload benchmark) defines it: the smallest size from which the GPU's rate stays above the CPU's, where one size at which it does not is passed over if \
the GPU's rate at the size before or after is above the CPU's at that one. The 95% are of rounds within this run: another run may differ by more.";

/// "1,000 to 2,000,000", or the only one.
fn sizes(range: [u64; 2]) -> String {
    match range {
        [_, 0] => "none on both".into(),
        [first, last] if first == last => grouped(last),
        [first, last] => format!("{} to {}", grouped(first), grouped(last)),
    }
}

fn crossing(crossing: &Crossing) -> String {
    let to = if crossing.to == crate::Side::Gpu { "GPU" } else { "CPU" };
    let [at, low, high] = [crossing.elements, crossing.low, crossing.high].map(grouped);
    format!("{at} ({low} to {high}) to {to}")
}

fn failures(run: &Run) -> Option<String> {
    let failed = run.cells.iter().filter(|row| row.status != Status::Ok);
    let row =
        |row: &CellSummary| vec![row.cell.to_string(), row.status.to_string(), row.why.clone().unwrap_or_default()];
    table("What has no time, and why", &["row", "status", "why"], &failed.map(row).collect::<Vec<_>>())
}

fn rows(run: &Run) -> Option<String> {
    let timed = run.cells.iter().filter(|row| row.q1_ns.is_some());
    let header = [
        "operation",
        "shape",
        "dtype",
        "mode",
        "device",
        "time (lower quartile)",
        "95%",
        "P90",
        "over the fastest",
        "rate",
        "samples",
        "notes",
    ];
    let fastest = fastest(run);
    table("Rows", &header, &timed.map(|row| row_cells(&fastest, row)).collect::<Vec<_>>())
}

fn row_cells(fastest: &Fastest<'_>, row: &CellSummary) -> Vec<String> {
    let cell = &row.cell;
    let interval = row.interval_ns.map(|[low, high]| format!("{} to {}", time(low), time(high)));
    vec![
        cell.operation.clone(),
        cell.shape.clone(),
        cell.dtype.clone(),
        cell.mode.to_string(),
        cell.device.clone(),
        row.q1_ns.map(time).unwrap_or_default(),
        interval.unwrap_or_default(),
        row.p90_ns.map(time).unwrap_or_default(),
        over_the_fastest(fastest, row).map(ratio).unwrap_or_default(),
        throughput(row).unwrap_or_default(),
        format!("{} ({} dropped)", row.samples, row.dropped),
        row.flags.join("; "),
    ]
}

/// The shortest time of each operation, shape, dtype and mode.
type Fastest<'a> = BTreeMap<(&'a str, &'a str, &'a str, Mode), f64>;

fn key(row: &CellSummary) -> (&str, &str, &str, Mode) {
    (&row.cell.operation, &row.cell.shape, &row.cell.dtype, row.cell.mode)
}

fn fastest(run: &Run) -> Fastest<'_> {
    let mut fastest = Fastest::new();
    for (row, time) in run.cells.iter().filter_map(|row| Some((row, row.q1_ns?))) {
        let least = fastest.entry(key(row)).or_insert(time);
        *least = least.min(time);
    }
    fastest
}

/// The time of `row` over that of the fastest device at its operation, shape, dtype and mode.
fn over_the_fastest(fastest: &Fastest<'_>, row: &CellSummary) -> Option<f64> {
    Some(row.q1_ns? / fastest.get(&key(row))?)
}

/// Products count multiplications with an addition, others arithmetic operations or elements. Copies by themselves run no kernel: they count
/// bytes.
fn throughput(row: &CellSummary) -> Option<String> {
    let seconds = row.q1_ns? / 1e9;
    if row.cell.mode == Mode::Copy {
        let copied = row.copied?;
        return Some(rate((copied.upload_bytes + copied.read_bytes) as f64 / seconds, "B"));
    }
    // "conv2d_16_to_32" is a convolution of other extents.
    let kind = row.cell.operation.split('_').next().unwrap_or_default();
    let is_product = ["matmul", "linear", "conv1d", "conv2d"].contains(&kind);
    Some(match row.flops {
        Some(flops) if is_product => rate(flops as f64 / 2.0 / seconds, "MAC"),
        Some(flops) => rate(flops as f64 / seconds, "FLOP"),
        None => rate(row.cell.elements as f64 / seconds, "elem"),
    })
}

fn noise(run: &Run) -> String {
    let noise = &run.noise;
    let verdict = format!("{:?}", noise.verdict).to_lowercase();
    let throttled = match noise.throttled {
        0 if noise.throttling_watched => "no sample was taken while a clock was lowered".to_string(),
        0 => "whether clocks were lowered was not watched".to_string(),
        samples => format!("{samples} samples were dropped as throttled"),
    };
    let floor = if noise.floor.is_finite() {
        format!("the same measured twice differs by up to {:.1}%", noise.floor * 100.0)
    } else {
        "what the same measured twice differs by is not known".into()
    };
    let drift = noise.sentinel_drift * 100.0;
    let contention = contention(run);
    let sensed = run.sensed.said();
    format!(
        "## Noise\n\n{verdict}: {floor}, the sentinel drifted by {drift:.1}%, {throttled}, {contention}.\n\n{sensed}\n"
    )
}

/// What other work took of the cores.
fn contention(run: &Run) -> String {
    let (noise, timed) = (&run.noise, run.cells.iter().filter(|row| row.q1_ns.is_some()).count());
    let stolen = noise.stolen.map(|share| format!(", a hypervisor kept {:.1}% of the cores' time", 100.0 * share));
    let rows = match noise.contended {
        0 if !noise.contention_watched => "whether other work held the cores was not watched".to_string(),
        rows => format!(
            "in {rows} of {timed} rows a thread was ready and had no core for {:.0}% of the time or more (other work, or a driver's own threads)",
            100.0 * CONTENDED
        ),
    };
    rows + &stolen.unwrap_or_default()
}

fn environment(run: &Run) -> String {
    let (manifest, environment) = (&run.manifest, &run.manifest.environment);
    let mut lines = vec![
        format!("- run {}, begun {}, breakeven {}, seed {}", run.id, manifest.started, manifest.version, manifest.seed),
        format!("- arguments: `{}`", manifest.arguments.join(" ")),
        format!("- fingerprint: {}", manifest.fingerprint),
        format!(
            "- {}, {} cores, {} threads, {}",
            environment.cpu, environment.cores, environment.threads, environment.isa
        ),
        format!("- {}, kernel {}", environment.os, environment.kernel),
    ];
    if let Some(governor) = &environment.governor {
        lines.push(format!("- governor: {governor}"));
    }
    if let Some(is_virtual) = environment.is_virtual {
        lines.push(format!("- virtual machine: {}", if is_virtual { "yes" } else { "no" }));
    }
    lines.extend(
        run.resumed.iter().map(|by| {
            format!("- gone on with at {}: `{}`, breakeven {}", by.started, by.arguments.join(" "), by.version)
        }),
    );
    let devices = environment.devices.iter();
    lines.extend(devices.map(|device| {
        format!("- {}: {}, {}, {} {}", device.name, device.device, device.kind, device.backend, device.driver)
    }));
    format!("## Environment\n\n{}\n", lines.join("\n"))
}

fn targets(run: &Run) -> Option<String> {
    let met = |target: &Target| match target.met {
        Some(true) => "met",
        Some(false) => "not met",
        None => "no answer",
    };
    let row = |target: &Target| {
        vec![
            target.who.clone(),
            target.claim.clone(),
            target.operation.clone(),
            target.got.map(ratio).unwrap_or_default(),
            met(target).to_string(),
            target.why.clone(),
        ]
    };
    let header = ["who", "claim", "operation", "got", "", "why"];
    table("Targets of others", &header, &run.targets.iter().map(row).collect::<Vec<_>>())
}

fn side_by_side(summary: &Summary) -> Option<String> {
    let row = |winner: &Winner| {
        let place = |place: &crate::merge::Place| format!("{} {} {}", place.run, place.device, time(place.q1_ns));
        let (first, others) = winner.places.split_first().expect("at least two");
        vec![
            winner.operation.clone(),
            winner.shape.clone(),
            winner.dtype.clone(),
            winner.mode.to_string(),
            if winner.is_clear { place(first) } else { format!("no clear winner; {}", place(first)) },
            others.iter().map(place).collect::<Vec<_>>().join("; "),
        ]
    };
    let header = ["operation", "shape", "dtype", "mode", "fastest", "others"];
    table("Runs side by side", &header, &winners(summary).iter().map(row).collect::<Vec<_>>())
}
