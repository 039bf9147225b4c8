//! Carries a plan out on one device: kernel by kernel, each compared on what it really received, and in one go.

use breakeven_device::{Binding, Buffer, Device, HostBytes, MemoryKind, ReadCell, Result, SegmentStep};
use breakeven_ir::{Graph, Launch, NodeId, Scalar};
use breakeven_plan::{DeviceProfile, DeviceView, Home, Machine, OutputPlace, Plan, PlanError, Policy, Step, plan};

use crate::bench::carry_out;
use crate::bounds::Rules;
use crate::compare::compare;
use crate::{Case, Counts};

/// A plan for a machine that has nothing but this device.
///
/// # Errors
/// When the device cannot run a kernel of the graph.
pub fn plan_for(graph: &Graph, device: &dyn Device, policy: &Policy) -> std::result::Result<Plan, PlanError> {
    let profile = DeviceProfile::default();
    let supports = |kernel: &breakeven_ir::Kernel| device.supports(kernel);
    let name = device.info().name.clone();
    let lowers = |kernel: &breakeven_ir::Kernel| device.lowers(kernel);
    let caps = device.caps();
    let view = DeviceView { name, caps, profile: &profile, supports: &supports, lowers: &lowers, automatic: true };
    plan(graph, &Home::default(), policy, &Machine { devices: vec![view] })
}

/// A plan, its graph's inputs, and the device it runs on.
pub struct Carrier<'a> {
    device: &'a dyn Device,
    plan: &'a Plan,
    inputs: &'a dyn Fn(NodeId) -> Vec<u8>,
    name: &'a str,
    /// What each slot holds on the device, as the device said.
    held: Vec<Vec<u8>>,
    /// What was run.
    pub counts: Counts,
}

impl<'a> Carrier<'a> {
    /// Every slot is full of NaN at first.
    pub fn new(
        device: &'a dyn Device,
        plan: &'a Plan,
        inputs: &'a dyn Fn(NodeId) -> Vec<u8>,
        name: &'a str,
    ) -> Carrier<'a> {
        let held = plan.slots.iter().map(|slot| vec![0xFF; slot.bytes as usize]).collect();
        Carrier { device, plan, inputs, name, held, counts: Counts::default() }
    }

    /// Elements of each output of the graph after running each kernel alone.
    ///
    /// # Errors
    /// What the device says.
    ///
    /// # Panics
    /// At the first element that may not follow from what its kernel received.
    pub fn kernel_by_kernel(&mut self) -> Result<Vec<Vec<Scalar>>> {
        let buffers = self.buffers()?;
        let mut binding = Binding { buffers, ..Binding::default() };
        for (number, step) in self.plan.steps.iter().enumerate() {
            match step {
                Step::Upload { input, slot } => {
                    let bytes = (self.inputs)(*input);
                    self.held[*slot][..bytes.len()].copy_from_slice(&bytes);
                    self.refill(&binding, *slot)?;
                }
                Step::Run { launch, .. } => self.run(launch, number, &mut binding)?,
                Step::Download { .. } => {}
                Step::Copy { .. } => unreachable!("one device needs no copies between devices"),
            }
        }
        Ok(self.outputs())
    }

    /// The same in one submission, with fresh memory.
    ///
    /// # Errors
    /// What the device says.
    pub fn in_one_go(&mut self) -> Result<Vec<Vec<Scalar>>> {
        let mut binding = Binding { buffers: self.buffers()?, ..Binding::default() };
        let mut steps = Vec::new();
        for step in &self.plan.steps {
            match step {
                Step::Upload { input, slot } => {
                    steps.push(SegmentStep::Upload { upload: binding.uploads.len(), slot: *slot });
                    binding.uploads.push(HostBytes::from_vec((self.inputs)(*input)));
                }
                Step::Run { launch, .. } => {
                    let workspace = self.workspace(launch, &mut binding)?;
                    steps.push(SegmentStep::Launch(Box::new(Launch { workspace, ..(**launch).clone() })));
                    self.counts.launches += 1;
                }
                Step::Download { .. } | Step::Copy { .. } => {}
            }
        }
        let kept: Vec<usize> = self.kept();
        for (read, &slot) in kept.iter().enumerate() {
            steps.push(SegmentStep::Download { slot, bytes: self.plan.slots[slot].bytes, read });
            binding.reads.push(ReadCell::new());
        }
        carry_out(self.device, steps, binding.clone())?;
        for (&slot, read) in kept.iter().zip(&binding.reads) {
            self.held[slot] = read.take().expect("a read is filled once its submission is done").to_vec();
        }
        Ok(self.outputs())
    }

    fn kept(&self) -> Vec<usize> {
        (0..self.plan.slots.len()).filter(|&slot| self.plan.slots[slot].kept).collect()
    }

    /// Memory for all slots, full of NaN.
    fn buffers(&self) -> Result<Vec<Buffer>> {
        let one = |slot: &breakeven_plan::Slot| self.device.alloc(slot.bytes, MemoryKind::Resident);
        let buffers: Vec<Buffer> = self.plan.slots.iter().map(one).collect::<Result<_>>()?;
        let fill = |slot: usize| SegmentStep::Upload { upload: slot, slot };
        let uploads = self.plan.slots.iter().map(|s| HostBytes::from_vec(vec![0xFFu8; s.bytes as usize])).collect();
        let binding = Binding { buffers: buffers.clone(), uploads, reads: vec![], ..Binding::default() };
        carry_out(self.device, (0..buffers.len()).map(fill).collect(), binding)?;
        Ok(buffers)
    }

    fn refill(&self, binding: &Binding, slot: usize) -> Result<()> {
        let uploads = vec![HostBytes::from_vec(self.held[slot].clone())];
        let binding = Binding { uploads, ..binding.clone() };
        carry_out(self.device, vec![SegmentStep::Upload { upload: 0, slot }], binding)
    }

    fn workspace(&self, launch: &Launch, binding: &mut Binding) -> Result<Option<usize>> {
        let bytes = self.device.workspace_bytes(&launch.kernel);
        if bytes == 0 {
            return Ok(None);
        }
        binding.buffers.push(self.device.alloc(bytes, MemoryKind::Resident)?);
        Ok(Some(binding.buffers.len() - 1))
    }

    fn run(&mut self, launch: &Launch, number: usize, binding: &mut Binding) -> Result<()> {
        let case = self.case(launch, number);
        let workspace = self.workspace(launch, binding)?;
        let mut steps = vec![SegmentStep::Launch(Box::new(Launch { workspace, ..launch.clone() }))];
        binding.reads.clear();
        for &slot in &launch.outputs {
            let read = binding.reads.len();
            steps.push(SegmentStep::Download { slot, bytes: self.plan.slots[slot].bytes, read });
            binding.reads.push(ReadCell::new());
        }
        carry_out(self.device, steps, binding.clone())?;
        let taken = |read: &ReadCell| read.take().expect("a read is filled once its submission is done");
        let got: Vec<HostBytes> = binding.reads.iter().map(taken).collect();
        compare(self.device, &case, &got, Rules::of(self.device.info()));
        self.counts.launches += 1;
        self.counts.elements += launch.kernel.outputs().iter().map(|o| o.layout.shape.elements() as u64).sum::<u64>();
        for (&slot, bytes) in launch.outputs.iter().zip(got) {
            self.held[slot] = bytes.to_vec();
        }
        Ok(())
    }

    fn case(&self, launch: &Launch, number: usize) -> Case {
        let held = |slots: &[usize]| slots.iter().map(|&s| self.held[s].clone()).collect::<Vec<_>>();
        let in_place = launch.inputs.iter().position(|slot| launch.outputs.contains(slot));
        Case {
            name: format!("{}, step {number}, {:?}", self.name, launch.kernel.class()),
            kernel: launch.kernel.clone(),
            buffers: held(&launch.inputs),
            bound: (0..launch.inputs.len()).collect(),
            in_place,
            before: Some(held(&launch.outputs)),
        }
    }

    fn outputs(&self) -> Vec<Vec<Scalar>> {
        let one = |output: &breakeven_plan::Output| match &output.place {
            OutputPlace::Empty => Vec::new(),
            OutputPlace::Slot { slot, layout } => {
                layout.positions().map(|at| Scalar::load(output.dtype, &self.held[*slot], at)).collect()
            }
            OutputPlace::Input { input, layout } => {
                let bytes = (self.inputs)(*input);
                layout.positions().map(|at| Scalar::load(output.dtype, &bytes, at)).collect()
            }
        };
        self.plan.outputs.iter().map(one).collect()
    }
}
