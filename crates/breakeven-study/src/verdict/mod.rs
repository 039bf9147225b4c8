//! Whether one measurement is slower than another: verdicts that noise does not turn, and what they mean for whoever asked.

mod exit;
mod heat;
mod paired;
mod rules;
mod runs;

pub use exit::{Exit, exit_of};
pub use paired::{BLOCK, Blocks, ENOUGH_BLOCKS, Rule, Sides, confirm, judge, passes_gate};
pub(crate) use rules::devices_of;
pub use rules::{Broken, Rules, RulesSchema};
pub use runs::{Comparison, compare_runs, differences};

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a comparison of one cell found. B is what is judged, A what it is held against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "UPPERCASE")]
pub enum Verdict {
    /// B takes less time by more than the threshold.
    Faster(Change),
    /// B takes more time by more than the threshold.
    Slower(Change),
    /// B's time is within the threshold of A's; that is shown, not merely not refuted.
    Same(Change),
    /// Nothing of the above can be shown.
    Ambiguous {
        /// What was found, where something was.
        change: Option<Change>,
        /// Why that decides nothing, and what would.
        why: String,
    },
    /// A has it and B has not.
    Missing,
    /// It was not measured well in A or B.
    Invalid {
        /// In which, and what happened there.
        why: String,
    },
}

/// By how much B's time differs from A's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// B's time over A's: 1.05 is 5% more time.
    pub ratio: f64,
    /// With 99% confidence not below this.
    pub low: f64,
    /// With 99% confidence not above this.
    pub high: f64,
    /// Blocks of either side that this rests on: pairs where the two took turns, the fewer of both where they did not.
    pub blocks: usize,
}

impl Verdict {
    /// How much, where that is known.
    pub fn change(&self) -> Option<&Change> {
        match self {
            Verdict::Faster(change) | Verdict::Slower(change) | Verdict::Same(change) => Some(change),
            Verdict::Ambiguous { change, .. } => change.as_ref(),
            _ => None,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [ratio, low, high] = [self.ratio, self.low, self.high].map(|ratio| (ratio - 1.0) * 100.0);
        write!(f, "{ratio:+.1}% ({low:+.1}% to {high:+.1}%, n = {})", self.blocks)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Faster(change) => write!(f, "FASTER {change}"),
            Verdict::Slower(change) => write!(f, "SLOWER {change}"),
            Verdict::Same(change) => write!(f, "SAME {change}"),
            Verdict::Ambiguous { why, change: Some(change) } => write!(f, "AMBIGUOUS {change}: {why}"),
            Verdict::Ambiguous { why, change: None } => write!(f, "AMBIGUOUS: {why}"),
            Verdict::Missing => f.write_str("MISSING"),
            Verdict::Invalid { why } => write!(f, "INVALID: {why}"),
        }
    }
}
