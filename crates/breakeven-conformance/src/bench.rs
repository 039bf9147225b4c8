//! Runs cases on a device, many in one submission, and compares what comes back.

use std::time::Duration;

use breakeven_device::{
    Binding, Deadline, Device, HostBytes, Lane, MemoryKind, ReadCell, Result, Segment, SegmentStep,
};
use breakeven_ir::Launch;

use crate::bounds::Rules;
use crate::compare::compare;
use crate::{Case, Counts};

/// Cases run together up to this many, or this many bytes.
const TOGETHER: usize = 64;
const BYTES_TOGETHER: usize = 16 << 20;

/// A device on which cases are run.
#[derive(Debug)]
pub struct Bench<'a> {
    device: &'a dyn Device,
    waiting: Vec<Case>,
    counts: Counts,
}

impl<'a> Bench<'a> {
    /// Nothing run yet.
    pub fn new(device: &'a dyn Device) -> Bench<'a> {
        Bench { device, waiting: Vec::new(), counts: Counts::default() }
    }

    /// The device.
    pub fn device(&self) -> &'a dyn Device {
        self.device
    }

    /// Run the case, now or with those to come; count it when the device does not support it.
    pub fn add(&mut self, case: Case) {
        if self.device.supports(&case.kernel).is_err() {
            self.counts.refused += 1;
            return;
        }
        let bytes: usize = self.waiting.iter().map(Case::bytes).sum();
        if self.waiting.len() == TOGETHER || bytes + case.bytes() > BYTES_TOGETHER {
            self.flush();
        }
        self.waiting.push(case);
    }

    /// Count what was run elsewhere.
    pub fn count(&mut self, more: Counts) {
        self.counts.launches += more.launches;
        self.counts.elements += more.elements;
        self.counts.refused += more.refused;
    }

    /// Run what waits; says what was run.
    ///
    /// # Panics
    /// At the first difference, naming kernel, shape, view, element, what came and what may come.
    pub fn finish(mut self) -> Counts {
        self.flush();
        self.counts
    }

    fn flush(&mut self) {
        let cases = std::mem::take(&mut self.waiting);
        if cases.is_empty() {
            return;
        }
        let rules = Rules::of(self.device.info());
        for (case, got) in cases.iter().zip(self.results(&cases)) {
            compare(self.device, case, &got, rules);
            self.counts.launches += 1;
            self.counts.elements += case.kernel.outputs().iter().map(|o| o.layout.shape.elements() as u64).sum::<u64>();
        }
    }

    /// What each case's output buffers hold after its run. A failure of many is pinned to one by running them alone.
    fn results(&self, cases: &[Case]) -> Vec<Vec<HostBytes>> {
        let alone = |case: &Case| {
            let one = run(self.device, std::slice::from_ref(case));
            one.unwrap_or_else(|e| panic!("{}: {}: {e}", self.device.info().name, case.name)).swap_remove(0)
        };
        run(self.device, cases).unwrap_or_else(|_| cases.iter().map(alone).collect())
    }
}

/// One submission of all cases: uploads, launches, downloads.
///
/// # Errors
/// What the device says; also when it called work done whose bytes never came.
pub fn run(device: &dyn Device, cases: &[Case]) -> Result<Vec<Vec<HostBytes>>> {
    let mut batch = Batch {
        device,
        uploads: vec![],
        launches: vec![],
        downloads: vec![],
        binding: Binding::default(),
        reads: vec![],
    };
    for case in cases {
        batch.push(case)?;
    }
    let steps = [&batch.uploads, &batch.launches, &batch.downloads].into_iter().flatten().cloned().collect();
    carry_out(device, steps, batch.binding.clone())?;
    let mut cells = batch.binding.reads.iter();
    let mut take = || cells.next().and_then(ReadCell::take).expect("a read is filled once its submission is done");
    Ok(batch.reads.iter().map(|&count| (0..count).map(|_| take()).collect()).collect())
}

/// Prepares, submits and waits for steps.
///
/// # Errors
/// What the device says.
pub fn carry_out(device: &dyn Device, steps: Vec<SegmentStep>, binding: Binding) -> Result<()> {
    let prepared = device.prepare(&Segment { steps })?;
    let ticket = device.submit(&prepared, binding, Lane::Compute, &[])?;
    device.wait(ticket, Deadline::after(Duration::from_mins(2))).map(|_| ())
}

struct Batch<'a> {
    device: &'a dyn Device,
    uploads: Vec<SegmentStep>,
    launches: Vec<SegmentStep>,
    downloads: Vec<SegmentStep>,
    binding: Binding,
    /// Outputs of each case.
    reads: Vec<usize>,
}

impl Batch<'_> {
    fn push(&mut self, case: &Case) -> Result<()> {
        let buffers: Vec<usize> = case.buffers.iter().map(|b| self.upload(b.clone())).collect::<Result<_>>()?;
        let inputs: Vec<usize> = case.bound.iter().map(|&b| buffers[b]).collect();
        let outputs: Vec<usize> = match case.in_place {
            Some(input) => vec![inputs[input]],
            None => case.outputs().into_iter().map(|b| self.upload(b)).collect::<Result<_>>()?,
        };
        let workspace = match self.device.workspace_bytes(&case.kernel) {
            0 => None,
            bytes => Some(self.upload(vec![0xFF; bytes as usize])?),
        };
        let launch = Launch { kernel: case.kernel.clone(), inputs, outputs: outputs.clone(), workspace };
        self.launches.push(SegmentStep::Launch(Box::new(launch)));
        for &slot in &outputs {
            let bytes = self.binding.buffers[slot].bytes();
            self.downloads.push(SegmentStep::Download { slot, bytes, read: self.binding.reads.len() });
            self.binding.reads.push(ReadCell::new());
        }
        self.reads.push(outputs.len());
        Ok(())
    }

    fn upload(&mut self, bytes: Vec<u8>) -> Result<usize> {
        let slot = self.binding.buffers.len();
        self.binding.buffers.push(self.device.alloc(bytes.len() as u64, MemoryKind::Resident)?);
        self.uploads.push(SegmentStep::Upload { upload: self.binding.uploads.len(), slot });
        self.binding.uploads.push(HostBytes::from_vec(bytes));
        Ok(slot)
    }
}
