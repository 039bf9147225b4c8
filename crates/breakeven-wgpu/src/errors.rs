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
    /// The last error that no scope caught.
    uncaptured: String,
    /// How many there were.
    errors: u64,
    /// Whether nobody was told of the last one yet.
    is_untold: bool,
}

impl Verdict {
    /// Listens to `device`; without it, wgpu's own handler panics.
    pub fn listen(&self, device: &wgpu::Device) {
        let said = self.0.clone();
        device.on_uncaptured_error(Arc::new(move |e: wgpu::Error| {
            let mut said = lock(&said);
            (said.uncaptured, said.errors, said.is_untold) = (e.to_string(), said.errors + 1, true);
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

    /// How many errors no scope caught so far.
    pub fn errors(&self) -> u64 {
        lock(&self.0).errors
    }

    /// The last of them, for whoever was on the way before there were more than `errors`: nobody knows what it has spoiled.
    pub fn since(&self, errors: u64) -> Option<DeviceError> {
        let said = lock(&self.0);
        (said.errors > errors).then(|| DeviceError::Driver(said.uncaptured.clone()))
    }

    /// The last of them, unless somebody was told.
    pub fn take_untold(&self) -> Option<DeviceError> {
        let mut said = lock(&self.0);
        std::mem::take(&mut said.is_untold).then(|| DeviceError::Driver(said.uncaptured.clone()))
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
    error.map_or(Ok(value), |error| Err(typed(error)))
}

/// What wgpu told as ours; how much was wanted its caller knows.
pub(crate) fn typed(error: wgpu::Error) -> DeviceError {
    match error {
        wgpu::Error::OutOfMemory { .. } => DeviceError::OutOfMemory { wanted: 0, left: None },
        other => DeviceError::Driver(other.to_string()),
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref().copied());
    format!("the driver panicked: {}", text.unwrap_or("without a word"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use breakeven_device::{
        Binding, Deadline, Device, HostBytes, Lane, MemoryKind, ReadCell, Segment, SegmentStep, Ticket,
    };

    use super::*;
    use crate::{WgpuBackend, WgpuDevice, WgpuOptions};

    /// An error that no call of ours raises.
    fn provoke(device: &WgpuDevice) {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::INDEX;
        let wrong = wgpu::BufferDescriptor { label: None, size: 3, usage, mapped_at_creation: true };
        // It may panic as well, which is nothing of ours either.
        drop(catch_unwind(AssertUnwindSafe(|| device.gpu().device.create_buffer(&wrong))));
    }

    /// Brings bytes to the device and back.
    fn send(device: &WgpuDevice) -> Result<(Ticket, ReadCell)> {
        let steps =
            vec![SegmentStep::Upload { upload: 0, slot: 0 }, SegmentStep::Download { slot: 0, bytes: 16, read: 0 }];
        let read = ReadCell::new();
        let binding = Binding {
            buffers: vec![device.alloc(16, MemoryKind::Resident)?],
            uploads: vec![HostBytes::from_vec(vec![7u8; 16])],
            reads: vec![read.clone()],
            ..Binding::default()
        };
        Ok((device.submit(&device.prepare(&Segment { steps })?, binding, Lane::Compute, &[])?, read))
    }

    fn check(device: &WgpuDevice) {
        let (ticket, read) = send(device).unwrap();
        device.wait(ticket, Deadline::after(Duration::from_mins(1))).unwrap();
        assert_eq!(read.take().unwrap().to_vec(), [7; 16]);
    }

    #[test]
    fn an_error_that_no_call_raised_is_told_to_all_that_is_on_the_way_or_to_who_comes_next() {
        let backend = WgpuBackend::new(WgpuOptions::default());
        for index in backend.software_adapters() {
            let device = backend.open_device(index).unwrap();
            check(&device);
            provoke(&device);
            let told = send(&device).map(drop).unwrap_err();
            assert!(matches!(told, DeviceError::Driver(_)), "{told}");
            check(&device);
            let tickets = [(); 2].map(|()| send(&device).unwrap().0);
            provoke(&device);
            for ticket in tickets {
                let told = device.wait(ticket, Deadline::after(Duration::from_mins(1))).unwrap_err();
                assert!(matches!(told, DeviceError::Driver(_)), "{told}");
            }
            check(&device);
        }
    }
}
