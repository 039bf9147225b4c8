//! What a placement costs: kernels where they run, and each value once to each memory that needs it.

use crate::cost::CostModel;
use crate::program::{Program, Wanted};
use crate::schedule::{places, writers};
use crate::{DeviceId, Home, Machine, Place};

/// The numbers that placing needs.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// Seconds of each kernel on each device, dispatch included; `None` where it may not run.
    pub run: Vec<Vec<Option<f64>>>,
    pub values: Vec<Use>,
    /// Whose memory each device works in: its own, or the host's, which is 0.
    pub space: Vec<usize>,
    /// Seconds for each device to be handed work, and to be waited for.
    pub fixed: Vec<(f64, f64)>,
}

/// Where a value comes from and who wants it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Use {
    /// The kernels that write it; several write parts and must run on one device.
    pub writers: Vec<usize>,
    /// Memories that an input is in before anything runs.
    pub resident: Vec<usize>,
    /// Kernels that read it, ascending.
    pub readers: Vec<usize>,
    /// The host wants it in the end.
    pub is_read: bool,
    /// Seconds to bring it from one memory to another: `copy[from][to]`.
    pub copy: Vec<Vec<f64>>,
}

impl Model {
    pub fn new(program: &Program, home: &Home, machine: &Machine<'_>, cost: &CostModel<'_>) -> Model {
        let space =
            machine.devices.iter().enumerate().map(|(d, view)| if view.caps.host_memory { 0 } else { d }).collect();
        let fixed = machine.devices.iter().map(|d| (d.profile.submit.seconds, d.profile.sync.seconds)).collect();
        let mut model = Model { run: Vec::new(), values: Vec::new(), space, fixed };
        let writers = writers(program);
        for (at, value) in program.values.iter().enumerate() {
            let resident = if value.is_input { model.spaces_of(&places(home, value.node)) } else { Vec::new() };
            let copy = copies(machine, cost, value.bytes);
            let writers = writers.of(at).to_vec();
            model.values.push(Use { writers, resident, copy, ..Use::default() });
        }
        model.add_readers(program, home);
        model
    }

    fn spaces_of(&self, places: &[Place]) -> Vec<usize> {
        let one = |place: &Place| match place {
            Place::Host => 0,
            Place::Device(device) => self.space[device.0],
        };
        places.iter().map(one).collect()
    }

    fn add_readers(&mut self, program: &Program, home: &Home) {
        for (kernel, fused) in program.kernels.iter().enumerate() {
            for &value in &fused.inputs {
                if self.values[value].readers.last() != Some(&kernel) {
                    self.values[value].readers.push(kernel);
                }
            }
        }
        for (output, wanted) in program.wanted.iter().enumerate() {
            if let Wanted::Value { value, .. } = wanted {
                self.values[*value].is_read |= home.is_read(output);
            }
        }
    }

    /// Memory that a kernel placed by `labels` works in.
    pub fn space_of(&self, labels: &[DeviceId], kernel: usize) -> usize {
        self.space[labels[kernel].0]
    }

    /// Memories that a value is in without being copied.
    pub fn has(&self, labels: &[DeviceId], value: usize) -> Vec<usize> {
        match self.values[value].writers.first() {
            Some(&writer) => vec![self.space_of(labels, writer)],
            None => self.values[value].resident.clone(),
        }
    }

    /// Memories that a value is needed in, ascending.
    #[cfg(test)]
    pub fn needs(&self, labels: &[DeviceId], value: usize) -> Vec<usize> {
        let readers = self.values[value].readers.iter().map(|&reader| self.space_of(labels, reader));
        let mut needs: Vec<usize> = readers.chain(self.values[value].is_read.then_some(0)).collect();
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    /// Seconds to bring a value to a memory from the nearest of those it is in.
    pub fn bring(&self, value: usize, from: &[usize], to: usize) -> f64 {
        from.iter().map(|&from| self.values[value].copy[from][to]).fold(f64::INFINITY, f64::min)
    }

    /// Seconds of kernels and copies, one after the other; infinite where a kernel may not run.
    #[cfg(test)]
    pub fn cost(&self, labels: &[DeviceId]) -> f64 {
        let kernels = labels.iter().enumerate().map(|(k, d)| self.run[k][d.0].unwrap_or(f64::INFINITY)).sum::<f64>();
        let moved = |value: usize| -> f64 {
            let has = self.has(labels, value);
            let missing = self.needs(labels, value).into_iter().filter(|space| !has.contains(space));
            missing.map(|space| self.bring(value, &has, space)).sum()
        };
        let torn = |used: &Use| used.writers.windows(2).any(|w| labels[w[0]] != labels[w[1]]);
        if self.values.iter().any(torn) {
            return f64::INFINITY;
        }
        kernels + (0..self.values.len()).map(moved).sum::<f64>()
    }
}

fn copies(machine: &Machine<'_>, cost: &CostModel<'_>, bytes: u64) -> Vec<Vec<f64>> {
    let place = |device: usize| Place::Device(DeviceId(device));
    let seconds = |from, to| cost.copy(place(from), place(to), bytes).map_or(0.0, |cost| cost.seconds);
    let all = 0..machine.devices.len();
    all.clone().map(|from| all.clone().map(|to| seconds(from, to)).collect()).collect()
}
