//! Copying bytes of the host by several threads: for whoever reads, and for other devices.
//!
//! A copy to a device goes beside whatever is computed meanwhile. So it has threads of its own: who finds the team at work does its parts alone, and that
//! would be the copy, or a computation that comes while it lasts.

use std::sync::{Mutex, PoisonError};

use crate::kernels::Machine;
use crate::team::Team;

/// Bytes that a thread copies at a time: whole cache lines, so that no two threads write to one.
const COPIED: usize = 64 << 10;

/// How many of `all` threads copy for other devices: half of them, since the bus is slower than memory; four fill the fastest that was measured.
pub(crate) fn threads(all: usize) -> usize {
    all.min(all.div_ceil(2).max(4))
}

impl Machine {
    /// Copies bytes, by several threads where that pays.
    pub fn copy(&self, from: &[u8], to: &mut [u8]) {
        self.copy_by([&self.team, &self.copiers], from, to);
    }

    /// As [`Machine::copy`], and leaves the team to whoever computes.
    pub fn copy_beside(&self, from: &[u8], to: &mut [u8]) {
        self.copy_by([&self.copiers, &self.team], from, to);
    }

    /// By one of the teams, where several threads pay.
    fn copy_by(&self, teams: [&Team; 2], from: &[u8], to: &mut [u8]) {
        if from.len() != to.len() || from.len() <= COPIED {
            return to.copy_from_slice(from);
        }
        let pairs: Vec<_> = to.chunks_mut(COPIED).zip(from.chunks(COPIED)).map(Mutex::new).collect();
        let copy = |pair: &Mutex<(&mut [u8], &[u8])>| {
            let (to, from) = &mut *pair.lock().unwrap_or_else(PoisonError::into_inner);
            to.copy_from_slice(from);
        };
        // What is copied was mostly written by another device, or is about to be read by one.
        let nanoseconds = from.len() as f64 * self.tuned.copy_ns();
        self.split_by(self.free(teams), pairs.len(), nanoseconds, |some| pairs[some].iter().for_each(copy));
    }

    /// The first of the teams that is not at work, and how many of its threads: half of all where the other is.
    fn free<'a>(&self, [first, second]: [&'a Team; 2]) -> (&'a Team, usize) {
        let (team, other) = if first.is_taken() { (second, first) } else { (first, second) };
        let all = self.team.threads();
        (team, team.threads().min(if other.is_taken() { all.div_ceil(2) } else { all }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::natives::Natives;
    use crate::{CpuOptions, Isa};

    fn machine(threads: usize) -> Machine {
        let isa = Isa::best();
        Machine::new(
            (isa, Natives::new(isa).expect("it is available")),
            Team::new(threads, 1000),
            &CpuOptions::default(),
        )
    }

    #[test]
    fn a_copy_goes_beside_a_computation_and_a_computation_beside_a_copy() {
        assert_eq!([1, 2, 4, 6, 8, 16].map(threads), [1, 2, 4, 4, 4, 8]);
        let machine = machine(5);
        let teams = [&machine.team, &machine.copiers];
        let places = |taken: [&Team; 2]| {
            let (team, threads) = machine.free(taken);
            (std::ptr::eq(team, teams[0]), threads)
        };
        assert_eq!((places(teams), places([teams[1], teams[0]])), ((true, 5), (false, 4)));
        let ((began, seen), (release, held)) = (channel(), channel::<()>());
        std::thread::scope(|scope| {
            let held = Mutex::new(held);
            let hold = move |part: usize| {
                if part == 0 {
                    began.send(()).expect("the test waits for it");
                    let _ = held.lock().expect("one part takes it").recv();
                }
            };
            scope.spawn(move || teams[0].run(2, &hold));
            seen.recv().expect("it begins");
            assert_eq!((places(teams), places([teams[1], teams[0]])), ((false, 3), (false, 3)));
            let from: Vec<u8> = (0..(1 << 20) + 77).map(|i| (i * 7) as u8).collect();
            let mut to = vec![0; from.len()];
            machine.copy(&from, &mut to);
            assert_eq!(to, from);
            to.fill(0);
            machine.copy_beside(&from, &mut to);
            assert_eq!(to, from);
            drop(release);
        });
    }
}
