//! The order of steps: uploads first, then runs of launches as long as can be, downloads last.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use breakeven_ir::{Launch, NodeId};

use crate::program::{Fused, Program, Wanted};
use crate::{DeviceId, Home, Place, Step};

/// A copy of a value on one device; the schedule's steps number these instead of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    pub value: usize,
    pub device: DeviceId,
    /// The input that the caller binds.
    pub source: Option<NodeId>,
    /// It holds an uploaded input, and nothing else will be put there.
    pub is_upload: bool,
}

/// Steps over replicas.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schedule {
    pub replicas: Vec<Replica>,
    pub steps: Vec<Step>,
    /// For each output of the graph, the replica that it is found in; none for empty ones and views of inputs.
    pub found: Vec<Option<usize>>,
}

/// Orders the kernels of a program that run on `devices`, and moves values to where they are needed. The kernels move
/// from the program into the steps.
pub(crate) fn schedule(program: &mut Program, devices: &[DeviceId], home: &Home) -> Schedule {
    let runs = runs(program, devices);
    let kernels = std::mem::take(&mut program.kernels).into_iter().map(Some).collect();
    let mut scheduler = Scheduler::new(program, kernels, home);
    scheduler.upload(&runs);
    for (device, kernels) in &runs {
        scheduler.bring(*device, kernels);
        for &kernel in kernels {
            scheduler.run(*device, kernel);
        }
    }
    scheduler.download();
    scheduler.schedule
}

/// Kernels in runs of one device, as long as dependencies allow; program order within a run.
pub(crate) fn runs(program: &Program, devices: &[DeviceId]) -> Vec<(DeviceId, Vec<usize>)> {
    let (readers, mut waits) = dependencies(program);
    let mut ready: BTreeMap<DeviceId, BinaryHeap<Reverse<usize>>> = BTreeMap::new();
    for kernel in (0..devices.len()).filter(|&k| waits[k] == 0) {
        ready.entry(devices[kernel]).or_default().push(Reverse(kernel));
    }
    let mut runs = Vec::new();
    while let Some(device) = next_device(&ready) {
        let mut run = Vec::new();
        while let Some(Reverse(kernel)) = ready.get_mut(&device).and_then(BinaryHeap::pop) {
            run.push(kernel);
            for &reader in readers.of(kernel) {
                waits[reader] -= 1;
                if waits[reader] == 0 {
                    ready.entry(devices[reader]).or_default().push(Reverse(reader));
                }
            }
        }
        runs.push((device, run));
    }
    runs
}

/// The device whose next kernel comes first in the program.
fn next_device(ready: &BTreeMap<DeviceId, BinaryHeap<Reverse<usize>>>) -> Option<DeviceId> {
    let first = |(device, heap): (&DeviceId, &BinaryHeap<Reverse<usize>>)| Some((heap.peek()?.0, *device));
    ready.iter().filter_map(first).min().map(|(_, device)| device)
}

/// Lists of one length each, laid end to end.
pub(crate) struct Lists {
    starts: Vec<usize>,
    items: Vec<usize>,
}

impl Lists {
    /// `pairs` of (list, item), items in the order given.
    pub fn new(lists: usize, pairs: &[(usize, usize)]) -> Lists {
        let mut starts = vec![0; lists + 1];
        for &(list, _) in pairs {
            starts[list + 1] += 1;
        }
        (0..lists).for_each(|list| starts[list + 1] += starts[list]);
        let (mut next, mut items) = (starts.clone(), vec![0; pairs.len()]);
        for &(list, item) in pairs {
            items[next[list]] = item;
            next[list] += 1;
        }
        Lists { starts, items }
    }

    pub fn of(&self, list: usize) -> &[usize] {
        &self.items[self.starts[list]..self.starts[list + 1]]
    }
}

/// Kernels that write each value.
pub(crate) fn writers(program: &Program) -> Lists {
    let pairs: Vec<(usize, usize)> =
        program.kernels.iter().enumerate().flat_map(|(k, fused)| fused.outputs.iter().map(move |&v| (v, k))).collect();
    Lists::new(program.values.len(), &pairs)
}

/// For each kernel, those that read what it writes, and how many it waits for.
fn dependencies(program: &Program) -> (Lists, Vec<usize>) {
    let writers = writers(program);
    let mut pairs = Vec::new();
    for (reader, fused) in program.kernels.iter().enumerate() {
        let mut needs: Vec<usize> = fused.inputs.iter().flat_map(|&v| writers.of(v)).copied().collect();
        needs.sort_unstable();
        needs.dedup();
        pairs.extend(needs.into_iter().map(|writer| (writer, reader)));
    }
    let mut waits = vec![0; program.kernels.len()];
    for &(_, reader) in &pairs {
        waits[reader] += 1;
    }
    (Lists::new(program.kernels.len(), &pairs), waits)
}

struct Scheduler<'a> {
    program: &'a Program,
    /// Those that have not run yet.
    kernels: Vec<Option<Fused>>,
    home: &'a Home,
    at: BTreeMap<(usize, DeviceId), usize>,
    schedule: Schedule,
}

impl<'a> Scheduler<'a> {
    fn new(program: &'a Program, kernels: Vec<Option<Fused>>, home: &'a Home) -> Scheduler<'a> {
        Scheduler { program, kernels, home, at: BTreeMap::new(), schedule: Schedule::default() }
    }

    fn add(&mut self, value: usize, device: DeviceId, source: Option<NodeId>, is_upload: bool) -> usize {
        self.schedule.replicas.push(Replica { value, device, source, is_upload });
        let replica = self.schedule.replicas.len() - 1;
        self.at.insert((value, device), replica);
        replica
    }

    /// Bring every input that a run needs from the host's memory.
    fn upload(&mut self, runs: &[(DeviceId, Vec<usize>)]) {
        let mut runs: Vec<&(DeviceId, Vec<usize>)> = runs.iter().collect();
        runs.sort_by_key(|run| run.0);
        for (device, kernels) in runs {
            for value in self.inputs(kernels) {
                if self.program.values[value].is_input && !self.at.contains_key(&(value, *device)) {
                    self.upload_one(value, *device);
                }
            }
        }
    }

    fn upload_one(&mut self, value: usize, device: DeviceId) {
        let input = self.program.values[value].node;
        let places = places(self.home, input);
        if places.contains(&Place::Device(device)) {
            self.add(value, device, Some(input), false);
        } else if places.contains(&Place::Host) {
            let slot = self.add(value, device, None, true);
            self.schedule.steps.push(Step::Upload { input, slot });
        }
    }

    fn waiting(&self, kernel: usize) -> &Fused {
        self.kernels[kernel].as_ref().expect("a kernel that has not run is there")
    }

    /// What these kernels read, in order.
    fn inputs(&self, kernels: &[usize]) -> Vec<usize> {
        kernels.iter().flat_map(|&kernel| &self.waiting(kernel).inputs).copied().collect()
    }

    /// Copy what a run needs and other devices have.
    fn bring(&mut self, device: DeviceId, kernels: &[usize]) {
        let program = self.program;
        let inside: std::collections::BTreeSet<usize> =
            kernels.iter().flat_map(|&k| &self.waiting(k).outputs).copied().collect();
        for value in self.inputs(kernels) {
            if !inside.contains(&value) && !self.at.contains_key(&(value, device)) {
                let from = self.any_replica(value);
                let to = self.add(value, device, None, false);
                self.schedule.steps.push(Step::Copy { from, to, bytes: program.values[value].bytes });
            }
        }
    }

    /// A device that has the value; the host's CPU where it has.
    fn any_replica(&mut self, value: usize) -> usize {
        if let Some((_, &replica)) = self.at.range((value, DeviceId(0))..=(value, DeviceId(usize::MAX))).next() {
            return replica;
        }
        let input = self.program.values[value].node;
        let on = places(self.home, input).into_iter().filter_map(|place| match place {
            Place::Device(device) => Some(device),
            Place::Host => None,
        });
        let device = on.min().expect("every input is somewhere and every value is computed before it is read");
        self.add(value, device, Some(input), false)
    }

    fn run(&mut self, device: DeviceId, kernel: usize) {
        let fused = self.kernels[kernel].take().expect("a kernel runs once");
        let inputs = fused.inputs.iter().map(|&value| self.at[&(value, device)]).collect();
        let outputs = fused.outputs.iter().map(|&value| self.written(value, device)).collect();
        let launch = Box::new(Launch { kernel: fused.kernel, inputs, outputs, workspace: None });
        self.schedule.steps.push(Step::Run { device, launch });
    }

    fn written(&mut self, value: usize, device: DeviceId) -> usize {
        let known = self.at.get(&(value, device)).copied();
        known.unwrap_or_else(|| self.add(value, device, None, false))
    }

    fn download(&mut self) {
        for (output, wanted) in self.program.wanted.iter().enumerate() {
            let Wanted::Value { value, .. } = *wanted else {
                self.schedule.found.push(None);
                continue;
            };
            let held = &self.program.values[value];
            let on_host = held.is_input && places(self.home, held.node).contains(&Place::Host);
            let is_read = self.home.is_read(output) && !on_host;
            let replica = (is_read || !held.is_input).then(|| self.any_replica(value));
            if let Some(slot) = replica.filter(|_| is_read) {
                self.schedule.steps.push(Step::Download { slot, output, bytes: held.bytes });
            }
            self.schedule.found.push(replica.filter(|_| !held.is_input));
        }
    }
}

/// Where copies of an input are.
pub(crate) fn places(home: &Home, input: NodeId) -> Vec<Place> {
    home.inputs.get(&input).map_or_else(|| vec![Place::Host], |source| source.places.clone())
}
