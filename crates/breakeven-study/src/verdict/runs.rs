//! Two run folders, measured at different times: cell by cell, without the help that turns give.
//!
//! Nothing pairs a block of one run with one of the other, so all of them are held against all by their ranks; and a run as a whole can differ from
//! another, which no block of it shows. What cells differ by that did not change tells of that, and so does the sentinel.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::paired::{BLOCK, Rule, confirm, decide};
use super::{Change, Exit, Verdict, exit_of, heat};
use crate::folder::{Recorded, RecordedCell};
use crate::stats::{Kept, Sorted, UNUSABLE, floor, shift, spread};
use crate::{Cell, Status, StudyDevice, StudyError};

/// What comparing two runs found.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// A verdict for each cell that A tried, in order.
    pub verdicts: Vec<(Cell, Verdict)>,
    /// Cells that B alone tried.
    pub new: Vec<Cell>,
    /// What the two runs may differ by without any change; `None` if nothing tells.
    pub floor: Option<f64>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// Whether SLOWER and FASTER were seen in a second run, too.
    pub is_confirmed: bool,
}

impl Comparison {
    /// What it means for whoever asked. SLOWER that nothing confirmed shows nothing: two runs differ by when they were measured, too. Nor does nothing
    /// found above a noise floor of half the threshold.
    pub fn exit(&self, rule: &Rule) -> Exit {
        let is_quiet = self.floor.is_none_or(|floor| super::passes_gate(floor, rule));
        let is_shown = |verdict: &&Verdict| self.is_confirmed || !matches!(verdict, Verdict::Slower(_));
        let verdicts = || self.verdicts.iter().map(|(_, verdict)| verdict);
        let exit = exit_of(verdicts().filter(is_shown), rule.threshold);
        let is_all_shown = is_quiet && verdicts().all(|verdict| is_shown(&verdict));
        exit.and(if is_all_shown { Exit::Ok } else { Exit::Inconclusive })
    }

    /// What a comparison with a second run of B's program leaves of this one: SLOWER and FASTER must be seen in both.
    pub fn confirmed_by(mut self, again: &Comparison) -> Comparison {
        for (cell, verdict) in &mut self.verdicts {
            let second = again.verdicts.iter().find(|(other, _)| other == cell).map(|(_, verdict)| verdict);
            *verdict = confirm(verdict.clone(), second.unwrap_or(&Verdict::Missing));
        }
        self.floor = [self.floor, again.floor].into_iter().flatten().reduce(f64::max);
        self.is_confirmed = true;
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
/// is widened by the largest of what rounds of a run differ by, what unchanged cells of both do, and what the sentinel does; and a SLOWER is
/// none for [`Comparison::exit`] until a second run of B's program confirms it.
pub fn compare_runs(a: &Recorded, b: &Recorded, rule: &Rule, across_machines: bool) -> Result<Comparison, StudyError> {
    let (ours, theirs) = (&a.manifest.fingerprint, &b.manifest.fingerprint);
    let is_same_machine = ours == theirs;
    if !is_same_machine && !across_machines {
        return Err(StudyError::Mixed(mismatch(a, b)));
    }
    let of_b: BTreeMap<&Cell, &RecordedCell> = b.cells.iter().map(|cell| (&cell.cell, cell)).collect();
    let tried = a.cells.iter().filter(|cell| was_tried(cell));
    let found: Vec<(&Cell, Found)> = tried.map(|cell| (&cell.cell, found(cell, of_b.get(&cell.cell)))).collect();
    let is_enough = |change: &&Change| change.blocks >= rule.least_blocks;
    let enough = found.iter().filter_map(|(_, found)| found.as_ref().ok().filter(is_enough));
    let changes: Vec<f64> = enough.map(|change| change.ratio.ln()).collect();
    let floors = Floors {
        within: [floor_of(a), floor_of(b)].into_iter().flatten().reduce(f64::max),
        between: spread(&changes),
        sentinel: sentinel(a, b),
    };
    let rule = Rule { threshold: rule.threshold + floors.largest().unwrap_or(0.0), ..*rule };
    let verdict = |found: Found| found.map_or_else(|verdict| verdict, |change| judge_change(change, &rule));
    let mut verdicts: Vec<(Cell, Verdict)> =
        found.into_iter().map(|(cell, found)| (cell.clone(), verdict(found))).collect();
    doubt_few(&mut verdicts, changes.len());
    if let Some(floor) = floors.largest().filter(|floor| *floor >= UNUSABLE) {
        doubt_all(&mut verdicts, floor);
    }
    let coverage = Coverage::of(a, b);
    let said = std::iter::once(floors.said(&rule)).chain(coverage.said());
    let mut notes: Vec<String> = said.chain(heat::differing(a, b)).collect();
    if !is_same_machine {
        notes.push(format!("measured on different machines: {}", differences(a, b).join("; ")));
    }
    Ok(Comparison { verdicts, new: coverage.new, floor: floors.largest(), notes, is_confirmed: false })
}

/// Whether the cell was more than a row that says why it is not measured: what a device does not offer, or what there was no time for.
fn was_tried(cell: &RecordedCell) -> bool {
    !matches!(cell.facts.status, Status::Unsupported | Status::Skipped)
}

/// What is held against nothing.
struct Coverage {
    /// Cells that B alone tried.
    new: Vec<Cell>,
    /// How many cells no run tried.
    neither: usize,
}

impl Coverage {
    fn of(a: &Recorded, b: &Recorded) -> Coverage {
        let all: BTreeSet<&Cell> = a.cells.iter().chain(&b.cells).map(|cell| &cell.cell).collect();
        let tried = |run: &'_ Recorded| -> BTreeSet<Cell> {
            run.cells.iter().filter(|cell| was_tried(cell)).map(|cell| cell.cell.clone()).collect()
        };
        let (of_a, of_b) = (tried(a), tried(b));
        let neither = all.len() - of_a.union(&of_b).count();
        Coverage { new: of_b.difference(&of_a).cloned().collect(), neither }
    }

    /// In sentences.
    fn said(&self) -> Vec<String> {
        let cells = |count: usize| if count == 1 { "1 cell was".to_string() } else { format!("{count} cells were") };
        let said =
            |count: usize, where_to: &str| (count > 0).then(|| format!("{} measured in {where_to}", cells(count)));
        let why = "neither run, as their rows say: a device does not offer them, or there was no time for them";
        [said(self.neither, why), said(self.new.len(), "B alone, and are held against nothing")]
            .into_iter()
            .flatten()
            .collect()
    }
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

/// What one cell's time changed by, or the verdict that says why nothing can be said.
type Found = Result<Change, Verdict>;

fn found(a: &RecordedCell, b: Option<&&RecordedCell>) -> Found {
    // What there was no time for any more is lost, and not wrong.
    let Some(b) = b.filter(|b| !b.facts.is_left_out()) else { return Err(Verdict::Missing) };
    for (name, cell) in [("A", a), ("B", b)] {
        if cell.facts.status != Status::Ok {
            let why = cell.facts.why.as_deref().unwrap_or("without a reason");
            return Err(Verdict::Invalid { why: format!("{} in {name}: {why}", cell.facts.status) });
        }
    }
    let [a, b] = [a, b].map(blocks);
    let count = a.len().min(b.len());
    let Some(found) = shift(&a, &b) else { return Err(Verdict::Ambiguous { change: None, why: too_few(count) }) };
    let [ratio, low, high] = [found.middle, found.low, found.high].map(f64::exp);
    Ok(Change { ratio, low, high, blocks: count })
}

/// Few rounds are taken within a second, in which a whole cell is as slow as the machine is then.
fn judge_change(change: Change, rule: &Rule) -> Verdict {
    if change.blocks < rule.least_blocks {
        let why = format!("{}; {} are needed", too_few(change.blocks), rule.least_blocks);
        return Verdict::Ambiguous { change: Some(change), why };
    }
    decide(change, rule)
}

/// So many cells of a hundred come out slower in one process of the same program than in another, and as many faster, by more than what the other
/// cells differ by: where memory lies and which threads are awake stays as it is as long as a process lives.
const OF_PROCESSES: f64 = 0.01;
/// By no more than this, which no such cell was seen to reach: the largest was a third.
const MOST_OF_PROCESSES: f64 = 1.5;

/// Slower or faster cells that are no more than processes would give by chance, in more than one comparison of 20, are doubtful.
fn doubt_few(verdicts: &mut [(Cell, Verdict)], judged: usize) {
    let sides: [fn(&Verdict) -> Option<Change>; 2] = [
        |verdict| if let Verdict::Slower(change) = verdict { Some(*change) } else { None },
        |verdict| if let Verdict::Faster(change) = verdict { Some(*change) } else { None },
    ];
    for side in sides {
        let count = verdicts.iter().filter(|(_, verdict)| side(verdict).is_some()).count();
        if probability_of(count, judged as f64 * OF_PROCESSES) <= 0.05 {
            continue;
        }
        for (_, verdict) in verdicts.iter_mut() {
            let is_possible = |change: &Change| change.ratio.max(1.0 / change.ratio) < MOST_OF_PROCESSES;
            if let Some(change) = side(verdict).filter(is_possible) {
                let why = format!(
                    "one of {count} in {judged} cells, as many as differ between processes of the same program; programs that take turns would tell"
                );
                *verdict = Verdict::Ambiguous { change: Some(change), why };
            }
        }
    }
}

/// Whole operations are as much slower as the machine was while their process lived, where its noise allows no conclusion.
fn doubt_all(verdicts: &mut [(Cell, Verdict)], floor: f64) {
    for (_, verdict) in verdicts {
        if let Verdict::Slower(change) | Verdict::Faster(change) = *verdict {
            let why = format!(
                "the runs differ by {:.0}% without any change, from which nothing can be concluded; programs that take turns would tell",
                100.0 * floor
            );
            *verdict = Verdict::Ambiguous { change: Some(change), why };
        }
    }
}

/// That there are `count` or more where `expected` are expected (Poisson).
fn probability_of(count: usize, expected: f64) -> f64 {
    let fewer = (0..count).scan((-expected).exp(), |term, at| {
        let this = *term;
        *term *= expected / (at + 1) as f64;
        Some(this)
    });
    1.0 - fewer.sum::<f64>()
}

fn too_few(blocks: usize) -> String {
    format!("{blocks} rounds are too few, which more --seconds or fewer cells would change")
}

/// ln of the lower quartile of each block: a round, or five samples of it where it has more.
fn blocks(cell: &RecordedCell) -> Vec<f64> {
    let rounds = Kept::of(&cell.samples).rounds();
    let blocks = rounds.iter().flat_map(|round| round.chunks(BLOCK));
    blocks.filter_map(|block| Some(Sorted::new(block)?.q1_ns().ln())).collect()
}

/// What runs differ by without any change, from three sides.
struct Floors {
    /// Rounds of one run.
    within: Option<f64>,
    /// Cells of both that did not change.
    between: Option<f64>,
    /// The same piece of plain arithmetic in both.
    sentinel: Option<f64>,
}

impl Floors {
    fn largest(&self) -> Option<f64> {
        [self.within, self.between, self.sentinel].into_iter().flatten().reduce(f64::max)
    }

    fn said(&self, rule: &Rule) -> String {
        let percent =
            |floor: Option<f64>| floor.map_or("unknown".to_string(), |floor| format!("{:.1}%", 100.0 * floor));
        let few = if self.between.is_none() { " (too few cells)" } else { "" };
        format!(
            "without any change, rounds of one run differ by {}, cells between the runs by {}{few}, plain arithmetic by {}; so a change counts from {:.1}% on",
            percent(self.within),
            percent(self.between),
            percent(self.sentinel),
            100.0 * rule.threshold
        )
    }
}

/// By how much plain arithmetic took longer in one of the runs.
fn sentinel(a: &Recorded, b: &Recorded) -> Option<f64> {
    let quartile = |run: &Recorded| {
        let times: Vec<f64> = run.sentinels.iter().map(|sentinel| sentinel.wall_ns as f64).collect();
        Some(Sorted::new(&times)?.q1_ns())
    };
    Some((quartile(b)? / quartile(a)?).ln().abs())
}
