//! The team: threads that share the parts of one job, spin for a while after it, then sleep.

use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

/// Runs the parts of a job on several threads; the caller is one of them.
pub(crate) struct Team {
    shared: Arc<Shared>,
    /// Threads that were asked for, the caller included.
    threads: usize,
    /// Hired for the first job that has parts for them: a program of small work starts no thread.
    workers: OnceLock<Vec<JoinHandle<()>>>,
    taken: AtomicBool,
}

struct Shared {
    /// [`OPEN`] while a job may be joined, plus the number of workers that hold on to it.
    gate: AtomicUsize,
    /// Written by the caller while the gate is closed and nobody is inside.
    job: UnsafeCell<Option<Job>>,
    /// Grows with every job.
    epoch: AtomicUsize,
    sleeping: AtomicUsize,
    bed: Mutex<()>,
    bell: Condvar,
    stop: AtomicBool,
    spins: u32,
}

// SAFETY: `job` is only written while the gate is closed with nobody inside, and only read by those who entered while
// it was open.
unsafe impl Sync for Shared {}
// SAFETY: as above; what the job points to is `Sync`.
unsafe impl Send for Shared {}

const OPEN: usize = 1 << (usize::BITS - 1);

/// What is to be done. Both pointers outlive the time in which the gate is open or held.
#[derive(Clone, Copy)]
struct Job {
    work: *const (dyn Fn(usize) + Sync),
    state: *const JobState,
}

struct JobState {
    next: AtomicUsize,
    parts: usize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Team {
    /// A team of `threads`, the caller included, whose workers spin `spins` times before they sleep.
    pub fn new(threads: usize, spins: u32) -> Team {
        let shared = Arc::new(Shared {
            gate: AtomicUsize::new(0),
            job: UnsafeCell::new(None),
            epoch: AtomicUsize::new(0),
            sleeping: AtomicUsize::new(0),
            bed: Mutex::new(()),
            bell: Condvar::new(),
            stop: AtomicBool::new(false),
            spins,
        });
        Team { shared, threads: threads.max(1), workers: OnceLock::new(), taken: AtomicBool::new(false) }
    }

    /// Threads, the caller included: those there are, or would be.
    pub fn threads(&self) -> usize {
        self.workers.get().map_or(self.threads, |workers| workers.len() + 1)
    }

    fn workers(&self) -> &[JoinHandle<()>] {
        let hire = |i: usize| {
            let shared = self.shared.clone();
            std::thread::Builder::new().name(format!("breakeven-cpu-{i}")).spawn(move || shared.work()).ok()
        };
        // A machine that refuses more threads is served with fewer.
        self.workers.get_or_init(|| (1..self.threads).map_while(hire).collect())
    }

    /// Calls `work` with every number below `parts`. Callers that find the team at work, and those that belong to a
    /// rayon pool, do not wait for it.
    ///
    /// # Panics
    /// When `work` does, after all parts have ended.
    pub fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        if parts <= 1 || self.threads == 1 {
            return (0..parts).for_each(work);
        }
        if rayon_core::current_thread_index().is_some() {
            return halves(0, parts, work);
        }
        if self.workers().is_empty() || self.taken.swap(true, Ordering::Acquire) {
            return (0..parts).for_each(work);
        }
        let state = JobState { next: AtomicUsize::new(0), parts, panic: Mutex::new(None) };
        // SAFETY: only the lifetime is extended; `share` returns after the last worker has let go of the job.
        let work: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(work) };
        self.share(Job { work, state: &raw const state });
        self.taken.store(false, Ordering::Release);
        if let Some(panic) = state.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(panic);
        }
    }

    /// Opens the gate, works along, closes it and waits until nobody is inside. Never unwinds.
    fn share(&self, job: Job) {
        let shared = &self.shared;
        // SAFETY: the gate is closed and was left empty by the job before, and `taken` keeps other callers out.
        unsafe { *shared.job.get() = Some(job) };
        shared.gate.fetch_or(OPEN, Ordering::SeqCst);
        shared.epoch.fetch_add(1, Ordering::SeqCst);
        if shared.sleeping.load(Ordering::SeqCst) > 0 {
            drop(shared.bed.lock().unwrap_or_else(PoisonError::into_inner));
            shared.bell.notify_all();
        }
        // SAFETY: both pointers come from `run`, which is still waiting for this call.
        unsafe { job.work_off() };
        shared.gate.fetch_and(!OPEN, Ordering::SeqCst);
        let mut tries = 0u32;
        while shared.gate.load(Ordering::Acquire) != 0 {
            tries += 1;
            if tries > shared.spins { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// Within somebody's rayon pool, its threads are the ones to use.
fn halves(from: usize, to: usize, work: &(dyn Fn(usize) + Sync)) {
    if to - from <= 1 {
        return (from..to).for_each(work);
    }
    let middle = from.midpoint(to);
    rayon_core::join(|| halves(from, middle, work), || halves(middle, to, work));
}

impl Job {
    /// Does parts until none is left.
    ///
    /// # Safety
    /// Both pointers must be valid.
    unsafe fn work_off(self) {
        // SAFETY: the caller's contract.
        let (work, state) = unsafe { (&*self.work, &*self.state) };
        loop {
            let part = state.next.fetch_add(1, Ordering::Relaxed);
            if part >= state.parts {
                return;
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(part))) {
                *state.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
            }
        }
    }
}

impl Shared {
    /// The life of a worker.
    fn work(&self) {
        let mut seen = 0;
        loop {
            self.rest(seen);
            seen = self.epoch.load(Ordering::SeqCst);
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            if self.gate.fetch_add(1, Ordering::SeqCst) & OPEN != 0 {
                // SAFETY: the gate was open when it was entered, so the job is set, and its caller waits at the gate.
                unsafe {
                    if let Some(job) = *self.job.get() {
                        job.work_off();
                    }
                }
            }
            self.gate.fetch_sub(1, Ordering::Release);
        }
    }

    /// Until the epoch is no longer `seen`.
    fn rest(&self, seen: usize) {
        for _ in 0..self.spins {
            if self.epoch.load(Ordering::SeqCst) != seen {
                return;
            }
            std::hint::spin_loop();
        }
        let mut bed = self.bed.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        while self.epoch.load(Ordering::SeqCst) == seen {
            bed = self.bell.wait(bed).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleeping.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
        drop(self.shared.bed.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.bell.notify_all();
        for worker in self.workers.take().into_iter().flatten() {
            // A worker never unwinds: parts are caught.
            let _ = worker.join();
        }
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Team({} threads)", self.threads())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squares(team: &Team, parts: usize) -> usize {
        let sum = AtomicUsize::new(0);
        team.run(parts, &|i| {
            sum.fetch_add(i * i, Ordering::Relaxed);
        });
        sum.into_inner()
    }

    #[test]
    fn every_part_is_done_once_whoever_calls() {
        let team = Team::new(3, 1000);
        let want = |n: usize| (0..n).map(|i| i * i).sum::<usize>();
        for round in 0..500 {
            assert_eq!(squares(&team, round % 7), want(round % 7));
        }
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..200).for_each(|_| assert_eq!(squares(&team, 16), want(16))));
            }
        });
    }

    #[test]
    fn nobody_is_hired_before_there_is_work_to_share() {
        let team = Team::new(3, 1000);
        assert_eq!((squares(&team, 1), team.workers.get().is_none(), team.threads()), (0, true, 3));
        assert_eq!((squares(&team, 4), team.workers.get().is_none()), (14, false));
    }

    #[test]
    fn sleeping_workers_are_woken_and_panics_come_back() {
        let team = Team::new(2, 1);
        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_millis(1));
            assert_eq!(squares(&team, 4), 14);
        }
        let caught = catch_unwind(AssertUnwindSafe(|| team.run(4, &|i| assert_ne!(i, 2, "no"))));
        assert!(caught.is_err());
        assert_eq!(squares(&team, 4), 14);
    }
}
