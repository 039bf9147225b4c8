//! Counting what a plan's steps amount to.

use crate::slots::Slots;
use crate::stages::Stages;
use crate::{Counts, DeviceId, Machine, Slot, Step};

/// Counts all but layout copies, which steps do not show.
pub(crate) fn count(machine: &Machine<'_>, slots: &Slots) -> Counts {
    let (devices, stages) = (machine.devices.len(), Stages::of(slots));
    let zeros = || vec![0; devices];
    let mut counts = Counts {
        launches: zeros(),
        submits: zeros(),
        uploads: zeros(),
        downloads: zeros(),
        peak_bytes: peaks(devices, &slots.all, |slot| Some((slot.first, slot.last))),
        taken_bytes: peaks(devices, &slots.all, |slot| slot.source.is_none().then(|| held(&stages, slot))),
        ..Counts::default()
    };
    counts.slot_bytes = vec![0; machine.devices.len()];
    for slot in &slots.all {
        counts.slot_bytes[slot.device.0] += slot.bytes;
    }
    let mut running = None;
    for step in &slots.steps {
        match step {
            Step::Run { device, .. } => {
                counts.launches[device.0] += 1;
                counts.submits[device.0] += usize::from(running != Some(*device));
                running = Some(*device);
            }
            Step::Upload { slot, .. } => counts.uploads[slots.all[*slot].device.0] += 1,
            Step::Download { slot, .. } => counts.downloads[slots.all[*slot].device.0] += 1,
            Step::Copy { .. } => counts.copies += 1,
        }
        counts.moved_bytes += moved(machine, slots, step);
    }
    counts
}

fn moved(machine: &Machine<'_>, slots: &Slots, step: &Step) -> u64 {
    let is_host = |slot: usize| machine.device(slots.all[slot].device).caps.host_memory;
    match step {
        Step::Upload { slot, .. } if !is_host(*slot) => slots.all[*slot].bytes,
        Step::Copy { from, to, bytes } if !is_host(*from) || !is_host(*to) => *bytes,
        Step::Download { slot, bytes, .. } if !is_host(*slot) => *bytes,
        _ => 0,
    }
}

/// First and last step at which memory of a slot is held: what was brought there is so until the run has ended, for whoever needs it next.
fn held(stages: &Stages, slot: &Slot) -> (usize, usize) {
    let (first, last) = stages.around(slot);
    (first, if slot.is_upload { usize::MAX - 1 } else { last })
}

/// Highest sum of slots in use at one time, of those that count from a first to a last step. A kept slot is in use to the end.
fn peaks(devices: usize, slots: &[Slot], life: impl Fn(&Slot) -> Option<(usize, usize)>) -> Vec<u64> {
    let one = |device: DeviceId| {
        let own = slots.iter().filter(|slot| slot.device == device);
        let own = own.filter_map(|slot| life(slot).map(|life| (slot, life)));
        let mut changes: Vec<(usize, bool, u64)> = own
            .flat_map(|(slot, (first, last))| {
                let end = if slot.kept { usize::MAX } else { last + 1 };
                [(first, true, slot.bytes), (end, false, slot.bytes)]
            })
            .collect();
        changes.sort_unstable();
        let (mut now, mut peak) = (0, 0);
        for (_, begins, bytes) in changes {
            now = if begins { now + bytes } else { now - bytes };
            peak = peak.max(now);
        }
        peak
    };
    (0..devices).map(|device| one(DeviceId(device))).collect()
}

#[cfg(test)]
mod tests {
    use breakeven_ir::NodeId;

    use super::*;

    fn slot(device: usize, bytes: u64, first: usize, last: usize) -> Slot {
        let device = DeviceId(device);
        Slot { device, bytes, first, last, source: None, is_upload: false, kept: false }
    }

    fn taken(all: Vec<Slot>, steps: Vec<Step>) -> Vec<u64> {
        let slots = Slots { all, steps, found: Vec::new() };
        let stages = Stages::of(&slots);
        peaks(2, &slots.all, |slot| Some(held(&stages, slot)))
    }

    /// What one submission touches is bound for all of it; what an earlier one alone touched is given back before.
    #[test]
    fn memory_is_taken_by_whole_submissions() {
        let upload = |slot| Step::Upload { input: NodeId(0), slot };
        let one = taken(vec![slot(1, 100, 0, 0), slot(1, 50, 1, 1)], vec![upload(0), upload(1)]);
        assert_eq!(one, [0, 150]);
        let all = vec![slot(1, 100, 0, 0), slot(0, 7, 1, 1), slot(1, 50, 2, 2)];
        let two = taken(all.clone(), vec![upload(0), upload(1), upload(2)]);
        assert_eq!(two, [7, 100]);
        let kept = vec![Slot { kept: true, ..all[0].clone() }, all[1].clone(), all[2].clone()];
        assert_eq!(taken(kept, vec![upload(0), upload(1), upload(2)]), [7, 150]);
        let brought = vec![Slot { is_upload: true, ..all[0].clone() }, all[1].clone(), all[2].clone()];
        assert_eq!(taken(brought, vec![upload(0), upload(1), upload(2)]), [7, 150]);
    }

    /// A copy ends the submission that sends it, and is a part of the one that receives it.
    #[test]
    fn a_copy_belongs_to_both_of_its_sides() {
        let copy = |from, to| Step::Copy { from, to, bytes: 1 };
        let upload = |slot| Step::Upload { input: NodeId(0), slot };
        let there = [slot(1, 20, 0, 0), slot(1, 100, 1, 1)];
        let here = [slot(0, 5, 1, 3), slot(0, 2, 2, 2)];
        let back = |bytes| [slot(1, bytes, 3, 3), slot(1, 60, 4, 4)];
        let steps = vec![upload(0), copy(1, 2), upload(3), copy(2, 4), upload(5)];
        let of = |bytes| taken([there.clone(), here.clone(), back(bytes)].concat(), steps.clone());
        assert_eq!(of(50), [7, 20 + 100]);
        assert_eq!(of(70), [7, 70 + 60]);
    }
}
