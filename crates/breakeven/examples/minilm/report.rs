//! What was found, as a table to read and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use crate::batch::Batch;
use crate::check::{Error, TOLERANCE};

const AUTOMATIC: &str = "auto";

/// One size and its times.
#[derive(Serialize)]
pub struct Row {
    batch: usize,
    length: usize,
    /// Milliseconds on each device.
    ms: BTreeMap<String, f64>,
    auto_ms: Option<f64>,
    chosen: String,
    reason: String,
}

impl Row {
    /// `times` of the devices and of automatic placement, by name.
    pub fn new(batch: &Batch, times: Vec<(String, Duration)>, choice: Choice) -> Row {
        let mut ms: BTreeMap<String, f64> = times.into_iter().map(|(name, t)| (name, t.as_secs_f64() * 1e3)).collect();
        let auto_ms = ms.remove(AUTOMATIC);
        let Choice { devices: chosen, reason } = choice;
        Row { batch: batch.texts, length: batch.length, ms, auto_ms, chosen, reason }
    }
}

/// Where the engine placed a batch.
pub struct Choice {
    pub devices: String,
    /// As the plan explains it, in a word.
    pub reason: String,
}

/// The last line of stdout under `--json`.
pub fn json(errors: &[Error], table: &[Row]) -> String {
    let max_abs_error: BTreeMap<&str, f64> = errors.iter().map(|e| (e.target.as_str(), e.max_abs)).collect();
    serde_json::json!({ "max_abs_error": max_abs_error, "table": table }).to_string()
}

/// One line for each device that was checked.
pub fn checked(error: &Error) -> String {
    let verdict = if error.is_within_tolerance() { "ok" } else { "WRONG" };
    let Error { target, texts, max_abs } = error;
    format!("  {target:<12} max_abs_error {max_abs:.2e} over {texts} texts: {verdict} (at most {TOLERANCE:.0e})")
}

/// Milliseconds by size and device.
pub fn table(rows: &[Row]) -> String {
    let names: Vec<&String> = rows.first().map(|row| row.ms.keys().collect()).unwrap_or_default();
    let widths: Vec<usize> = names.iter().map(|name| name.len().max(10)).collect();
    let mut text = "batch x length".to_owned();
    for (name, width) in names.iter().zip(&widths) {
        let _ = write!(text, "  {name:>width$}");
    }
    let _ = writeln!(text, "  {:>10}  auto chose", "auto");
    for row in rows {
        let _ = write!(text, "{:>5} x {:<6}", row.batch, row.length);
        for (name, width) in names.iter().zip(&widths) {
            let _ = write!(text, "  {:>width$}", milliseconds(row.ms.get(*name)));
        }
        let _ = writeln!(text, "  {:>10}  {} ({})", milliseconds(row.auto_ms.as_ref()), row.chosen, row.reason);
    }
    text
}

fn milliseconds(value: Option<&f64>) -> String {
    value.map_or_else(|| "-".into(), |ms| format!("{ms:.2} ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        let batch = Batch::new(&vec![vec![1; 32]; 8]);
        let times = [("cpu", 12), ("wgpu:0", 3), ("auto", 3)].map(|(n, ms)| (n.to_owned(), Duration::from_millis(ms)));
        Row::new(&batch, times.to_vec(), Choice { devices: "wgpu:0".into(), reason: "cut".into() })
    }

    #[test]
    fn the_table_names_every_device() {
        let expected = "\
batch x length         cpu      wgpu:0        auto  auto chose
    8 x 32        12.00 ms     3.00 ms     3.00 ms  wgpu:0 (cut)
";
        assert_eq!(table(&[row()]), expected);
    }

    #[test]
    fn json_is_one_line() {
        let error = Error { target: "cpu".into(), texts: 1, max_abs: 0.5 };
        let row =
            r#"{"auto_ms":3.0,"batch":8,"chosen":"wgpu:0","length":32,"ms":{"cpu":12.0,"wgpu:0":3.0},"reason":"cut"}"#;
        let expected = format!(r#"{{"max_abs_error":{{"cpu":0.5}},"table":[{row}]}}"#);
        assert_eq!(json(&[error], &[self::row()]), expected);
    }
}
