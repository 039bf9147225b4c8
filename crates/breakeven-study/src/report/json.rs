//! The summary itself, for programs.

use crate::Summary;

/// The text of `summary.json`.
pub fn make(summary: &Summary) -> String {
    serde_json::to_string(summary).expect("a summary has text keys alone") + "\n"
}
