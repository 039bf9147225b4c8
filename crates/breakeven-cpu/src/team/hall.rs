//! The hall: where the open job is announced, and what a worker does there.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

use super::desk::Desk;
use super::job::Job;
use super::pause::Pause;

/// What the threads of a team share.
pub(super) struct Hall {
    board: Board,
    /// By place: the caller's is 0.
    pub desks: Box<[Desk]>,
    pub stop: AtomicBool,
    spins: u32,
    opened: Instant,
    /// Nanoseconds after it was opened until which nobody sleeps.
    roused_until: AtomicU64,
}

/// The job, on cache lines of its own: one look tells a worker all.
#[repr(align(128))]
struct Board {
    /// Odd while the job may be joined.
    number: AtomicU64,
    /// Places below this one are called.
    called: AtomicUsize,
    /// Written by the caller while the number is even and nobody is inside.
    job: UnsafeCell<Option<Job>>,
}

// SAFETY: `job` is only written while nobody may join it and nobody is inside, and only read by those who entered while it
// was open.
unsafe impl Sync for Hall {}
// SAFETY: as above; what the job points to is `Sync`.
unsafe impl Send for Hall {}

/// Pauses for which a thread that has done its parts leaves those of others to them: to steal one costs them a cache miss.
const BEFORE_HELPING: u32 = 64;
/// Pauses between two looks at a desk whose worker is about to write there.
const BETWEEN_LOOKS: u32 = 8;
/// Threads that one call wakes: each takes it some microseconds.
const WOKEN_AT_ONCE: usize = 2;

impl Hall {
    pub fn new(threads: usize, spins: u32) -> Hall {
        Hall {
            board: Board { number: AtomicU64::new(0), called: AtomicUsize::new(0), job: UnsafeCell::new(None) },
            desks: std::iter::repeat_with(Desk::default).take(threads).collect(),
            stop: AtomicBool::new(false),
            spins,
            opened: Instant::now(),
            roused_until: AtomicU64::new(0),
        }
    }

    /// Begins to wake the `hired`, none of whom sleeps for so long then: the last call counts. True once all are awake; until then it is to
    /// be called again.
    pub fn rouse(&self, time: Duration, hired: usize) -> bool {
        let until = self.opened.elapsed().saturating_add(time).as_nanos();
        self.roused_until.store(u64::try_from(until).unwrap_or(u64::MAX), Ordering::SeqCst);
        // As in `wake`: of this and a worker that falls asleep, one sees the other.
        fence(Ordering::SeqCst);
        let mut asleep =
            self.desks[1..=hired].iter().filter(|desk| desk.rest.is_asleep.load(Ordering::SeqCst)).peekable();
        let all_awake = asleep.peek().is_none();
        asleep.take(WOKEN_AT_ONCE).for_each(|desk| desk.rest.wake());
        all_awake
    }

    fn is_roused(&self) -> bool {
        let until = self.roused_until.load(Ordering::SeqCst);
        until != 0 && u128::from(until) > self.opened.elapsed().as_nanos()
    }

    /// Opens `job`, works along, closes it and waits until nobody is inside; `hired` desks have a worker. Never unwinds.
    ///
    /// # Safety
    /// Its pointers must be valid, and nobody else may call this meanwhile.
    pub unsafe fn share(&self, job: Job, hired: usize) {
        let board = &self.board;
        let number = board.number.load(Ordering::Relaxed) + 1;
        // SAFETY: the job before was closed and left by all, and nobody else opens one.
        unsafe { *board.job.get() = Some(job) };
        board.called.store(job.ranges, Ordering::Relaxed);
        board.number.store(number, Ordering::SeqCst);
        self.wake(0, job.ranges);
        // SAFETY: the caller's contract.
        unsafe {
            self.own(&job, 0, number);
            if !self.others_end(&job, number) {
                self.help(&job, 0, number);
            }
        }
        board.number.store(number + 1, Ordering::SeqCst);
        // Also those that were called to an earlier job, and come only now.
        self.desks[1..=hired].iter().for_each(|desk| desk.now.wait_outside());
    }

    /// Whether all parts are taken before the caller had better take some of the others'.
    fn others_end(&self, job: &Job, number: u64) -> bool {
        let mut pause = Pause::after(u32::MAX);
        (1..job.ranges).all(|place| {
            while !self.desks[place].now.is_used_up(number, job.range(place).len()) {
                if pause.tries == BEFORE_HELPING {
                    return false;
                }
                (0..BETWEEN_LOOKS).for_each(|_| pause.take());
            }
            true
        })
    }

    /// Does the parts at `place` that nobody has taken.
    ///
    /// # Safety
    /// Of those who are inside, or the caller.
    unsafe fn own(&self, job: &Job, place: usize, number: u64) {
        let range = job.range(place);
        while let Some(part) = self.desks[place].now.claim(number, range.len()) {
            // SAFETY: the job is open or somebody inside, so its pointers are valid.
            unsafe { job.part(range.start + part) };
        }
    }

    /// Does what others have not begun, until nothing is left; nearest first, so that helpers do not all meet.
    ///
    /// # Safety
    /// As [`Hall::own`].
    unsafe fn help(&self, job: &Job, place: usize, number: u64) {
        for other in 1..job.ranges {
            // SAFETY: the same contract.
            unsafe { self.own(job, (place + other) % job.ranges, number) };
        }
    }

    /// Wakes those two of the called that the thread at `place` has to wake: to wake a thread takes longer than many a part,
    /// and so nobody does it for all.
    fn wake(&self, place: usize, called: usize) {
        let (from, to) = ((2 * place + 1).min(called), (2 * place + 3).min(called));
        // Either this sees that a worker sleeps, or the worker sees the job before it does.
        fence(Ordering::SeqCst);
        self.desks[from..to].iter().for_each(|desk| desk.rest.wake());
    }

    /// The life of a worker.
    pub fn work(&self, place: usize) {
        let (mut seen, mut was_woken) = (0, false);
        loop {
            was_woken = self.rest(place, &mut seen, was_woken);
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            self.wake(place, self.board.called.load(Ordering::Relaxed));
            self.enter(place, Hall::own);
        }
    }

    /// Does `work` of the open job, if there is one.
    fn enter(&self, place: usize, work: unsafe fn(&Hall, &Job, usize, u64)) {
        let is_inside = &self.desks[place].now.is_inside;
        is_inside.store(true, Ordering::SeqCst);
        let number = self.board.number.load(Ordering::SeqCst);
        if is_open(number) {
            // SAFETY: the job was open after this worker was seen inside, so it is set, and its caller waits.
            unsafe {
                if let Some(job) = *self.board.job.get()
                    && place < job.ranges
                {
                    work(self, &job, place, number);
                }
            }
        }
        is_inside.store(false, Ordering::Release);
    }

    /// Until the thread at `place` is called to a job after number `seen`, or woken; true if it slept. One that was woken may
    /// have taken the core of its caller, and offers it back for a while. Jobs that others are called to do not keep it awake.
    fn rest(&self, place: usize, seen: &mut u64, was_woken: bool) -> bool {
        let mut pause = Pause::after(if was_woken { 0 } else { self.spins });
        let mut worked_at = *seen;
        while pause.tries < self.spins || self.is_roused() {
            let number = self.board.number.load(Ordering::Acquire);
            if self.is_called(place, number, seen) {
                return false;
            }
            if pause.tries == BEFORE_HELPING && is_open(number) && number == worked_at {
                self.enter(place, Hall::help);
                worked_at = 0;
            }
            pause.take();
        }
        self.sleep(place, seen);
        true
    }

    fn sleep(&self, place: usize, seen: &mut u64) {
        let rest = &self.desks[place].rest;
        rest.is_asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        // One that is woken too late for its job stays for the next: to wake takes longer than many a job, and whoever went back to sleep
        // would be late for all of them.
        if !self.is_called(place, self.board.number.load(Ordering::Acquire), seen) && !self.is_roused() {
            std::thread::park();
        }
        rest.is_asleep.store(false, Ordering::Relaxed);
    }

    /// Whether job `number` is new, and calls the thread at `place`.
    fn is_called(&self, place: usize, number: u64, seen: &mut u64) -> bool {
        if number == *seen || !is_open(number) {
            return self.stop.load(Ordering::Relaxed);
        }
        *seen = number;
        place < self.board.called.load(Ordering::Relaxed)
    }
}

fn is_open(number: u64) -> bool {
    !number.is_multiple_of(2)
}
