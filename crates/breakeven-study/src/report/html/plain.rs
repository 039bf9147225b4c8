//! What a reader without scripts sees: the verdicts, what failed, and how it was measured, as plain tables.

use std::fmt::Write as _;

use crate::units::time;
use crate::{CellSummary, Regretted, Run, Source, Status, Summary};

/// Failed cells that are listed here.
const FAILURES: usize = 200;

/// The essentials of all runs.
pub fn tables(summary: &Summary) -> String {
    let mut text = String::from("<h1>Break-even study</h1>\n<p>Charts need a browser that runs scripts.</p>\n");
    for run in &summary.runs {
        write_run(&mut text, run).expect("writing to a string does not fail");
    }
    text
}

fn write_run(text: &mut String, run: &Run) -> std::fmt::Result {
    writeln!(text, "<h2>{}</h2>", escaped(&run.id))?;
    if let Some(note) = note_of(run.source) {
        writeln!(text, "<p class=\"banner\"><strong>{note}</strong></p>")?;
    }
    let verdicts = run.break_even.iter().map(|row| {
        let mode = row.mode.to_string();
        [row.operation.clone(), row.dtype.clone(), mode, row.cpu.clone(), row.gpu.clone(), row.verdict.clone()]
    });
    write_table(text, "Break-even points", ["Operation", "Dtype", "Mode", "CPU", "GPU", "Verdict"], verdicts)?;
    if let Some(regret) = &run.regret {
        writeln!(text, "<p>The engine’s own choice: {}.</p>", escaped(&regret.verdict))?;
        let heads = ["Operation", "Shape", "Mode", "It chose", "Measured", "Best by hand", "Measured"];
        write_table(text, "Where the automatic choice was wrong or slow", heads, regret.rows.iter().map(choice_row))?;
    }
    let failed: Vec<&CellSummary> = run.cells.iter().filter(|cell| cell.status != Status::Ok).collect();
    let failures = failed.iter().take(FAILURES).map(|cell| failure_row(cell));
    write_table(text, "What failed", ["Operation", "Shape", "Device", "Mode", "Outcome", "Why"], failures)?;
    if let Some(more @ 1..) = failed.len().checked_sub(FAILURES) {
        writeln!(text, "<p>{more} more failed: they are in summary.csv.</p>")?;
    }
    write_table(text, "How it was measured", ["What", "Value"], facts(run).into_iter())
}

fn note_of(source: Source) -> Option<&'static str> {
    match source {
        Source::Measured => None,
        Source::Published => Some("Published figures, not measured here."),
        Source::Simulated => Some("Simulated data: no machine was measured."),
    }
}

fn choice_row(row: &Regretted) -> [String; 7] {
    let (mode, chose) = (row.mode.to_string(), row.chose.clone().unwrap_or_else(|| "not told".into()));
    let shape = format!("{} {}", row.shape, row.dtype);
    [row.operation.clone(), shape, mode, chose, time(row.chose_ns), row.best.clone(), time(row.best_ns)]
}

fn failure_row(cell: &CellSummary) -> [String; 6] {
    let what = &cell.cell;
    let why = cell.why.clone().unwrap_or_else(|| "no reason was recorded".into());
    let (mode, status) = (what.mode.to_string(), cell.status.to_string());
    [what.operation.clone(), format!("{} {}", what.shape, what.dtype), what.device.clone(), mode, status, why]
}

fn facts(run: &Run) -> Vec<[String; 2]> {
    let (manifest, environment) = (&run.manifest, &run.manifest.environment);
    let devices = environment.devices.iter().map(|device| format!("{}: {}", device.name, device.device));
    let pairs = [
        ("Started", manifest.started.clone()),
        ("Version", manifest.version.clone()),
        ("Arguments", manifest.arguments.join(" ")),
        ("Seed", manifest.seed.to_string()),
        ("CPU", environment.cpu.clone()),
        ("Devices", devices.collect::<Vec<_>>().join("; ")),
        ("Noise floor", floor(run.noise.floor)),
        ("Clocks and temperatures", run.sensed.said()),
    ];
    pairs.map(|(name, value)| [name.to_string(), value]).into()
}

fn floor(floor: f64) -> String {
    if floor.is_finite() { format!("{:.1}%", floor * 100.0) } else { "not known".into() }
}

/// A table of `rows`; nothing if there are none.
fn write_table<const N: usize>(
    text: &mut String,
    title: &str,
    heads: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> std::fmt::Result {
    let rows: Vec<[String; N]> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    write!(text, "<table><caption>{title}</caption><thead><tr>")?;
    heads.iter().try_for_each(|head| write!(text, "<th scope=\"col\">{head}</th>"))?;
    writeln!(text, "</tr></thead><tbody>")?;
    for row in &rows {
        write!(text, "<tr>")?;
        row.iter().try_for_each(|cell| write!(text, "<td>{}</td>", escaped(cell)))?;
        writeln!(text, "</tr>")?;
    }
    writeln!(text, "</tbody></table>")
}

/// `text` as it stands between tags.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_text() {
        assert_eq!(escaped("<b>&\"</b>"), "&lt;b&gt;&amp;&quot;&lt;/b&gt;");
    }
}
