//! Two run folders, measured at different times: cell by cell, without the help that turns give.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::paired::{BLOCK, Blocks, Rule, Sides, confirm, judge};
use super::{Exit, Verdict, exit_of};
use crate::folder::{Recorded, RecordedCell};
use crate::stats::{Kept, floor};
use crate::{Cell, Status, StudyDevice, StudyError};

/// What comparing two runs found.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// A verdict for each cell of A, in order.
    pub verdicts: Vec<(Cell, Verdict)>,
    /// Cells that only B has.
    pub new: Vec<Cell>,
    /// The larger noise floor of the two runs; `None` if neither tells.
    pub floor: Option<f64>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

impl Comparison {
    /// What it means for whoever asked. A noise floor above half the threshold widened it, so what is slower all the same is slower; nothing
    /// found is not nothing there then.
    pub fn exit(&self, rule: &Rule) -> Exit {
        let is_quiet = self.floor.is_none_or(|floor| super::passes_gate(floor, rule));
        let exit = exit_of(self.verdicts.iter().map(|(_, verdict)| verdict), rule.threshold);
        if is_quiet || exit != Exit::Ok { exit } else { Exit::Inconclusive }
    }
}

impl Comparison {
    /// What a comparison with a second run of B's program leaves of this one: SLOWER and FASTER must be seen in both.
    pub fn confirmed_by(mut self, again: &Comparison) -> Comparison {
        for (cell, verdict) in &mut self.verdicts {
            let second = again.verdicts.iter().find(|(other, _)| other == cell).map(|(_, verdict)| verdict);
            *verdict = confirm(verdict.clone(), second.unwrap_or(&Verdict::Missing));
        }
        self.floor = [self.floor, again.floor].into_iter().flatten().reduce(f64::max);
        self
    }

    /// The cells that are slower or faster, which one run alone does not show.
    pub fn to_confirm(&self) -> impl Iterator<Item = &Cell> {
        let is_change = |verdict: &Verdict| matches!(verdict, Verdict::Slower(_) | Verdict::Faster(_));
        self.verdicts.iter().filter(move |(_, verdict)| is_change(verdict)).map(|(cell, _)| cell)
    }
}

/// Compares run `b` with run `a`, which must come from the same machine in the same state, unless `across_machines`.
///
/// What differs between two runs as wholes (another clock, another neighbour) cannot be told from a change of the code. So the threshold
/// is widened by what the two runs' own halves differ, and a SLOWER should be confirmed by binaries that take turns.
pub fn compare_runs(a: &Recorded, b: &Recorded, rule: &Rule, across_machines: bool) -> Result<Comparison, StudyError> {
    let (ours, theirs) = (&a.manifest.fingerprint, &b.manifest.fingerprint);
    let is_same_machine = ours == theirs;
    if !is_same_machine && !across_machines {
        return Err(StudyError::Mixed(mismatch(a, b)));
    }
    let floor = [floor_of(a), floor_of(b)].into_iter().flatten().reduce(f64::max);
    let rule = Rule { threshold: rule.threshold + floor.unwrap_or(0.0), ..*rule };
    let of_b: BTreeMap<&Cell, &RecordedCell> = b.cells.iter().map(|cell| (&cell.cell, cell)).collect();
    let verdicts = a.cells.iter().map(|cell| (cell.cell.clone(), judge_cell(cell, of_b.get(&cell.cell), &rule)));
    let is_new = |cell: &&RecordedCell| a.cells.iter().all(|of_a| of_a.cell != cell.cell);
    let mut notes = Vec::new();
    if !is_same_machine {
        notes.push(format!("measured on different machines: {}", differences(a, b).join("; ")));
    }
    Ok(Comparison {
        verdicts: verdicts.collect(),
        new: b.cells.iter().filter(is_new).map(|cell| cell.cell.clone()).collect(),
        floor,
        notes,
    })
}

/// What differs between the machines of two runs, one sentence for each thing.
pub fn differences(a: &Recorded, b: &Recorded) -> Vec<String> {
    let json = |environment| serde_json::to_value(environment).unwrap_or_default();
    let (of_a, of_b) = (json(&a.manifest.environment), json(&b.manifest.environment));
    let fields = of_a.as_object().into_iter().flatten().filter(|(name, _)| *name != "devices");
    let differing = fields.filter(|(name, value)| of_b.get(name.as_str()) != Some(value));
    let said = |value: Option<&Value>| match value {
        Some(Value::String(text)) if !text.is_empty() => text.clone(),
        Some(Value::Null | Value::String(_)) | None => "not known".to_string(),
        Some(value) => value.to_string(),
    };
    let mut found: Vec<String> = differing
        .map(|(name, value)| format!("{name}: {} in A, {} in B", said(Some(value)), said(of_b.get(name))))
        .collect();
    found.extend(differing_devices(a, b));
    if found.is_empty() {
        found.push("nothing that is written down: another version of breakeven made one of the fingerprints".into());
    }
    found
}

fn differing_devices(a: &Recorded, b: &Recorded) -> Vec<String> {
    let [of_a, of_b] = [a, b].map(|run| &run.manifest.environment.devices);
    let said = |device: &StudyDevice| format!("{} ({}, {})", device.device, device.backend, device.driver);
    let one = |name: &str, devices: &[StudyDevice]| {
        devices.iter().find(|device| device.name == name).map_or("not there".to_string(), said)
    };
    let names: BTreeSet<&str> = of_a.iter().chain(of_b).map(|device| device.name.as_str()).collect();
    let pairs = names.into_iter().map(|name| (name, one(name, of_a), one(name, of_b)));
    pairs.filter(|(_, a, b)| a != b).map(|(name, a, b)| format!("{name}: {a} in A, {b} in B")).collect()
}

fn mismatch(a: &Recorded, b: &Recorded) -> String {
    let what = differences(a, b).join("; ");
    format!("these runs do not have the same fingerprint, so their times cannot be compared; they differ in {what}")
}

fn floor_of(run: &Recorded) -> Option<f64> {
    let rows: Vec<Vec<Vec<f64>>> = run.cells.iter().map(|cell| Kept::of(&cell.samples).rounds()).collect();
    floor(rows.iter().map(Vec::as_slice))
}

fn judge_cell(a: &RecordedCell, b: Option<&&RecordedCell>, rule: &Rule) -> Verdict {
    let Some(b) = b else { return Verdict::Missing };
    for (name, cell) in [("A", a), ("B", b)] {
        if cell.facts.status != Status::Ok {
            let why = cell.facts.why.as_deref().unwrap_or("without a reason");
            return Verdict::Invalid { why: format!("{} in {name}: {why}", cell.facts.status) };
        }
    }
    judge(&blocks(a, b), rule)
}

/// Blocks of both cells, paired by their place within the run.
fn blocks(a: &RecordedCell, b: &RecordedCell) -> Blocks {
    let blocks_of = |cell: &RecordedCell| -> Vec<Vec<f64>> {
        Kept::of(&cell.samples).wall_ns().chunks_exact(BLOCK).map(<[f64]>::to_vec).collect()
    };
    let mut blocks = Blocks::default();
    for (a_ns, b_ns) in blocks_of(a).iter().zip(&blocks_of(b)) {
        blocks.add(Sides { a_ns, b_ns });
    }
    blocks
}
