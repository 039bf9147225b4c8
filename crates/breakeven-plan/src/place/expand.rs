//! Moves to one device: of all ways to move any kernels of a placement to one device, the cheapest, by a minimum cut.
//! From everything on the host, that is the best of all placements on the host and that device.

use super::flow::{NEVER, SINK, SOURCE};
use super::model::{Model, Use};
use super::reduce::Network;
use crate::DeviceId;

/// Labels after the cheapest move of any kernels to `to`. With `fixed`, each copy also pays for handing over work or
/// waiting for it, as it would if it were the only one.
pub(crate) fn expand(model: &Model, labels: &[DeviceId], to: DeviceId, fixed: bool) -> Vec<DeviceId> {
    let mut expansion = Expansion::new(model, labels, to, fixed);
    for kernel in 0..labels.len() {
        expansion.kernel(kernel);
    }
    for value in &model.values {
        expansion.value(value);
    }
    let moved = expansion.network.cut();
    let label = |(kernel, &label): (usize, &DeviceId)| match expansion.nodes[kernel] {
        Some(node) if !moved[node] => label,
        _ => to,
    };
    labels.iter().enumerate().map(label).collect()
}

struct Expansion<'a> {
    model: &'a Model,
    labels: &'a [DeviceId],
    to: DeviceId,
    fixed: bool,
    network: Network,
    /// Nodes of kernels that are free to stay or move; the others are there already.
    nodes: Vec<Option<usize>>,
}

/// Whole picoseconds: sums of them are exact, so equal plans cost equal.
fn picoseconds(seconds: f64) -> u64 {
    ((seconds * 1e12) as u64).min(NEVER / 1024)
}

impl<'a> Expansion<'a> {
    fn new(model: &'a Model, labels: &'a [DeviceId], to: DeviceId, fixed: bool) -> Expansion<'a> {
        let mut network = Network::new();
        let nodes = labels.iter().map(|&label| (label != to).then(|| network.node())).collect();
        Expansion { model, labels, to, fixed, network, nodes }
    }

    fn kernel(&mut self, kernel: usize) {
        let Some(node) = self.nodes[kernel] else { return };
        let cost = |device: DeviceId| self.model.run[kernel][device.0].map_or(NEVER, picoseconds);
        let (stay, go) = (cost(self.labels[kernel]), cost(self.to));
        self.network.edge(SOURCE, node, go);
        self.network.edge(node, SINK, stay);
    }

    fn value(&mut self, value: &Use) {
        for pair in value.writers.windows(2) {
            let (a, b) = (self.node(pair[0]), self.node(pair[1]));
            self.network.edge(a, b, NEVER);
            self.network.edge(b, a, NEVER);
        }
        let target = self.model.space[self.to.0];
        let here = value.writers.first().map(|&writer| self.model.space_of(self.labels, writer));
        let has = here.map_or_else(|| value.resident.clone(), |here| vec![here]);
        let writer = value.writers.first().map_or(SOURCE, |&writer| self.node(writer));
        if !has.contains(&target) {
            self.toward_target(value, &has, writer, target);
        }
        let mut spaces: Vec<usize> = value.readers.iter().map(|&r| self.model.space_of(self.labels, r)).collect();
        spaces.extend(value.is_read.then_some(0));
        spaces.sort_unstable();
        spaces.dedup();
        for space in spaces.into_iter().filter(|&space| space != target) {
            match here {
                Some(here) if here == space => self.back(value, writer, target, space),
                _ if !has.contains(&space) => self.beside(value, &has, space),
                _ => {}
            }
        }
    }

    fn node(&self, kernel: usize) -> usize {
        self.nodes[kernel].unwrap_or(SINK)
    }

    /// Whether the kernel works in `space` unless it moves.
    fn stays_in(&self, kernel: usize, space: usize) -> bool {
        self.model.space_of(self.labels, kernel) == space
    }

    /// Paid when the writer stays and some reader moves, or needs it there anyway.
    fn toward_target(&mut self, value: &Use, has: &[usize], writer: usize, target: usize) {
        let copy = self.network.node();
        let cost = self.copy(value, has, target);
        self.network.edge(writer, copy, cost);
        for &reader in &value.readers {
            let anyway = self.stays_in(reader, target);
            let to = if anyway { SINK } else { self.node(reader) };
            self.network.edge(copy, to, NEVER);
        }
        if value.is_read && target == 0 {
            self.network.edge(copy, SINK, NEVER);
        }
    }

    /// Paid when the writer moves and some reader in the memory that it leaves stays.
    fn back(&mut self, value: &Use, writer: usize, target: usize, space: usize) {
        let copy = self.network.node();
        let cost = self.copy(value, &[target], space);
        self.network.edge(copy, writer, cost);
        self.readers_that_stay(value, copy, space);
    }

    /// Paid when some reader stays in a memory where the value is not, whatever the writer does.
    fn beside(&mut self, value: &Use, has: &[usize], space: usize) {
        let copy = self.network.node();
        let cost = self.copy(value, has, space);
        self.network.edge(copy, SINK, cost);
        self.readers_that_stay(value, copy, space);
    }

    fn readers_that_stay(&mut self, value: &Use, copy: usize, space: usize) {
        for &reader in value.readers.iter().filter(|&&reader| self.labels[reader] != self.to) {
            if self.stays_in(reader, space) {
                self.network.edge(self.node(reader), copy, NEVER);
            }
        }
        if value.is_read && space == 0 {
            self.network.edge(SOURCE, copy, NEVER);
        }
    }

    fn copy(&self, value: &Use, from: &[usize], to: usize) -> u64 {
        let cost = |&from: &usize| {
            let leave = if from == 0 { 0.0 } else { self.model.fixed[from].1 };
            let enter = if to == 0 { 0.0 } else { self.model.fixed[to].0 };
            value.copy[from][to] + if self.fixed { leave + enter } else { 0.0 }
        };
        picoseconds(from.iter().map(cost).fold(f64::INFINITY, f64::min))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter-based generator.
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            ((z ^ (z >> 27)) % n as u64) as usize
        }

        /// Whole microseconds, so that sums of them are exact.
        fn seconds(&mut self) -> f64 {
            (1 + self.below(100)) as f64 * 1e-6
        }
    }

    /// Random kernels, each of which reads a few earlier values and inputs.
    fn random_model(seed: u64, kernels: usize, devices: usize) -> Model {
        let mut random = Random(seed);
        let space = (0..devices).collect();
        let fixed = (0..devices).map(|_| (random.seconds(), random.seconds())).collect();
        let mut model = Model { space, fixed, ..Model::default() };
        for kernel in 0..kernels {
            let run = |random: &mut Random, device| (device == 0 || random.below(8) != 0).then(|| random.seconds());
            model.run.push((0..devices).map(|device| run(&mut random, device)).collect());
            let writers = if kernel > 0 && random.below(10) == 0 { vec![kernel - 1, kernel] } else { vec![kernel] };
            model.values.push(Use { writers, ..random_use(&mut random, devices) });
        }
        for _ in 0..2 {
            let resident = (0..devices).filter(|_| random.below(2) == 0).collect::<Vec<_>>();
            let resident = if resident.is_empty() { vec![0] } else { resident };
            model.values.push(Use { resident, ..random_use(&mut random, devices) });
        }
        for kernel in 0..kernels {
            for _ in 0..=random.below(2) {
                let value = random.below(kernel + 2);
                let value = if value < kernel { value } else { kernels + value - kernel };
                if model.values[value].writers.iter().all(|&w| w < kernel)
                    && !model.values[value].readers.contains(&kernel)
                {
                    model.values[value].readers.push(kernel);
                }
            }
        }
        super::super::join_writers(&mut model);
        model
    }

    fn random_use(random: &mut Random, devices: usize) -> Use {
        let seconds = |random: &mut Random, from, to| if from == to { 0.0 } else { random.seconds() };
        let copy = (0..devices).map(|a| (0..devices).map(|b| seconds(random, a, b)).collect()).collect();
        Use { is_read: random.below(4) == 0, copy, ..Use::default() }
    }

    fn cheapest_of_all(model: &Model, devices: usize) -> f64 {
        let kernels = model.run.len();
        let labels = |number: usize| -> Vec<DeviceId> {
            (0..kernels).map(|k| DeviceId(number / devices.pow(k as u32) % devices)).collect()
        };
        (0..devices.pow(kernels as u32)).map(|number| model.cost(&labels(number))).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn the_cut_costs_what_the_best_of_all_placements_costs() {
        for seed in 0..600 {
            let kernels = 2 + seed as usize % 11;
            let model = random_model(seed, kernels, 2);
            let cut = expand(&model, &vec![DeviceId(0); kernels], DeviceId(1), false);
            let (found, best) = (model.cost(&cut), cheapest_of_all(&model, 2));
            assert!((found - best).abs() < 1e-11, "seed {seed}: {found} instead of {best}");
        }
    }

    #[test]
    fn moves_between_three_devices_end_near_the_best() {
        let (mut found_all, mut best_all) = (0.0, 0.0);
        for seed in 0..150 {
            let (kernels, all) = (2 + seed as usize % 6, [0, 1, 2].map(DeviceId));
            let model = random_model(seed, kernels, 3);
            let mut labels = vec![DeviceId(0); kernels];
            let mut found = model.cost(&labels);
            for device in all.into_iter().cycle().take(9) {
                labels = expand(&model, &labels, device, false);
                found = found.min(model.cost(&labels));
            }
            let best = cheapest_of_all(&model, 3);
            assert!(found >= best - 1e-11, "seed {seed}");
            found_all += found;
            best_all += best;
        }
        assert!(found_all < 1.02 * best_all, "{found_all} against {best_all}");
    }

    #[test]
    fn a_chain_of_many_kernels_is_cut_in_good_time() {
        let kernels = 200_000;
        let copy = vec![vec![0.0, 3e-6], vec![3e-6, 0.0]];
        let fast = |k: usize| {
            if k.is_multiple_of(2) { vec![Some(1.0e-6), Some(1.05e-6)] } else { vec![Some(1.05e-6), Some(1.0e-6)] }
        };
        let one = |k: usize| Use { writers: vec![k], readers: vec![k + 1], copy: copy.clone(), ..Use::default() };
        let mut values: Vec<Use> = (0..kernels).map(one).collect();
        values[kernels - 1].readers.clear();
        values[kernels - 1].is_read = true;
        let model =
            Model { run: (0..kernels).map(fast).collect(), values, space: vec![0, 1], fixed: vec![(0.0, 0.0); 2] };
        let cut = expand(&model, &vec![DeviceId(0); kernels], DeviceId(1), false);
        assert_eq!(cut, vec![DeviceId(0); kernels], "no copy is worth 5%");
    }

    #[test]
    fn a_long_chain_whose_halves_favour_two_devices_is_cut_in_good_time() {
        let kernels = 200_000;
        let copy = vec![vec![0.0, 1000e-9], vec![1000e-9, 0.0]];
        let run = |k: usize| if k < kernels / 2 { vec![Some(2e-9), Some(1e-9)] } else { vec![Some(1e-9), Some(2e-9)] };
        let one = |k: usize| Use { writers: vec![k], readers: vec![k + 1], copy: copy.clone(), ..Use::default() };
        let mut values: Vec<Use> = (0..kernels).map(one).collect();
        values[kernels - 1].readers.clear();
        values[kernels - 1].is_read = true;
        let run = (0..kernels).map(run).collect();
        let model = Model { run, values, space: vec![0, 1], fixed: vec![(0.0, 0.0); 2] };
        let cut = expand(&model, &vec![DeviceId(0); kernels], DeviceId(1), false);
        let there = cut.iter().filter(|device| device.0 == 1).count();
        assert_eq!(there, kernels / 2);
    }
}
