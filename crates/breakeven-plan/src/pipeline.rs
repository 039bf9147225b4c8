//! Planning: the passes, one after the other.

use breakeven_ir::{DType, Graph, Op};

use crate::counts::count;
use crate::lower::{lower, narrow_indices, widen_indices};
use crate::place::{Barred, Placement, Request, place};
use crate::program::{Program, Wanted};
use crate::schedule::{Schedule, schedule};
use crate::slots::assign_slots;
use crate::verify::{check_devices, check_program, check_slots};
use crate::{Cost, Decision, DeviceId, Home, Machine, Output, OutputPlace, Plan, PlanError, Policy, Reason, fuse};

/// Plans a graph: the same inputs give the same plan, and no device is touched.
pub fn plan(graph: &Graph, home: &Home, policy: &Policy, machine: &Machine<'_>) -> Result<Plan, PlanError> {
    check_home(graph, home)?;
    check_pins(policy, machine)?;
    let request = Request { graph, home, policy, machine };
    let program = narrow_indices(fuse(graph, home, policy), machine);
    debug_check(check_program(&program));
    let mut barred = Barred::new();
    loop {
        let plan = plan_without(request, program.clone(), &barred)?;
        match short_of_memory(machine, &plan).filter(|(device, _)| !barred.contains_key(device)) {
            None => return Ok(plan),
            Some((device, why)) => barred.insert(device, why),
        };
    }
}

/// Everything after fusion, leaving out devices that are barred.
fn plan_without(request: Request<'_>, mut program: Program, barred: &Barred) -> Result<Plan, PlanError> {
    let Placement { devices, decisions, predicted, offers } = place(request, &program, barred)?;
    let pieces = |kernel: usize| offers[kernel][devices[kernel].0].as_ref().ok()?.pieces.clone();
    let has_wide = |kernel: usize| request.machine.device(devices[kernel]).caps.dtypes.contains(&DType::I64);
    let kept = widen_indices(&mut program, &|kernel| has_wide(kernel) && pieces(kernel).is_none());
    let pieces = kept.iter().map(|&kernel| pieces(kernel)).collect();
    let decisions: Vec<Decision> = kept.iter().map(|&kernel| decisions[kernel].clone()).collect();
    let devices: Vec<DeviceId> = kept.iter().map(|&kernel| devices[kernel]).collect();
    check_frozen(request.policy, &decisions)?;
    debug_check(check_devices(&program, &devices));
    let lowered = lower(program, &devices, pieces);
    debug_check(check_program(&lowered.program));
    let in_host = |device: DeviceId| request.machine.device(device).caps.host_memory;
    let schedule = schedule(&lowered.program, &lowered.devices, request.home, &in_host);
    Ok(Plan { decisions, predicted, ..assemble(request, &lowered.program, &schedule) })
}

/// A device whose memory the plan would not fit into.
fn short_of_memory(machine: &Machine<'_>, plan: &Plan) -> Option<(DeviceId, String)> {
    let devices = machine.devices.iter().zip(&plan.counts.slot_bytes).enumerate().skip(1);
    devices.into_iter().find_map(|(device, (view, &needed))| {
        let has = view.caps.memory_bytes.filter(|&has| needed > has)?;
        Some((DeviceId(device), format!("the plan would need {needed} bytes at once, and the device has {has}")))
    })
}

fn check_frozen(policy: &Policy, decisions: &[Decision]) -> Result<(), PlanError> {
    match decisions.iter().find(|decision| decision.reason != Reason::Frozen) {
        Some(decision) if policy.frozen.is_some() => Err(PlanError::Frozen { what: decision.what.clone() }),
        _ => Ok(()),
    }
}

fn check_pins(policy: &Policy, machine: &Machine<'_>) -> Result<(), PlanError> {
    let devices = machine.devices.len();
    match policy.pin.iter().chain(policy.pins.values()).find(|device| device.0 >= devices) {
        Some(&device) => Err(PlanError::NoDevice { device, devices }),
        None => Ok(()),
    }
}

/// A pass that breaks its promise is a bug of this crate.
fn debug_check(found: Result<(), String>) {
    if cfg!(debug_assertions)
        && let Err(why) = found
    {
        panic!("a pass of the planner broke its promise: {why}");
    }
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
fn assemble(request: Request<'_>, program: &Program, schedule: &Schedule) -> Plan {
    let slots = assign_slots(program, schedule);
    debug_check(check_slots(program, schedule, &slots));
    let places = program.wanted.iter().zip(&slots.found).map(|(wanted, found)| output_place(program, wanted, *found));
    let output = |(&node, place)| Output { node, dtype: request.graph.node(node).spec.dtype, place };
    let outputs = request.graph.outputs().iter().zip(places).map(output).collect();
    let counts = count(program, request.machine, &slots);
    let (slots, steps) = (slots.all, slots.steps);
    let devices = request.machine.devices.iter().map(|view| view.name.clone()).collect();
    Plan { devices, slots, steps, outputs, decisions: Vec::new(), predicted: Cost::ZERO, counts }
}

fn output_place(program: &Program, wanted: &Wanted, found: Option<usize>) -> OutputPlace {
    match (wanted, found) {
        (Wanted::Empty, _) => OutputPlace::Empty,
        (Wanted::Value { layout, .. }, Some(slot)) => OutputPlace::Slot { slot, layout: layout.clone() },
        (Wanted::Value { value, layout }, None) => {
            OutputPlace::Input { input: program.values[*value].node, layout: layout.clone() }
        }
    }
}
