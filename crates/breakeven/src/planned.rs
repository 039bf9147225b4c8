//! A plan that is kept for later runs, and the one that it competes with.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use breakeven_exec::{ExecError, Executable};
use breakeven_ir::Graph;
use breakeven_plan::{DeviceId, Home, Plan, Policy, Reason};

use crate::contest::{Contest, Side};

/// Exactly what a plan is made for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MadeFor {
    /// The devices, by the count of their changes.
    pub version: u64,
    pub graph: Graph,
    pub home: Home,
    pub policy: Policy,
}

/// A plan and what it was made for.
#[derive(Debug)]
pub(crate) struct Planned {
    pub made_for: MadeFor,
    /// It serves until what was chosen is compiled, and is not kept.
    pub is_stand_in: bool,
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
    /// The plan, once it is compiled.
    rival: OnceLock<Rival>,
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
    pub fn new(made_for: MadeFor, first: Arc<Executable>, learns: bool) -> Planned {
        let is_read = (0..made_for.graph.outputs().len()).all(|output| made_for.home.is_read(output));
        let other = Other::of(first.plan(), is_read).filter(|_| learns && made_for.policy.is_free());
        Planned { made_for, is_stand_in: false, first, other }
    }

    /// Until what was chosen for the same is compiled.
    pub fn standing_in(made_for: MadeFor, first: Arc<Executable>) -> Planned {
        Planned { made_for, is_stand_in: true, first, other: None }
    }

    /// What the first of the plans is predicted to take.
    pub fn predicted(&self) -> Duration {
        Duration::try_from_secs_f64(self.first.plan().predicted.seconds).unwrap_or_default()
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
        self.other.as_ref()?.rival.get()
    }

    /// A run over lent memory failed. True where there is another plan, by which it is to be done; that one is not run again.
    pub fn failed(&self, side: Side) -> bool {
        side == Side::Rival && self.other.as_ref().is_some_and(|other| other.failed(side))
    }

    /// The plan that runs go by, without trials.
    pub fn lead(self: &Arc<Self>) -> Turn {
        let side = self.other.as_ref().map_or(Side::Planned, |other| other.lock().leader());
        Turn::new(self, side, None)
    }

    /// The same in a call that has no time for a trial: it is put off, so that calls which are all in a hurry go the short way again.
    pub fn lead_on(self: &Arc<Self>) -> Turn {
        if let Some(other) = self.other.as_ref().filter(|_| self.settled().is_none()) {
            let mut contest = other.lock();
            contest.postpone();
            other.look(&contest);
        }
        self.lead()
    }

    /// The plan for the next run: perhaps one that is tried. One that has still to be compiled is `prepared` first; that is for
    /// another thread, and false says that there is none. Whoever is to carry it out is woken by `rouse`, which tells whether all are
    /// awake: the leader's runs go on until then.
    pub fn turn(
        self: &Arc<Self>,
        prepare: impl FnOnce(DeviceId) -> bool,
        rouse: impl FnOnce(&Plan, Duration) -> bool,
    ) -> Turn {
        let Some(other) = &self.other else { return self.lead() };
        let mut contest = other.lock();
        if contest.is_due() {
            match other.rival.get() {
                Some(rival) => {
                    let next = if contest.leader() == Side::Rival { self.first.plan() } else { &rival.leading };
                    if contest.rouse().is_none_or(|time| rouse(next, time)) {
                        contest.try_other();
                    }
                }
                None if other.is_asked_for.load(Ordering::Relaxed) => {}
                None if prepare(other.device) => other.is_asked_for.store(true, Ordering::Relaxed),
                None => contest.postpone(),
            }
        }
        let side = contest.next();
        other.look(&contest);
        let is_trial = side != contest.leader();
        Turn::new(self, side, is_trial.then(|| contest.is_apart()))
    }

    /// The other plan is compiled, or cannot be.
    pub fn has_rival(&self, executable: Option<Executable>) {
        let Some(other) = &self.other else { return };
        let Some(executable) = executable else {
            other.failed(Side::Rival);
            return;
        };
        let leading = Arc::new(because(Reason::Observed, executable.plan()));
        // Nobody else sets it: it was asked for once.
        // Nobody is to begin a trial in between.
        let mut contest = other.lock();
        drop(other.rival.set(Rival { leading, executable: executable.into() }));
        contest.can_try();
        other.look(&contest);
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
    /// Results that are not read stay where they are computed, and whoever computes on goes by that: what a trial leaves elsewhere would move
    /// all that follows.
    fn of(plan: &Plan, is_read: bool) -> Option<Other> {
        let (device, predicted) = plan.rival?;
        let contest = Contest::new(plan.predicted.seconds, predicted.seconds, !is_read)?;
        let (is_asked_for, settled) = (AtomicBool::new(false), AtomicU8::new(PLANNED));
        Some(Other { device, contest: Mutex::new(contest), rival: OnceLock::new(), is_asked_for, settled })
    }

    fn ran(&self, side: Side, took: Duration) {
        let mut contest = self.lock();
        contest.ran(side, took.as_secs_f64());
        self.look(&contest);
    }

    fn failed(&self, side: Side) -> bool {
        let mut contest = self.lock();
        let has_other = contest.failed(side);
        self.look(&contest);
        has_other
    }

    /// Writes down what the contest says.
    fn look(&self, contest: &Contest) {
        let is_ready = || self.rival.get().is_some() || !self.is_asked_for.load(Ordering::Relaxed);
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

/// The same plan, of which every step is where it is for one reason.
pub(crate) fn because(reason: Reason, plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.decisions.iter_mut().for_each(|decision| decision.reason = reason);
    plan
}

/// What one run goes by. A trial ends with it, however that is.
#[derive(Debug)]
pub(crate) struct Turn {
    planned: Arc<Planned>,
    side: Side,
    /// Of a trial: whether what it gives is not used.
    trial: Option<bool>,
    is_told: bool,
}

impl Turn {
    fn new(planned: &Arc<Planned>, side: Side, trial: Option<bool>) -> Turn {
        Turn { planned: planned.clone(), side, trial, is_told: false }
    }

    /// What runs.
    pub fn executable(&self) -> &Arc<Executable> {
        self.planned.executable(self.side).expect("only what was compiled is tried, and only what was tried leads")
    }

    /// Another plan leads.
    pub fn is_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// Besides, what it gives is not used.
    pub fn is_apart(&self) -> bool {
        self.trial == Some(true)
    }

    /// Its plan, with the reasons of this run.
    pub fn plan(&self) -> Arc<Plan> {
        match self.side {
            Side::Planned if self.is_trial() => Arc::new(because(Reason::Probe, self.executable().plan())),
            Side::Rival if self.is_trial() => self.executable().plan().clone(),
            side => self.planned.plan(side).clone(),
        }
    }

    /// It ended well.
    pub fn took(mut self, time: Duration) {
        self.is_told = true;
        self.planned.other.iter().for_each(|other| other.ran(self.side, time));
    }

    /// It did not. True where there is another plan, by which it is to be done; this one is not run again.
    pub fn failed(mut self) -> bool {
        self.is_told = true;
        if self.planned.is_stand_in {
            return true;
        }
        let other = self.planned.other.as_ref().filter(|_| self.is_trial() || self.side == Side::Rival);
        other.is_some_and(|other| other.failed(self.side))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(other) = self.planned.other.as_ref().filter(|_| self.is_trial() && !self.is_told) {
            let mut contest = other.lock();
            contest.postpone();
            other.look(&contest);
        }
    }
}
