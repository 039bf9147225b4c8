//! Plans made earlier: the same graph from the same places is not planned twice.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use breakeven_device::Device;
use breakeven_exec::Executable;
use breakeven_ir::{Caps, Graph, Kernel, Op, Unsupported};
use breakeven_plan::{DeviceId, DeviceView, Home, Machine, Policy, plan};

use crate::devices::{Entry, Snapshot};
use crate::engine::Shared;
use crate::failure::Failure;
use crate::planned::{Planned, Turn};
use crate::small::Small;
use crate::stale::{KeepsPlans, moment};
use crate::trace::{Trace, home, is_home};
use crate::{Engine, Error};

/// How many plans are kept.
const KEPT: usize = 256;

/// Compiled plans of one engine.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    kept: Mutex<Kept>,
    made: AtomicU64,
    /// Those of small graphs, found without their fingerprint.
    pub small: Small,
}

#[derive(Debug, Default)]
struct Kept {
    plans: HashMap<u64, Vec<Arc<Planned>>>,
    count: usize,
}

impl Engine {
    /// The compiled plan for `trace` on these devices. Work that could gain by a GPU begins the search for one.
    pub(crate) fn executable(
        &self,
        devices: &Snapshot,
        trace: &Trace,
        read: &[bool],
        policy: Policy,
    ) -> Result<Arc<Planned>, Failure> {
        let Shared { plans, prospect, .. } = &*self.0;
        if policy.frozen.as_ref().is_some_and(|frozen| !frozen.is_on_host()) {
            self.0.devices.look();
        }
        let key = trace.graph.fingerprint();
        let same = |k: &&Arc<Planned>| {
            k.version == devices.version
                && k.graph == trace.graph
                && k.policy == policy
                && is_home(&k.home, &trace.inputs, devices, read)
        };
        if let Some(known) = plans.lock().plans.get(&key).and_then(|all| all.iter().find(same)) {
            return Ok(known.clone());
        }
        let home = home(&trace.inputs, devices, read);
        let executable = Arc::new(make(devices, &trace.graph, &home, &policy)?);
        let is_on_host = is_on_host(trace, &policy);
        let is_bound = policy.frozen.is_some() || is_on_host;
        if self.0.devices.is_waiting() && !is_bound && prospect.could_gain(executable.plan()) {
            self.0.devices.look();
        }
        let is_pinned = !policy.pins.is_empty();
        let is_free = policy.pin.is_none() && policy.frozen.is_none();
        let made_for = (trace.graph.clone(), home, policy);
        let learns = self.0.options.learn && is_free && !is_pinned;
        let planned = Planned::new(made_for, devices.version, executable, learns);
        let (planned, is_new) = plans.keep(key, planned);
        if is_new && is_free && (!is_pinned || is_on_host) {
            plans.small.keep(&planned, self.0.devices.names(), is_pinned);
        }
        // The devices may have changed while this was planned.
        let now = self.0.devices.version();
        if moment(planned.version) != now {
            plans.drop_stale(now);
        }
        Ok(planned)
    }

    /// The plan for the next run of one that is known: perhaps another one, which is tried.
    pub(crate) fn turn(&self, planned: &Arc<Planned>, devices: &Snapshot) -> Turn {
        planned.turn(|device| {
            let (planned, devices, all) = (planned.clone(), devices.clone(), Arc::downgrade(&self.0.devices));
            self.0.devices.beside(move || {
                // A driver may panic on a thread of ours.
                let made = catch_unwind(AssertUnwindSafe(|| rival(&devices, &planned, device)));
                if made.is_err() {
                    let note = "another plan could not be tried: a driver failed while it was compiled";
                    all.upgrade().into_iter().for_each(|all| all.note(note.to_owned()));
                }
                planned.has_rival(made.ok().flatten());
            })
        })
    }

    /// A value of so many bytes came in: where there is much of it, the work will be large too.
    pub(crate) fn look_for_work_on(&self, bytes: u64) {
        if self.0.devices.is_waiting() && self.0.prospect.is_much(bytes) {
            self.0.devices.look();
        }
    }
}

impl KeepsPlans for Plans {
    fn drop_stale(&self, now: u64) {
        let is_stale = |known: &mut Arc<Planned>| moment(known.version) != now;
        let mut kept = self.lock();
        let stale: Vec<Arc<Planned>> = kept.plans.values_mut().flat_map(|all| all.extract_if(.., is_stale)).collect();
        kept.plans.retain(|_, all| !all.is_empty());
        kept.count -= stale.len();
        drop(kept);
        // With the last plan for it a device closes, which may take a while.
        drop(stale);
        self.small.drop_stale(now);
    }
}

impl Plans {
    /// Forgets all plans, which keep the devices open that they were made for.
    pub fn forget(&self) {
        *self.lock() = Kept::default();
        self.small.clear();
    }

    /// How many were made so far. Those that were found are not counted: eager operations on small data would notice.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Keeps a plan, unless another thread has made the same meanwhile: all runs are to be of one. False where it had.
    fn keep(&self, key: u64, planned: Planned) -> (Arc<Planned>, bool) {
        self.made.fetch_add(1, Ordering::Relaxed);
        let mut kept = self.lock();
        if let Some(known) = kept.plans.get(&key).and_then(|all| all.iter().find(|known| known.is_for(&planned))) {
            return (known.clone(), false);
        }
        if kept.count >= KEPT {
            *kept = Kept::default();
            self.small.clear();
        }
        kept.count += 1;
        let planned = Arc::new(planned);
        kept.plans.entry(key).or_default().push(planned.clone());
        (planned, true)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All that is computed was pinned to the CPU.
fn is_on_host(trace: &Trace, policy: &Policy) -> bool {
    let nodes = trace.graph.ids().zip(trace.graph.nodes());
    let mut computed = nodes.filter(|(_, node)| node.op != Op::Input);
    !policy.pins.is_empty() && computed.all(|(id, _)| policy.pins.get(&id) == Some(&DeviceId::HOST))
}

/// The same work on one device alone, if that can be.
fn rival(devices: &Snapshot, planned: &Planned, device: DeviceId) -> Option<Executable> {
    let policy = Policy { probe: Some(device), ..planned.policy.clone() };
    make(devices, &planned.graph, &planned.home, &policy).ok()
}

/// Plan and compile.
fn make(devices: &Snapshot, graph: &Graph, home: &Home, policy: &Policy) -> Result<Executable, Failure> {
    let open: Vec<Option<Arc<dyn Device>>> = devices.ids().map(|id| devices.device(id)).collect();
    let pairs = || devices.entries().iter().zip(&open);
    let answers: Vec<_> = pairs().map(|(entry, device)| answer(entry, device.as_ref())).collect();
    let ways: Vec<_> = open.iter().map(|device| lowers(device.as_ref())).collect();
    let unlimited = Caps::host();
    let machine = Machine {
        devices: pairs()
            .zip(answers.iter().zip(&ways))
            .zip(devices.ids())
            .map(|(((entry, device), (supports, lowers)), id)| DeviceView {
                name: entry.name.clone(),
                caps: device.as_ref().map_or(&unlimited, |d| d.caps()),
                profile: &entry.profile,
                supports,
                lowers,
                automatic: devices.is_automatic(id),
            })
            .collect(),
    };
    let plan = plan(graph, home, policy, &machine).map_err(|e| Error::Placement(e.to_string()))?;
    let doubted = |id: DeviceId, kernel: &Kernel| devices.entry(id).record.doubts(kernel);
    Executable::isolating(Arc::new(plan), &open, &doubted).map_err(Failure::before_running)
}

/// How a device makes products of lower precision, asked by the planner.
fn lowers(device: Option<&Arc<dyn Device>>) -> impl Fn(&Kernel) -> Option<&'static str> + Sync + '_ {
    move |kernel| device?.lowers(kernel)
}

/// Whether a device can run a kernel, asked by the planner.
fn answer<'a>(
    entry: &'a Entry,
    device: Option<&'a Arc<dyn Device>>,
) -> impl Fn(&Kernel) -> Result<(), Unsupported> + Sync + 'a {
    move |kernel| match device {
        Some(_) if entry.record.bans(kernel) => {
            Err(Unsupported(format!("this kernel lost {} twice and is quarantined", entry.name)))
        }
        Some(device) => device.supports(kernel),
        None => Err(Unsupported(format!(
            "{} is not open: {}",
            entry.name,
            entry.state.problem().unwrap_or("it is left out of this call")
        ))),
    }
}
