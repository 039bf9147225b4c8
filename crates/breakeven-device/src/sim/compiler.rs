//! A driver's compiler that takes as long as the test says.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use breakeven_ir::Kernel;

use crate::{DeviceError, Result, Segment, SegmentStep};

/// How long a test may keep a compilation waiting: one that forgot it fails.
const MOST: Duration = Duration::from_mins(1);

/// Compiles each kernel once, and nothing before it is released. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct SimCompiler(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    is_released: bool,
    /// What it refuses everything with.
    refuses: Option<DeviceError>,
    begun: usize,
    known: Vec<Kernel>,
}

impl SimCompiler {
    /// What it was given and will be given takes no time.
    pub fn release(&self) {
        self.change(|state| state.is_released = true);
    }

    /// What it will be given waits again.
    pub fn hold(&self) {
        self.change(|state| state.is_released = false);
    }

    /// What it was given and will be given fails.
    pub fn refuse(&self, error: DeviceError) {
        self.change(|state| (state.is_released, state.refuses) = (true, Some(error)));
    }

    /// Segments that it was given so far.
    pub fn begun(&self) -> usize {
        self.state().begun
    }

    /// Whether something of `segment` was not compiled yet.
    pub(super) fn has_work(&self, segment: &Segment) -> bool {
        let state = self.state();
        kernels(segment).any(|kernel| !state.known.contains(kernel))
    }

    /// Compiles what was not, once it may.
    pub(super) fn compile(&self, segment: &Segment) -> Result<()> {
        if !self.has_work(segment) {
            return Ok(());
        }
        self.change(|state| state.begun += 1);
        let (begun, mut state) = (Instant::now(), self.state());
        while !state.is_released {
            if begun.elapsed() > MOST {
                return Err(DeviceError::Driver("no test released its compiler".to_owned()));
            }
            state = self.0.1.wait_timeout(state, MOST).unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(error) = &state.refuses {
            return Err(error.clone());
        }
        state.known.extend(kernels(segment).cloned());
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.0.1.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kernels(segment: &Segment) -> impl Iterator<Item = &Kernel> {
    segment
        .steps
        .iter()
        .filter_map(|step| if let SegmentStep::Launch(launch) = step { Some(&launch.kernel) } else { None })
}
