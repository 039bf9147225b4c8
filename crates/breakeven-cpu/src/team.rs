//! The team: threads that share the parts of one job, spin for a while after it, then sleep.

use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};

/// Runs the parts of a job on several threads; the caller is one of them.
pub struct Team {
    shared: Arc<Shared>,
    /// Hired as jobs have parts for them: a program of small work starts no thread.
    workers: Mutex<Vec<JoinHandle<()>>>,
    /// How many were hired.
    hired: AtomicUsize,
    /// How many may be: those that were asked for, or fewer where the system refused more.
    most: AtomicUsize,
    taken: AtomicBool,
}

struct Shared {
    /// Whether the job may be joined.
    is_open: AtomicBool,
    /// Written by the caller while the gate is closed and nobody is inside.
    job: UnsafeCell<Option<Job>>,
    /// How many workers are called to the job.
    called: AtomicUsize,
    desks: Box<[Desk]>,
    stop: AtomicBool,
    spins: u32,
}

/// What one worker and the caller tell each other, on cache lines of its own: two, since they are fetched in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Desk {
    /// Counts the jobs that the worker was called to.
    calls: AtomicUsize,
    /// It works, or looks whether it may.
    is_inside: AtomicBool,
    /// It has to be woken.
    is_asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

// SAFETY: `job` is only written while the gate is closed with nobody inside, and only read by those who entered while
// it was open.
unsafe impl Sync for Shared {}
// SAFETY: as above; what the job points to is `Sync`.
unsafe impl Send for Shared {}

/// What is to be done. Both pointers outlive the time in which the gate is open or somebody inside.
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
        let most = threads.max(1) - 1;
        let shared = Arc::new(Shared {
            is_open: AtomicBool::new(false),
            job: UnsafeCell::new(None),
            called: AtomicUsize::new(0),
            desks: std::iter::repeat_with(Desk::default).take(most).collect(),
            stop: AtomicBool::new(false),
            spins,
        });
        Team {
            shared,
            workers: Mutex::default(),
            hired: AtomicUsize::new(0),
            most: AtomicUsize::new(most),
            taken: AtomicBool::new(false),
        }
    }

    /// Threads, the caller included: those there are, or would be.
    pub fn threads(&self) -> usize {
        self.most.load(Ordering::Relaxed) + 1
    }

    /// Calls `work` with every number below `parts`. Callers that find the team at work, and those that belong to a
    /// rayon pool, do not wait for it.
    ///
    /// # Panics
    /// When `work` does, after all parts have ended.
    pub fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        if parts <= 1 || self.threads() == 1 {
            return (0..parts).for_each(work);
        }
        if rayon_core::current_thread_index().is_some() {
            return halves(0, parts, work);
        }
        if self.taken.swap(true, Ordering::Acquire) {
            return (0..parts).for_each(work);
        }
        let called = self.hire((parts - 1).min(self.threads() - 1));
        let state = JobState { next: AtomicUsize::new(0), parts, panic: Mutex::new(None) };
        // SAFETY: only the lifetime is extended; `share` returns after the last worker has let go of the job.
        let work: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(work) };
        self.share(Job { work, state: &raw const state }, called);
        self.taken.store(false, Ordering::Release);
        if let Some(panic) = state.panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(panic);
        }
    }

    /// How many of the `wanted` workers there are, once those that were missing are hired. A machine that refuses more
    /// threads is served with fewer.
    fn hire(&self, wanted: usize) -> usize {
        let hired = self.hired.load(Ordering::Relaxed);
        if hired >= wanted {
            return wanted;
        }
        let hire = |index: usize| {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name(format!("breakeven-cpu-{}", index + 1));
            let worker = thread.spawn(move || shared.work(index)).ok()?;
            // Nobody else hires: the caller has the team.
            let _ = self.shared.desks[index].thread.set(worker.thread().clone());
            Some(worker)
        };
        let mut workers = self.workers();
        workers.extend((hired..wanted).map_while(hire));
        self.hired.store(workers.len(), Ordering::Relaxed);
        if workers.len() < wanted {
            self.most.store(workers.len(), Ordering::Relaxed);
        }
        workers.len()
    }

    /// Opens the gate, works along, closes it and waits until nobody is inside. Never unwinds.
    fn share(&self, job: Job, called: usize) {
        let shared = &*self.shared;
        // SAFETY: the gate is closed and was left empty by the job before, and `taken` keeps other callers out.
        unsafe { *shared.job.get() = Some(job) };
        shared.called.store(called, Ordering::Relaxed);
        shared.is_open.store(true, Ordering::SeqCst);
        shared.call(called);
        // SAFETY: both pointers come from `run`, which is still waiting for this call.
        unsafe { job.work_off() };
        shared.is_open.store(false, Ordering::SeqCst);
        // Also those that were called to an earlier job, and come only now.
        let hired = self.hired.load(Ordering::Relaxed);
        shared.desks[..hired].iter().for_each(Desk::wait_outside);
    }

    fn workers(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Calls the first workers, and wakes two of them at most.
    fn call(&self, called: usize) {
        // Whoever sees its call sees those of the workers that it is to wake, which have higher numbers.
        for desk in self.desks[..called].iter().rev() {
            desk.calls.store(desk.calls.load(Ordering::Relaxed) + 1, Ordering::Release);
        }
        self.wake(0);
    }

    /// Wakes those two of the called that number `place` of the team, the caller's being 0, has to wake: to wake a thread
    /// takes longer than many a part, and so nobody does it for all.
    fn wake(&self, place: usize) {
        let called = self.called.load(Ordering::Relaxed);
        let (from, to) = ((2 * place).min(called), (2 * place + 2).min(called));
        // Either this sees that a worker sleeps, or the worker sees its call before it does.
        fence(Ordering::SeqCst);
        self.desks[from..to].iter().for_each(Desk::wake);
    }

    /// The life of a worker.
    fn work(&self, index: usize) {
        let desk = &self.desks[index];
        let (mut seen, mut was_woken) = (0, false);
        loop {
            was_woken = desk.rest(seen, self.spins, was_woken);
            seen = desk.calls.load(Ordering::Acquire);
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            self.wake(index + 1);
            desk.is_inside.store(true, Ordering::SeqCst);
            if self.is_open.load(Ordering::SeqCst) {
                // SAFETY: the gate was open after this worker was seen inside, so the job is set, and its caller waits.
                unsafe {
                    if let Some(job) = *self.job.get() {
                        job.work_off();
                    }
                }
            }
            desk.is_inside.store(false, Ordering::Release);
        }
    }
}

impl Desk {
    /// Until the worker was called more often than `seen`; true if it had to be woken. One that was woken may have taken the
    /// core of its caller, and offers it back for a while.
    fn rest(&self, seen: usize, spins: u32, was_woken: bool) -> bool {
        let mut pause = Pause { tries: 0, patience: if was_woken { 0 } else { spins } };
        while pause.tries < spins {
            if self.calls.load(Ordering::Acquire) != seen {
                return false;
            }
            pause.take();
        }
        self.is_asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        while self.calls.load(Ordering::Acquire) == seen {
            std::thread::park();
        }
        self.is_asleep.store(false, Ordering::Relaxed);
        true
    }

    fn wake(&self) {
        if self.is_asleep.load(Ordering::SeqCst) {
            self.thread.get().into_iter().for_each(Thread::unpark);
        }
    }

    /// Until the worker has let go of the job. One that lost its core in a part may wait for this one.
    fn wait_outside(&self) {
        let mut pause = Pause { tries: 0, patience: 8 * Pause::ROUND };
        while self.is_inside.load(Ordering::SeqCst) {
            pause.take();
        }
    }
}

/// Between two looks at something that another thread is about to change.
struct Pause {
    tries: u32,
    /// From how many looks on the core is offered to whoever waits for it, every few microseconds.
    patience: u32,
}

impl Pause {
    /// Looks from one offer to the next: an offer that nobody takes lasts as long as about ten of them.
    const ROUND: u32 = 128;

    fn take(&mut self) {
        self.tries = self.tries.saturating_add(1);
        if self.tries > self.patience && self.tries.is_multiple_of(Pause::ROUND) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for desk in &self.shared.desks {
            desk.calls.fetch_add(1, Ordering::SeqCst);
            desk.thread.get().into_iter().for_each(Thread::unpark);
        }
        for worker in self.workers().drain(..) {
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
        let team = Team::new(4, 1000);
        let hired = |parts: usize| (squares(&team, parts), team.workers().len(), team.threads());
        assert_eq!([hired(1), hired(2), hired(2), hired(9), hired(2)].map(|h| h.1), [0, 1, 1, 3, 3]);
        assert_eq!(hired(4), (14, 3, 4));
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
