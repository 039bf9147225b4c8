//! wgpu's errors as ours: scopes are thread-local, losses come through a callback, and some waits panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use breakeven_device::{DeviceError, Result};

/// Locks; a panic elsewhere does not spread.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The result of a future that wgpu answers at once on native platforms.
pub(crate) fn ready<F: Future>(future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// What the driver said outside of any call: that the device is lost, or an error that no scope caught.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict(Arc<Mutex<Said>>);

#[derive(Debug, Default)]
struct Said {
    lost: Option<String>,
    uncaptured: Option<String>,
}

impl Verdict {
    /// Listens to `device`; without it, wgpu's own handler panics.
    pub fn listen(&self, device: &wgpu::Device) {
        let said = self.0.clone();
        device.on_uncaptured_error(Arc::new(move |e: wgpu::Error| {
            lock(&said).uncaptured.get_or_insert_with(|| e.to_string());
        }));
        let verdict = self.clone();
        device.set_device_lost_callback(move |reason, message| {
            verdict.lose(&format!("{reason:?}: {message}"));
        });
    }

    /// From now on the device is lost.
    pub fn lose(&self, reason: &str) {
        lock(&self.0).lost.get_or_insert_with(|| reason.to_owned());
    }

    /// Fails when the device is lost.
    pub fn check(&self) -> Result<()> {
        match &lock(&self.0).lost {
            Some(reason) => Err(DeviceError::Lost { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// The error that no scope caught, once.
    pub fn take_uncaptured(&self) -> Option<DeviceError> {
        lock(&self.0).uncaptured.take().map(DeviceError::Driver)
    }
}

/// Runs `act` and turns every error wgpu raises meanwhile, panics included, into a result.
pub(crate) fn guarded<T>(device: &wgpu::Device, verdict: &Verdict, act: impl FnOnce() -> T) -> Result<T> {
    let filters = [wgpu::ErrorFilter::Internal, wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::OutOfMemory];
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let scopes = filters.map(|filter| device.push_error_scope(filter));
        let value = act();
        let mut errors = scopes.into_iter().rev().filter_map(|scope| ready(scope.pop()).flatten());
        let first = errors.next();
        errors.for_each(drop);
        (value, first)
    }));
    let (value, error) = outcome.map_err(|panic| {
        let reason = panic_text(panic.as_ref());
        verdict.lose(&reason);
        DeviceError::Lost { reason }
    })?;
    verdict.check()?;
    match error {
        None => Ok(value),
        Some(wgpu::Error::OutOfMemory { .. }) => Err(DeviceError::OutOfMemory { wanted: 0, left: None }),
        Some(other) => Err(DeviceError::Driver(other.to_string())),
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref().copied());
    format!("the driver panicked: {}", text.unwrap_or("without a word"))
}
