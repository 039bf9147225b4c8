//! Launches side by side: those that follow each other and of which none sees what another writes, one on each thread. Each alone may be
//! too short to be worth sharing, and a thread that goes from one to the next has more of them in reach than its cache holds.

use breakeven_device::{Result, Touch, are_independent, touches};
use breakeven_ir::Launch;

use crate::kernels::{Bound as Operands, Compiled, Machine};
use crate::launch::CpuLaunch;
use crate::segment::{Bound, Step};

/// Launches of a group at most: each is compared with all others of it.
const MOST: usize = 64;

/// Launches that follow each other, as long as they are independent.
#[derive(Debug, Default)]
pub(crate) struct Group {
    launches: Vec<CpuLaunch>,
    touches: Vec<Vec<Touch>>,
    nanoseconds: Vec<f64>,
}

/// Independent launches.
#[derive(Debug)]
pub(crate) struct Together {
    pub launches: Vec<CpuLaunch>,
    /// What one thread would take for each.
    nanoseconds: Vec<f64>,
    all: f64,
}

impl Group {
    /// The step that runs what is here, if anything is and the launch cannot join it. The launch is in the next group, or in this.
    pub fn add(&mut self, launch: CpuLaunch, of: &Launch, nanoseconds: f64) -> Option<Step> {
        let touched = touches(of);
        let ended = if self.takes(&launch, &touched) { None } else { self.end() };
        self.launches.push(launch);
        self.touches.push(touched);
        self.nanoseconds.push(nanoseconds);
        ended
    }

    /// Whether the launch may run beside all that are here. Several may write parts of one buffer, and what any of them reads nobody
    /// writes: kernels load whole registers, of which some elements are another's.
    fn takes(&self, launch: &CpuLaunch, touched: &[Touch]) -> bool {
        self.launches.len() < MOST
            && self.launches.iter().chain([launch]).all(is_free)
            && !self.launches.iter().any(|other| sees(launch, other) || sees(other, launch))
            && self.touches.iter().all(|others| are_independent(others, touched))
    }

    /// The step that runs what is here, if anything is; the next group begins.
    pub fn end(&mut self) -> Option<Step> {
        let Group { mut launches, nanoseconds, .. } = std::mem::take(self);
        if launches.len() < 2 {
            return launches.pop().map(|launch| Step::Launch(Box::new(launch)));
        }
        let all = nanoseconds.iter().sum();
        Some(Step::Together(Box::new(Together { launches, nanoseconds, all })))
    }
}

/// What is packed for later, and users' own code, is done in order.
fn is_free(launch: &CpuLaunch) -> bool {
    launch.kernel().keeps().is_none() && !matches!(launch.kernel(), Compiled::Custom(_))
}

/// Whether one reads a slot that another writes.
fn sees(one: &CpuLaunch, other: &CpuLaunch) -> bool {
    let writes = |slot: usize| other.slots().any(|(written, is_written)| is_written && written == slot);
    one.slots().any(|(slot, is_written)| !is_written && writes(slot))
}

impl Together {
    pub fn count(&self) -> usize {
        self.launches.len()
    }

    /// The slots of their operands, and whether they are written.
    pub fn slots(&self) -> impl Iterator<Item = (usize, bool)> {
        self.launches.iter().flat_map(CpuLaunch::slots)
    }

    /// Whether it is faster that each thread has launches of its own than that all threads work at each, and may be done.
    pub fn is_side_by_side(&self, machine: &Machine, bound: &Bound<'_>) -> bool {
        machine.splits_by_launches(&self.nanoseconds, self.all) && !bound.memory.has_twins()
    }

    pub fn run(&self, machine: &Machine, bound: &Bound<'_>) -> Result<()> {
        if self.is_side_by_side(machine, bound) {
            return self.run_side_by_side(machine, bound);
        }
        self.launches.iter().try_for_each(|launch| launch.run(machine, bound))
    }

    #[inline(never)]
    fn run_side_by_side(&self, machine: &Machine, bound: &Bound<'_>) -> Result<()> {
        let mut copies = Vec::new();
        let placed = self.launches.iter().map(|launch| launch.placed(bound, &mut copies));
        let placed = placed.collect::<Result<Vec<_>>>()?;
        let pairs = placed.iter().zip(&self.launches);
        let operands: Vec<Operands<'_>> = pairs.map(|(at, launch)| launch.operands(at)).collect();
        machine.one_by_one(self.count(), self.all, |at| {
            // SAFETY: operands were placed as for a launch alone, and live until all are done. What a launch reads no other writes,
            // and what several write are different elements: neither in one slot, nor in memory that stands in two of them, of which
            // there is none.
            let run = unsafe { self.launches[at].kernel().run(machine, operands[at]) };
            run.expect("nothing but a custom operation fails, and none is here");
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::natives::Natives;
    use crate::team::Team;
    use crate::{CpuOptions, Isa, Tuning};

    use super::*;

    #[test]
    fn launches_are_shared_out_whole_where_that_is_sooner() {
        let isa = Isa::best();
        let options = CpuOptions { tuning: Tuning { part_ns: 10e3, ..Tuning::default() }, ..CpuOptions::default() };
        let natives = Natives::new(isa).expect("it is available");
        let machine = Machine::new((isa, natives), Team::new(16, 1000), &options);
        let splits = |nanoseconds: &[f64]| machine.splits_by_launches(nanoseconds, nanoseconds.iter().sum());
        assert!(splits(&[26e3; 20]), "two threads each, or sixteen");
        assert!(splits(&[3e3; 20]), "one thread each, or six");
        assert!(!splits(&[100.0; 20]), "all are too little for two threads");
        assert!(!splits(&[1e6; 20]), "all threads work on each");
        assert!(!splits(&[26e3; 2]), "both are done by two threads, one way or the other");
        let uneven: Vec<f64> = [150e3].into_iter().chain([1e3; 19]).collect();
        assert!(!splits(&uneven), "the longest would be done by one thread");
    }
}
