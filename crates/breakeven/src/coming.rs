//! Plans that are still being compiled: a call waits for one no longer than the CPU is predicted to take, which serves it then.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use breakeven_device::{Deadline, DeviceError};
use breakeven_exec::{ExecError, Executable, Uncompiled};
use breakeven_plan::{DeviceId, Home, Place, Plan, Policy, Reason};

use crate::beside::Task;
use crate::cache::{KEPT, Wanted, compile_later, plan_for};
use crate::failure::Failure;
use crate::patience::Patience;
use crate::planned::{MadeFor, Planned, because};
use crate::stale::{KeepsPlans, moment};
use crate::{Engine, Error};

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
    /// What nobody compiles yet.
    waiting: Mutex<Option<Uncompiled>>,
    /// When somebody began.
    begun: OnceLock<Instant>,
    made: Mutex<Option<Made>>,
    ended: Condvar,
    /// Who serves meanwhile, if anybody can.
    stand_in: OnceLock<Option<Arc<Planned>>>,
}

/// All of one engine, by [`Wanted::key`].
#[derive(Debug, Default)]
pub(crate) struct AllComing(Mutex<Vec<(u64, Arc<Coming>)>>);

/// Says that a compilation has ended, however it did.
struct Ends(Arc<Coming>);

impl Engine {
    /// What `wanted` is computed by, which has this key.
    pub(crate) fn compiled(&self, key: u64, wanted: &Wanted<'_>, awaits: Awaits) -> Result<Compiled, Failure> {
        if let Some(coming) = self.0.plans.coming.find(key, wanted) {
            return self.begun(&coming, wanted, awaits);
        }
        let made_for = wanted.made_for();
        let uncompiled = compile_later(wanted.devices, plan_for(wanted.devices, &made_for)?)?;
        if let Some(device) = uncompiled.compiles() {
            let coming = self.0.plans.coming.add(key, Coming::new(made_for, device, uncompiled));
            self.forget_if_stale(&coming);
            return self.begun(&coming, wanted, awaits);
        }
        let executable = uncompiled.compile().map_err(Failure::before_running)?;
        Ok(Compiled::Now(Box::new(made_for), Arc::new(executable)))
    }

    /// What it is computed by, once it is compiled beside the calls. Too much may be compiled already: the next call tries again then.
    fn begun(&self, coming: &Arc<Coming>, wanted: &Wanted<'_>, awaits: Awaits) -> Result<Compiled, Failure> {
        if coming.lock_waiting().is_some() {
            let stand_in = self.stand_in(coming, wanted, awaits);
            if !self.begin(coming, stand_in.is_some())
                && let Some(stand_in) = stand_in
            {
                return Ok(Compiled::Later(stand_in));
            }
        }
        self.awaited(coming, wanted, awaits)
    }

    /// Has it compiled, unless somebody does; on the thread of the call where there is no other and nobody serves it meanwhile. Whether
    /// somebody does now.
    fn begin(&self, coming: &Arc<Coming>, is_served: bool) -> bool {
        let mut waiting = coming.lock_waiting();
        let room = self.0.devices.room_beside(coming.device, !is_served);
        let Some(uncompiled) = waiting.take_if(|_| room.is_some() || !is_served) else { return waiting.is_none() };
        drop(waiting);
        _ = coming.begun.set(Instant::now());
        let task = task(coming.clone(), uncompiled);
        let refused = match room {
            Some(room) => room.begin(task).err(),
            None => Some(task),
        };
        match refused {
            Some(_) if is_served => {
                self.0.plans.coming.remove(coming);
                return false;
            }
            Some(task) => task(&|| true),
            None => {}
        }
        true
    }

    /// The devices may have changed while it was planned.
    fn forget_if_stale(&self, coming: &Coming) {
        let (plans, now) = (&self.0.plans, self.0.devices.version());
        if moment(coming.made_for.version) != now {
            plans.drop_stale(now);
        }
    }

    fn awaited(&self, coming: &Arc<Coming>, wanted: &Wanted<'_>, awaits: Awaits) -> Result<Compiled, Failure> {
        let (Awaits::Briefly(patience) | Awaits::It(patience)) = awaits;
        let usual = patience.deadline_of_compiling(coming.elapsed());
        let stand_in = if coming.is_made() { None } else { self.stand_in(coming, wanted, awaits) };
        let brief = |planned: &Arc<Planned>| coming.share(planned.predicted(), usual);
        match coming.wait(stand_in.as_ref().map_or(usual, brief)) {
            // There was no room for it, or the engine was closed just then.
            Some(Err(ExecError::Device { source: DeviceError::Cancelled, .. })) => {
                self.0.plans.coming.remove(coming);
                self.compiled(wanted.key(), wanted, awaits)
            }
            Some(made) => {
                self.0.plans.coming.remove(coming);
                let now = |executable| Compiled::Now(Box::new(coming.made_for.clone()), executable);
                made.map(now).map_err(Failure::before_running)
            }
            None => stand_in.map(Compiled::Later).ok_or_else(|| self.is_late(coming, usual)),
        }
    }

    /// Who serves a call that waits briefly. Nobody where the same call is to give the same bits each time.
    fn stand_in(&self, coming: &Coming, wanted: &Wanted<'_>, awaits: Awaits) -> Option<Arc<Planned>> {
        if !self.0.options.learn || matches!(awaits, Awaits::It(_)) {
            return None;
        }
        if let Some(known) = coming.stand_in.get() {
            return known.clone();
        }
        // Outside of the lock: nobody waits for who plans.
        let planned = stand_in(coming, wanted);
        coming.stand_in.get_or_init(|| planned).clone()
    }

    fn is_late(&self, coming: &Coming, deadline: Deadline) -> Failure {
        let name = &self.0.devices.names()[coming.device.0];
        let waited = deadline.waited();
        let device = format!("{name}, while its driver compiled for it");
        Failure::Late(coming.device, Error::Device { device, source: DeviceError::Timeout { waited, pending: 0 } })
    }
}

impl Coming {
    fn new(made_for: MadeFor, device: DeviceId, uncompiled: Uncompiled) -> Coming {
        let (waiting, made, ended) = (Mutex::new(Some(uncompiled)), Mutex::default(), Condvar::new());
        Coming { made_for, device, waiting, begun: OnceLock::new(), made, ended, stand_in: OnceLock::new() }
    }

    fn lock_waiting(&self) -> MutexGuard<'_, Option<Uncompiled>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long it has been compiled.
    fn elapsed(&self) -> Duration {
        self.begun.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Until when a call waits that the CPU can serve: as long as that is predicted to take from the begin of the compilation on, and so
    /// that it can still be done in time.
    fn share(&self, predicted: Duration, deadline: Deadline) -> Deadline {
        let left = predicted.saturating_sub(self.elapsed());
        Deadline::after(left.min(deadline.remaining().saturating_sub(predicted)))
    }

    fn is_made(&self) -> bool {
        self.lock().is_some()
    }

    /// What became of it; none when the deadline passes first.
    fn wait(&self, deadline: Deadline) -> Option<Made> {
        let mut made = self.lock();
        while made.is_none() && !deadline.has_passed() {
            made = self.ended.wait_timeout(made, deadline.remaining()).unwrap_or_else(PoisonError::into_inner).0;
        }
        made.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same work on the CPU alone, where that can be and the caller insists on nothing.
fn stand_in(coming: &Coming, wanted: &Wanted<'_>) -> Option<Arc<Planned>> {
    let MadeFor { policy, home, graph, .. } = &coming.made_for;
    if !policy.is_free() || moves_for_good(home, graph.outputs().len()) {
        return None;
    }
    let policy = Policy { probe: Some(DeviceId::HOST), ..policy.clone() };
    let made_for = MadeFor { policy, ..coming.made_for.clone() };
    let plan = plan_for(wanted.devices, &made_for).ok()?;
    let is_on_host = plan.decisions.iter().all(|decision| decision.device == DeviceId::HOST);
    let name = &wanted.devices.entry(coming.device).name;
    let remark =
        format!("{name} was chosen, and what it needs for this is being compiled; the CPU computes it meanwhile");
    let plan = Plan { remarks: vec![remark], ..because(Reason::Compiling, &plan) };
    let uncompiled = compile_later(wanted.devices, plan).ok()?;
    let executable = (is_on_host && uncompiled.compiles().is_none()).then(|| uncompiled.compile().ok()).flatten()?;
    Some(Arc::new(Planned::standing_in(made_for, Arc::new(executable))))
}

/// What lies on a device alone would come to the host, stay there, and with it all that is computed from it.
fn moves_for_good(home: &Home, outputs: usize) -> bool {
    let is_away = home.inputs.values().any(|source| !source.places.contains(&Place::Host));
    is_away && (0..outputs).any(|output| !home.is_read(output))
}

fn task(coming: Arc<Coming>, uncompiled: Uncompiled) -> Task {
    let ends = Ends(coming);
    Box::new(move |is_wanted| {
        let made = uncompiled.compile_while(is_wanted).map(Arc::new);
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

    /// One more, unless another thread has begun the same meanwhile.
    fn add(&self, key: u64, coming: Coming) -> Arc<Coming> {
        let mut all = self.lock();
        let is_it = |(k, known): &&(u64, Arc<Coming>)| *k == key && known.made_for == coming.made_for;
        if let Some((_, known)) = all.iter().find(is_it) {
            return known.clone();
        }
        let oldest = (all.len() >= KEPT).then(|| all.remove(0));
        let coming = Arc::new(coming);
        all.push((key, coming.clone()));
        drop(all);
        drop(oldest);
        coming
    }

    fn remove(&self, coming: &Arc<Coming>) {
        let gone: Vec<_> = self.lock().extract_if(.., |(_, other)| Arc::ptr_eq(other, coming)).collect();
        drop(gone);
    }

    /// Forgets what was made for devices that are not as `is_now` says, outside of the lock: with the last plan for it a device closes.
    pub fn keep_only(&self, is_now: impl Fn(u64) -> bool) {
        let gone: Vec<_> = self.lock().extract_if(.., |(_, coming)| !is_now(coming.made_for.version)).collect();
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Arc<Coming>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
