//! A run as a `Future`: a thread of its own waits, bounded by the deadline, and wakes the task.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use breakeven_device::Deadline;

use crate::run::Submitted;
use crate::{ExecError, Outcome, Running};

/// A run that can be awaited.
#[derive(Debug)]
pub struct Watch {
    running: Option<Running>,
    deadline: Deadline,
    waker: Arc<Mutex<Option<Waker>>>,
    watched: bool,
}

impl Running {
    /// As a `Future` that ends with the results, or with a timeout once the deadline has passed.
    pub fn watch(self, deadline: Deadline) -> Watch {
        Watch { running: Some(self), deadline, waker: Arc::default(), watched: false }
    }
}

impl Watch {
    /// One thread waits for all submissions in turn; the outcome itself is read by the task.
    fn spawn(&mut self) {
        let (Some(running), false) = (&self.running, std::mem::replace(&mut self.watched, true)) else { return };
        let executable = running.executable.clone();
        let pending: Vec<_> =
            running.pending.iter().map(|Submitted { device, ticket, .. }| (*device, *ticket)).collect();
        let (waker, deadline) = (self.waker.clone(), self.deadline);
        std::thread::spawn(move || {
            for (device, ticket) in pending {
                if let Some(device) = &executable.devices[device.0] {
                    // A failure is met again, and reported, by the task that reads the outcome.
                    let _ = device.wait(ticket, deadline);
                }
            }
            let woken = waker.lock().unwrap_or_else(PoisonError::into_inner).take();
            woken.into_iter().for_each(Waker::wake);
        });
    }
}

impl Future for Watch {
    type Output = Result<Outcome, ExecError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let done = self.running.as_ref().is_none_or(Running::is_done);
        if !done && !self.deadline.has_passed() {
            *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
            self.spawn();
            return Poll::Pending;
        }
        let deadline = self.deadline;
        let running = self.running.take().expect("a future is not polled after it has ended");
        Poll::Ready(running.finish(deadline))
    }
}
