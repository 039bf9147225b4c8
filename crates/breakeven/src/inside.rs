//! Which threads of an engine may be in a graphics driver: whoever ends the engine waits until none is.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use breakeven_device::Deadline;

/// The threads of one engine that may be in a driver. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inside(Arc<Threads>);

#[derive(Debug, Default)]
struct Threads {
    /// None for one that is about to begin.
    inside: Mutex<Vec<Option<ThreadId>>>,
    left: Condvar,
}

/// A thread that may be in a driver until this is dropped.
#[derive(Debug)]
pub(crate) struct Stay {
    of: Inside,
    thread: Option<ThreadId>,
}

impl Inside {
    /// This thread may be in a driver from now on.
    pub fn enter(&self) -> Stay {
        self.expect().arrive()
    }

    /// A thread is about to begin that may be in a driver from its first moment on, and says so by [`Stay::arrive`].
    pub fn expect(&self) -> Stay {
        self.lock().push(None);
        Stay { of: self.clone(), thread: None }
    }

    /// Does `work` on a thread of its own, which counts until the system has ended it: drivers do something then, too. Another thread
    /// sees to its end, so that nothing is kept of it and nobody has to wait for it without limit.
    pub fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let inside = self.clone();
        let work = move || {
            let stay = inside.enter();
            work();
            stay
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work)?;
        // It gives its stay back when it is joined. Without a thread for that, it ends its stay itself, a moment early.
        let watch = thread::Builder::new().name("breakeven-watch".to_owned()).stack_size(64 << 10);
        drop(watch.spawn(move || drop(thread.join())));
        Ok(())
    }

    /// Waits until no thread but this one is in a driver; false when the deadline passes first.
    pub fn wait(&self, deadline: Deadline) -> bool {
        let own = Some(thread::current().id());
        let mut inside = self.lock();
        while inside.iter().any(|thread| *thread != own) {
            if deadline.has_passed() {
                return false;
            }
            let waited = self.0.left.wait_timeout(inside, deadline.remaining());
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<ThreadId>>> {
        self.0.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stay {
    /// This is the thread that was expected: it does not wait for itself.
    pub fn arrive(mut self) -> Stay {
        let own = Some(thread::current().id());
        if let Some(place) = self.of.lock().iter_mut().find(|thread| **thread == self.thread) {
            *place = own;
        }
        self.thread = own;
        self
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        let mut inside = self.of.lock();
        if let Some(at) = inside.iter().position(|thread| *thread == self.thread) {
            inside.swap_remove(at);
        }
        drop(inside);
        self.of.0.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    fn soon() -> Deadline {
        Deadline::after(Duration::from_millis(20))
    }

    fn late() -> Deadline {
        Deadline::after(Duration::from_mins(1))
    }

    #[test]
    fn a_thread_that_hangs_is_waited_for_until_the_deadline_and_no_longer() {
        let inside = Inside::default();
        assert!(inside.wait(soon()), "nobody is there");
        let (entered, there) = channel();
        let (release, held) = channel::<()>();
        let hang = move || {
            entered.send(()).expect("the test waits for it");
            assert!(held.recv().is_err(), "nothing is sent");
        };
        inside.spawn("breakeven-test", hang).expect("there is room for a thread");
        there.recv().expect("it begins");
        assert!(!inside.wait(soon()));
        drop(release);
        assert!(inside.wait(late()));
    }

    #[test]
    fn a_thread_counts_before_it_begins_and_until_its_stay_is_dropped() {
        let inside = Inside::default();
        let stay = inside.expect();
        assert!(!inside.wait(soon()), "it is not this thread");
        let other = thread::spawn({
            let inside = inside.clone();
            move || {
                let stay = stay.arrive();
                assert!(inside.wait(soon()), "it is the only one");
                stay
            }
        });
        let stay = other.join().expect("it does not panic");
        assert!(!inside.wait(soon()));
        drop(stay);
        assert!(inside.wait(soon()));
    }

    #[test]
    fn a_thread_does_not_wait_for_itself_and_one_that_panics_has_left() {
        let inside = Inside::default();
        let stay = inside.enter();
        assert!(inside.wait(soon()));
        drop(stay);
        let other = inside.clone();
        let work = move || {
            assert!(other.wait(soon()), "only this thread is there");
            std::panic::resume_unwind(Box::new("on purpose"));
        };
        inside.spawn("breakeven-test", work).expect("there is room for a thread");
        assert!(inside.wait(late()));
    }
}
