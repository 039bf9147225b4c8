//! Plans that are still being compiled: a call waits for one no longer than the CPU is predicted to take, which serves it then.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use breakeven_device::{Deadline, DeviceError};
use breakeven_exec::{ExecError, Executable, Uncompiled};
use breakeven_plan::{DeviceId, Plan, Policy, Reason};

use crate::Engine;
use crate::cache::{KEPT, Wanted, compile_later, plan_for};
use crate::failure::Failure;
use crate::patience::Patience;
use crate::planned::{MadeFor, Planned, because};

/// How long a call waits for a plan that has to be compiled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Awaits {
    /// As long as the CPU would take, which does it then; where it cannot, as [`Awaits::It`].
    Briefly(Patience),
    /// Until its deadline.
    It(Patience),
}

/// What a call is given.
pub(crate) enum Compiled {
    /// The plan, and what it was made for.
    Now(Box<MadeFor>, Arc<Executable>),
    /// A plan for the CPU, until the other one is compiled.
    Later(Arc<Planned>),
}

/// What became of a compilation.
type Made = Result<Arc<Executable>, ExecError>;

/// A plan that is being compiled.
#[derive(Debug)]
pub(crate) struct Coming {
    made_for: MadeFor,
    /// Whose driver takes its time.
    device: DeviceId,
    made: Mutex<Option<Made>>,
    ended: Condvar,
    /// Who serves meanwhile.
    stand_in: OnceLock<Option<Arc<Planned>>>,
}

/// All of one engine, by fingerprints of their graphs.
#[derive(Debug, Default)]
pub(crate) struct AllComing(Mutex<Vec<(u64, Arc<Coming>)>>);

/// Says that a compilation has ended, however it did.
struct Ends(Arc<Coming>);

impl Engine {
    /// What `wanted` is computed by, whose graph has this fingerprint.
    pub(crate) fn compiled(&self, key: u64, wanted: &Wanted<'_>, awaits: Awaits) -> Result<Compiled, Failure> {
        let all = &self.0.plans.coming;
        if let Some(coming) = all.find(key, wanted) {
            return self.awaited(&coming, wanted, awaits, Duration::ZERO);
        }
        let made_for = wanted.made_for();
        let uncompiled = compile_later(wanted.devices, plan_for(wanted.devices, &made_for)?)?;
        let Some(device) = uncompiled.compiles() else {
            let executable = uncompiled.compile().map_err(Failure::before_running)?;
            return Ok(Compiled::Now(Box::new(made_for), Arc::new(executable)));
        };
        let coming = all.add(key, Coming::new(made_for, device));
        let task = task(coming.clone(), uncompiled);
        if let Err(task) = self.0.devices.beside(task) {
            task();
        }
        self.awaited(&coming, wanted, awaits, Duration::MAX)
    }

    /// Waits for it, `at_most` so long where the CPU can serve.
    fn awaited(
        &self,
        coming: &Arc<Coming>,
        wanted: &Wanted<'_>,
        awaits: Awaits,
        at_most: Duration,
    ) -> Result<Compiled, Failure> {
        let (stand_in, patience) = match awaits {
            // The same call is to give the same bits each time where nothing is learnt.
            Awaits::Briefly(patience) if self.0.options.learn => {
                (coming.stand_in.get_or_init(|| stand_in(coming, wanted)).clone(), patience)
            }
            Awaits::Briefly(patience) | Awaits::It(patience) => (None, patience),
        };
        let usual = patience.deadline(None);
        let brief = |planned: &Arc<Planned>| Deadline::after(planned.predicted().min(at_most).min(usual.remaining()));
        match coming.wait(stand_in.as_ref().map_or(usual, brief)) {
            Some(made) => {
                self.0.plans.coming.remove(coming);
                let now = |executable| Compiled::Now(Box::new(coming.made_for.clone()), executable);
                made.map(now).map_err(Failure::before_running)
            }
            None => stand_in.map(Compiled::Later).ok_or_else(|| coming.is_late(wanted, usual)),
        }
    }
}

impl Coming {
    fn new(made_for: MadeFor, device: DeviceId) -> Coming {
        Coming { made_for, device, made: Mutex::default(), ended: Condvar::new(), stand_in: OnceLock::new() }
    }

    /// What became of it; none when the deadline passes first.
    fn wait(&self, deadline: Deadline) -> Option<Made> {
        let mut made = self.lock();
        while made.is_none() && !deadline.has_passed() {
            made = self.ended.wait_timeout(made, deadline.remaining()).unwrap_or_else(PoisonError::into_inner).0;
        }
        made.clone()
    }

    /// Nothing is wrong with the device: it is not given up for that.
    fn is_late(&self, wanted: &Wanted<'_>, deadline: Deadline) -> Failure {
        let source = DeviceError::Timeout { waited: deadline.waited(), pending: 0 };
        Failure::Other(wanted.devices.name(ExecError::of(self.device)(source)))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same work on the CPU alone, where that can be and the caller insists on nothing.
fn stand_in(coming: &Coming, wanted: &Wanted<'_>) -> Option<Arc<Planned>> {
    let MadeFor { policy, .. } = &coming.made_for;
    if !policy.is_free() {
        return None;
    }
    let made_for =
        MadeFor { policy: Policy { probe: Some(DeviceId::HOST), ..policy.clone() }, ..coming.made_for.clone() };
    let plan = plan_for(wanted.devices, &made_for).ok()?;
    let is_on_host = plan.decisions.iter().all(|decision| decision.device == DeviceId::HOST);
    let name = &wanted.devices.entry(coming.device).name;
    let remark =
        format!("{name} was chosen, and what it needs for this is being compiled; the CPU computes it meanwhile");
    let plan = Plan { remarks: vec![remark], ..because(Reason::Compiling, &plan) };
    let executable = is_on_host.then(|| compile_later(wanted.devices, plan).ok()?.compile().ok()).flatten()?;
    Some(Arc::new(Planned::standing_in(made_for, Arc::new(executable))))
}

/// Compiles it.
fn task(coming: Arc<Coming>, uncompiled: Uncompiled) -> Box<dyn FnOnce() + Send> {
    let ends = Ends(coming);
    Box::new(move || {
        let made = uncompiled.compile().map(Arc::new);
        *ends.0.lock() = Some(made);
    })
}

impl Drop for Ends {
    fn drop(&mut self) {
        let Coming { device, ended, .. } = &*self.0;
        let unwound = || DeviceError::Driver("the driver failed while it compiled".to_owned());
        let source = if std::thread::panicking() { unwound() } else { DeviceError::Cancelled };
        self.0.lock().get_or_insert_with(|| Err(ExecError::of(*device)(source)));
        ended.notify_all();
    }
}

impl AllComing {
    fn find(&self, key: u64, wanted: &Wanted<'_>) -> Option<Arc<Coming>> {
        let is_it = |(k, coming): &&(u64, Arc<Coming>)| *k == key && wanted.is(&coming.made_for);
        self.lock().iter().find(is_it).map(|(_, coming)| coming.clone())
    }

    /// Two threads that meet the same at the same time may both compile it.
    fn add(&self, key: u64, coming: Coming) -> Arc<Coming> {
        let mut all = self.lock();
        if all.len() >= KEPT {
            all.remove(0);
        }
        let coming = Arc::new(coming);
        all.push((key, coming.clone()));
        coming
    }

    fn remove(&self, coming: &Arc<Coming>) {
        self.lock().retain(|(_, other)| !Arc::ptr_eq(other, coming));
    }

    /// Forgets what was not made for devices as `is_now` says; what goes for it is given, to be dropped outside of any lock.
    pub fn keep_only(&self, is_now: impl Fn(u64) -> bool) -> Vec<(u64, Arc<Coming>)> {
        self.lock().extract_if(.., |(_, coming)| !is_now(coming.made_for.version)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Arc<Coming>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
