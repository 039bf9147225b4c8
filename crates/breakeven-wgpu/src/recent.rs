//! A few values by key: those that were asked for last.

use std::collections::HashMap;
use std::hash::Hash;

/// Values by key, of which the one that nobody has asked for the longest goes first.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    /// With the time at which each was asked for last.
    known: HashMap<K, (u64, V)>,
    /// Counts what is asked for.
    time: u64,
    most: usize,
}

impl<K: Clone + Eq + Hash, V: Clone> Recent<K, V> {
    /// Keeps `most` of them.
    pub fn new(most: usize) -> Recent<K, V> {
        Recent { known: HashMap::new(), time: 0, most }
    }

    /// The value of `key`, which stays for longer.
    pub fn get(&mut self, key: &K) -> Option<V> {
        self.time += 1;
        let (asked, value) = self.known.get_mut(key)?;
        *asked = self.time;
        Some(value.clone())
    }

    /// One more, or another for a key that another thread has added meanwhile.
    pub fn add(&mut self, key: K, value: V) {
        if self.known.len() >= self.most && !self.known.contains_key(&key) {
            let oldest = self.known.iter().min_by_key(|(_, (asked, _))| *asked).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.known.remove(&key));
        }
        self.time += 1;
        self.known.insert(key, (self.time, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(recent: &Recent<u64, char>, want: &[(u64, char)]) {
        let mut known: Vec<(u64, char)> = recent.known.iter().map(|(&key, &(_, value))| (key, value)).collect();
        known.sort_unstable();
        assert_eq!(known, want);
    }

    #[test]
    fn what_was_asked_for_last_stays() {
        let mut recent = Recent::new(3);
        for (key, value) in [(1, 'a'), (2, 'b'), (3, 'c')] {
            recent.add(key, value);
        }
        assert_eq!((recent.get(&1), recent.get(&7)), (Some('a'), None));
        recent.add(4, 'd');
        check(&recent, &[(1, 'a'), (3, 'c'), (4, 'd')]);
        recent.add(5, 'e');
        check(&recent, &[(1, 'a'), (4, 'd'), (5, 'e')]);
    }

    #[test]
    fn what_two_threads_made_at_once_is_kept_once() {
        let mut recent = Recent::new(2);
        for (key, value) in [(1, 'a'), (2, 'b'), (2, 'c')] {
            recent.add(key, value);
        }
        check(&recent, &[(1, 'a'), (2, 'c')]);
    }
}
