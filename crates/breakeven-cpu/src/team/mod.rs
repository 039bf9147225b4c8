//! The team: threads that share the parts of one job, spin for a while after it, then sleep.

mod desk;
mod hall;
mod job;
mod pause;

use std::fmt;
use std::panic::resume_unwind;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use desk::LONGEST_RANGE;
use hall::Hall;
use job::{Job, Panic};

/// Runs the parts of a job on several threads; the caller is one of them.
pub struct Team {
    hall: Arc<Hall>,
    /// Hired as jobs have parts for them: a program of small work starts no thread.
    workers: Mutex<Vec<JoinHandle<()>>>,
    /// How many were hired.
    hired: AtomicUsize,
    /// How many may be: those that were asked for, or fewer where the system refused more.
    most: AtomicUsize,
    taken: AtomicBool,
    /// Nanoseconds of work that was done without waking anybody, since somebody was woken.
    missed: AtomicU64,
}

impl Team {
    /// A team of `threads`, the caller included, whose workers spin `spins` times before they sleep.
    pub fn new(threads: usize, spins: u32) -> Team {
        let threads = threads.max(1);
        Team {
            hall: Arc::new(Hall::new(threads, spins)),
            workers: Mutex::default(),
            hired: AtomicUsize::new(0),
            most: AtomicUsize::new(threads - 1),
            taken: AtomicBool::new(false),
            missed: AtomicU64::new(0),
        }
    }

    /// Threads, the caller included: those there are, or would be.
    pub fn threads(&self) -> usize {
        self.most.load(Ordering::Relaxed) + 1
    }

    /// Calls `work` with every number below `parts`; neighbours go to one thread, and in jobs of as many parts to the same
    /// one. Callers that find the team at work, and those that belong to a rayon pool, do not wait for it.
    ///
    /// # Panics
    /// When `work` does, after all parts have ended.
    pub fn run(&self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        self.run_by(self.threads(), parts, work);
    }

    /// Whether a job is under way: another would be done by its caller alone.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }

    /// How many of the first `wanted` threads need not be woken, the caller included.
    pub(crate) fn awake(&self, wanted: usize) -> usize {
        let there = wanted.min(self.hired.load(Ordering::Relaxed) + 1);
        let is_awake = |place: &usize| !self.hall.desks[*place].rest.is_asleep.load(Ordering::Relaxed);
        1 + (1..there).take_while(is_awake).count()
    }

    /// Begins to wake those who were hired, without waiting for them; they stay awake for so long. True once all of them are.
    pub(crate) fn rouse(&self, time: Duration) -> bool {
        self.hall.rouse(time, self.hired.load(Ordering::Relaxed))
    }

    /// Whether work of so many nanoseconds is the last that the workers sleep through: together with what they missed
    /// it would have paid for waking them.
    pub(crate) fn owes(&self, nanoseconds: f64, wake_ns: f64) -> bool {
        let missed = self.missed.load(Ordering::Relaxed) + nanoseconds as u64;
        let wakes = missed as f64 >= wake_ns;
        // Two callers at once may forget some of it.
        self.missed.store(if wakes { 0 } else { missed }, Ordering::Relaxed);
        wakes
    }

    /// As [`Team::run`], by no more than `threads`, the caller included.
    pub(crate) fn run_by(&self, threads: usize, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        if parts <= 1 || threads.min(self.threads()) <= 1 {
            return (0..parts).for_each(work);
        }
        if rayon_core::current_thread_index().is_some() {
            return halves(0, parts, work);
        }
        if parts > LONGEST_RANGE {
            let some = parts.div_ceil(LONGEST_RANGE);
            let group = |group: usize| (group * some..parts.min((group + 1) * some)).for_each(work);
            return self.run_by(threads, parts.div_ceil(some), &group);
        }
        if self.taken.swap(true, Ordering::Acquire) {
            return (0..parts).for_each(work);
        }
        let panic = self.share(threads, parts, work);
        self.taken.store(false, Ordering::Release);
        if let Some(panic) = panic.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(panic);
        }
    }

    /// Has all parts done by as many workers as there are parts for; gives what a part panicked with.
    fn share(&self, threads: usize, parts: usize, work: &(dyn Fn(usize) + Sync)) -> Panic {
        let called = self.hire(parts.min(threads).min(self.threads()) - 1);
        let panic = Panic::default();
        // SAFETY: only the lifetime is extended; the hall lets go of the job before it returns.
        let work = unsafe { std::mem::transmute::<NonNull<dyn Fn(usize) + Sync>, NonNull<_>>(NonNull::from(work)) };
        let job = Job { work, panic: NonNull::from(&panic), parts, ranges: called + 1 };
        // SAFETY: both outlive this call, and `taken` keeps other callers out.
        unsafe { self.hall.share(job, self.hired.load(Ordering::Relaxed)) };
        panic
    }

    /// How many of the `wanted` workers there are, once those that were missing are hired. A machine that refuses more
    /// threads is served with fewer.
    fn hire(&self, wanted: usize) -> usize {
        let hired = self.hired.load(Ordering::Relaxed);
        if hired >= wanted {
            return wanted;
        }
        let hire = |place: usize| {
            let hall = self.hall.clone();
            let thread = std::thread::Builder::new().name(format!("breakeven-cpu-{place}"));
            let worker = thread.spawn(move || hall.work(place)).ok()?;
            // Nobody else hires: the caller has the team.
            let _ = self.hall.desks[place].rest.thread.set(worker.thread().clone());
            Some(worker)
        };
        let mut workers = self.workers();
        workers.extend((hired + 1..=wanted).map_while(hire));
        self.hired.store(workers.len(), Ordering::Relaxed);
        if workers.len() < wanted {
            self.most.store(workers.len(), Ordering::Relaxed);
        }
        workers.len()
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

impl Drop for Team {
    fn drop(&mut self) {
        self.hall.stop.store(true, Ordering::SeqCst);
        self.hall.desks.iter().filter_map(|desk| desk.rest.thread.get()).for_each(Thread::unpark);
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
    use std::panic::{AssertUnwindSafe, catch_unwind};

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
    fn neighbours_stay_with_their_thread() {
        let team = Team::new(3, u32::MAX);
        let jobs: Vec<_> = (0..50)
            .map(|_| {
                let by = [const { Mutex::new(None) }; 9];
                team.run(9, &|part| {
                    // Long enough for the others to come; one that does not is helped, as it should be.
                    std::thread::sleep(Duration::from_micros(100));
                    *by[part].lock().expect("no part panics") = Some(std::thread::current().id());
                });
                by.map(|by| by.into_inner().expect("no part panics").expect("every part is done"))
            })
            .collect();
        let kept = jobs.iter().filter(|by| by.chunks(3).all(|three| three.iter().all(|one| *one == three[0]))).count();
        assert!(kept > 0, "{jobs:?}");
    }

    #[test]
    fn sleepers_are_woken_once_they_missed_enough() {
        let team = Team::new(3, 1);
        assert_eq!((team.awake(3), team.owes(400.0, 1000.0), team.owes(500.0, 1000.0)), (1, false, false));
        assert_eq!((team.owes(100.0, 1000.0), team.owes(100.0, 1000.0)), (true, false));
        team.run_by(2, 10, &|_| {});
        assert_eq!(team.workers().len(), 1);
        let asleep = (0..10_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            team.awake(2) == 1
        });
        assert!(asleep, "a worker spins for ever");
    }

    #[test]
    fn who_is_roused_comes_without_work_and_sleeps_again() {
        let team = Team::new(4, 1);
        assert!(team.rouse(Duration::from_mins(1)), "nobody was hired");
        assert_eq!(squares(&team, 4), 14);
        let within_a_minute = |is_so: &dyn Fn() -> bool| {
            let started = std::time::Instant::now();
            while !is_so() && started.elapsed().as_secs() < 60 {
                std::thread::sleep(Duration::from_millis(1));
            }
            is_so()
        };
        assert!(within_a_minute(&|| team.rouse(Duration::from_mins(2))), "somebody slept on");
        assert_eq!(team.awake(4), 4);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!((team.awake(4), squares(&team, 4)), (4, 14), "they were to stay awake for two minutes");
        team.rouse(Duration::ZERO);
        assert!(within_a_minute(&|| team.awake(4) == 1), "somebody is awake for ever");
        assert_eq!(squares(&team, 4), 14);
    }

    #[test]
    fn more_parts_than_a_desk_counts() {
        let team = Team::new(2, 1000);
        let parts = 3 * LONGEST_RANGE + 7;
        let counts: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
        team.run(parts, &|part| {
            counts[part].fetch_add(1, Ordering::Relaxed);
        });
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn a_slow_part_leaves_its_neighbours_to_others() {
        let team = Team::new(2, u32::MAX);
        let slow = AtomicBool::new(true);
        let started = std::time::Instant::now();
        // The first part waits until the last of its own range was done, by whoever helps.
        team.run(8, &|part| match part {
            0 => {
                while slow.load(Ordering::Acquire) && started.elapsed().as_secs() < 60 {
                    std::thread::yield_now();
                }
            }
            3 => slow.store(false, Ordering::Release),
            _ => {}
        });
        assert!(!slow.into_inner(), "nobody helped");
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
            std::thread::sleep(Duration::from_millis(1));
            assert_eq!(squares(&team, 4), 14);
        }
        let caught = catch_unwind(AssertUnwindSafe(|| team.run(4, &|i| assert_ne!(i, 2, "no"))));
        assert!(caught.is_err());
        assert_eq!(squares(&team, 4), 14);
    }
}
