//! Steps over values that have no memory yet, in the order of a route.

use std::collections::BTreeMap;

use breakeven_ir::{Launch, NodeId};
use smallvec::smallvec;

use crate::program::{Fused, Program};
use crate::route::{Move, Router, Turn};
use crate::{DeviceId, Home, Place, Places, Step};

/// A copy of a value on one device; the schedule's steps number these instead of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    pub value: usize,
    pub device: DeviceId,
    /// The input that the caller binds.
    pub source: Option<NodeId>,
    /// It holds an uploaded input, and nothing else will be put there.
    pub is_upload: bool,
    /// Another device is sent it, perhaps in place, where its bytes must not change afterwards.
    pub is_sent: bool,
}

/// Steps over replicas.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schedule {
    pub replicas: Vec<Replica>,
    pub steps: Vec<Step>,
    /// For each output of the graph, the replica that it is found in; none for empty ones and views of inputs.
    pub found: Vec<Option<usize>>,
    /// Kernels in the order in which they run.
    pub order: Vec<usize>,
}

/// The kernels of a program as steps in the order of a route. They move from the program into the steps.
pub(crate) fn schedule(program: &mut Program, devices: &[DeviceId], home: &Home, turn: Turn) -> Schedule {
    let route = Router::new(program, home).route(devices, turn);
    let kernels = std::mem::take(&mut program.kernels).into_iter().map(Some).collect();
    let mut scheduler = Scheduler { program, kernels, at: BTreeMap::new(), schedule: Schedule::default() };
    for &next in &route.moves {
        scheduler.step(next);
    }
    let found = |at: Option<(usize, DeviceId)>| at.map(|at| scheduler.at[&at]);
    let found = route.found.into_iter().map(found).collect();
    Schedule { found, ..scheduler.schedule }
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

    /// How long each is.
    pub fn lengths(&self) -> Vec<usize> {
        self.starts.windows(2).map(|pair| pair[1] - pair[0]).collect()
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
pub(crate) fn dependencies(program: &Program) -> (Lists, Vec<usize>) {
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
    at: BTreeMap<(usize, DeviceId), usize>,
    schedule: Schedule,
}

impl Scheduler<'_> {
    fn step(&mut self, next: Move) {
        match next {
            Move::Bind { value, device } => {
                let input = self.program.values[value].node;
                self.add(value, device, Some(input), false);
            }
            Move::Upload { value, device } => {
                let (input, slot) = (self.program.values[value].node, self.add(value, device, None, true));
                self.schedule.steps.push(Step::Upload { input, slot });
            }
            Move::Copy { value, from, to } => {
                let (from, to) = (self.at[&(value, from)], self.add(value, to, None, false));
                self.schedule.replicas[from].is_sent = true;
                self.schedule.steps.push(Step::Copy { from, to, bytes: self.program.values[value].bytes });
            }
            Move::Run { kernel, device } => self.run(device, kernel),
            Move::Download { value, output, device } => {
                let (slot, bytes) = (self.at[&(value, device)], self.program.values[value].bytes);
                self.schedule.steps.push(Step::Download { slot, output, bytes });
            }
        }
    }

    fn add(&mut self, value: usize, device: DeviceId, source: Option<NodeId>, is_upload: bool) -> usize {
        self.schedule.replicas.push(Replica { value, device, source, is_upload, is_sent: false });
        let replica = self.schedule.replicas.len() - 1;
        self.at.insert((value, device), replica);
        replica
    }

    fn run(&mut self, device: DeviceId, kernel: usize) {
        let fused = self.kernels[kernel].take().expect("a kernel runs once");
        let inputs = fused.inputs.iter().map(|&value| self.at[&(value, device)]).collect();
        let outputs = fused.outputs.iter().map(|&value| self.written(value, device)).collect();
        let launch = Box::new(Launch { kernel: fused.kernel, inputs, outputs, workspace: None });
        self.schedule.order.push(kernel);
        self.schedule.steps.push(Step::Run { device, launch });
    }

    fn written(&mut self, value: usize, device: DeviceId) -> usize {
        let known = self.at.get(&(value, device)).copied();
        known.unwrap_or_else(|| self.add(value, device, None, false))
    }
}

/// Where copies of an input are.
pub(crate) fn places(home: &Home, input: NodeId) -> Places {
    home.inputs.get(&input).map_or_else(|| smallvec![Place::Host], |source| source.places.clone())
}
