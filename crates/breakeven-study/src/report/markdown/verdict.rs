//! What was found, in the words of somebody in a hurry: where a GPU pays, and whether breakeven's own choice was right.

use std::collections::BTreeMap;

use super::table;
use crate::breakeven::grouped;
use crate::units::time;
use crate::{BreakEven, Regretted, Run, Source};

/// One line a mode, and one for the engine's own choice.
pub fn short(run: &Run) -> Option<String> {
    let mut modes = BTreeMap::<_, Vec<&BreakEven>>::new();
    for found in &run.break_even {
        modes.entry((found.mode, &found.gpu)).or_default().push(found);
    }
    let mut lines: Vec<String> = modes.values().map(|found| pays(run, found)).collect();
    lines.extend(choice(run));
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
    let from =
        |found: &&BreakEven| Some(format!("{} {} from {}", found.operation, found.dtype, grouped(found.wins_from?)));
    let won: Vec<String> = found.iter().filter_map(from).collect();
    let where_it_pays = if won.is_empty() { String::new() } else { format!(" (elements): {}", won.join(", ")) };
    let all = found.len();
    format!(
        "- **{}** on {device}{hardware}: the {noun} pays for {} of {all} operations{where_it_pays}",
        found[0].mode,
        won.len()
    )
}

/// Nothing is said of runs that nobody could have measured it in.
fn choice(run: &Run) -> Option<String> {
    let is_open = run.source != Source::Published && !run.break_even.is_empty();
    let unknown =
        || "not measured: `scan` without `--device`, or with `--device cpu,auto,...`, measures it".to_string();
    let found = run.regret.as_ref().map(|regret| regret.verdict.clone());
    is_open.then(|| format!("- **breakeven's own choice**: {}", found.unwrap_or_else(unknown)))
}

/// Where the engine's choice took longer than the best device by hand.
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
    let rows: Vec<Vec<String>> = run.regret.iter().flat_map(|regret| &regret.rows).map(row).collect();
    table("Where the automatic choice was wrong or slow: more than 5% over the best device by hand", &header, &rows)
}

/// Every break-even in a sentence.
pub fn verdicts(run: &Run) -> Option<String> {
    let line = |found: &BreakEven| {
        format!("- **{} {} {}** on {}: {}\n", found.operation, found.dtype, found.mode, found.gpu, found.verdict)
    };
    let lines: String = run.break_even.iter().map(line).collect();
    (!lines.is_empty()).then(|| format!("## Verdict\n\n{lines}"))
}
