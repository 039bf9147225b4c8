//! Planning: the passes, one after the other.

use breakeven_ir::{DType, Graph, Op};

use crate::counts::count;
use crate::fuse::fuse_types;
use crate::lower::{Lowered, Piece, lower, narrow_indices, widen_indices};
use crate::place::{Barred, Placement, Request, place};
use crate::program::{Program, Wanted};
use crate::schedule::{Schedule, schedule};
use crate::slots::assign_slots;
use crate::verify::{check_devices, check_program, check_slots};
use crate::{
    Cost, Decision, DeviceId, DeviceView, Home, Machine, Output, OutputPlace, Plan, PlanError, Policy, Reason,
};

/// A pass of planning, as an observer of [`plan_observed`] is told when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pass {
    /// The graph became kernels; [`Policy::fuse`] switches the sharing of kernels off.
    Fuse,
    /// Every kernel has a device; [`Policy::pin`] decides it beforehand.
    Place,
    /// Every kernel fits its device; one that does already is left alone.
    Lower,
    /// Steps are in order, and values have memory.
    Slots,
}

impl Pass {
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Pass::Fuse => "fuse",
            Pass::Place => "place",
            Pass::Lower => "lower",
            Pass::Slots => "slots",
        }
    }
}

/// Plans a graph: the same inputs give the same plan, and no device is touched.
pub fn plan(graph: &Graph, home: &Home, policy: &Policy, machine: &Machine<'_>) -> Result<Plan, PlanError> {
    plan_observed(graph, home, policy, machine, &mut |_| {})
}

/// As [`plan`], telling `done` after each pass, so that the caller can time them; the passes themselves read no clock.
/// They run again without a device whose memory the plan does not fit into, but for what insists on it.
pub fn plan_observed(
    graph: &Graph,
    home: &Home,
    policy: &Policy,
    machine: &Machine<'_>,
    done: &mut dyn FnMut(Pass),
) -> Result<Plan, PlanError> {
    check_home(graph, home)?;
    check_pins(policy, machine)?;
    let fingerprint = graph.fingerprint();
    check_graph(policy, fingerprint)?;
    let request = Request { graph, home, policy, machine };
    let mut barred = Barred::new();
    loop {
        let plan = plan_without(request, &barred, done)?;
        match short_of_memory(machine, &plan, &barred) {
            None => return Ok(Plan { graph: fingerprint, lifted: graph.lifted().to_vec(), ..plan }),
            Some((device, why)) => barred.insert(device, why),
        };
    }
}

fn plan_without(request: Request<'_>, barred: &Barred, done: &mut dyn FnMut(Pass)) -> Result<Plan, PlanError> {
    let Request { graph, home, policy, machine } = request;
    let program = narrow_indices(fuse_types(graph, home, policy, &everywhere(policy, machine)), machine);
    debug_check(|| check_program(&program));
    done(Pass::Fuse);
    let placement = place(request, &program, barred)?;
    debug_check(|| check_devices(&program, &placement.devices));
    done(Pass::Place);
    let (predicted, rival, turn) = (placement.predicted, placement.rival, placement.turn);
    let (mut lowered, decisions) = fit(program, placement, machine);
    check_frozen(policy, &decisions)?;
    debug_check(|| check_program(&lowered.program));
    done(Pass::Lower);
    let layout_copies = lowered.program.kernels.iter().filter(|fused| fused.is_layout_copy).count();
    let schedule = schedule(&mut lowered.program, &lowered.devices, home, turn);
    let decided = schedule.order.iter().map(|&kernel| lowered.origins[kernel]).collect();
    let mut plan = assemble(request, &lowered.program, schedule);
    plan.counts.layout_copies = layout_copies;
    done(Pass::Slots);
    Ok(Plan { decisions, decided, predicted, rival, ..plan })
}

/// Kernels in the pieces that their devices offered.
fn fit(mut program: Program, placement: Placement, machine: &Machine<'_>) -> (Lowered, Vec<Decision>) {
    let Placement { devices, decisions, mut offers, .. } = placement;
    let mut pieces: Vec<Option<Vec<Piece>>> = devices
        .iter()
        .zip(&mut offers)
        .map(|(device, offers)| offers[device.0].as_mut().ok().and_then(|offer| Some(offer.pieces.take()?.all)))
        .collect();
    let has_wide = |kernel: usize| machine.device(devices[kernel]).caps.dtypes.contains(&DType::I64);
    let kept = widen_indices(&mut program, &|kernel| has_wide(kernel) && pieces[kernel].is_none());
    let pieces = kept.iter().map(|&kernel| pieces[kernel].take()).collect();
    let devices: Vec<DeviceId> = kept.iter().map(|&kernel| devices[kernel]).collect();
    let mut decisions: Vec<Option<Decision>> = decisions.into_iter().map(Some).collect();
    let decisions = kept.iter().filter_map(|&kernel| decisions[kernel].take()).collect();
    (lower(program, &devices, pieces), decisions)
}

/// The types that every device works on that may be used.
fn everywhere(policy: &Policy, machine: &Machine<'_>) -> Vec<DType> {
    let is_named = |device| policy.pin == Some(device) || policy.pins.values().any(|&pin| pin == device);
    let in_use = |(device, view): &(usize, &DeviceView<'_>)| view.automatic || is_named(DeviceId(*device));
    let has = |dtype: &DType| {
        machine.devices.iter().enumerate().filter(in_use).all(|(_, view)| view.caps.dtypes.contains(dtype))
    };
    DType::ALL.into_iter().filter(has).collect()
}

/// A device whose memory the plan would not fit into, and which is not barred: of those, only what insists on them is left.
fn short_of_memory(machine: &Machine<'_>, plan: &Plan, barred: &Barred) -> Option<(DeviceId, String)> {
    let devices = machine.devices.iter().zip(&plan.counts.slot_bytes).enumerate().skip(1);
    let mut open = devices.filter(|(device, _)| !barred.contains_key(&DeviceId(*device)));
    open.find_map(|(device, (view, &needed))| {
        let has = view.caps.memory_bytes.filter(|&has| needed > has)?;
        Some((DeviceId(device), format!("the plan would need {needed} bytes at once, and the device has {has}")))
    })
}

fn check_graph(policy: &Policy, graph: u64) -> Result<(), PlanError> {
    match policy.frozen.as_ref().filter(|frozen| frozen.graph() != graph) {
        Some(_) => Err(PlanError::FrozenGraph),
        None => Ok(()),
    }
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
fn debug_check(check: impl FnOnce() -> Result<(), String>) {
    if cfg!(debug_assertions)
        && let Err(why) = check()
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
fn assemble(request: Request<'_>, program: &Program, schedule: Schedule) -> Plan {
    let before = cfg!(debug_assertions).then(|| schedule.clone());
    let slots = assign_slots(program, schedule);
    debug_check(|| before.map_or(Ok(()), |before| check_slots(program, &before, &slots)));
    let places = program.wanted.iter().zip(&slots.found).map(|(wanted, found)| output_place(program, wanted, *found));
    let output = |(&node, place)| Output { node, dtype: request.graph.node(node).spec.dtype, place };
    let outputs = request.graph.outputs().iter().zip(places).map(output).collect();
    let counts = count(request.machine, &slots);
    let (slots, steps) = (slots.all, slots.steps);
    let devices = request.machine.devices.iter().map(|view| view.name.clone()).collect();
    let (decisions, decided, predicted, remarks) = (Vec::new(), Vec::new(), Cost::ZERO, Vec::new());
    let (graph, lifted, rival) = (0, Vec::new(), None);
    Plan { graph, lifted, devices, slots, steps, outputs, decisions, decided, predicted, rival, counts, remarks }
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
