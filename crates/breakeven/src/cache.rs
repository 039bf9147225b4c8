//! Plans made earlier: the same graph from the same places is not planned twice.

use std::collections::HashMap;
use std::hash::Hasher;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use breakeven_device::Device;
use breakeven_exec::{Executable, Uncompiled};
use breakeven_ir::{Caps, Graph, Kernel, NodeId, Op, Unsupported};
use breakeven_plan::{DeviceId, DeviceView, Machine, Plan, Policy, plan};
use rustc_hash::FxHasher;

use crate::beside::IsWanted;
use crate::coming::{AllComing, Awaits, Compiled};
use crate::devices::{Entry, Snapshot};
use crate::engine::Shared;
use crate::failure::Failure;
use crate::numbers::Numbers;
use crate::planned::{MadeFor, Planned, Turn};
use crate::small::Small;
use crate::stale::{KeepsPlans, moment};
use crate::trace::{Trace, home, is_home};
use crate::{Engine, Error};

/// How many plans are kept.
pub(crate) const KEPT: usize = 256;

/// Compiled plans of one engine.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    kept: Mutex<Kept>,
    made: AtomicU64,
    /// Those of small graphs, found without a key.
    pub small: Small,
    /// Those that are being compiled.
    pub coming: AllComing,
    /// What changes in graphs that are alike.
    pub numbers: Numbers,
}

#[derive(Debug, Default)]
struct Kept {
    plans: HashMap<u64, Vec<Arc<Planned>>>,
    count: usize,
}

/// What a plan is wanted for: as in [`MadeFor`], with what is not written down unless there is none.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub devices: &'a Snapshot,
    pub trace: &'a Trace,
    pub read: &'a [bool],
    pub policy: Policy,
}

impl Wanted<'_> {
    /// Whether something was made for the same.
    pub fn is(&self, made_for: &MadeFor) -> bool {
        made_for.version == self.devices.version
            && made_for.graph == self.trace.graph
            && made_for.policy == self.policy
            && is_home(&made_for.home, &self.trace.inputs, self.devices, self.read)
    }

    pub fn made_for(&self) -> MadeFor {
        MadeFor {
            version: self.devices.version,
            graph: self.trace.graph.clone(),
            home: home(&self.trace.inputs, self.devices, self.read),
            policy: self.policy.clone(),
        }
    }

    /// A number that is shared by whatever is wanted of graphs of the same bits: equality alone takes 0.0 and -0.0 for one.
    pub fn key(&self) -> u64 {
        let mut hasher = FxHasher::default();
        self.trace.graph.hash_into(&mut hasher);
        hasher.finish()
    }

    /// All that is computed was pinned to the CPU, and no plan was frozen.
    fn is_on_host(&self) -> bool {
        let Policy { pins, frozen, .. } = &self.policy;
        let nodes = self.trace.graph.ids().zip(self.trace.graph.nodes());
        let mut computed = nodes.filter(|(_, node)| node.op != Op::Input);
        frozen.is_none() && !pins.is_empty() && computed.all(|(id, _)| pins.get(&id) == Some(&DeviceId::HOST))
    }
}

impl Engine {
    /// The compiled plan for what is `wanted`, or one for the CPU that serves until it is compiled. Work that could gain by a GPU begins the
    /// search for one.
    pub(crate) fn executable(&self, wanted: &Wanted<'_>, awaits: Awaits) -> Result<Arc<Planned>, Failure> {
        if wanted.policy.frozen.as_ref().is_some_and(|frozen| !frozen.is_on_host()) {
            self.0.devices.look();
        }
        let key = wanted.key();
        if let Some(known) = self.0.plans.find(key, wanted) {
            return Ok(known);
        }
        match self.compiled(key, wanted, awaits)? {
            Compiled::Now(made_for, executable) => Ok(self.keep_plan(key, wanted, *made_for, executable)),
            Compiled::Later(stand_in) => Ok(stand_in),
        }
    }

    /// As [`Engine::executable`], of a trace whose numbers are made inputs where graphs like it had others again and again, or where the plan
    /// that was frozen takes them as such.
    pub(crate) fn lift_and_plan(
        &self,
        trace: &mut Trace,
        (devices, read): (&Snapshot, &[bool]),
        mut policy: Policy,
        awaits: Awaits,
    ) -> Result<Arc<Planned>, Failure> {
        if let Some(frozen) = &policy.frozen {
            trace.lift(frozen.lifted());
        } else if self.0.options.learn {
            let wanted = Wanted { devices, trace, read, policy };
            if let Some(known) = self.0.plans.find(wanted.key(), &wanted) {
                return Ok(known);
            }
            policy = wanted.policy;
            let changing = self.0.plans.numbers.changing(&trace.graph);
            if !changing.is_empty() {
                trace.lift(read_on_their_device(&trace.graph, &policy, changing));
            }
        }
        policy.pins.retain(|id, _| trace.graph.node(*id).op != Op::Input);
        self.executable(&Wanted { devices, trace, read, policy }, awaits)
    }

    fn keep_plan(&self, key: u64, wanted: &Wanted<'_>, made_for: MadeFor, executable: Arc<Executable>) -> Arc<Planned> {
        let Shared { plans, prospect, devices, .. } = &*self.0;
        let is_on_host = wanted.is_on_host();
        let is_bound = wanted.policy.frozen.is_some() || is_on_host;
        if devices.is_waiting() && !is_bound && prospect.could_gain(executable.plan()) {
            devices.look();
        }
        let (planned, is_new) = plans.keep(key, Planned::new(made_for, executable, self.0.options.learn));
        if is_new && (wanted.policy.is_free() || is_on_host) {
            plans.small.keep(&planned, devices.names(), is_on_host);
        }
        // The devices may have changed while this was planned.
        let now = devices.version();
        if moment(planned.made_for.version) != now {
            plans.drop_stale(now);
        }
        planned
    }

    /// The plan for the next run of one that is known: perhaps another one, which is tried.
    pub(crate) fn turn(&self, planned: &Arc<Planned>, devices: &Snapshot) -> Turn {
        let prepare = |device: DeviceId| {
            let (planned, devices, all) = (planned.clone(), devices.clone(), Arc::downgrade(&self.0.devices));
            let task = move |is_wanted: IsWanted<'_>| {
                // A driver may panic on a thread of ours.
                let made = catch_unwind(AssertUnwindSafe(|| rival(&devices, &planned, device, is_wanted)));
                if made.is_err() {
                    let note = "another plan could not be tried: a driver failed while it was compiled";
                    all.upgrade().into_iter().for_each(|all| all.note(note.to_owned()));
                }
                planned.has_rival(made.ok().flatten());
            };
            self.0.devices.room_beside(device, false).is_some_and(|room| room.begin(Box::new(task)).is_ok())
        };
        planned.turn(prepare, |plan, time| rouse(devices, plan, time))
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
        let is_stale = |known: &mut Arc<Planned>| moment(known.made_for.version) != now;
        let mut kept = self.lock();
        let stale: Vec<Arc<Planned>> = kept.plans.values_mut().flat_map(|all| all.extract_if(.., is_stale)).collect();
        kept.plans.retain(|_, all| !all.is_empty());
        kept.count -= stale.len();
        drop(kept);
        // With the last plan for it a device closes, which may take a while.
        drop(stale);
        self.coming.keep_only(|version| moment(version) == now);
        self.small.drop_stale(now);
    }
}

impl Plans {
    /// Forgets all plans, which keep the devices open that they were made for.
    pub fn forget(&self) {
        let kept = std::mem::take(&mut *self.lock());
        drop(kept);
        self.coming.keep_only(|_| false);
        self.small.clear();
        self.numbers.clear();
    }

    /// The plan that was made for the same.
    fn find(&self, key: u64, wanted: &Wanted<'_>) -> Option<Arc<Planned>> {
        let kept = self.lock();
        kept.plans.get(&key)?.iter().find(|known| wanted.is(&known.made_for)).cloned()
    }

    /// How many were made so far. Those that were found are not counted: eager operations on small data would notice.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Keeps a plan, unless another thread has made the same meanwhile: all runs are to be of one. False where it had.
    fn keep(&self, key: u64, planned: Planned) -> (Arc<Planned>, bool) {
        self.made.fetch_add(1, Ordering::Relaxed);
        let mut kept = self.lock();
        if let Some(known) =
            kept.plans.get(&key).and_then(|all| all.iter().find(|known| known.made_for == planned.made_for))
        {
            return (known.clone(), false);
        }
        let mut gone = Kept::default();
        if kept.count >= KEPT {
            std::mem::swap(&mut gone, &mut kept);
            self.small.clear();
        }
        kept.count += 1;
        let planned = Arc::new(planned);
        kept.plans.entry(key).or_default().push(planned.clone());
        drop(kept);
        drop(gone);
        (planned, true)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Those of these numbers that are wanted for nothing but operations on the device that they are pinned to, if to any: as inputs they
/// would be nowhere.
fn read_on_their_device(graph: &Graph, policy: &Policy, mut numbers: Vec<NodeId>) -> Vec<NodeId> {
    let is_view = |id: NodeId| matches!(graph.node(id).op, Op::View(_));
    let mut wanted: Vec<NodeId> = graph.outputs().to_vec();
    for id in &mut wanted {
        while is_view(*id) {
            *id = graph.node(*id).inputs[0];
        }
    }
    let pin = |id: &NodeId| policy.pins.get(id);
    for reader in graph.ids() {
        let inputs = &graph.node(reader).inputs;
        numbers.retain(|id| !inputs.contains(id) || pin(id) == pin(&reader));
    }
    numbers.retain(|id| !wanted.contains(id));
    numbers
}

/// The same work on one device alone, if that can be.
fn rival(devices: &Snapshot, planned: &Planned, device: DeviceId, is_wanted: IsWanted<'_>) -> Option<Executable> {
    let MadeFor { policy, .. } = &planned.made_for;
    let made_for = MadeFor { policy: Policy { probe: Some(device), ..policy.clone() }, ..planned.made_for.clone() };
    compile_later(devices, plan_for(devices, &made_for).ok()?).ok()?.compile_while(is_wanted).ok()
}

/// Wakes the devices of a plan, which is to run soon; true once all are awake.
fn rouse(devices: &Snapshot, plan: &Plan, time: Duration) -> bool {
    let takes_part = |id: &DeviceId| plan.decisions.iter().any(|decision| decision.device == *id);
    let mut sleepy = devices.ids().filter(takes_part).filter_map(|id| devices.device(id));
    sleepy.all(|device| device.rouse(time))
}

/// Plans.
pub(crate) fn plan_for(devices: &Snapshot, made_for: &MadeFor) -> Result<Plan, Failure> {
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
    let MadeFor { graph, home, policy, .. } = made_for;
    Ok(plan(graph, home, policy, &machine).map_err(|e| Error::Placement(e.to_string()))?)
}

/// A plan, cut for the devices and not compiled yet.
pub(crate) fn compile_later(devices: &Snapshot, plan: Plan) -> Result<Uncompiled, Failure> {
    let open: Vec<Option<Arc<dyn Device>>> = devices.ids().map(|id| devices.device(id)).collect();
    let doubted = |id: DeviceId, kernel: &Kernel| devices.entry(id).record.doubts(kernel);
    Uncompiled::new(Arc::new(plan), &open, &doubted).map_err(Failure::before_running)
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
