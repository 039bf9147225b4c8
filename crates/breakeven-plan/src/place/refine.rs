//! Moves that let devices work at once. A cut counts one device after the other, so on graphs with branches it is only
//! where this begins: units of kernels change their device as long as the simulated run gets shorter.

use super::model::Model;
use super::simulate::simulate;
use crate::DeviceId;
use crate::route::{Router, Turn};

/// Kernels that may be looked at while one graph is placed, which bounds the time of planning: some milliseconds.
const LOOKS: usize = 1 << 14;

/// A placement with the time of its simulated run.
#[derive(Clone, Debug)]
pub(crate) struct Timed {
    pub seconds: f64,
    pub devices: Vec<DeviceId>,
    pub turn: Turn,
}

/// The time of a placement, in the better order of runs.
pub(crate) fn time(router: &Router<'_>, model: &Model, devices: Vec<DeviceId>) -> Timed {
    let seconds = |turn: Turn| simulate(model, &router.route(&devices, turn));
    let is_mixed = devices.iter().any(|device| *device != devices[0]);
    let in_order = seconds(Turn::InOrder);
    let host_last = if is_mixed { seconds(Turn::HostLast) } else { in_order };
    let turn = if host_last < in_order { Turn::HostLast } else { Turn::InOrder };
    Timed { seconds: in_order.min(host_last), devices, turn }
}

/// The best of what is reached from each of `starts` by moving one unit at a time.
pub(crate) fn refine(router: &Router<'_>, model: &Model, usable: &[DeviceId], mut starts: Vec<Timed>) -> Timed {
    starts.sort_by(|a, b| a.seconds.total_cmp(&b.seconds).then_with(|| a.devices.cmp(&b.devices)));
    starts.dedup_by(|a, b| a.devices == b.devices);
    let units = units(router, model);
    let mut left = LOOKS / model.run.len().max(1);
    let climbed = starts.into_iter().map(|start| climb(router, model, (&units, usable), start, &mut left));
    climbed.reduce(better).expect("there is somewhere to start")
}

/// The earlier one, unless the later one is faster.
pub(crate) fn better(a: Timed, b: Timed) -> Timed {
    if b.seconds < a.seconds { b } else { a }
}

/// Moves the unit whose move gains most, until none gains or all looks are spent.
fn climb(
    router: &Router<'_>,
    model: &Model,
    (units, usable): (&[Vec<usize>], &[DeviceId]),
    start: Timed,
    left: &mut usize,
) -> Timed {
    let mut best = start;
    loop {
        let moves = units.iter().flat_map(|unit| usable.iter().map(move |&device| (unit, device)));
        let moved = moves.filter_map(|(unit, device)| {
            let devices = moved(model, &best.devices, unit, device).filter(|_| *left > 0)?;
            *left -= 1;
            Some(time(router, model, devices))
        });
        match moved.reduce(better).filter(|moved| moved.seconds < best.seconds) {
            Some(moved) => best = moved,
            None => return best,
        }
    }
}

/// The placement with a unit on another device, if it can run there and does not yet.
fn moved(model: &Model, devices: &[DeviceId], unit: &[usize], to: DeviceId) -> Option<Vec<DeviceId>> {
    let can = unit.iter().all(|&kernel| model.run[kernel][to.0].is_some());
    let is_there = unit.iter().all(|&kernel| devices[kernel] == to);
    (can && !is_there).then(|| {
        let mut devices = devices.to_vec();
        for &kernel in unit {
            devices[kernel] = to;
        }
        devices
    })
}

/// What moves as one, the most promising first: whole chains of kernels, single kernels, then stretches of the program.
/// Kernels that write parts of one value are never apart.
fn units(router: &Router<'_>, model: &Model) -> Vec<Vec<usize>> {
    let tied = tied(model);
    let kernels = 0..model.run.len();
    let chain = |first: usize| std::iter::successors(Some(first), |&kernel| router.next_in_chain(kernel)).collect();
    let inside: Vec<bool> = {
        let mut inside = vec![false; model.run.len()];
        kernels.clone().filter_map(|kernel| router.next_in_chain(kernel)).for_each(|kernel| inside[kernel] = true);
        inside
    };
    let chains = kernels.clone().filter(|&kernel| !inside[kernel]).map(chain);
    let single = kernels.clone().map(|kernel| vec![kernel]);
    let most = (LOOKS / model.run.len().max(1)).min(model.run.len());
    let stretches = (2..=most).flat_map(|length| {
        let starts = 0..=model.run.len() - length;
        starts.map(move |start| (start..start + length).collect::<Vec<_>>())
    });
    let all = chains.filter(|chain: &Vec<usize>| chain.len() > 1).chain(single).chain(stretches);
    let mut units: Vec<Vec<usize>> = Vec::new();
    for unit in all.take(LOOKS / model.run.len().max(1)) {
        let mut unit: Vec<usize> = unit.into_iter().flat_map(|kernel| tied[kernel].iter().copied()).collect();
        unit.sort_unstable();
        unit.dedup();
        units.push(unit);
    }
    units
}

/// For each kernel, those that must run where it does.
fn tied(model: &Model) -> Vec<Vec<usize>> {
    let mut tied: Vec<Vec<usize>> = (0..model.run.len()).map(|kernel| vec![kernel]).collect();
    for value in model.values.iter().filter(|value| value.writers.len() > 1) {
        let all: Vec<usize> = value.writers.iter().flat_map(|&writer| tied[writer].clone()).collect();
        value.writers.iter().for_each(|&writer| tied[writer].clone_from(&all));
    }
    tied
}
