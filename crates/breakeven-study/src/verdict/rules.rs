//! Where operations may run: a file of rules, held against the rows of a run.

use serde::{Deserialize, Serialize};

use crate::schema::Schema;
use crate::{AUTOMATIC, CellSummary, StudyError};

/// The schema of a rule file.
pub type RulesSchema = Schema<3>;

/// Which devices may be chosen for which operations and sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Kind and version of the file.
    pub schema: RulesSchema,
    /// Every rule holds for every row that it names.
    pub rules: Vec<DeviceRule>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceRule {
    /// The operation, or "*" for all.
    pub operation: String,
    /// The smallest and the largest size in elements; both belong to it.
    #[serde(default = "any_size")]
    pub elements: [u64; 2],
    /// Devices on which it may run, by name: "cpu", "wgpu:0"; or by the name's part before the colon: "wgpu".
    pub devices: Vec<String>,
    /// Why, for whoever meets the rule.
    #[serde(default)]
    pub why: Option<String>,
}

fn any_size() -> [u64; 2] {
    [0, u64::MAX]
}

/// A row that ran where it must not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The row, where it ran, and the rule, in a sentence.
    pub what: String,
}

impl Rules {
    /// Reads the text of a rule file.
    pub fn parse(text: &str) -> Result<Rules, StudyError> {
        serde_json::from_str(text)
            .map_err(|error| StudyError::Content { path: "the rule file".into(), why: error.to_string() })
    }

    /// The rows of `cells` that break a rule. Only where the device was left open, or was not the one asked for, did anybody choose: a row
    /// that was measured on a device on purpose breaks nothing.
    pub fn broken(&self, cells: &[CellSummary]) -> Vec<Broken> {
        let pairs = cells.iter().flat_map(|row| self.rules.iter().map(move |rule| (row, rule)));
        pairs.filter_map(|(row, rule)| rule.broken_by(row)).collect()
    }
}

impl Rules {
    /// Rules for which nothing was looked at, in sentences: no row of `cells` that they name was left to the engine.
    pub fn without_rows(&self, cells: &[CellSummary]) -> Vec<String> {
        let was_open = |row: &&CellSummary| row.ran.is_some() && row.cell.device == AUTOMATIC;
        let is_without = |rule: &&DeviceRule| !cells.iter().filter(was_open).any(|row| rule.names(row));
        let said = |rule: &DeviceRule| {
            let what =
                if rule.operation == "*" { "all operations".to_string() } else { format!("`{}`", rule.operation) };
            format!(
                "the rule for {what} was held against nothing: no row that it names was left to the engine (device `{AUTOMATIC}`)"
            )
        };
        self.rules.iter().filter(is_without).map(said).collect()
    }
}

impl DeviceRule {
    fn names(&self, row: &CellSummary) -> bool {
        let cell = &row.cell;
        let [least, most] = self.elements;
        (self.operation == "*" || self.operation == cell.operation) && (least..=most).contains(&cell.elements)
    }

    fn allows(&self, device: &str) -> bool {
        let kind = device.split(':').next().unwrap_or(device);
        self.devices.iter().any(|allowed| allowed == device || allowed == kind)
    }

    fn broken_by(&self, row: &CellSummary) -> Option<Broken> {
        let was_chosen = |device: &&str| *device != row.cell.device;
        let ran = devices_of(row.ran.as_deref()?).filter(was_chosen).find(|device| !self.allows(device))?;
        if !self.names(row) {
            return None;
        }
        let allowed = self.devices.join(", ");
        let why = self.why.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
        Some(Broken { what: format!("{} ran on {ran}, and may run on {allowed} alone{why}", row.cell) })
    }
}

/// The devices that a row says it ran on: "cpu, Xeon (avx512); wgpu:0, NVIDIA H200 (vulkan); f16 products" names two. What else stands there is
/// no device.
pub(crate) fn devices_of(ran: &str) -> impl Iterator<Item = &str> {
    let first = |part: &'_ str| part.split_whitespace().next().map_or(0, str::len);
    let names = ran.split(';').map(str::trim).map(move |part| part[..first(part)].trim_end_matches(','));
    names.filter(|name| *name == "cpu" || name.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, Mode, Status};

    const FILE: &str = r#"{"schema": "breakeven.rules/1", "rules": [
        {"operation": "add", "elements": [0, 1000000], "devices": ["cpu"], "why": "a GPU never pays here"},
        {"operation": "*", "devices": ["cpu", "vulkan"]}]}"#;

    fn row(operation: &str, elements: u64, device: &str, ran: &str) -> CellSummary {
        let (shape, dtype) = (elements.to_string(), "f32".to_string());
        let cell =
            Cell { operation: operation.into(), elements, shape, dtype, device: device.into(), mode: Mode::Host };
        CellSummary { ran: Some(ran.into()), ..CellSummary::unmeasured(cell, Status::Ok) }
    }

    #[test]
    fn rows_are_held_against_the_rules() {
        let rules = Rules::parse(FILE).expect("a rule file");
        let check = |row: CellSummary, expected: usize| {
            let broken = rules.broken(std::slice::from_ref(&row));
            assert_eq!(broken.len(), expected, "{row:?} {broken:?}");
        };
        check(row("add", 1000, "auto", "cpu, 16 threads"), 0);
        check(row("add", 1000, "auto", "vulkan:0 NVIDIA H200"), 1);
        check(row("add", 1000, "cpu", "vulkan:0 NVIDIA H200"), 1);
        check(row("add", 1000, "vulkan:0", "vulkan:0 NVIDIA H200"), 0);
        check(row("add", 2_000_000, "auto", "vulkan:0 NVIDIA H200"), 0);
        check(row("gelu", 1000, "auto", "cuda:0 NVIDIA H200"), 1);
        let what = &rules.broken(&[row("add", 1000, "auto", "vulkan:0")])[0].what;
        assert_eq!(
            what,
            "add 1000 f32 on auto, host ran on vulkan:0, and may run on cpu alone (a GPU never pays here)"
        );
    }

    #[test]
    fn a_rule_that_names_no_row_is_told() {
        let rules = Rules::parse(FILE).expect("a rule file");
        let without = |row: CellSummary| rules.without_rows(&[row]).len();
        assert_eq!(without(row("add", 1000, "auto", "cpu, 16 threads")), 0);
        assert_eq!(without(row("gelu", 1000, "auto", "cpu, 16 threads")), 1, "nothing is known of `add`");
        assert_eq!(without(row("add", 1000, "cpu", "cpu, 16 threads")), 2, "nobody chose");
        let said = &rules.without_rows(&[])[0];
        assert!(said.starts_with("the rule for `add` was held against nothing"), "{said}");
    }

    #[test]
    fn a_rule_file_with_a_mistake_is_refused() {
        for text in [
            r#"{"schema": "breakeven.rules/2", "rules": []}"#,
            r#"{"schema": "breakeven.rules/1", "rules": [{"operation": "add", "device": ["cpu"]}]}"#,
            "[]",
        ] {
            assert!(Rules::parse(text).is_err(), "{text}");
        }
    }
}
