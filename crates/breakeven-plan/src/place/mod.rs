//! The second pass: where each kernel runs.
//!
//! Candidates are every device alone and the cheapest cuts and, where devices could work at once, what is reached from
//! them by moving kernels. All of them run on one simulated clock, and one over several devices must win by a margin that
//! depends on how far the profile is trusted.

mod bound;
mod decide;
mod expand;
mod flow;
mod model;
mod offers;
mod reduce;
mod refine;
mod simulate;

use breakeven_ir::Graph;

use crate::cost::CostModel;
use crate::program::Program;
use crate::route::{Router, Turn};
use crate::{Cost, Decision, DeviceId, Home, Machine, PlanError, Policy, Trust};
use expand::expand;
use model::Model;
use offers::Market;
pub(crate) use offers::{Barred, Offer, Refusal};
use refine::{Timed, better, refine, time};

/// Where each kernel of a program runs, and why.
pub(crate) struct Placement {
    pub devices: Vec<DeviceId>,
    /// Whose run comes first.
    pub turn: Turn,
    pub decisions: Vec<Decision>,
    pub predicted: Cost,
    /// The best of the other single devices.
    pub rival: Option<(DeviceId, Cost)>,
    /// What each device offers for each kernel.
    pub offers: Vec<Vec<Result<Offer, Refusal>>>,
}

/// What planning was asked with.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub graph: &'a Graph,
    pub home: &'a Home,
    pub policy: &'a Policy,
    pub machine: &'a Machine<'a>,
}

/// Places every kernel.
pub(crate) fn place(request: Request<'_>, program: &Program, barred: &Barred) -> Result<Placement, PlanError> {
    let cost = CostModel::new(request.machine);
    let market = Market { machine: request.machine, cost: &cost, policy: request.policy, barred };
    let offers = market.offers(program);
    let mut model = Model::new(program, request.home, request.machine, &cost);
    model.run = offers.iter().map(|of| of.iter().map(|offer| Some(offer.as_ref().ok()?.seconds())).collect()).collect();
    join_writers(&mut model);
    let start = start(&market, program, &model, &offers)?;
    let choice = choose(&Router::new(program, request.home), &model, request, start);
    let cost = |seconds, devices: &[DeviceId]| Cost { seconds, spread: spread(&offers, devices) };
    let predicted = cost(choice.seconds, &choice.devices);
    let alone = |device| vec![device; choice.devices.len()];
    let rival = choice.rival.map(|(device, seconds)| (device, cost(seconds, &alone(device))));
    let decisions = decide::decisions(&market, program, &model, &offers, &choice);
    Ok(Placement { devices: choice.devices, turn: choice.turn, decisions, predicted, rival, offers })
}

fn spread(offers: &[Vec<Result<Offer, Refusal>>], devices: &[DeviceId]) -> f64 {
    let of = |(offers, device): (&Vec<Result<Offer, Refusal>>, &DeviceId)| {
        offers[device.0].as_ref().ok().and_then(Offer::cost).map_or(0.0, |cost| cost.spread)
    };
    offers.iter().zip(devices).map(of).sum()
}

/// Kernels that write one value run on one device, so each can only run where all can.
fn join_writers(model: &mut Model) {
    for value in model.values.iter().filter(|value| value.writers.len() > 1) {
        for device in 0..model.space.len() {
            if value.writers.iter().any(|&writer| model.run[writer][device].is_none()) {
                value.writers.iter().for_each(|&writer| model.run[writer][device] = None);
            }
        }
    }
}

/// Every kernel on the first device that can run it: the host's CPU unless it cannot or another was asked for.
fn start(
    market: &Market<'_>,
    program: &Program,
    model: &Model,
    offers: &[Vec<Result<Offer, Refusal>>],
) -> Result<Vec<DeviceId>, PlanError> {
    let first = |kernel: usize| {
        let device = model.run[kernel].iter().position(Option::is_some).map(DeviceId);
        device.ok_or_else(|| decide::nowhere(market, &program.kernels[kernel], &offers[kernel]))
    };
    (0..program.kernels.len()).map(first).collect()
}

/// The placement that was chosen, and what it was chosen over.
pub(crate) struct Choice {
    pub devices: Vec<DeviceId>,
    pub turn: Turn,
    pub seconds: f64,
    /// The cheapest mix, where the guard preferred a single device.
    pub rejected: Option<Vec<DeviceId>>,
    /// It was not chosen over anything.
    pub is_probe: bool,
    /// The best of the other single devices, and what everything takes there.
    pub rival: Option<(DeviceId, f64)>,
}

impl Choice {
    fn new(timed: Timed, rejected: Option<Timed>) -> Choice {
        let Timed { seconds, devices, turn } = timed;
        Choice { devices, turn, seconds, rejected: rejected.map(|timed| timed.devices), is_probe: false, rival: None }
    }
}

/// The best of these that is another than what was chosen, on the host where that is not and elsewhere where it is: another GPU of the same
/// kind says nothing new.
fn rival(singles: &[Timed], chosen: &[DeviceId]) -> Option<(DeviceId, f64)> {
    let is_host = |devices: &[DeviceId]| devices.iter().all(|&device| device == DeviceId::HOST);
    let other = || singles.iter().filter(|timed| timed.devices != chosen);
    let unlike = other().filter(|timed| is_host(&timed.devices) != is_host(chosen)).cloned().reduce(better);
    let best = unlike.or_else(|| other().cloned().reduce(better))?;
    Some((*best.devices.first()?, best.seconds))
}

fn choose(router: &Router<'_>, model: &Model, request: Request<'_>, start: Vec<DeviceId>) -> Choice {
    let Request { machine, policy, .. } = request;
    let timed = |devices: Vec<DeviceId>| time(router, model, devices);
    let usable = usable(model);
    if usable.len() < 2 {
        return Choice::new(timed(start), None);
    }
    let probed = policy.probe.filter(|probe| usable.contains(probe)).and_then(|probe| alone(model, probe));
    if let Some(probed) = probed {
        return Choice { is_probe: true, ..Choice::new(timed(probed), None) };
    }
    let singles: Vec<Timed> = usable.iter().filter_map(|&device| alone(model, device)).map(timed).collect();
    let cuts: Vec<Timed> = cuts(model, &usable, &start).into_iter().map(timed).collect();
    let single = singles.iter().cloned().reduce(better);
    let cut = cuts.iter().cloned().reduce(better).expect("there is a cut for each device");
    let least = bound::least(router, model, &usable);
    // The mix that is trusted most has the least to show.
    let asked = usable.iter().map(|&device| margin(machine, &[device])).fold(f64::INFINITY, f64::min);
    let can_win = single.as_ref().is_none_or(|single| least < single.seconds * (1.0 - asked));
    let mixed = if can_win && least < cut.seconds {
        refine(router, model, &usable, cuts.into_iter().chain(singles.iter().cloned()).collect())
    } else {
        cut
    };
    let choice = match single {
        None => Choice::new(mixed, None),
        Some(single) if mixed.devices == single.devices => Choice::new(single, None),
        Some(single) if mixed.seconds < single.seconds * (1.0 - margin(machine, &mixed.devices)) => {
            Choice::new(mixed, None)
        }
        Some(single) => Choice::new(single, Some(mixed)),
    };
    Choice { rival: rival(&singles, &choice.devices), ..choice }
}

/// Devices that can run some kernel.
fn usable(model: &Model) -> Vec<DeviceId> {
    let can = |device: &DeviceId| model.run.iter().any(|of| of[device.0].is_some());
    (0..model.space.len()).map(DeviceId).filter(can).collect()
}

/// Everything on one device, where that can be.
fn alone(model: &Model, device: DeviceId) -> Option<Vec<DeviceId>> {
    let all = model.run.iter().all(|of| of[device.0].is_some());
    all.then(|| vec![device; model.run.len()])
}

/// By how much a plan over these devices must be better: as the least trusted of their profiles asks.
fn margin(machine: &Machine<'_>, labels: &[DeviceId]) -> f64 {
    let trust = labels.iter().map(|&device| machine.device(device).profile.trust).min();
    trust.unwrap_or(Trust::Builtin).margin()
}

/// The cheapest cuts between the start and each device; with more than two devices, moved on from device to device
/// until no move helps. Copies are priced with and without hand-overs and waits: one is too much where several copies
/// share them, the other too little where they do not.
fn cuts(model: &Model, usable: &[DeviceId], start: &[DeviceId]) -> Vec<Vec<DeviceId>> {
    let mut cuts = Vec::new();
    for fixed in [false, true] {
        for &device in usable {
            let mut labels = expand(model, start, device, fixed);
            cuts.push(labels.clone());
            if usable.len() > 2 {
                for _ in 0..usable.len() {
                    let before = labels.clone();
                    labels = usable.iter().fold(labels, |labels, &other| expand(model, &labels, other, fixed));
                    if labels == before {
                        break;
                    }
                    cuts.push(labels.clone());
                }
            }
        }
    }
    cuts
}
