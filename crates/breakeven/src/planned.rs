//! A plan that is kept for later runs, and the one that it competes with.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use breakeven_exec::{ExecError, Executable};
use breakeven_ir::Graph;
use breakeven_plan::{DeviceId, Home, Plan, Policy, Reason};

use crate::contest::{Contest, Side};

/// A plan and exactly what it was made for.
#[derive(Debug)]
pub(crate) struct Planned {
    pub graph: Graph,
    pub home: Home,
    pub policy: Policy,
    /// The devices that it was made for.
    pub version: u64,
    /// What was predicted to be the fastest.
    first: Arc<Executable>,
    other: Option<Other>,
}

/// Values of [`Other::settled`].
const PLANNED: u8 = 0;
const RIVAL: u8 = 1;
const UNSETTLED: u8 = 2;

/// Another plan for the same, on one device.
#[derive(Debug)]
struct Other {
    device: DeviceId,
    contest: Mutex<Contest>,
    /// The plan, once it is compiled; none where it cannot be.
    rival: OnceLock<Option<Rival>>,
    is_asked_for: AtomicBool,
    /// The leader, if nothing is to be decided before the next run: what the contest says, to be looked at without its lock.
    settled: AtomicU8,
}

/// A plan that is compiled and tried.
#[derive(Debug)]
struct Rival {
    executable: Arc<Executable>,
    /// Its plan, as it is explained while it leads.
    leading: Arc<Plan>,
}

impl Planned {
    /// With a contest where the caller insists on nothing, another device could be as fast, and `learns`.
    pub fn new(
        (graph, home, policy): (Graph, Home, Policy),
        version: u64,
        first: Arc<Executable>,
        learns: bool,
    ) -> Planned {
        let other = Other::of(first.plan()).filter(|_| learns);
        Planned { graph, home, policy, version, first, other }
    }

    /// Seconds that are predicted for the slower one of the plans.
    pub fn longest(&self) -> f64 {
        let plan = self.first.plan();
        plan.rival.map_or(0.0, |(_, rival)| rival.seconds).max(plan.predicted.seconds)
    }

    /// The plan that the next run goes by, if nothing is to be decided before it.
    pub fn settled(&self) -> Option<Side> {
        let Some(other) = &self.other else { return Some(Side::Planned) };
        match other.settled.load(Ordering::Relaxed) {
            PLANNED => Some(Side::Planned),
            RIVAL => Some(Side::Rival),
            _ => None,
        }
    }

    /// What one of the plans runs; none before it is compiled.
    pub fn executable(&self, side: Side) -> Option<&Arc<Executable>> {
        match side {
            Side::Planned => Some(&self.first),
            Side::Rival => self.rival().map(|rival| &rival.executable),
        }
    }

    /// One of the plans as it is explained while it leads.
    pub fn plan(&self, side: Side) -> &Arc<Plan> {
        let rival = self.rival().filter(|_| side == Side::Rival);
        rival.map_or(self.first.plan(), |rival| &rival.leading)
    }

    /// Whether any of its plans works over memory that is lent.
    pub fn may_be_direct(&self) -> bool {
        self.other.is_some() || self.first.direct().is_some()
    }

    /// Runs one of the plans; how long it took is of interest where they compete.
    pub fn timed<T>(&self, side: Side, run: impl FnOnce() -> Result<T, ExecError>) -> Result<T, ExecError> {
        let Some(other) = &self.other else { return run() };
        let begun = Instant::now();
        let done = run();
        if done.is_ok() {
            other.ran(side, begun.elapsed());
        }
        done
    }

    fn rival(&self) -> Option<&Rival> {
        self.other.as_ref()?.rival.get()?.as_ref()
    }

    /// The plan that runs go by, without trials.
    pub fn lead(self: &Arc<Self>) -> Turn {
        let side = self.other.as_ref().map_or(Side::Planned, |other| other.lock().leader());
        Turn { planned: self.clone(), side, is_trial: false }
    }

    /// The plan for the next run: perhaps one that is tried. One that has still to be compiled is `prepared` first; that is for
    /// another thread, and false says that there is none.
    pub fn turn(self: &Arc<Self>, prepare: impl FnOnce(DeviceId) -> bool) -> Turn {
        let Some(other) = &self.other else { return self.lead() };
        let mut contest = other.lock();
        if contest.is_due() {
            match other.rival.get() {
                Some(Some(_)) => contest.try_other(),
                Some(None) => {}
                None if other.is_asked_for.load(Ordering::Relaxed) => {}
                None => other.is_asked_for.store(prepare(other.device), Ordering::Relaxed),
            }
        }
        let side = contest.next();
        other.look(&contest);
        Turn { planned: self.clone(), side, is_trial: side != contest.leader() }
    }

    /// The other plan is compiled, or cannot be.
    pub fn has_rival(&self, executable: Option<Executable>) {
        let Some(other) = &self.other else { return };
        let rival =
            executable.map(|executable| Rival { leading: leading(executable.plan()), executable: executable.into() });
        // Nobody else sets it: it was asked for once.
        drop(other.rival.set(rival));
        other.look(&other.lock());
    }

    /// What was seen of both plans, in words.
    pub fn remark(&self) -> Option<String> {
        let other = self.other.as_ref()?;
        let contest = other.lock();
        let [Some(planned), Some(rival)] = contest.seen().map(|s| s.map(Duration::from_secs_f64)) else { return None };
        let name = &self.first.plan().devices[other.device.0];
        let ends = match contest.leader() {
            Side::Planned => "so it stays as planned".to_owned(),
            Side::Rival => format!("so {name} is used"),
        };
        Some(format!(
            "it was tried on {name} alone: a quarter of the last runs took at most {rival:?} there and {planned:?} as planned, {ends}"
        ))
    }
}

impl Other {
    fn of(plan: &Plan) -> Option<Other> {
        let (device, predicted) = plan.rival?;
        let contest = Contest::new(plan.predicted.seconds, predicted.seconds)?;
        let (is_asked_for, settled) = (AtomicBool::new(false), AtomicU8::new(PLANNED));
        Some(Other { device, contest: Mutex::new(contest), rival: OnceLock::new(), is_asked_for, settled })
    }

    fn ran(&self, side: Side, took: Duration) {
        let mut contest = self.lock();
        contest.ran(side, took.as_secs_f64());
        self.look(&contest);
    }

    /// Writes down what the contest says.
    fn look(&self, contest: &Contest) {
        let is_ready = || match self.rival.get() {
            Some(rival) => rival.is_some(),
            None => !self.is_asked_for.load(Ordering::Relaxed),
        };
        let settled = match contest.leader() {
            _ if contest.is_trying() || contest.is_due() && is_ready() => UNSETTLED,
            Side::Planned => PLANNED,
            Side::Rival => RIVAL,
        };
        self.settled.store(settled, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Contest> {
        self.contest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same plan, of which every step is where it is because that was seen to be faster.
fn leading(plan: &Plan) -> Arc<Plan> {
    let mut leading = plan.clone();
    leading.decisions.iter_mut().for_each(|decision| decision.reason = Reason::Observed);
    Arc::new(leading)
}

/// What one run goes by.
#[derive(Debug)]
pub(crate) struct Turn {
    planned: Arc<Planned>,
    side: Side,
    is_trial: bool,
}

impl Turn {
    /// What runs.
    pub fn executable(&self) -> &Arc<Executable> {
        self.planned.executable(self.side).expect("only what was compiled is tried, and only what was tried leads")
    }

    /// Another plan leads.
    pub fn is_trial(&self) -> bool {
        self.is_trial
    }

    /// Its plan, with the reasons of this run.
    pub fn plan(&self) -> &Arc<Plan> {
        if self.is_trial { self.executable().plan() } else { self.planned.plan(self.side) }
    }

    /// It ended well.
    pub fn took(&self, time: Duration) {
        self.planned.other.iter().for_each(|other| other.ran(self.side, time));
    }

    /// It did not.
    pub fn failed(&self) {
        let Some(other) = &self.planned.other else { return };
        let mut contest = other.lock();
        contest.failed(self.side);
        other.look(&contest);
    }
}
