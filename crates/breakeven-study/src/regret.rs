//! What the engine's own choice costs: its time over that of the best device by hand, where both were measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::folder::RecordedCell;
use crate::stats::{self, Kept, Sorted};
use crate::verdict::devices_of;
use crate::{AUTOMATIC, Cell, Mode, SCALAR, Status};

/// Slower than the best device by more than this is harm: 5%.
const HARM: f64 = 0.05;
/// Below so many samples a cell has no half that chooses and no half that is timed.
const LEAST_SAMPLES: usize = 8;
/// The rows that are listed, the worst first; those on the wrong device before others, where there are more.
const LISTED: usize = 40;

/// How good the engine's own choices of a device were in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Regret {
    /// Operations, shapes, dtypes and modes that were measured with the device left to the engine, on the CPU, and on another device.
    pub cells: u64,
    /// Of these, where the engine's choice took more than 5% longer than the best device by hand.
    pub slower: u64,
    /// Of those, where it had put the work on another device than that.
    pub wrong_device: u64,
    /// Of all, where the engine's choice took longer by more than 5% and the noise floor together.
    #[serde(default)]
    pub certain: u64,
    /// The middle regret: time over that of the best device by hand, less 1.
    pub median: f64,
    /// Nine of ten regrets are at most this.
    pub p90: f64,
    /// The largest regret.
    pub worst: f64,
    /// The cells that `slower` counts, up to 40 of them, the largest regret first.
    pub rows: Vec<Regretted>,
    /// The finding in a sentence, computed from the cells.
    pub verdict: String,
}

/// A cell where the engine's choice took longer than the best device by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Regretted {
    /// The operation.
    pub operation: String,
    /// Its size in elements.
    pub elements: u64,
    /// The shape.
    pub shape: String,
    /// Its elements' type.
    pub dtype: String,
    /// How it is called.
    pub mode: Mode,
    /// Where the engine put it, as the run tells; null where it does not.
    pub chose: Option<String>,
    /// What that took.
    pub chose_ns: f64,
    /// What was foretold for it.
    pub chose_predicted_ns: Option<f64>,
    /// The best device by hand.
    pub best: String,
    /// What it took there.
    pub best_ns: f64,
    /// What was foretold there.
    pub best_predicted_ns: Option<f64>,
    /// The one time over the other, less 1.
    pub regret: f64,
}

/// One operation, shape, dtype and mode: the engine's choice and every device by hand.
#[derive(Default)]
struct Choice<'a> {
    automatic: Option<Timed<'a>>,
    by_hand: Vec<Timed<'a>>,
}

struct Timed<'a> {
    cell: &'a RecordedCell,
    all_ns: f64,
    /// The lower quartiles of its even and of its odd rounds.
    halves_ns: [f64; 2],
}

/// The regret of the cells that allow to tell; `None` where none does. By `floor` two measurements of the same code differ.
pub fn regret(kept: &[(Kept, &RecordedCell)], floor: f64, is_cpu: impl Fn(&str) -> bool) -> Option<Regret> {
    let mut choices = BTreeMap::<_, Choice<'_>>::new();
    for (kept, cell) in kept {
        let Some(timed) = Timed::of(kept, cell) else { continue };
        let Cell { operation, elements, shape, dtype, device, mode } = &cell.cell;
        let choice = choices.entry((operation, dtype, *mode, *elements, shape)).or_default();
        match device.as_str() {
            AUTOMATIC => choice.automatic = Some(timed),
            // A plain loop is no device that anybody could choose.
            SCALAR => {}
            _ => choice.by_hand.push(timed),
        }
    }
    let of_all: Vec<Regretted> = choices.into_values().filter_map(|choice| choice.regret(&is_cpu)).collect();
    summed(of_all, floor)
}

/// More digits would say nothing, and not every reader of JSON gives them back as they were.
fn millionths(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

fn summed(mut all: Vec<Regretted>, floor: f64) -> Option<Regret> {
    all.sort_by(|a, b| b.regret.total_cmp(&a.regret));
    let worst = all.first()?.regret;
    let (cells, last) = (all.len() as u64, all.len() - 1);
    // From the largest on: the middle one, and the one that a tenth are above.
    let (median, p90) = (all[last.div_ceil(2)].regret, all[last / 10].regret);
    all.retain(|row| row.regret > HARM);
    let count = |is_it: &dyn Fn(&Regretted) -> bool| all.iter().filter(|row| is_it(row)).count() as u64;
    let (slower, wrong_device) = (all.len() as u64, count(&Regretted::is_elsewhere));
    let certain = count(&|row| row.regret > HARM + floor);
    // All that were on another device, if that can be; of the others the worst.
    all.sort_by_key(|row| !row.is_elsewhere());
    all.truncate(LISTED);
    all.sort_by(|a, b| b.regret.total_cmp(&a.regret));
    let found = Regret { cells, slower, wrong_device, certain, median, p90, worst, rows: all, verdict: String::new() };
    Some(Regret { verdict: found.sentence(floor), ..found })
}

impl Regret {
    /// A floor above half of what counts as slower leaves open what is the engine's doing.
    fn sentence(&self, floor: f64) -> String {
        let Regret { cells, slower, wrong_device, certain, .. } = self;
        let [share, median, p90, worst] =
            [*slower as f64 / *cells as f64, self.median, self.p90, self.worst].map(|part| part.max(0.0) * 100.0);
        let elsewhere = match (slower, wrong_device) {
            (0, _) => String::new(),
            (_, 0) => "; it had chosen the best device there, so that is noise or what choosing costs".into(),
            (1, _) => "; another device was the better one there".into(),
            _ => format!("; in {wrong_device} of these another device was the better one"),
        };
        let doubt = if !floor.is_finite() {
            ". What the same code measured twice differs by is not known here, so this is inconclusive".into()
        } else if floor > HARM / 2.0 {
            let differs = format!(". The same code measured twice differs by {:.1}% here", floor * 100.0);
            match certain {
                0 => differs + ", so this is inconclusive",
                1 => differs + "; 1 of the cells is slower by more than 5% and that together, so for certain",
                _ => {
                    differs
                        + &format!(
                            "; {certain} of the cells are slower by more than 5% and that together, so for certain"
                        )
                }
            }
        } else {
            String::new()
        };
        format!(
            "left to choose, breakeven was more than 5% slower than the best device by hand in {slower} of {cells} cells \
             ({share:.1}%){elsewhere}. Half of all took at most {median:.1}% longer, nine of ten at most {p90:.1}%, the worst {worst:.1}%{doubt}"
        )
    }
}

impl Regretted {
    /// Whether the engine had put the work on another device than the best one.
    pub fn is_elsewhere(&self) -> bool {
        self.chose.as_ref().is_some_and(|chose| *chose != self.best)
    }
}

impl<'a> Timed<'a> {
    fn of(kept: &Kept, cell: &'a RecordedCell) -> Option<Timed<'a>> {
        let times = kept.wall_ns();
        if cell.facts.status != Status::Ok || times.len() < LEAST_SAMPLES {
            return None;
        }
        let all_ns = Sorted::new(&times)?.q1_ns();
        let halves_ns = stats::halves(&kept.rounds())?.map(|half| half.q1_ns());
        Some(Timed { cell, all_ns, halves_ns })
    }

    fn device(&self) -> &str {
        &self.cell.cell.device
    }
}

impl Choice<'_> {
    /// The best device is chosen by one half of its rounds and timed by the other: else the luckiest would be held against the engine. Samples of
    /// a round have their luck in common, so halves of these would not do.
    fn regret(self, is_cpu: &impl Fn(&str) -> bool) -> Option<Regretted> {
        let automatic = self.automatic?;
        let has = |wanted: bool| self.by_hand.iter().any(|timed| is_cpu(timed.device()) == wanted);
        let best = self.by_hand.iter().min_by(|a, b| a.halves_ns[0].total_cmp(&b.halves_ns[0]))?;
        if !has(true) || !has(false) {
            return None;
        }
        let Cell { operation, elements, shape, dtype, mode, .. } = automatic.cell.cell.clone();
        let chose: Vec<&str> =
            automatic.cell.facts.ran.as_deref().map(|ran| devices_of(ran).collect()).unwrap_or_default();
        let best_ns = best.halves_ns[1];
        Some(Regretted {
            operation,
            elements,
            shape,
            dtype,
            mode,
            chose: (!chose.is_empty()).then(|| chose.join(" and ")),
            chose_ns: automatic.all_ns,
            chose_predicted_ns: automatic.cell.facts.predicted_ns,
            best: best.device().to_string(),
            best_ns,
            best_predicted_ns: best.cell.facts.predicted_ns,
            regret: millionths(automatic.all_ns / best_ns - 1.0),
        })
    }
}
