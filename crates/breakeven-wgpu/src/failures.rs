//! Which submissions have failed, once nobody knows any more why.

use std::collections::BTreeMap;

/// Ids, as few runs of them: where a device fails, it fails again and again.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// The last id of each run, by its first.
    runs: BTreeMap<u64, u64>,
}

/// Runs that are told apart.
const RUNS: usize = 1024;

impl Failures {
    /// One more. Where there are too many runs, the oldest two become one: what ended well between them counts as failed
    /// then, and nothing that failed ever counts as done.
    pub fn add(&mut self, id: u64) {
        let before = self.runs.range(..=id).next_back().map(|(&first, &last)| (first, last));
        let first = before.filter(|(_, last)| last + 1 >= id).map_or(id, |(first, _)| first);
        let last = self.runs.remove(&(id + 1)).unwrap_or(id);
        let known = self.runs.entry(first).or_insert(last);
        *known = last.max(*known);
        if self.runs.len() > RUNS {
            self.join_oldest();
        }
    }

    /// Whether it is one of them.
    pub fn has(&self, id: u64) -> bool {
        self.runs.range(..=id).next_back().is_some_and(|(_, &last)| id <= last)
    }

    fn join_oldest(&mut self) {
        let second = self.runs.keys().nth(1).copied();
        let last = second.and_then(|second| self.runs.remove(&second));
        if let (Some(mut oldest), Some(last)) = (self.runs.first_entry(), last) {
            *oldest.get_mut() = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ids: &[u64], want: &[(u64, u64)]) {
        let mut failures = Failures::default();
        for &id in ids {
            failures.add(id);
        }
        let runs: Vec<(u64, u64)> = failures.runs.iter().map(|(&first, &last)| (first, last)).collect();
        assert_eq!(runs, want, "{ids:?}");
        assert!(ids.iter().all(|&id| failures.has(id)));
    }

    #[test]
    fn neighbours_are_one_run_in_whatever_order_they_come() {
        check(&[3], &[(3, 3)]);
        check(&[3, 4, 5], &[(3, 5)]);
        check(&[5, 4, 3], &[(3, 5)]);
        check(&[3, 5, 4], &[(3, 5)]);
        check(&[1, 9, 3, 2, 9], &[(1, 3), (9, 9)]);
        check(&[1, 2, 3, 2], &[(1, 3)]);
    }

    #[test]
    fn what_lies_between_is_not_among_them() {
        let mut failures = Failures::default();
        for id in [4, 6, 7] {
            failures.add(id);
        }
        assert_eq!([3, 4, 5, 6, 7, 8].map(|id| failures.has(id)), [false, true, false, true, true, false]);
    }

    #[test]
    fn every_second_id_takes_no_more_room_than_it_may() {
        let mut failures = Failures::default();
        let ids = || (0..100_000).step_by(2);
        ids().for_each(|id| failures.add(id));
        assert_eq!(failures.runs.len(), RUNS);
        assert!(ids().all(|id| failures.has(id)), "what failed never counts as done");
        assert!(failures.has(1), "what lies between the oldest counts as failed");
        assert!(!failures.has(99_997) && !failures.has(100_000));
    }
}
