//! From a plan to prepared segments: one stage for each run of steps on one device.

use std::ops::Range;
use std::sync::Arc;

use breakeven_device::{Device, Prepared, Segment, SegmentStep};
use breakeven_ir::{Kernel, Launch, NodeId};
use breakeven_plan::{DeviceId, Plan, Step};

use crate::ExecError;
use crate::direct::Direct;

/// A plan whose segments are compiled; runs as often as wanted, with other inputs.
#[derive(Debug)]
pub struct Executable {
    pub(crate) plan: Arc<Plan>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) devices: Vec<Option<Arc<dyn Device>>>,
    pub(crate) direct: Option<Direct>,
}

/// A plan cut into segments that are not compiled yet.
#[derive(Debug)]
pub struct Uncompiled {
    plan: Arc<Plan>,
    parts: Vec<Part>,
    devices: Vec<Option<Arc<dyn Device>>>,
}

/// What one device does without anybody else: one submission.
#[derive(Debug)]
pub(crate) struct Stage {
    pub device: DeviceId,
    pub prepared: Arc<dyn Prepared>,
    /// Slots of the plan, in the order of the segment's own numbers.
    pub slots: Vec<usize>,
    /// Host bytes put into a slot in place, on a device that works in the host's memory.
    pub imports: Vec<(Given, usize)>,
    /// Host bytes that the segment's uploads read, and the slot of the plan that each goes to.
    pub uploads: Vec<(Given, usize)>,
    /// Where the segment's reads go.
    pub reads: Vec<Taken>,
    /// Slots whose bytes are taken in place after the submission, on such a device.
    pub exports: Vec<(usize, u64, Taken)>,
    /// The steps of the plan that belong to it.
    pub steps: Range<usize>,
    /// Which of them each of its parts is.
    pub origins: Origins,
    /// It is waited for before anything else is submitted, so that its failure is told from any other's.
    pub alone: bool,
}

/// The steps of the plan behind the parts of a stage.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    /// Of each step of the segment.
    pub segment: Vec<usize>,
    /// Of each import.
    pub imports: Vec<usize>,
    /// Of each export.
    pub exports: Vec<usize>,
}

/// Where uploaded bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// An input of the graph.
    Input(NodeId),
    /// Bytes that an earlier stage sent to the host.
    Moved(usize),
}

/// Where read bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// An output of the graph.
    Output(usize),
    /// To a later stage.
    Moved(usize),
}

impl Uncompiled {
    /// Cuts `plan`; `devices` by [`DeviceId`]. Each kernel that is `doubted` on its device gets a submission of its own.
    pub fn new(
        plan: Arc<Plan>,
        devices: &[Option<Arc<dyn Device>>],
        doubted: &dyn Fn(DeviceId, &Kernel) -> bool,
    ) -> Result<Uncompiled, ExecError> {
        let mut builder = Builder { plan: &plan, devices, doubted, parts: Vec::new(), open: None, moves: 0 };
        let mut next = 0;
        while next < plan.steps.len() {
            next = builder.step(next)?;
        }
        builder.close();
        let parts = builder.parts;
        Ok(Uncompiled { plan, parts, devices: devices.to_vec() })
    }

    /// The first device whose driver has something to compile for it, which may take seconds.
    pub fn compiles(&self) -> Option<DeviceId> {
        let is_slow =
            |part: &&Part| device(&self.devices, part.device).is_ok_and(|device| device.compiles(&part.segment));
        self.parts.iter().find(is_slow).map(|part| part.device)
    }

    /// Compiles every segment.
    pub fn compile(self) -> Result<Executable, ExecError> {
        self.compile_while(&|| true)
    }

    /// The same for as long as anybody wants it; [`DeviceError::Cancelled`](breakeven_device::DeviceError::Cancelled) once nobody does.
    pub fn compile_while(self, is_wanted: &(dyn Fn() -> bool + Sync)) -> Result<Executable, ExecError> {
        let Uncompiled { plan, parts, devices } = self;
        let stages = parts.into_iter().map(|part| part.compile(&devices, is_wanted));
        let stages = stages.collect::<Result<Vec<Stage>, ExecError>>()?;
        let direct = Direct::new(&plan, &stages, &devices);
        Ok(Executable { plan, stages, devices, direct })
    }
}

impl Executable {
    /// Compile every segment of `plan`; `devices` by [`DeviceId`].
    pub fn new(plan: Arc<Plan>, devices: &[Option<Arc<dyn Device>>]) -> Result<Executable, ExecError> {
        Uncompiled::new(plan, devices, &|_, _| false)?.compile()
    }

    /// The plan it carries out.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// What `device` computes in the steps that an [`ExecError`] names.
    pub fn kernels(&self, device: DeviceId, during: Range<usize>) -> impl Iterator<Item = &Kernel> {
        self.plan.steps[during].iter().filter_map(move |step| match step {
            Step::Run { device: on, launch } if *on == device => Some(&launch.kernel),
            _ => None,
        })
    }

    /// Submissions one run makes.
    pub fn submissions(&self) -> usize {
        self.stages.len()
    }
}

struct Builder<'a> {
    plan: &'a Plan,
    devices: &'a [Option<Arc<dyn Device>>],
    doubted: &'a dyn Fn(DeviceId, &Kernel) -> bool,
    parts: Vec<Part>,
    open: Option<Part>,
    moves: usize,
}

/// A stage that is not compiled.
#[derive(Debug)]
struct Part {
    device: DeviceId,
    segment: Segment,
    slots: Vec<usize>,
    imports: Vec<(Given, usize)>,
    uploads: Vec<(Given, usize)>,
    reads: Vec<Taken>,
    exports: Vec<(usize, u64, Taken)>,
    steps: Range<usize>,
    origins: Origins,
    alone: bool,
}

impl Builder<'_> {
    /// Writes step `index`; the index of the one to go on with.
    fn step(&mut self, index: usize) -> Result<usize, ExecError> {
        match &self.plan.steps[index] {
            Step::Upload { input, slot } => self.give(index, Given::Input(*input), *slot)?,
            Step::Download { slot, output, bytes } => self.take(index, *slot, *bytes, Taken::Output(*output))?,
            Step::Copy { .. } => return self.copies(index),
            Step::Run { device, launch } => {
                // What was handed out must not be written again, so nothing of that stage may come after it.
                let alone = (self.doubted)(*device, &launch.kernel);
                if alone || self.open.as_ref().is_some_and(|open| !open.exports.is_empty()) {
                    self.close();
                }
                let open = self.on(index, *device);
                open.alone = alone;
                let launch = open.renumber(launch);
                open.push(index, SegmentStep::Launch(Box::new(launch)));
                if alone {
                    self.close();
                }
            }
        }
        Ok(index + 1)
    }

    /// Copies that follow each other from `first` on: all are sent before any is received, so that a receiver is not handed
    /// each of them alone.
    fn copies(&mut self, first: usize) -> Result<usize, ExecError> {
        let (mut next, mut sent) = (first, Vec::new());
        while let Some(&Step::Copy { from, to, bytes }) = self.plan.steps.get(next) {
            self.take(next, from, bytes, Taken::Moved(self.moves))?;
            sent.push((next, Given::Moved(self.moves), to));
            self.moves += 1;
            next += 1;
        }
        // The bytes are on the host only once the senders' stages have ended.
        self.close();
        sent.into_iter().try_for_each(|(index, given, slot)| self.give(index, given, slot))?;
        Ok(next)
    }

    fn give(&mut self, index: usize, given: Given, slot: usize) -> Result<(), ExecError> {
        let device = self.plan.slots[slot].device;
        // A slot that launches write later needs memory of its own: the caller's bytes are only read.
        let in_place = self.device(device)?.caps().host_memory && self.plan.slots[slot].is_upload;
        let open = self.on(index, device);
        if in_place {
            open.imports.push((given, slot));
            open.origins.imports.push(index);
        } else {
            let local = open.local(slot);
            open.uploads.push((given, slot));
            open.push(index, SegmentStep::Upload { upload: open.uploads.len() - 1, slot: local });
        }
        Ok(())
    }

    fn take(&mut self, index: usize, slot: usize, bytes: u64, taken: Taken) -> Result<(), ExecError> {
        let device = self.plan.slots[slot].device;
        let in_place = self.device(device)?.caps().host_memory;
        let open = self.on(index, device);
        if in_place {
            open.exports.push((slot, bytes, taken));
            open.origins.exports.push(index);
            return Ok(());
        }
        let local = open.local(slot);
        open.reads.push(taken);
        open.push(index, SegmentStep::Download { slot: local, bytes, read: open.reads.len() - 1 });
        Ok(())
    }

    /// The open stage of `device`; another device's stage is closed first.
    fn on(&mut self, index: usize, device: DeviceId) -> &mut Part {
        if self.open.as_ref().is_some_and(|o| o.device != device) {
            self.close();
        }
        let open = self.open.get_or_insert_with(|| Part::new(device, index));
        open.steps.end = index + 1;
        open
    }

    fn close(&mut self) {
        self.parts.extend(self.open.take());
    }

    fn device(&self, id: DeviceId) -> Result<&Arc<dyn Device>, ExecError> {
        device(self.devices, id)
    }
}

fn device(devices: &[Option<Arc<dyn Device>>], device: DeviceId) -> Result<&Arc<dyn Device>, ExecError> {
    let found = devices.get(device.0).and_then(Option::as_ref);
    found.ok_or(ExecError::MissingDevice { device })
}

impl Part {
    fn new(device: DeviceId, step: usize) -> Part {
        Part {
            device,
            segment: Segment::default(),
            slots: Vec::new(),
            imports: Vec::new(),
            uploads: Vec::new(),
            reads: Vec::new(),
            exports: Vec::new(),
            steps: step..step,
            origins: Origins::default(),
            alone: false,
        }
    }

    fn compile(
        self,
        devices: &[Option<Arc<dyn Device>>],
        is_wanted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Stage, ExecError> {
        let prepared = device(devices, self.device)?.prepare_while(&self.segment, is_wanted);
        let prepared = prepared.map_err(ExecError::of(self.device))?;
        let Part { device, slots, imports, uploads, reads, exports, steps, origins, alone, .. } = self;
        Ok(Stage { device, prepared, slots, imports, uploads, reads, exports, steps, origins, alone })
    }

    /// One more step of the segment, which is step `origin` of the plan.
    fn push(&mut self, origin: usize, step: SegmentStep) {
        self.origins.segment.push(origin);
        self.segment.steps.push(step);
    }

    /// The segment's own number of a slot of the plan.
    fn local(&mut self, slot: usize) -> usize {
        self.slots.iter().position(|&s| s == slot).unwrap_or_else(|| {
            self.slots.push(slot);
            self.slots.len() - 1
        })
    }

    fn renumber(&mut self, launch: &Launch) -> Launch {
        Launch {
            kernel: launch.kernel.clone(),
            inputs: launch.inputs.iter().map(|&s| self.local(s)).collect(),
            outputs: launch.outputs.iter().map(|&s| self.local(s)).collect(),
            workspace: launch.workspace.map(|s| self.local(s)),
        }
    }
}
