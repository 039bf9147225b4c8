//! How often a step is run, alone and many times in one segment, and what these runs say.

use std::time::Duration;

use super::Effort;

/// One run of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// On the device's clock, from submit to done.
    pub seconds: f64,
    /// Of that, until submit returned.
    pub submit_seconds: f64,
    /// On the wall clock.
    pub wall: Duration,
}

/// Time of one segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Lower quartile, on the device's clock, from submit to done.
    pub seconds: f64,
    /// Of that, until submit returned.
    pub submit_seconds: f64,
    /// Standard deviation of the logarithm.
    pub spread: f64,
    /// Runs behind it.
    pub count: u32,
    /// What many took on the wall clock in the fastest round.
    pub wall: Duration,
}

/// Runs of one step so far: in each round it runs alone, and many times in one segment where that says more. The first run of either
/// compiles and touches memory, and does not count.
#[derive(Debug)]
pub(super) struct Rounds {
    effort: Effort,
    /// How many steps many are.
    times: usize,
    /// Seconds from which on a lone run is enough; `None` where it never is.
    lone_from: Option<f64>,
    one: Vec<Run>,
    many: Vec<Run>,
}

/// Rounds of many after which it is the size that takes long, where all of them did. One or two may be stalls of the host, or rounds in
/// which a device makes code. Lone runs are cheap enough to go on.
const SLOW: usize = 3;
/// Runs shorter than this in all are repeated more often, which costs little.
pub(super) const BRIEF: Duration = Duration::from_millis(2);

impl Rounds {
    pub fn new(effort: Effort, times: usize, lone_from: Option<f64>) -> Rounds {
        Rounds { effort, times, lone_from, one: Vec::new(), many: Vec::new() }
    }

    pub fn times(&self) -> usize {
        self.times
    }

    pub fn add_one(&mut self, run: Run) {
        self.one.push(run);
    }

    pub fn add_many(&mut self, run: Run) {
        self.many.push(run);
    }

    /// Whether the round that a lone run began is one of many, too: a lone one was too short to say all.
    pub fn wants_many(&self) -> bool {
        self.lone_from.is_none_or(|from| self.one.iter().any(|run| run.seconds <= from))
    }

    pub fn want_more(&self) -> bool {
        let Effort { repeats, longest, .. } = self.effort;
        let is_enough = self.counted() >= repeats && self.took() > BRIEF;
        let is_too_slow = self.many.len() > SLOW && self.fastest() >= longest;
        self.one.len() <= 4 * repeats && !is_enough && !is_too_slow
    }

    /// What the lone runs say, and what those of many do where the lone ones are not enough.
    pub fn said(self) -> (Sample, Option<Sample>) {
        let (wall, lone_from) = (self.fastest(), self.lone_from);
        let one = summary(&self.one[1..], wall);
        // A quarter of the lone ones was as short then, and many were run in each of their rounds.
        let is_short = lone_from.is_none_or(|from| one.seconds <= from);
        (one, is_short.then(|| summary(&self.many[1..], wall)))
    }

    /// Rounds of what was run of this step.
    fn counted(&self) -> usize {
        let runs = if self.many.is_empty() { &self.one } else { &self.many };
        runs.len().saturating_sub(1)
    }

    /// What many took in the fastest round that counts, or would have taken.
    fn fastest(&self) -> Duration {
        let (one, many) = (self.one.iter(), self.many.iter().skip(1));
        let fastest = if self.many.len() < 2 {
            one.skip(1).map(|run| run.wall * self.times as u32).min()
        } else {
            one.rev().zip(many.rev()).map(|(one, many)| one.wall.max(many.wall)).min()
        };
        fastest.unwrap_or_default()
    }

    fn took(&self) -> Duration {
        [&self.one, &self.many].into_iter().flat_map(|runs| runs.iter().skip(1)).map(|run| run.wall).sum()
    }
}

fn summary(runs: &[Run], wall: Duration) -> Sample {
    let mut runs = runs.to_vec();
    runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let Run { seconds, submit_seconds, .. } = runs[runs.len() / 4];
    let logs: Vec<f64> = runs.iter().map(|run| (run.seconds / seconds).ln()).collect();
    // Only the quiet half: a stall of the host says nothing about the device.
    let quiet = &logs[..logs.len().div_ceil(2)];
    let spread = (quiet.iter().map(|x| x * x).sum::<f64>() / quiet.len() as f64).sqrt();
    Sample { seconds, submit_seconds, spread, count: runs.len() as u32, wall }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: f64 = 50e-6;

    fn run(seconds: f64) -> Run {
        Run { seconds, submit_seconds: seconds / 10.0, wall: Duration::from_secs_f64(seconds) }
    }

    /// Rounds whose lone runs take so long, one after the other and the last one again and again, until none is wanted. Many take
    /// eight times as long.
    fn rounds(lone_from: Option<f64>, seconds: &[f64]) -> Rounds {
        let effort = Effort::QUICK;
        let mut rounds = Rounds::new(effort, 8, lone_from);
        let last = std::iter::repeat(seconds.last().unwrap());
        let mut lone = seconds.iter().chain(last);
        while rounds.want_more() {
            let seconds = *lone.next().unwrap();
            rounds.add_one(run(seconds));
            if rounds.wants_many() {
                rounds.add_many(run(8.0 * seconds));
            }
        }
        rounds
    }

    /// Runs alone and of many, the first of either among them.
    fn check(lone_from: Option<f64>, seconds: &[f64], expected: (usize, usize)) {
        let rounds = rounds(lone_from, seconds);
        assert_eq!((rounds.one.len(), rounds.many.len()), expected, "{seconds:?}");
        let (one, many) = rounds.said();
        let is_lone = lone_from.is_some_and(|from| one.seconds > from);
        assert_eq!(many.is_none(), is_lone, "{seconds:?}");
        assert!(many.is_none_or(|many| many.count >= 3), "{seconds:?}: {many:?}");
    }

    #[test]
    fn many_are_run_where_a_lone_one_does_not_say_all() {
        check(Some(FROM), &[1e-3], (6, 0));
        check(Some(FROM), &[60e-6], (21, 0));
        check(Some(FROM), &[40e-6], (7, 7));
        check(None, &[1e-3], (4, 4));
        check(None, &[40e-6], (7, 7));
    }

    #[test]
    fn the_first_lone_run_below_the_limit_begins_enough_rounds_of_many() {
        check(Some(FROM), &[1e-3, 40e-6], (8, 7));
        check(Some(FROM), &[1e-3, 1e-3, 1e-3, 40e-6], (9, 6));
        let late = [vec![60e-6; 20], vec![40e-6]].concat();
        check(Some(FROM), &late, (21, 1));
    }

    #[test]
    fn slow_rounds_end_nothing_where_any_was_fast_and_do_not_count_as_the_sizes_own() {
        let after = |lone_from: Option<f64>, milliseconds: &[u32]| {
            let mut rounds = Rounds::new(Effort { repeats: 9, ..Effort::QUICK }, 8, lone_from);
            for ms in [&[9], milliseconds].concat().into_iter().map(f64::from) {
                rounds.add_one(run(ms * 1e-3 / 8.0));
                if rounds.wants_many() {
                    rounds.add_many(run(ms * 1e-3));
                }
            }
            (!rounds.want_more(), rounds.fastest().as_millis())
        };
        assert_eq!(after(None, &[9, 8]), (false, 8), "it may have been the host");
        assert_eq!(after(None, &[9, 8, 4]), (true, 4));
        assert_eq!(after(None, &[9, 8, 1, 7, 9]), (false, 1));
        assert_eq!(after(Some(FROM), &[9, 8, 4]), (false, 4), "many would take as long");
    }
}
