//! Who is told when a device does better or worse: seen whenever the engine looks at its devices, without a thread of its own.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::devices::{Devices, Snapshot};
use crate::health::Standing;
use crate::{DeviceReport, Engine};

/// Ends when it is dropped: nothing is told from then on, but that a call which has begun on another thread ends.
#[must_use = "nothing is told once it is dropped"]
pub struct HealthSubscription {
    subscriber: Arc<Subscriber>,
    count: Arc<AtomicUsize>,
}

/// Whom to tell, and how the devices stood when they were told last.
struct Subscriber {
    tell: Box<dyn Fn(&DeviceReport) + Send + Sync>,
    told: Mutex<Told>,
    is_ended: AtomicBool,
}

#[derive(Debug)]
struct Told {
    /// The count of changes of the devices.
    version: u64,
    standings: Vec<Standing>,
}

/// All who are to be told. They are told one after the other, by whichever thread sees a change first.
#[derive(Default)]
pub(crate) struct Subscribers {
    all: Mutex<Vec<Weak<Subscriber>>>,
    /// How many there are, to be looked at by each call.
    count: Arc<AtomicUsize>,
    turn: Mutex<Turn>,
}

/// What is to be told, and whether a thread is at it.
#[derive(Default)]
struct Turn {
    is_taken: bool,
    waiting: VecDeque<Snapshot>,
}

impl Engine {
    /// Calls `tell` whenever a device does better or worse ([`Health`](crate::Health)) or stands otherwise
    /// ([`DeviceState`](crate::DeviceState)), with what is known of it then, and when one is found. Ends when what it returns is dropped.
    ///
    /// Changes are seen where the engine looks at its devices anyway: after a call, however it ended, at a failure, and by the threads that look
    /// for devices or open them again. Reads of what was computed before, and small work in the host's memory whose plan is known, do not look
    /// at devices: memory that they give back, or that somebody else takes, is seen at the next of these. `tell` is called on the thread that
    /// saw it, one call at a time and in order, and no lock is held. It may ask the engine and compute with it; what it takes is added to that
    /// thread's call, so it should be short. It must not wait for another thread's call, nor for the devices ([`Engine::ready`]), whose thread
    /// may be the one that it is called on. If it panics, it is not called again, and [`Engine::notes`] says so.
    ///
    /// ```
    /// # fn main() -> breakeven::Result<()> {
    /// let engine = breakeven::Engine::detect()?;
    /// let watch = engine.on_health(|device| {
    ///     let why = device.health.as_ref().and_then(|health| health.reason());
    ///     eprintln!("{} is {:?} ({why:?})", device.name, device.state);
    /// });
    /// # drop(watch);
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_health(&self, tell: impl Fn(&DeviceReport) + Send + Sync + 'static) -> HealthSubscription {
        let devices = &self.0.devices;
        let snapshot = devices.snapshot();
        let told = Mutex::new(Told::of(&snapshot, &snapshot.reports()));
        let subscriber = Arc::new(Subscriber { tell: Box::new(tell), told, is_ended: AtomicBool::new(false) });
        let count = devices.subscribers.add(&subscriber);
        HealthSubscription { subscriber, count }
    }
}

impl Devices {
    /// Tells whoever is to be told what a call did to the devices. Where another thread is at it, that is seen at the next call.
    pub fn tell(&self) {
        self.tell_of(Cause::Call);
    }

    /// Tells whoever is to be told that devices were changed. Where another thread is at it, that one tells of it too.
    pub fn tell_change(&self) {
        self.tell_of(Cause::Change);
    }

    fn tell_of(&self, cause: Cause) {
        let subscribers = &self.subscribers;
        if subscribers.count.load(Ordering::Relaxed) == 0 || !subscribers.begin(self.snapshot(), cause) {
            return;
        }
        while let Some(devices) = subscribers.next() {
            let reports = devices.reports();
            for subscriber in subscribers.alive() {
                self.tell_one(subscriber, &devices, &reports);
            }
        }
    }

    /// What the user's code panics with, or has captured, is the user's as well: it goes where a panic is caught, or stays.
    fn tell_one(&self, subscriber: Arc<Subscriber>, devices: &Snapshot, reports: &[DeviceReport]) {
        let which = Arc::as_ptr(&subscriber);
        let hear = move || subscriber.hears_of(devices, reports);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(hear)) {
            std::mem::forget(panic);
            self.subscribers.remove(which);
            let what = "a callback that was to be told of the health of devices panicked, and is not called again";
            self.note(what.to_owned());
        }
    }
}

/// Why there may be something to tell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// A call has ended.
    Call,
    /// A device was found, failed or came back.
    Change,
}

impl Told {
    fn of(devices: &Snapshot, reports: &[DeviceReport]) -> Told {
        let one = |report: &DeviceReport| Standing::of(report.health.as_ref(), &report.state, report.memory);
        Told { version: devices.version, standings: reports.iter().map(one).collect() }
    }
}

impl Told {
    /// What is told now; what is not stays as it was told.
    fn take(&mut self, now: Told, changed: &[usize]) {
        self.version = now.version;
        for (at, standing) in now.standings.into_iter().enumerate() {
            match self.standings.get_mut(at) {
                None => self.standings.push(standing),
                Some(told) if changed.contains(&at) => *told = standing,
                Some(_) => {}
            }
        }
    }
}

impl Subscriber {
    fn hears_of(&self, devices: &Snapshot, reports: &[DeviceReport]) {
        let now = Told::of(devices, reports);
        let mut told = lock(&self.told);
        // Another thread may have been faster with what came later.
        if now.version < told.version {
            return;
        }
        let is_news = |(at, now): (usize, &Standing)| told.standings.get(at).is_none_or(|told| now.is_news_after(told));
        let changed: Vec<usize> =
            now.standings.iter().enumerate().filter(|one| is_news(*one)).map(|(at, _)| at).collect();
        told.take(now, &changed);
        drop(told);
        for at in changed {
            // It may end while others are told, or while it is told itself.
            if self.is_ended.load(Ordering::Acquire) {
                return;
            }
            (self.tell)(&reports[at]);
        }
    }
}

impl Subscribers {
    fn add(&self, subscriber: &Arc<Subscriber>) -> Arc<AtomicUsize> {
        lock(&self.all).push(Arc::downgrade(subscriber));
        self.count.fetch_add(1, Ordering::Relaxed);
        self.count.clone()
    }

    fn alive(&self) -> Vec<Arc<Subscriber>> {
        let mut all = lock(&self.all);
        all.retain(|subscriber| subscriber.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    }

    fn remove(&self, gone: *const Subscriber) {
        lock(&self.all).retain(|subscriber| !std::ptr::eq(subscriber.as_ptr(), gone));
    }

    /// Takes the turn; false where another thread has it, or this one already.
    fn begin(&self, devices: Snapshot, cause: Cause) -> bool {
        let mut turn = lock(&self.turn);
        let is_free = !turn.is_taken;
        if is_free || cause == Cause::Change {
            turn.waiting.push_back(devices);
        }
        turn.is_taken = true;
        is_free
    }

    /// What is to be told next; the turn ends where there is nothing.
    fn next(&self) -> Option<Snapshot> {
        let mut turn = lock(&self.turn);
        let next = turn.waiting.pop_front();
        turn.is_taken = next.is_some();
        next
    }
}

impl Drop for HealthSubscription {
    fn drop(&mut self) {
        self.subscriber.is_ended.store(true, Ordering::Release);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for HealthSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthSubscription").field("told", &self.subscriber.told).finish_non_exhaustive()
    }
}

impl fmt::Debug for Subscribers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subscribers({})", self.count.load(Ordering::Relaxed))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
