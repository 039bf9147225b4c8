//! The simulated schedule: what a placement costs with hand-overs and waits counted as they happen.

use std::collections::BTreeMap;

use super::model::Model;
use crate::DeviceId;
use crate::program::Program;
use crate::schedule::runs;

/// Seconds of a placement, by what they are spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spent {
    pub kernels: f64,
    pub copies: f64,
    pub submits: f64,
    pub syncs: f64,
}

impl Spent {
    pub fn seconds(&self) -> f64 {
        self.kernels + self.copies + self.submits + self.syncs
    }
}

/// Runs the schedule of a placement, one step after the other, on the model's clock.
pub(crate) fn simulate(program: &Program, model: &Model, labels: &[DeviceId]) -> Spent {
    let mut clock =
        Clock { model, spent: Spent::default(), at: BTreeMap::new(), waited: Vec::new(), run_of: BTreeMap::new() };
    for (run, (device, kernels)) in runs(program, labels).into_iter().enumerate() {
        clock.begin(device);
        for &kernel in &kernels {
            for &value in &program.kernels[kernel].inputs {
                clock.bring(value, model.space[device.0], Some(run));
            }
            clock.spent.kernels += model.run[kernel][device.0].unwrap_or(0.0);
            for &value in &program.kernels[kernel].outputs {
                clock.write(value, model.space[device.0], run);
            }
        }
    }
    for value in (0..model.values.len()).filter(|&value| model.values[value].is_read) {
        clock.bring(value, 0, None);
    }
    clock.spent
}

struct Clock<'a> {
    model: &'a Model,
    spent: Spent,
    /// Memories that each value is in, besides those of inputs.
    at: BTreeMap<usize, Vec<usize>>,
    run_of: BTreeMap<usize, usize>,
    /// For each run, its device and whether it has been waited for.
    waited: Vec<(DeviceId, bool)>,
}

impl Clock<'_> {
    fn begin(&mut self, device: DeviceId) {
        self.spent.submits += self.model.fixed[device.0].0;
        self.waited.push((device, false));
    }

    fn write(&mut self, value: usize, space: usize, run: usize) {
        self.at.entry(value).or_default().push(space);
        self.run_of.insert(value, run);
    }

    /// A value for run `by`, or for the caller in the end.
    fn bring(&mut self, value: usize, space: usize, by: Option<usize>) {
        let resident = &self.model.values[value].resident;
        let known = self.at.entry(value).or_insert_with(|| resident.clone());
        if !known.contains(&space) {
            self.spent.copies += self.model.bring(value, known, space);
            known.push(space);
        }
        if let Some(&run) = self.run_of.get(&value)
            && by != Some(run)
            && by.is_none_or(|by| self.waited[by].0 != self.waited[run].0)
            && !std::mem::replace(&mut self.waited[run].1, true)
        {
            self.spent.syncs += self.model.fixed[self.waited[run].0.0].1;
        }
    }
}
