//! Carries a plan out over plain bytes, with the reference as every device.

use breakeven_ir::{Graph, NodeId, Spec};
use breakeven_plan::{Home, OutputPlace, Plan, Step};

use super::evaluate::gathered;

/// Bytes of each input as it is stored, and of what the plan downloads or leaves in slots.
pub struct Interpreter {
    slots: Vec<Vec<u8>>,
    downloads: Vec<Option<Vec<u8>>>,
}

/// Dense bytes of each output of the graph.
pub fn interpret(graph: &Graph, home: &Home, plan: &Plan, inputs: &dyn Fn(NodeId) -> Vec<u8>) -> Vec<Vec<u8>> {
    let stored = |id: NodeId| store(graph, home, id, inputs(id));
    let fresh = |slot: &breakeven_plan::Slot| slot.source.map_or(vec![0xA5; slot.bytes as usize], stored);
    let slots = plan.slots.iter().map(fresh).collect();
    let mut machine = Interpreter { slots, downloads: vec![None; plan.outputs.len()] };
    plan.steps.iter().for_each(|step| machine.step(step, &stored));
    let dense = |(at, output): (usize, &breakeven_plan::Output)| match &output.place {
        OutputPlace::Empty => Vec::new(),
        OutputPlace::Slot { slot, layout } => {
            let bytes = if home.is_read(at) { machine.downloads[at].as_ref().unwrap() } else { &machine.slots[*slot] };
            gathered(bytes, layout, &graph.node(output.node).spec)
        }
        OutputPlace::Input { input, layout } => gathered(&stored(*input), layout, &graph.node(output.node).spec),
    };
    plan.outputs.iter().enumerate().map(dense).collect()
}

/// Dense bytes laid out as the home of an input says.
fn store(graph: &Graph, home: &Home, id: NodeId, dense: Vec<u8>) -> Vec<u8> {
    let Spec { dtype, .. } = graph.node(id).spec;
    let Some(source) = home.inputs.get(&id) else { return dense };
    let bytes = source.layout.span().map_or(0, |(_, high)| (high + 1) * dtype.bytes());
    let mut stored = vec![0; bytes];
    for (element, at) in source.layout.positions().enumerate() {
        let width = dtype.bytes();
        stored[at * width..][..width].copy_from_slice(&dense[element * width..][..width]);
    }
    stored
}

impl Interpreter {
    fn step(&mut self, step: &Step, stored: &dyn Fn(NodeId) -> Vec<u8>) {
        match step {
            Step::Upload { input, slot } => self.fill(*slot, &stored(*input)),
            Step::Copy { from, to, bytes } => {
                let bytes = self.slots[*from][..*bytes as usize].to_vec();
                self.fill(*to, &bytes);
            }
            Step::Download { slot, output, bytes } => {
                self.downloads[*output] = Some(self.slots[*slot][..*bytes as usize].to_vec());
            }
            Step::Run { launch, .. } => {
                let read: Vec<Vec<u8>> = launch.inputs.iter().map(|&slot| self.slots[slot].clone()).collect();
                let read: Vec<&[u8]> = read.iter().map(Vec::as_slice).collect();
                let mut outs: Vec<Vec<u8>> =
                    launch.outputs.iter().map(|&slot| std::mem::take(&mut self.slots[slot])).collect();
                let mut slices: Vec<&mut [u8]> = outs.iter_mut().map(Vec::as_mut_slice).collect();
                launch.kernel.reference(&read, &mut slices);
                for (&slot, bytes) in launch.outputs.iter().zip(outs) {
                    self.slots[slot] = bytes;
                }
            }
        }
    }

    fn fill(&mut self, slot: usize, bytes: &[u8]) {
        self.slots[slot][..bytes.len()].copy_from_slice(bytes);
    }
}
