//! Planning: the passes, one after the other.

use breakeven_ir::{Graph, Op};

use crate::counts::count;
use crate::program::{Program, Wanted};
use crate::schedule::{Schedule, schedule};
use crate::slots::assign_slots;
use crate::{Cost, DeviceId, Home, Machine, Output, OutputPlace, Plan, PlanError, Policy, fuse};

/// Plans a graph: the same inputs give the same plan, and no device is touched.
pub fn plan(graph: &Graph, home: &Home, policy: &Policy, machine: &Machine<'_>) -> Result<Plan, PlanError> {
    check_home(graph, home)?;
    let program = fuse(graph, home, policy);
    let devices = vec![policy.pin.unwrap_or(DeviceId::HOST); program.kernels.len()];
    let schedule = schedule(&program, &devices, home);
    Ok(assemble(graph, machine, &program, schedule))
}

fn check_home(graph: &Graph, home: &Home) -> Result<(), PlanError> {
    for (&input, source) in &home.inputs {
        let wrong = |reason: &str| Err(PlanError::Input { input, reason: reason.to_owned() });
        match graph.nodes().get(input.index()) {
            Some(node) if node.op == Op::Input && node.spec.shape != source.layout.shape => {
                return wrong("its layout has another shape");
            }
            Some(node) if node.op == Op::Input => {}
            _ => return wrong("it is not an input of the graph"),
        }
        if source.places.is_empty() {
            return wrong("it is nowhere");
        }
    }
    Ok(())
}

/// The last pass, and what it amounts to.
fn assemble(graph: &Graph, machine: &Machine<'_>, program: &Program, schedule: Schedule) -> Plan {
    let slots = assign_slots(program, schedule);
    let places = program.wanted.iter().zip(&slots.found).map(|(wanted, found)| place(program, wanted, *found));
    let output = |(&node, place)| Output { node, dtype: graph.node(node).spec.dtype, place };
    let outputs = graph.outputs().iter().zip(places).map(output).collect();
    let counts = count(program, machine, &slots);
    let (slots, steps) = (slots.all, slots.steps);
    Plan { slots, steps, outputs, decisions: Vec::new(), predicted: Cost::ZERO, counts }
}

fn place(program: &Program, wanted: &Wanted, found: Option<usize>) -> OutputPlace {
    match (wanted, found) {
        (Wanted::Empty, _) => OutputPlace::Empty,
        (Wanted::Value { layout, .. }, Some(slot)) => OutputPlace::Slot { slot, layout: layout.clone() },
        (Wanted::Value { value, layout }, None) => {
            OutputPlace::Input { input: program.values[*value].node, layout: layout.clone() }
        }
    }
}
