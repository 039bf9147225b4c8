//! The last pass: replicas of values become slots, which are reused when their values are dead.

use std::collections::BTreeSet;

use breakeven_ir::{Kernel, Launch};

use crate::program::Program;
use crate::schedule::Schedule;
use crate::{DeviceId, Slot, Step};

/// Slots, and the schedule's steps and outputs over them.
pub(crate) struct Slots {
    pub all: Vec<Slot>,
    pub steps: Vec<Step>,
    pub found: Vec<Option<usize>>,
}

/// Gives every replica a slot. A replica takes over the slot of a dead one of its device, the smallest that is large
/// enough, or else the largest, which grows; an elementwise launch writes over an input that dies with it.
pub(crate) fn assign_slots(program: &Program, mut schedule: Schedule) -> Slots {
    let steps = std::mem::take(&mut schedule.steps);
    let mut assigner = Assigner::new(program, &schedule, &steps);
    for (at, step) in steps.iter().enumerate() {
        assigner.step(at, step);
    }
    let Assigner { slot_of, slots, .. } = assigner;
    let place = |replica: usize| slot_of[replica].expect("every replica is touched by a step");
    let found = schedule.found.iter().map(|found| found.map(place)).collect();
    let steps = steps.into_iter().map(|step| renumbered(step, &place)).collect();
    Slots { all: slots, steps, found }
}

/// First and last step that touch a replica.
#[derive(Clone, Copy)]
struct Life {
    first: usize,
    last: usize,
    writers: usize,
    kept: bool,
}

struct Assigner<'a> {
    program: &'a Program,
    schedule: &'a Schedule,
    lives: Vec<Life>,
    slot_of: Vec<Option<usize>>,
    slots: Vec<Slot>,
    free: BTreeSet<(DeviceId, u64, usize)>,
}

/// Replicas that a step reads, and those it writes.
pub(crate) fn touched(step: &Step) -> (Vec<usize>, Vec<usize>) {
    match step {
        Step::Upload { slot, .. } => (vec![], vec![*slot]),
        Step::Copy { from, to, .. } => (vec![*from], vec![*to]),
        Step::Run { launch, .. } => {
            (launch.inputs.clone(), launch.outputs.iter().copied().chain(launch.workspace).collect())
        }
        Step::Download { slot, .. } => (vec![*slot], vec![]),
    }
}

fn lives(schedule: &Schedule, steps: &[Step]) -> Vec<Life> {
    let mut lives = vec![Life { first: usize::MAX, last: 0, writers: 0, kept: false }; schedule.replicas.len()];
    for (at, step) in steps.iter().enumerate() {
        let (read, written) = touched(step);
        for &replica in read.iter().chain(&written) {
            let life = &mut lives[replica];
            *life = Life { first: life.first.min(at), last: at, ..*life };
        }
        for replica in written {
            lives[replica].writers += 1;
        }
    }
    for &replica in schedule.found.iter().flatten() {
        lives[replica].kept = true;
    }
    lives
}

impl<'a> Assigner<'a> {
    fn new(program: &'a Program, schedule: &'a Schedule, steps: &[Step]) -> Assigner<'a> {
        let (lives, slot_of) = (lives(schedule, steps), vec![None; schedule.replicas.len()]);
        Assigner { program, schedule, lives, slot_of, slots: Vec::new(), free: BTreeSet::new() }
    }

    fn step(&mut self, at: usize, step: &Step) {
        let (read, written) = touched(step);
        let mut taken = None;
        if let Step::Run { launch, .. } = step {
            taken = self.overwritten(at, launch);
        }
        for &replica in read.iter().chain(&written) {
            if self.slot_of[replica].is_none() {
                let slot = match taken.filter(|_| written.contains(&replica)) {
                    Some(input) => self.slot_of[input].expect("an input has a slot"),
                    None => self.allocate(replica),
                };
                self.occupy(replica, slot);
            }
        }
        let mut dying: Vec<usize> =
            read.iter().chain(&written).copied().filter(|&r| self.lives[r].last == at).collect();
        dying.sort_unstable();
        dying.dedup();
        for replica in dying.into_iter().filter(|&replica| Some(replica) != taken) {
            self.release(replica);
        }
    }

    /// The input whose slot the output of a launch may take over.
    fn overwritten(&self, at: usize, launch: &Launch) -> Option<usize> {
        let Kernel::Map(map) = &launch.kernel else { return None };
        let out = launch.outputs[0];
        let same = |input: usize| {
            let operands = launch.inputs.iter().zip(&map.inputs).filter(|(slot, _)| **slot == input);
            operands.clone().all(|(_, o)| o.layout == map.out.layout && o.dtype.bytes() == map.out.dtype.bytes())
        };
        let bytes = |replica: usize| self.program.values[self.schedule.replicas[replica].value].bytes;
        let is_dying = |&&input: &&usize| {
            let life = self.lives[input];
            life.last == at && !life.kept && self.is_reusable(input) && bytes(input) == bytes(out) && same(input)
        };
        launch.inputs.iter().find(is_dying).copied().filter(|_| self.lives[out].writers == 1)
    }

    /// Caller's buffers and uploads are never written over, since their bytes may be the caller's own, and neither is what
    /// others were sent.
    fn is_reusable(&self, replica: usize) -> bool {
        let replica = self.schedule.replicas[replica];
        replica.source.is_none() && !replica.is_upload && !replica.is_sent
    }

    fn bytes(&self, replica: usize) -> u64 {
        self.program.values[self.schedule.replicas[replica].value].bytes
    }

    fn allocate(&mut self, replica: usize) -> usize {
        let (device, bytes) = (self.schedule.replicas[replica].device, self.bytes(replica));
        if self.is_reusable(replica) && !self.lives[replica].kept {
            let fits = self.free.range((device, bytes, 0)..=(device, u64::MAX, usize::MAX)).next();
            let largest = || self.free.range((device, 0, 0)..(device, bytes, 0)).next_back();
            if let Some(&free) = fits.or_else(largest) {
                self.free.remove(&free);
                return free.2;
            }
        }
        let Life { first, last, kept, .. } = self.lives[replica];
        let (source, is_upload) = (self.schedule.replicas[replica].source, self.schedule.replicas[replica].is_upload);
        self.slots.push(Slot { device, bytes, first, last, source, is_upload, kept });
        self.slots.len() - 1
    }

    fn occupy(&mut self, replica: usize, index: usize) {
        let (bytes, life) = (self.bytes(replica), self.lives[replica]);
        let slot = &mut self.slots[index];
        slot.bytes = slot.bytes.max(bytes);
        slot.last = slot.last.max(life.last);
        slot.kept |= life.kept;
        self.slot_of[replica] = Some(index);
    }

    fn release(&mut self, replica: usize) {
        let slot = self.slot_of[replica].expect("a replica that dies was alive");
        if self.is_reusable(replica) && !self.lives[replica].kept {
            self.free.insert((self.slots[slot].device, self.slots[slot].bytes, slot));
        }
    }
}

fn renumbered(step: Step, place: &dyn Fn(usize) -> usize) -> Step {
    match step {
        Step::Upload { input, slot } => Step::Upload { input, slot: place(slot) },
        Step::Copy { from, to, bytes } => Step::Copy { from: place(from), to: place(to), bytes },
        Step::Download { slot, output, bytes } => Step::Download { slot: place(slot), output, bytes },
        Step::Run { device, mut launch } => {
            launch.inputs.iter_mut().chain(&mut launch.outputs).for_each(|slot| *slot = place(*slot));
            Step::Run { device, launch }
        }
    }
}
