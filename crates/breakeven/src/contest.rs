//! Two plans for one graph, and which of them is seen to be faster. Pure: times come in, decisions go out.

/// Plans that are predicted to take more than so many times as long are not tried: predictions were off by up to 2.3 times where
/// kernels, copies and clocks of a device were all at their worst.
const NEAR: f64 = 4.0;
/// Runs of one trial. A device that had nothing to do is slow at first, so the first is not counted.
const TRIES: usize = 4;
/// Runs of the leader before the first trial.
const PAUSE: u64 = 8;
/// Share of the time of all runs that trials may cost.
const SHARE: f64 = 0.01;
/// A plan must be so much faster to take the lead.
const BETTER: f64 = 0.97;
/// When the leader's own time has changed by so much, what was seen before says little.
const SHIFT: f64 = 1.2;
/// The longest pause: each trial that changed nothing doubles it.
const LONGEST_PAUSE: u64 = 1 << 12;
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
    /// Runs of the leader since the last trial, and how many there are to be before the next.
    runs: u64,
    pause: u64,
    /// Seconds that trials may cost, and have cost.
    earned: f64,
    spent: f64,
    /// What the leader took when it was last compared.
    settled: Option<f64>,
}

/// Runs of the plan that does not lead.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    begun: usize,
    done: usize,
}

/// What is known of one plan.
#[derive(Clone, Debug)]
struct Seen {
    predicted: f64,
    recent: [f64; WINDOW],
    runs: usize,
}

impl Seen {
    fn new(predicted: f64) -> Seen {
        Seen { predicted, recent: [0.0; WINDOW], runs: 0 }
    }

    fn push(&mut self, seconds: f64) {
        self.recent[self.runs % WINDOW] = seconds;
        self.runs += 1;
    }

    /// The lower quartile of what was seen, since whatever else a machine does makes runs longer; what was predicted, before.
    fn typical(&self) -> f64 {
        let mut recent = self.recent;
        let recent = &mut recent[..self.runs.min(WINDOW)];
        recent.sort_unstable_by(f64::total_cmp);
        recent.get(recent.len() / 4).copied().unwrap_or(self.predicted)
    }
}

impl Contest {
    /// Between plans that are predicted to take so long; none where that is not near enough.
    pub fn new(planned: f64, rival: f64) -> Option<Contest> {
        let is_near = planned > 0.0 && rival > 0.0 && rival < planned * NEAR;
        is_near.then(|| Contest {
            leader: Side::Planned,
            seen: [Seen::new(planned), Seen::new(rival)],
            trial: None,
            runs: 0,
            pause: PAUSE,
            earned: 0.0,
            spent: 0.0,
            settled: None,
        })
    }

    /// The plan to go by.
    pub fn leader(&self) -> Side {
        self.leader
    }

    /// Lower quartiles of the last runs of both, where there were any.
    pub fn seen(&self) -> [Option<f64>; 2] {
        [Side::Planned, Side::Rival].map(|side| self.of(side)).map(|of| (of.runs > 0).then(|| of.typical()))
    }

    /// Whether the other plan is to be tried now: the leader ran for a while, and what that is expected to cost was earned.
    pub fn is_due(&self) -> bool {
        let [leader, other] = [self.leader, self.leader.other()].map(|side| self.of(side).typical());
        let cost = (other - leader).max(0.0) * TRIES as f64;
        self.trial.is_none() && self.runs >= self.pause && cost + self.spent <= self.earned
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

    /// Begins a trial of the other plan.
    pub fn try_other(&mut self) {
        let other = self.leader.other();
        *self.of_mut(other) = Seen::new(self.of(other).typical());
        self.trial = Some(Trial::default());
    }

    /// Whether runs of a trial are still to be begun.
    pub fn is_trying(&self) -> bool {
        self.trial.is_some_and(|trial| trial.begun < TRIES)
    }

    /// A plan ran and took so long.
    pub fn ran(&mut self, side: Side, seconds: f64) {
        if side == self.leader {
            self.of_mut(side).push(seconds);
            self.runs += 1;
            self.earned += seconds * SHARE;
            self.notice_shift();
        } else if let Some(trial) = &mut self.trial {
            trial.done += 1;
            let (is_first, is_last) = (trial.done == 1, trial.done == TRIES);
            self.spent += (seconds - self.of(self.leader).typical()).max(0.0);
            if !is_first {
                self.of_mut(side).push(seconds);
            }
            if is_last {
                self.compare();
            }
        }
    }

    /// A run did not end well: its trial is off.
    pub fn failed(&mut self, side: Side) {
        if side != self.leader {
            self.end_trial();
        }
    }

    fn compare(&mut self) {
        let other = self.leader.other();
        self.end_trial();
        if self.of(other).typical() < self.of(self.leader).typical() * BETTER {
            self.leader = other;
            self.pause = PAUSE;
        }
        self.settled = Some(self.of(self.leader).typical());
    }

    fn end_trial(&mut self) {
        (self.trial, self.runs, self.pause) = (None, 0, (self.pause * 2).min(LONGEST_PAUSE));
    }

    /// The machine has other things to do than before, or fewer.
    fn notice_shift(&mut self) {
        let now = self.of(self.leader).typical();
        let is_shift = |then: f64| now > then * SHIFT || now * SHIFT < then;
        if self.runs as usize >= WINDOW && self.settled.is_some_and(is_shift) {
            (self.pause, self.settled) = (PAUSE, Some(now));
        }
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
        assert!(Contest::new(1e-6, 5e-6).is_none());
        assert!(Contest::new(0.0, 1e-6).is_none(), "the host was not measured");
        assert!(Contest::new(5e-6, 6e-6).is_some() && Contest::new(5e-6, 1e-6).is_some());
    }

    #[test]
    fn a_rival_that_is_predicted_faster_than_what_is_seen_is_tried_at_once_and_leads_when_it_is() {
        let mut contest = Contest::new(36e-6, 48e-6).unwrap();
        let (sides, _) = play(&mut contest, 40, &|side, _| if side == Side::Planned { 62e-6 } else { 31e-6 });
        assert_eq!(sides[..13], [[Side::Planned; 8].as_slice(), &[Side::Rival; 5]].concat());
        assert_eq!((contest.leader(), of(&sides, Side::Planned)), (Side::Rival, 8));
    }

    #[test]
    fn a_rival_that_is_slower_costs_one_percent_at_most() {
        for (predicted, taken) in [(11e-6, 12e-6), (20e-6, 40e-6), (30e-6, 11e-6), (5e-6, 300e-6)] {
            let mut contest = Contest::new(10e-6, predicted).unwrap();
            let takes = |side, _| if side == Side::Planned { 10e-6 } else { taken };
            let turns = 100_000;
            let (sides, lost) = play(&mut contest, turns, &takes);
            let first = (taken - 10e-6) * TRIES as f64;
            assert!(of(&sides, Side::Rival) >= TRIES, "{predicted}: it was tried");
            assert!(lost <= first.max(turns as f64 * 10e-6 * SHARE), "{predicted} {taken}: lost {lost}");
            assert_eq!(contest.leader(), Side::Planned);
        }
    }

    #[test]
    fn the_first_run_of_a_trial_is_not_held_against_a_device_that_slept() {
        let mut contest = Contest::new(50e-6, 50e-6).unwrap();
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

    #[test]
    fn a_change_of_load_is_noticed_within_fifty_runs() {
        let mut contest = Contest::new(20e-6, 30e-6).unwrap();
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
    fn a_trial_that_failed_is_off_and_runs_that_end_late_do_not_count() {
        let mut contest = Contest::new(20e-6, 10e-6).unwrap();
        (0..PAUSE).for_each(|_| contest.ran(Side::Planned, 20e-6));
        assert!(contest.is_due());
        contest.try_other();
        assert_eq!(contest.next(), Side::Rival);
        contest.failed(Side::Rival);
        assert_eq!(contest.next(), Side::Planned);
        (0..TRIES).for_each(|_| contest.ran(Side::Rival, 1e-6));
        assert_eq!((contest.leader(), contest.is_due()), (Side::Planned, false));
    }
}
