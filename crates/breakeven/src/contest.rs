//! Two plans for one graph, and which of them is seen to be faster. Pure: times come in, decisions go out.

use std::time::Duration;

/// Plans that are predicted to take more than so many times as long are not tried: predictions were off by up to 2.3 times where
/// kernels, copies and clocks of a device were all at their worst.
const NEAR: f64 = 4.0;
/// Runs of one trial at most. What had nothing to do is slow at first: a GPU for one run, sleeping threads of the host for some more.
const TRIES: usize = 1 + WAKING + WINS;
/// Runs of sixteen threads until all of them are awake, measured; the first of a trial comes before these.
const WAKING: usize = 5;
/// Runs one after the other that have to be faster than the leader's; the first of a trial is none of them.
const WINS: usize = 5;
/// Runs of the leader before the first trial: twice as many as are remembered, since the first ones find threads asleep and code that has
/// still to be made.
const PAUSE: u64 = 16;
/// Share of the time of all runs that trials may cost.
const SHARE: f64 = 0.01;
/// A run is faster that takes so much less than the leader's middle one. By less than that, machines whose runs vary by a quarter change the leader
/// for nothing (simulated).
const BETTER: f64 = 0.97;
/// When three of four of the leader's runs are so much longer, or shorter, than three of four were, what was seen before says little.
const SHIFT: f64 = 1.2;
/// The longest pause: each trial doubles it. A leader that took the lead by chance is not to keep it for long.
const LONGEST_PAUSE: u64 = 1 << 7;
/// Runs of the leader in which the other plan's devices are woken, at most: sixteen sleeping threads are up after eight.
const ROUSINGS: usize = 32;
/// Runs of the leader from so many seconds on are not worth that: threads take half a millisecond to wake.
const LONG: f64 = 5e-3;
/// Seconds that what was woken stays awake beyond the leader's next run.
const AWAKE: f64 = 1e-3;
/// Runs that are remembered.
const WINDOW: usize = 8;

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// What was predicted to be the fastest.
    Planned,
    /// The best other device alone.
    Rival,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Planned => Side::Rival,
            Side::Rival => Side::Planned,
        }
    }
}

/// How two plans stand against each other.
#[derive(Clone, Debug)]
pub(crate) struct Contest {
    leader: Side,
    seen: [Seen; 2],
    trial: Option<Trial>,
    /// Runs of a trial give nothing that is used, so that all of their time is lost.
    is_apart: bool,
    /// One of the two failed, and is not run again.
    is_over: bool,
    /// Runs of the leader since the last trial, and how many there are to be before the next.
    runs: u64,
    pause: u64,
    /// How often the other plan's devices were woken for the next trial.
    rousings: usize,
    /// Seconds that trials may cost, and have cost.
    earned: f64,
    spent: f64,
    /// Between what a quarter and three of four of the leader's runs took when it was last compared.
    settled: Option<[f64; 2]>,
}

/// Runs of the plan that does not lead.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    begun: usize,
    done: usize,
    /// The last runs that were faster than the leader's.
    faster: usize,
}

/// What is known of one plan.
#[derive(Clone, Debug)]
struct Seen {
    recent: [f64; WINDOW],
    runs: usize,
    /// The lower quartile of what was seen, since whatever else a machine does makes runs longer; what was predicted, before.
    typical: f64,
}

impl Seen {
    fn new(predicted: f64) -> Seen {
        Seen { recent: [0.0; WINDOW], runs: 0, typical: predicted }
    }

    fn push(&mut self, seconds: f64) {
        self.recent[self.runs % WINDOW] = seconds;
        self.runs += 1;
        self.typical = self.quantile(1, 4);
    }

    /// Forgets all but the last `count` runs.
    fn keep_last(&mut self, count: usize) {
        let last: Vec<f64> = (1..=count).rev().map(|back| self.recent[(self.runs - back) % WINDOW]).collect();
        self.runs = 0;
        for seconds in last {
            self.push(seconds);
        }
    }

    /// The run that is longer than `part` of `of` of those that are remembered, of which there are some.
    fn quantile(&self, part: usize, of: usize) -> f64 {
        let mut recent = self.recent;
        let recent = &mut recent[..self.runs.min(WINDOW)];
        recent.sort_unstable_by(f64::total_cmp);
        recent[(recent.len() * part / of).min(recent.len() - 1)]
    }
}

impl Contest {
    /// Between plans that are predicted to take so long; none where that is not near enough. What a trial gives is not used where it
    /// `is_apart`.
    pub fn new(planned: f64, rival: f64, is_apart: bool) -> Option<Contest> {
        let is_near = planned > 0.0 && rival > 0.0 && rival < planned * NEAR;
        is_near.then(|| Contest {
            leader: Side::Planned,
            seen: [Seen::new(planned), Seen::new(rival)],
            trial: None,
            is_apart,
            is_over: false,
            runs: 0,
            pause: PAUSE,
            rousings: 0,
            earned: 0.0,
            spent: 0.0,
            settled: None,
        })
    }

    /// The plan to go by.
    pub fn leader(&self) -> Side {
        self.leader
    }

    /// What a trial gives is not used.
    pub fn is_apart(&self) -> bool {
        self.is_apart
    }

    /// Lower quartiles of the last runs of both, where there were any.
    pub fn seen(&self) -> [Option<f64>; 2] {
        [Side::Planned, Side::Rival].map(|side| self.of(side)).map(|of| (of.runs > 0).then_some(of.typical))
    }

    /// Whether the other plan is to be tried now: the leader ran for a while, and what that is expected to cost was earned.
    pub fn is_due(&self) -> bool {
        let is_open = self.trial.is_none() && !self.is_over;
        let cost = || self.lost_by(self.of(self.leader.other()).typical) * (1 + WINS) as f64;
        is_open && self.runs >= self.pause && cost() + self.spent <= self.earned
    }

    /// How long those that the other plan runs on are to be awake from now on, before a trial that is due; `None` where they were asked often
    /// enough, or runs take so long that nobody sees it.
    pub fn rouse(&mut self) -> Option<Duration> {
        let seconds = self.of(self.leader).typical;
        self.rousings += 1;
        (self.rousings <= ROUSINGS && seconds < LONG).then(|| Duration::from_secs_f64(seconds + AWAKE))
    }

    /// What a run of a trial costs that takes so long.
    fn lost_by(&self, seconds: f64) -> f64 {
        if self.is_apart { seconds } else { (seconds - self.of(self.leader).typical).max(0.0) }
    }

    /// What runs next, where trials are welcome: one of the runs of a trial that is on, or the leader.
    pub fn next(&mut self) -> Side {
        match &mut self.trial {
            Some(trial) if trial.begun < TRIES => {
                trial.begun += 1;
                self.leader.other()
            }
            _ => self.leader,
        }
    }

    /// The other plan has been compiled beside the leader's runs, which that made slower.
    pub fn can_try(&mut self) {
        (self.runs, self.pause) = (0, PAUSE);
    }

    /// Begins a trial of the other plan.
    pub fn try_other(&mut self) {
        let other = self.leader.other();
        *self.of_mut(other) = Seen::new(self.of(other).typical);
        (self.trial, self.rousings) = (Some(Trial::default()), 0);
    }

    /// Whether runs of a trial are still to be begun.
    pub fn is_trying(&self) -> bool {
        self.trial.is_some_and(|trial| trial.begun < TRIES)
    }

    /// The other plan cannot be tried now; later, perhaps.
    pub fn postpone(&mut self) {
        self.end_trial();
    }

    /// A plan ran and took so long.
    pub fn ran(&mut self, side: Side, seconds: f64) {
        if side == self.leader {
            self.runs += 1;
            self.earned += seconds * SHARE;
            // Beside threads that wake it is slower, and a rival is not to be compared with that.
            if self.rousings == 0 {
                self.of_mut(side).push(seconds);
                self.notice_shift();
            }
        } else {
            // Of a trial that others have ended meanwhile, too.
            self.spent += self.lost_by(seconds);
            self.tried(side, seconds);
        }
    }

    fn tried(&mut self, side: Side, seconds: f64) {
        let leader = self.of(self.leader);
        let (limit, far) = (leader.quantile(1, 2) * BETTER, leader.typical * NEAR);
        let Some(trial) = &mut self.trial else { return };
        trial.done += 1;
        if trial.done == 1 {
            return;
        }
        trial.faster = if seconds < limit { trial.faster + 1 } else { 0 };
        let Trial { done, faster, .. } = *trial;
        self.of_mut(side).push(seconds);
        if faster == WINS {
            self.leader = side;
            self.of_mut(side).keep_last(WINS);
        }
        if faster == WINS || done >= TRIES || seconds > far {
            self.end_trial();
        }
    }

    /// A run did not end well: that plan is not run again. False where there is no other.
    pub fn failed(&mut self, side: Side) -> bool {
        if std::mem::replace(&mut self.is_over, true) {
            return false;
        }
        self.trial = None;
        self.leader = side.other();
        true
    }

    fn end_trial(&mut self) {
        (self.trial, self.rousings, self.runs) = (None, 0, 0);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.settled = self.quartiles();
    }

    /// The machine has other things to do than before, or fewer.
    fn notice_shift(&mut self) {
        if !self.runs.is_multiple_of(WINDOW as u64) {
            return;
        }
        if let (Some([less, more]), Some(then)) = (self.quartiles(), self.settled)
            && (less > then[1] * SHIFT || more * SHIFT < then[0])
        {
            (self.pause, self.settled) = (PAUSE, Some([less, more]));
        }
    }

    fn quartiles(&self) -> Option<[f64; 2]> {
        let leader = self.of(self.leader);
        (leader.runs > 0).then(|| [1, 3].map(|part| leader.quantile(part, 4)))
    }

    fn of(&self, side: Side) -> &Seen {
        &self.seen[side as usize]
    }

    fn of_mut(&mut self, side: Side) -> &mut Seen {
        &mut self.seen[side as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a contest over plans that take `seconds` in turn `n`; who ran, and what was lost against the better of the two.
    fn play(contest: &mut Contest, turns: usize, seconds: &dyn Fn(Side, usize) -> f64) -> (Vec<Side>, f64) {
        let mut lost = 0.0;
        let run = |n| {
            if contest.is_due() {
                contest.try_other();
            }
            let side = contest.next();
            contest.ran(side, seconds(side, n));
            lost += seconds(side, n) - seconds(Side::Planned, n).min(seconds(Side::Rival, n));
            side
        };
        let sides = (0..turns).map(run).collect();
        (sides, lost)
    }

    fn of(sides: &[Side], side: Side) -> usize {
        sides.iter().filter(|s| **s == side).count()
    }

    #[test]
    fn plans_far_apart_do_not_compete() {
        assert!(Contest::new(1e-6, 5e-6, false).is_none());
        assert!(Contest::new(0.0, 1e-6, false).is_none(), "the host was not measured");
        assert!(Contest::new(5e-6, 6e-6, false).is_some() && Contest::new(5e-6, 1e-6, false).is_some());
    }

    #[test]
    fn a_rival_that_is_predicted_faster_than_what_is_seen_is_tried_at_once_and_leads_when_it_is() {
        let mut contest = Contest::new(36e-6, 48e-6, false).unwrap();
        let (sides, _) = play(&mut contest, 40, &|side, _| if side == Side::Planned { 62e-6 } else { 31e-6 });
        assert_eq!(sides[..22], [[Side::Planned; 16].as_slice(), &[Side::Rival; 6]].concat());
        assert_eq!((contest.leader(), of(&sides, Side::Planned)), (Side::Rival, 16));
    }

    #[test]
    fn a_rival_that_is_slower_costs_one_percent_at_most() {
        for (predicted, taken) in [(11e-6, 12e-6), (20e-6, 40e-6), (30e-6, 11e-6), (5e-6, 300e-6)] {
            let mut contest = Contest::new(10e-6, predicted, false).unwrap();
            let takes = |side, _| if side == Side::Planned { 10e-6 } else { taken };
            let turns = 100_000;
            let (sides, lost) = play(&mut contest, turns, &takes);
            let first = (taken - 10e-6) * TRIES as f64;
            assert!(of(&sides, Side::Rival) >= 2, "{predicted}: it was tried");
            assert!(lost <= first.max(turns as f64 * 10e-6 * SHARE), "{predicted} {taken}: lost {lost}");
            assert_eq!(contest.leader(), Side::Planned);
        }
    }

    #[test]
    fn the_first_run_of_a_trial_is_not_held_against_a_device_that_slept() {
        let mut contest = Contest::new(50e-6, 50e-6, false).unwrap();
        let mut tried = 0;
        for _ in 0..40 {
            if contest.is_due() {
                contest.try_other();
                tried = 0;
            }
            let side = contest.next();
            tried += usize::from(side == Side::Rival);
            contest.ran(
                side,
                if side == Side::Planned {
                    60e-6
                } else if tried == 1 {
                    500e-6
                } else {
                    21e-6
                },
            );
        }
        assert_eq!(contest.leader(), Side::Rival);
    }

    /// Threads that slept are slow for five runs.
    #[test]
    fn threads_that_have_to_wake_get_their_lead_back() {
        const SLOW: [f64; WAKING] = [476e-6, 91e-6, 56e-6, 48e-6, 55e-6];
        let mut contest = Contest::new(36e-6, 62e-6, true).unwrap();
        let (mut slept, mut led) = (true, 0);
        for _ in 0..2000 {
            if contest.is_due() {
                contest.try_other();
            }
            let side = contest.next();
            let mut run = 0;
            while side == Side::Rival && contest.leader() == Side::Planned && contest.is_trying() {
                contest.ran(Side::Rival, if slept { SLOW.get(run).copied().unwrap_or(27e-6) } else { 27e-6 });
                run += 1;
                contest.next();
            }
            slept = contest.leader() == Side::Planned;
            contest.ran(contest.leader(), if slept { 36e-6 } else { 27e-6 });
            led += usize::from(!slept);
        }
        assert!(led > 500, "{led} of 2,000 calls by the faster plan");
    }

    #[test]
    fn who_does_not_wake_is_tried_all_the_same() {
        let mut contest = Contest::new(36e-6, 30e-6, true).unwrap();
        (0..600).for_each(|_| contest.ran(Side::Planned, 36e-6));
        assert!(contest.is_due());
        let asked: Vec<Duration> = std::iter::from_fn(|| contest.rouse()).collect();
        assert_eq!(asked, [Duration::from_micros(1036); ROUSINGS]);
        contest.try_other();
        assert!(contest.rouse().is_some(), "before the next trial it is asked again");
        (0..ROUSINGS).for_each(|_| _ = contest.rouse());
        contest.postpone();
        assert!(contest.rouse().is_some(), "a trial that is put off is begun anew");
        let typical = contest.seen();
        (0..WINDOW).for_each(|_| contest.ran(Side::Planned, 90e-6));
        assert_eq!(contest.seen(), typical, "beside threads that wake, its runs say nothing of it");
        let mut slow = Contest::new(6e-3, 5e-3, true).unwrap();
        assert_eq!(slow.rouse(), None);
    }

    #[test]
    fn runs_beside_a_compiler_are_not_what_a_rival_is_compared_with() {
        let mut contest = Contest::new(14e-6, 20e-6, false).unwrap();
        (0..PAUSE).for_each(|_| contest.ran(Side::Planned, 60e-6));
        contest.can_try();
        let (sides, _) = play(&mut contest, 1000, &|side, _| if side == Side::Planned { 14e-6 } else { 34e-6 });
        assert_eq!(contest.leader(), Side::Planned);
        assert!((2..=TRIES).contains(&of(&sides, Side::Rival)), "it was tried, and never led");
    }

    /// Threads that share a plan are all out with runs of a trial when the second of them shows that it is far off.
    #[test]
    fn runs_that_end_after_their_trial_cost_too() {
        let mut contest = Contest::new(10e-6, 10e-6, false).unwrap();
        (0..PAUSE).for_each(|_| contest.ran(Side::Planned, 10e-6));
        contest.try_other();
        let out = (0..TRIES).filter(|_| contest.next() == Side::Rival).count();
        (0..out).for_each(|_| contest.ran(Side::Rival, 600e-6));
        assert_eq!((out, contest.is_trying()), (TRIES, false));
        assert!((contest.spent - TRIES as f64 * 590e-6).abs() < 1e-9, "{}", contest.spent);
    }

    #[test]
    fn a_change_of_load_is_noticed_within_fifty_runs() {
        let mut contest = Contest::new(20e-6, 30e-6, false).unwrap();
        let takes = |side, n| match side {
            Side::Planned if n >= 1000 => 90e-6,
            Side::Planned => 20e-6,
            Side::Rival => 30e-6,
        };
        play(&mut contest, 1000, &takes);
        assert_eq!(contest.leader(), Side::Planned);
        play(&mut contest, 50, &|side, n| takes(side, n + 1000));
        assert_eq!(contest.leader(), Side::Rival);
    }

    #[test]
    fn a_plan_that_failed_is_not_run_again_and_runs_that_end_late_do_not_count() {
        let mut contest = Contest::new(20e-6, 10e-6, false).unwrap();
        (0..PAUSE).for_each(|_| contest.ran(Side::Planned, 20e-6));
        assert!(contest.is_due());
        contest.try_other();
        assert_eq!(contest.next(), Side::Rival);
        assert!(contest.failed(Side::Rival));
        assert_eq!(contest.next(), Side::Planned);
        (0..TRIES).for_each(|_| contest.ran(Side::Rival, 1e-6));
        (0..10_000).for_each(|_| contest.ran(Side::Planned, 20e-6));
        assert_eq!((contest.leader(), contest.is_due()), (Side::Planned, false));
        assert!(!contest.failed(Side::Planned), "there is nothing else");
    }

    #[test]
    fn a_trial_is_cut_short_where_it_is_far_off() {
        let mut contest = Contest::new(10e-6, 10e-6, false).unwrap();
        let takes = |side, _| if side == Side::Planned { 10e-6 } else { 600e-6 };
        let (sides, _) = play(&mut contest, 30, &takes);
        assert_eq!(of(&sides, Side::Rival), 2, "one to wake it, one that counts");
    }

    #[test]
    fn runs_of_a_trial_that_give_nothing_cost_all_their_time() {
        let mut contest = Contest::new(10e-6, 8e-6, true).unwrap();
        let takes = |side, _| if side == Side::Planned { 10e-6 } else { 8e-6 };
        let (sides, _) = play(&mut contest, 1000, &takes);
        let first = sides.iter().position(|side| *side == Side::Rival).unwrap();
        assert!((479..=481).contains(&first), "{first}: a hundredth of 4,800 us is six runs of 8 us");
        assert_eq!(contest.leader(), Side::Rival);
    }

    /// A counter-based generator of numbers from -1 to 1.
    fn random(n: usize) -> f64 {
        let z = (n as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    #[test]
    fn noise_does_not_change_the_leader_often_or_for_long() {
        const SEQUENCES: usize = 20;
        const TURNS: usize = 5000;
        for slower in [1.0, 1.2, 1.5] {
            let length = |side| if side == Side::Planned { 10e-6 } else { 10e-6 * slower };
            let (mut changes, mut lost) = (0, 0.0);
            for sequence in 0..SEQUENCES {
                let mut contest = Contest::new(10e-6, 10e-6 * slower, false).unwrap();
                for n in 0..TURNS {
                    if contest.is_due() {
                        contest.try_other();
                    }
                    let (before, side) = (contest.leader(), contest.next());
                    contest.ran(side, length(side) * (1.0 + 0.4 * random(sequence * TURNS + n)));
                    changes += usize::from(contest.leader() != before);
                    lost += length(side) - 10e-6;
                }
            }
            // One percent for trials, and as much for the wrong leader; a single sequence may have more.
            let turns = (SEQUENCES * TURNS) as f64;
            assert!(changes <= 10 * SEQUENCES, "{slower}: {changes} changes");
            assert!(lost <= 0.02 * turns * 10e-6, "{slower}: lost {}", lost / (turns * 10e-6));
        }
    }
}
