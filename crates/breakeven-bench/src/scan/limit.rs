//! Which cells a study has no time for: a call of theirs takes longer than its time allows.
//!
//! A cell is left out, and not its whole size: what is far slower than another device says so by being left out, and the other one is measured.

use std::time::Duration;

use breakeven_study::units::time;

use super::task::{Effort, Limit};

/// Calls of a cell in a round at least: one that wakes, one that is timed, one that is taken apart.
const CALLS: u64 = 3;
/// How many times the time of its size the cells of a size may take that are of slow devices: most take far less than theirs.
const TIMES: u64 = 4;
/// And a plain loop, where that alone is limited: what is far faster is measured beside it.
const PLAIN_TIMES: u64 = 16;
/// Calls take more or less than is predicted for them.
const MARGIN: f64 = 1.1;

/// How it is known what a call takes.
#[derive(Clone, Copy)]
pub enum Known {
    /// By what the engine predicts.
    Predicted,
    /// By a call.
    Taken,
}

impl Limit {
    /// What a study of so long has time for that spends `effort` on each size, with so many devices beside the CPU: any of them may be slow.
    pub fn of(effort: &Effort, study: Duration, others: usize) -> Limit {
        Limit::lasting(TIMES, others, effort, study)
    }

    /// What it has time for of plain loops, where each cell of the devices is wanted.
    pub fn of_plain_loops(effort: &Effort, study: Duration) -> Limit {
        Limit { only_plain_loops: true, ..Limit::lasting(PLAIN_TIMES, 1, effort, study) }
    }

    fn lasting(times: u64, among: usize, effort: &Effort, study: Duration) -> Limit {
        let calls = CALLS * u64::from(effort.rounds.max(1)) * among.max(1) as u64;
        let (call_ms, study_s) = ((times * effort.budget_ms / calls).max(1), study.as_secs().max(1));
        Limit { call_ms, study_s, only_plain_loops: false }
    }

    /// Whether it holds for a cell.
    pub fn holds(self, is_scalar: bool) -> bool {
        is_scalar || !self.only_plain_loops
    }

    /// Why a cell is left out of which one call takes so long; `None` where there is time for it.
    pub fn refuses(self, call: Duration, known: Known, effort: &Effort) -> Option<String> {
        let limit = Duration::from_millis(self.call_ms);
        let takes = match known {
            Known::Predicted => "is predicted to take",
            Known::Taken => "took",
        };
        let said = |duration: Duration| time(duration.as_secs_f64() * 1e9);
        let deadline = Duration::from_millis(effort.deadline_ms);
        let way = if call > deadline {
            format!("a call may not take longer than {} in any study", said(deadline))
        } else {
            let other = if self.only_plain_loops {
                "or fewer operations and sizes"
            } else {
                "fewer operations and sizes, or --seeds"
            };
            format!("--seconds {}, {other} would measure it", self.seconds_for(call))
        };
        let why =
            || format!("one call {takes} {}, and this study has time for calls of {}: {way}", said(call), said(limit));
        (call > limit).then(why)
    }

    /// Seconds of a study that has time for such a call, in two digits.
    fn seconds_for(self, call: Duration) -> u64 {
        let wanted = MARGIN * self.study_s as f64 * call.as_secs_f64() * 1e3 / self.call_ms as f64;
        let digits = 10f64.powf((wanted.log10().floor() - 1.0).max(0.0));
        ((wanted / digits).ceil() * digits) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::preset::{Filter, Preset, effort, groups};
    use super::*;

    /// Of a quick study of so many seconds.
    fn of_study(seconds: u64) -> (Effort, Limit) {
        let study = Duration::from_secs(seconds);
        let effort = effort(&groups(Preset::Quick, &Filter::default()).unwrap(), study.mul_f64(0.8));
        (effort, Limit::of(&effort, study, 1))
    }

    fn refused(seconds: u64, call_ms: u64) -> Option<String> {
        let (effort, limit) = of_study(seconds);
        limit.refuses(Duration::from_millis(call_ms), Known::Predicted, &effort)
    }

    #[test]
    fn a_cell_takes_no_more_than_four_times_the_time_of_its_size() {
        let (effort, limit) = of_study(55);
        let least = 3 * u64::from(effort.rounds) * limit.call_ms;
        assert!((3 * effort.budget_ms..=4 * effort.budget_ms).contains(&least), "{limit:?} of {effort:?}");
        assert_eq!((refused(55, 17), refused(55, 300)), (None, None));
        assert!(refused(55, 540).is_some() && refused(20, 300).is_some());
    }

    #[test]
    fn what_slow_devices_may_take_is_shared_by_them() {
        let ms = |others| Limit::of(&of_study(55).0, Duration::from_secs(55), others).call_ms;
        assert_eq!(ms(0), ms(1));
        assert!((ms(1) / 2).abs_diff(ms(2)) <= 1 && (ms(1) / 3).abs_diff(ms(3)) <= 1, "{:?}", [1, 2, 3].map(ms));
    }

    #[test]
    fn of_a_whole_study_only_plain_loops_are_left_out_and_those_of_the_reports_are_not() {
        let total = Duration::from_secs(400);
        let effort = effort(&groups(Preset::Seeds, &Filter::default()).unwrap(), total.mul_f64(0.8));
        let limit = Limit::of_plain_loops(&effort, total);
        assert!(limit.holds(true) && !limit.holds(false) && Limit::of(&effort, total, 1).holds(false));
        // A product of 1,000 a side takes a plain loop half a second, one of 2,048 about four.
        let refuses = |ms| limit.refuses(Duration::from_millis(ms), Known::Taken, &effort).is_some();
        assert_eq!([500, 1_000, 4_000].map(refuses), [false, false, true], "{limit:?}");
    }

    #[test]
    fn the_seconds_that_are_named_are_enough_and_no_more_than_a_quarter_too_many() {
        for call_ms in [400, 6_391, 19_900] {
            let why = refused(55, call_ms).unwrap();
            let seconds: u64 = why.split("--seconds ").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
            assert_eq!(refused(seconds, call_ms), None, "{why}");
            assert!(refused(seconds * 4 / 5, call_ms).is_some(), "{why}");
        }
    }

    #[test]
    fn why_is_told_in_a_sentence() {
        let effort = Effort { deadline_ms: 20_000, ..of_study(55).0 };
        let limit = Limit { call_ms: 350, study_s: 55, only_plain_loops: false };
        let said = |seconds, known| limit.refuses(Duration::from_secs(seconds), known, &effort).unwrap();
        assert_eq!(
            said(7, Known::Taken),
            "one call took 7 s, and this study has time for calls of 350 ms: --seconds 1300, fewer operations and sizes, or --seeds would measure it"
        );
        let plain = Limit { only_plain_loops: true, ..limit };
        let why = plain.refuses(Duration::from_secs(7), Known::Taken, &effort).unwrap();
        assert!(why.ends_with("350 ms: --seconds 1300, or fewer operations and sizes would measure it"), "{why}");
        assert!(said(30, Known::Predicted).ends_with("a call may not take longer than 20 s in any study"));
    }
}
