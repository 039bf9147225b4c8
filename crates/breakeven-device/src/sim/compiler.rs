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
    /// Kernels that it may compile though it is not released.
    more: usize,
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

    /// It compiles one kernel more.
    pub fn release_one(&self) {
        self.change(|state| state.more += 1);
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

    /// Kernels that it compiled so far.
    pub fn compiled(&self) -> usize {
        self.state().known.len()
    }

    /// Whether something of `segment` was not compiled yet.
    pub(super) fn has_work(&self, segment: &Segment) -> bool {
        let state = self.state();
        kernels(segment).any(|kernel| !state.known.contains(kernel))
    }

    /// Compiles what was not, one kernel after the other, for as long as that is wanted.
    pub(super) fn compile(&self, segment: &Segment, is_wanted: &dyn Fn() -> bool) -> Result<()> {
        if !self.has_work(segment) {
            return Ok(());
        }
        self.change(|state| state.begun += 1);
        kernels(segment).try_for_each(|kernel| if is_wanted() { self.one(kernel) } else { Err(DeviceError::Cancelled) })
    }

    /// Compiles one, once it may.
    fn one(&self, kernel: &Kernel) -> Result<()> {
        let (begun, mut state) = (Instant::now(), self.state());
        if state.known.contains(kernel) {
            return Ok(());
        }
        while !state.is_released && state.more == 0 {
            if begun.elapsed() > MOST {
                return Err(DeviceError::Driver("no test released its compiler".to_owned()));
            }
            state = self.0.1.wait_timeout(state, MOST).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.more = state.more.saturating_sub(1);
        if let Some(error) = &state.refuses {
            return Err(error.clone());
        }
        state.known.push(kernel.clone());
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
