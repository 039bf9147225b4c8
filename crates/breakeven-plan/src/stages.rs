//! Runs of steps that one device does without anybody else: each is one submission, which binds all its memory at once.

use std::collections::BTreeMap;

use crate::slots::Slots;
use crate::{DeviceId, Slot, Step};

/// First and last step of each run, by device and in order. A step that copies from one device to another belongs to a run of each.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    all: BTreeMap<DeviceId, Vec<(usize, usize)>>,
    open: Option<DeviceId>,
}

impl Stages {
    pub fn of(slots: &Slots) -> Stages {
        let mut stages = Stages::default();
        let on = |slot: usize| slots.all[slot].device;
        let mut at = 0;
        while let Some(step) = slots.steps.get(at) {
            match step {
                Step::Run { device, .. } => stages.touch(*device, at),
                Step::Upload { slot, .. } | Step::Download { slot, .. } => stages.touch(on(*slot), at),
                Step::Copy { .. } => {
                    let copies = slots.steps[at..].iter().map_while(|step| match step {
                        Step::Copy { from, to, .. } => Some((on(*from), on(*to))),
                        _ => None,
                    });
                    let copies: Vec<_> = (at..).zip(copies).collect();
                    // All are sent before any is received.
                    for &(at, (from, _)) in &copies {
                        stages.touch(from, at);
                    }
                    stages.open = None;
                    for &(at, (_, to)) in &copies {
                        stages.touch(to, at);
                    }
                    at += copies.len() - 1;
                }
            }
            at += 1;
        }
        stages
    }

    fn touch(&mut self, device: DeviceId, at: usize) {
        let own = self.all.entry(device).or_default();
        match own.last_mut().filter(|_| self.open == Some(device)) {
            Some((_, last)) => *last = at,
            None => own.push((at, at)),
        }
        self.open = Some(device);
    }

    /// First and last step of the runs that touch a slot.
    pub fn around(&self, slot: &Slot) -> (usize, usize) {
        let own = self.all.get(&slot.device).into_iter().flatten();
        let touching = own.filter(|(first, last)| *first <= slot.last && slot.first <= *last);
        touching.fold((slot.first, slot.last), |(first, last), stage| (first.min(stage.0), last.max(stage.1)))
    }
}
