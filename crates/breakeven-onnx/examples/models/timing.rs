//! Times of runs, ours and ONNX Runtime's in turn.

use std::time::Duration;

/// Runs of one set of inputs after the first.
pub const RUNS: usize = 7;

/// Times of all sets of one model.
#[derive(Debug, Default)]
pub struct Timing {
    /// The very first run, which plans and compiles.
    pub first: Duration,
    /// For each set the lower quartile of its later runs.
    ours: Vec<Duration>,
    theirs: Vec<Duration>,
}

impl Timing {
    /// The later runs of one more set; `theirs` is empty where ONNX Runtime was not asked.
    pub fn add(&mut self, ours: Vec<Duration>, theirs: Vec<Duration>) {
        self.ours.extend(lower_quartile(ours));
        self.theirs.extend(lower_quartile(theirs));
    }

    /// Mean of the sets.
    pub fn later(&self) -> Option<Duration> {
        self.ours.iter().sum::<Duration>().checked_div(self.ours.len() as u32)
    }

    /// How many times ONNX Runtime's time ours is.
    pub fn ratio(&self) -> Option<f64> {
        let seconds = |times: &[Duration]| times.iter().sum::<Duration>().as_secs_f64();
        (!self.theirs.is_empty()).then(|| seconds(&self.ours) / seconds(&self.theirs))
    }
}

fn lower_quartile(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort_unstable();
    times.get(times.len() / 4).copied()
}
