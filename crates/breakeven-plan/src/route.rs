//! The order of what happens: runs of kernels as long as can be, what they need brought before them, results taken after.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::program::{Program, Wanted};
use crate::schedule::{Lists, dependencies, places, writers};
use crate::{DeviceId, Home, Place, Places};

/// Whose run comes next where several could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// That of the kernel that comes first in the program.
    InOrder,
    /// The host's only when no other device can go on: others work while it does, but it keeps its caller busy.
    HostLast,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// An input that is on a device already is bound there.
    Bind {
        value: usize,
        device: DeviceId,
    },
    /// An input comes from the host's memory.
    Upload {
        value: usize,
        device: DeviceId,
    },
    /// A value comes from another device.
    Copy {
        value: usize,
        from: DeviceId,
        to: DeviceId,
    },
    Run {
        kernel: usize,
        device: DeviceId,
    },
    /// An output of the graph goes to the host's memory.
    Download {
        value: usize,
        output: usize,
        device: DeviceId,
    },
}

/// What happens, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Route {
    pub moves: Vec<Move>,
    /// For each output of the graph, the value and device it is found in; none for empty ones and views of inputs.
    pub found: Vec<Option<(usize, DeviceId)>>,
}

/// What does not depend on where kernels run.
pub(crate) struct Router<'a> {
    program: &'a Program,
    home: &'a Home,
    /// For each kernel, those that read what it writes, and how many it waits for.
    readers: Lists,
    waits: Vec<usize>,
    writers: Lists,
    /// Outputs of the graph that the host wants, by value.
    outputs: Lists,
}

impl<'a> Router<'a> {
    pub fn new(program: &'a Program, home: &'a Home) -> Router<'a> {
        let (readers, waits) = dependencies(program);
        let wanted = program.wanted.iter().enumerate().filter_map(|(output, wanted)| match wanted {
            Wanted::Value { value, .. } if home.is_read(output) => Some((*value, output)),
            _ => None,
        });
        let outputs = Lists::new(program.values.len(), &wanted.collect::<Vec<_>>());
        Router { program, home, readers, waits, writers: writers(program), outputs }
    }

    /// The longest chain of kernels that wait for each other, by what each of them takes.
    pub fn longest(&self, seconds: &dyn Fn(usize) -> f64) -> f64 {
        let mut start = vec![0.0f64; self.waits.len()];
        let mut longest = 0.0f64;
        for kernel in 0..start.len() {
            let end = start[kernel] + seconds(kernel);
            longest = longest.max(end);
            for &reader in self.readers.of(kernel) {
                start[reader] = start[reader].max(end);
            }
        }
        longest
    }

    /// For each kernel, the only one that reads what it writes, if that one reads of no other kernel.
    pub fn next_in_chain(&self, kernel: usize) -> Option<usize> {
        match self.readers.of(kernel) {
            &[reader] if self.waits[reader] == 1 => Some(reader),
            _ => None,
        }
    }

    /// What happens when kernels run on `devices`.
    pub fn route(&self, devices: &[DeviceId], turn: Turn) -> Route {
        let mut trip = Trip::new(self, devices);
        for (device, kernels) in self.runs(devices, turn) {
            // Copies first: while another device sends, nothing is put aside for this one.
            for act in [Trip::bring_values, Trip::bring_inputs, Trip::run, Trip::take] {
                for &kernel in &kernels {
                    act(&mut trip, kernel, device);
                }
            }
        }
        trip.end();
        trip.route
    }

    /// Kernels in runs of one device, as long as dependencies allow; program order within a run.
    fn runs(&self, devices: &[DeviceId], turn: Turn) -> Vec<(DeviceId, Vec<usize>)> {
        let mut waits = self.waits.clone();
        let mut ready: BTreeMap<DeviceId, BinaryHeap<Reverse<usize>>> = BTreeMap::new();
        for kernel in (0..devices.len()).filter(|&k| waits[k] == 0) {
            ready.entry(devices[kernel]).or_default().push(Reverse(kernel));
        }
        let mut runs = Vec::new();
        while let Some(device) = next_device(&ready, turn) {
            let mut run = Vec::new();
            while let Some(Reverse(kernel)) = ready.get_mut(&device).and_then(BinaryHeap::pop) {
                run.push(kernel);
                for &reader in self.readers.of(kernel) {
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
}

fn next_device(ready: &BTreeMap<DeviceId, BinaryHeap<Reverse<usize>>>, turn: Turn) -> Option<DeviceId> {
    let first = |(&device, heap): (&DeviceId, &BinaryHeap<Reverse<usize>>)| {
        let is_last = turn == Turn::HostLast && device == DeviceId::HOST;
        Some((is_last, heap.peek()?.0, device))
    };
    ready.iter().filter_map(first).min().map(|(_, _, device)| device)
}

struct Trip<'a> {
    router: &'a Router<'a>,
    devices: &'a [DeviceId],
    /// Devices that each value is on.
    at: Vec<Vec<DeviceId>>,
    /// Kernels that have still to write to each value.
    left: Vec<usize>,
    /// Values that the host was sent.
    taken: Vec<bool>,
    route: Route,
}

impl<'a> Trip<'a> {
    fn new(router: &'a Router<'a>, devices: &'a [DeviceId]) -> Trip<'a> {
        let values = router.program.values.len();
        let (at, left, taken) = (vec![Vec::new(); values], router.writers.lengths(), vec![false; values]);
        Trip { router, devices, at, left, taken, route: Route::default() }
    }

    /// Inputs of the graph that a kernel reads, from the host's memory or where they are bound.
    fn bring_inputs(&mut self, kernel: usize, device: DeviceId) {
        for &value in &self.router.program.kernels[kernel].inputs {
            if self.router.program.values[value].is_input && !self.at[value].contains(&device) {
                let is_bound = self.places(value).contains(&Place::Device(device));
                let by = if is_bound { Move::Bind { value, device } } else { Move::Upload { value, device } };
                self.add(value, device, by);
            }
        }
    }

    /// What a kernel reads that only other devices have.
    fn bring_values(&mut self, kernel: usize, device: DeviceId) {
        for &value in &self.router.program.kernels[kernel].inputs {
            let is_here = match self.router.writers.of(value).first() {
                Some(&writer) => self.devices[writer] == device,
                None => self.places(value).iter().any(|place| [Place::Host, Place::Device(device)].contains(place)),
            };
            if !is_here && !self.at[value].contains(&device) {
                let from = self.any_device(value);
                self.add(value, device, Move::Copy { value, from, to: device });
            }
        }
    }

    fn places(&self, value: usize) -> Places {
        places(self.router.home, self.router.program.values[value].node)
    }

    /// A device that has the value; the host's CPU where it has.
    fn any_device(&mut self, value: usize) -> DeviceId {
        if let Some(&device) = self.at[value].iter().min() {
            return device;
        }
        let on = self.places(value).into_iter().filter_map(|place| match place {
            Place::Device(device) => Some(device),
            Place::Host => None,
        });
        let device = on.min().expect("every input is somewhere and every value is computed before it is read");
        self.add(value, device, Move::Bind { value, device });
        device
    }

    fn run(&mut self, kernel: usize, device: DeviceId) {
        self.route.moves.push(Move::Run { kernel, device });
        for &value in &self.router.program.kernels[kernel].outputs {
            self.left[value] -= 1;
            if !self.at[value].contains(&device) {
                self.at[value].push(device);
            }
        }
    }

    /// Results that are complete now and wanted by the host.
    fn take(&mut self, kernel: usize, device: DeviceId) {
        let router = self.router;
        for &value in &router.program.kernels[kernel].outputs {
            if self.left[value] == 0 && !std::mem::replace(&mut self.taken[value], true) {
                let one = |&output: &usize| Move::Download { value, output, device };
                self.route.moves.extend(router.outputs.of(value).iter().map(one));
            }
        }
    }

    /// Outputs that are inputs, and where all are found.
    fn end(&mut self) {
        for (output, wanted) in self.router.program.wanted.iter().enumerate() {
            let Wanted::Value { value, .. } = *wanted else {
                self.route.found.push(None);
                continue;
            };
            let held = &self.router.program.values[value];
            if held.is_input {
                let on_host = places(self.router.home, held.node).contains(&Place::Host);
                if self.router.home.is_read(output) && !on_host {
                    let device = self.any_device(value);
                    self.route.moves.push(Move::Download { value, output, device });
                }
                self.route.found.push(None);
            } else {
                let device = self.any_device(value);
                self.route.found.push(Some((value, device)));
            }
        }
    }

    fn add(&mut self, value: usize, device: DeviceId, by: Move) {
        self.at[value].push(device);
        self.route.moves.push(by);
    }
}
