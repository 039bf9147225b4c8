//! Counting what a plan's steps amount to.

use crate::slots::Slots;
use crate::{Counts, DeviceId, Machine, Slot, Step};

/// Counts all but layout copies, which steps do not show.
pub(crate) fn count(machine: &Machine<'_>, slots: &Slots) -> Counts {
    let zeros = || vec![0; machine.devices.len()];
    let mut counts = Counts {
        launches: zeros(),
        submits: zeros(),
        uploads: zeros(),
        downloads: zeros(),
        peak_bytes: peaks(machine, slots, |_| true),
        taken_bytes: peaks(machine, slots, |slot| slot.source.is_none()),
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

/// Highest sum of slots in use at one time, of those that count. A kept slot is in use to the end.
fn peaks(machine: &Machine<'_>, slots: &Slots, counts: impl Fn(&Slot) -> bool) -> Vec<u64> {
    let one = |device: DeviceId| {
        let own = slots.all.iter().filter(|slot| slot.device == device && counts(slot));
        let mut changes: Vec<(usize, bool, u64)> = own
            .flat_map(|slot| {
                let end = if slot.kept { usize::MAX } else { slot.last + 1 };
                [(slot.first, true, slot.bytes), (end, false, slot.bytes)]
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
    (0..machine.devices.len()).map(|device| one(DeviceId(device))).collect()
}
