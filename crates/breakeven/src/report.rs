//! What a run did: predicted beside measured.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use breakeven_device::Timing;
use breakeven_exec::{Recording, StageTiming};
use breakeven_plan::{DeviceId, Plan};
use smallvec::SmallVec;

use crate::run_trace::RunTrace;

/// What a run did, where, and how long it took.
#[derive(Clone, Debug)]
pub struct Report {
    /// How it was planned, with a reason for each step, and how products of lower precision were made
    /// ([`Decision::products`](breakeven_plan::Decision::products)).
    pub plan: Arc<Plan>,
    /// Names of the engine's devices, by [`DeviceId`].
    pub devices: Arc<[String]>,
    /// Each submission, in order.
    pub submissions: SmallVec<[(DeviceId, Timing); 1]>,
    /// Wall time from the first submission to the last result.
    pub elapsed: Duration,
    /// Devices that failed on the way, and that the work was planned again.
    pub replanned: Vec<String>,
    pub(crate) trace: Option<Arc<RunTrace>>,
}

impl Report {
    pub(crate) fn new(
        plan: Arc<Plan>,
        devices: Arc<[String]>,
        stages: impl IntoIterator<Item = StageTiming>,
        elapsed: Duration,
    ) -> Report {
        let submissions = stages.into_iter().map(|s| (s.device, s.timing)).collect();
        Report { plan, devices, submissions, elapsed, replanned: Vec::new(), trace: None }
    }

    /// The same, with when each step was done and how long planning took before.
    pub(crate) fn with_trace(self, recording: Option<(Recording, Duration)>) -> Report {
        let trace = recording.map(|(recording, planning)| {
            Arc::new(RunTrace::new(&self.plan, self.devices.clone(), recording, planning))
        });
        Report { trace, ..self }
    }

    /// When each step was done, of a run that was traced ([`Engine::run_traced`](crate::Engine::run_traced)).
    pub fn trace(&self) -> Option<&RunTrace> {
        self.trace.as_deref()
    }

    /// Names of the devices that computed something.
    pub fn devices_used(&self) -> Vec<&str> {
        let used = |(id, _): &(usize, &String)| self.submissions.iter().any(|(d, _)| d.0 == *id);
        self.devices.iter().enumerate().filter(used).map(|(_, name)| name.as_str()).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let predicted = Duration::from_secs_f64(self.plan.predicted.seconds.max(0.0));
        write!(f, "{:?} on {} (predicted {predicted:?})", self.elapsed, self.devices_used().join(" and "))?;
        let lowered = self.plan.decisions.iter().filter_map(|d| Some((&d.what, d.products.as_ref()?)));
        lowered.into_iter().try_for_each(|(what, products)| write!(f, "\n{what}: {products}"))?;
        self.replanned.iter().try_for_each(|line| write!(f, "\n{line}"))
    }
}
