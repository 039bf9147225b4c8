//! What was found, in the words of somebody in a hurry: where a GPU pays, and whether breakeven's own choice was right.

use std::collections::BTreeMap;

use super::{table, times};
use crate::breakeven::grouped;
use crate::units::time;
use crate::{BreakEven, Regret, Regretted, Run, Side, Source};

/// One line a mode, and one for the engine's own choice.
pub fn short(run: &Run) -> Option<String> {
    if run.cells.is_empty() {
        return Some("## In short\n\nNo cell of this run is finished, so nothing was measured.\n".to_string());
    }
    let mut modes = BTreeMap::<_, Vec<&BreakEven>>::new();
    for found in &run.break_even {
        modes.entry((found.mode, &found.gpu)).or_default().push(found);
    }
    let mut lines: Vec<String> = modes.values().map(|found| pays(run, found)).collect();
    lines.extend(choice(run));
    let alone =
        "- **no break-even**: no size was measured on the CPU and on another device; what operations take is below";
    lines.extend(times::is_alone(run).then(|| alone.to_string()));
    (!lines.is_empty()).then(|| format!("## In short\n\n{}\n", lines.join("\n")))
}

/// "- **host** on wgpu:0 (NVIDIA H200): the GPU pays for 1 of 20 operations: matmul f32 from 364,227 elements".
fn pays(run: &Run, found: &[&BreakEven]) -> String {
    let device = &found[0].gpu;
    let listed = run.manifest.environment.devices.iter().find(|listed| listed.name == *device);
    // Merged runs call devices by their hardware.
    let is_named = |name: &&str| !device.contains(*name);
    let hardware = listed.map(|listed| listed.device.as_str()).filter(is_named);
    let hardware = hardware.map(|name| format!(" ({name})")).unwrap_or_default();
    let noun = if listed.is_some_and(|listed| listed.kind == "software") { "software device, no GPU," } else { "GPU" };
    let line = |found: &&BreakEven| Some(format!("{} {} {}", found.operation, found.dtype, sizes_won(found)?));
    let won: Vec<String> = found.iter().filter_map(line).collect();
    let where_it_pays = if won.is_empty() { String::new() } else { format!(" (elements): {}", won.join(", ")) };
    let all = found.len();
    format!(
        "- **{}** on {device}{hardware}: the {noun} pays for {} of {all} operations{where_it_pays}",
        found[0].mode,
        won.len()
    )
}

/// The sizes at which the GPU wins, by the same crossings as the verdict: "from 93,037 to 596,376". `None` if there are none.
fn sizes_won(found: &BreakEven) -> Option<String> {
    if found.crossings.is_empty() {
        let from = grouped(found.wins_from?);
        // Of what begins at a single size nothing is known.
        let is_range = found.range[0] < found.range[1];
        return Some(if is_range { format!("from {from}") } else { format!("at {from}") });
    }
    let (mut from, mut won) = (None, Vec::new());
    for (index, crossing) in found.crossings.iter().enumerate() {
        let at = grouped(crossing.elements);
        match (crossing.to, from.take()) {
            (Side::Gpu, _) => from = Some(at),
            (Side::Cpu, Some(from)) => won.push(format!("from {from} to {at}")),
            (Side::Cpu, None) if index == 0 => won.push(format!("up to {at}")),
            (Side::Cpu, None) => {}
        }
    }
    won.extend(from.map(|from| format!("from {from}")));
    (!won.is_empty()).then(|| won.join(" and "))
}

/// Nothing is said of runs that nobody could have measured it in.
fn choice(run: &Run) -> Option<String> {
    let is_open = run.source != Source::Published && !run.break_even.is_empty();
    let unknown =
        || "not measured: `scan` without `--device`, or with `--device cpu,auto,...`, measures it".to_string();
    let found = run.regret.as_ref().map(|regret| regret.verdict.clone());
    is_open.then(|| format!("- **breakeven's own choice**: {}", found.unwrap_or_else(unknown)))
}

/// Where the engine's choice took longer than the best device by hand: row by row where another device was the better one, and otherwise in a
/// sentence, since nothing was chosen wrong there.
pub fn own_choice(run: &Run) -> Option<String> {
    let (none, foretold) = ("", |ns: Option<f64>| ns.map(time).unwrap_or_default());
    let row = |row: &Regretted| {
        vec![
            row.operation.clone(),
            row.shape.clone(),
            row.dtype.clone(),
            row.mode.to_string(),
            row.chose.clone().unwrap_or_else(|| none.into()),
            time(row.chose_ns),
            foretold(row.chose_predicted_ns),
            row.best.clone(),
            time(row.best_ns),
            foretold(row.best_predicted_ns),
            format!("{:+.1}%", row.regret * 100.0),
        ]
    };
    let header = [
        "operation",
        "shape",
        "dtype",
        "mode",
        "it chose",
        "measured",
        "predicted",
        "best by hand",
        "measured",
        "predicted",
        "longer by",
    ];
    let regret = run.regret.as_ref().filter(|regret| regret.slower > 0)?;
    let rows: Vec<Vec<String>> = regret.rows.iter().filter(|row| row.is_elsewhere()).map(row).collect();
    let title = "Where the automatic choice was wrong or slow: more than 5% over the best device by hand";
    let listed = table(title, &header, &rows).unwrap_or_else(|| format!("## {title}\n"));
    Some(format!("{listed}{}", slow_alone(regret).map(|said| format!("\n{said}\n")).unwrap_or_default()))
}

/// "In 11 more cells nothing better was left to choose ...".
fn slow_alone(regret: &Regret) -> Option<String> {
    let count = regret.slower - regret.wrong_device;
    let worst = regret.rows.iter().filter(|row| !row.is_elsewhere()).map(|row| row.regret).fold(0.0, f64::max);
    let cells = if count == 1 { "cell" } else { "cells" };
    (count > 0).then(|| {
        format!(
            "In {count} {cells} no other device is known to have been the better one and it took more than 5% longer all the same, up to {:.1}%: \
             noise, or what choosing costs.",
            worst * 100.0
        )
    })
}

/// Every break-even in a sentence.
pub fn verdicts(run: &Run) -> Option<String> {
    let line = |found: &BreakEven| {
        format!("- **{} {} {}** on {}: {}\n", found.operation, found.dtype, found.mode, found.gpu, found.verdict)
    };
    let lines: String = run.break_even.iter().map(line).collect();
    (!lines.is_empty()).then(|| format!("## Verdict\n\n{lines}"))
}
