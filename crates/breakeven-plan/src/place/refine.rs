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
    let mut left = LOOKS / model.run.len();
    let units = units(router, model, left);
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

/// At most `most` that move as one, the most promising first: whole chains of kernels, single kernels, then stretches of
/// the program. Kernels that write parts of one value are never apart.
fn units(router: &Router<'_>, model: &Model, most: usize) -> Vec<Vec<usize>> {
    let (tied, count) = (tied(model), model.run.len());
    let single = (0..count).map(|kernel| vec![kernel]);
    let stretch = |length| (0..=count - length).map(move |start| (start..start + length).collect());
    let all = chains(router, count).into_iter().chain(single).chain((2..=count).flat_map(stretch));
    let whole = |unit: Vec<usize>| {
        let mut whole: Vec<usize> = unit.into_iter().flat_map(|kernel| tied[kernel].iter().copied()).collect();
        whole.sort_unstable();
        whole.dedup();
        whole
    };
    all.take(most).map(whole).collect()
}

/// Kernels of which each reads the one before alone, as long as can be.
fn chains(router: &Router<'_>, count: usize) -> Vec<Vec<usize>> {
    let mut is_later = vec![false; count];
    for kernel in (0..count).filter_map(|kernel| router.next_in_chain(kernel)) {
        is_later[kernel] = true;
    }
    let from = |first| std::iter::successors(Some(first), |&kernel| router.next_in_chain(kernel)).collect();
    let all = (0..count).filter(|&kernel| !is_later[kernel]).map(from);
    all.filter(|chain: &Vec<usize>| chain.len() > 1).collect()
}

/// For each kernel, those that must run where it does.
fn tied(model: &Model) -> Vec<Vec<usize>> {
    let mut tied: Vec<Vec<usize>> = (0..model.run.len()).map(|kernel| vec![kernel]).collect();
    for value in model.values.iter().filter(|value| value.writers.len() > 1) {
        let mut all: Vec<usize> = value.writers.iter().flat_map(|&writer| tied[writer].clone()).collect();
        all.sort_unstable();
        all.dedup();
        for &kernel in &all {
            tied[kernel].clone_from(&all);
        }
    }
    tied
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::model::Use;

    #[test]
    fn what_shares_a_value_with_a_third_is_tied_too() {
        let shared = |writers: &[usize]| Use { writers: writers.to_vec(), ..Use::default() };
        let model =
            Model { run: vec![vec![Some(1.0)]; 4], values: vec![shared(&[0, 1]), shared(&[1, 3])], ..Model::default() };
        assert_eq!(tied(&model), [vec![0, 1, 3], vec![0, 1, 3], vec![2], vec![0, 1, 3]]);
    }
}
