//! A few values by key: those that were asked for last.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Room that several of them share. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    kept: Arc<AtomicUsize>,
    most: usize,
}

impl Room {
    pub fn new(most: usize) -> Room {
        Room { kept: Arc::default(), most }
    }

    /// Values that are kept in it.
    pub fn kept(&self) -> usize {
        self.kept.load(Relaxed)
    }
}

/// Values by key, of which the one that nobody has asked for the longest goes first.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    /// With the time at which each was asked for last.
    known: HashMap<K, (u64, V)>,
    /// Counts what is asked for.
    time: u64,
    most: usize,
    room: Room,
}

impl<K: Clone + Eq + Hash, V: Clone> Recent<K, V> {
    /// Keeps `most` of them.
    pub fn new(most: usize) -> Recent<K, V> {
        Recent::within(&Room::new(most), most)
    }

    /// Keeps `most` of them, and where others have filled the room, no more than it has, and one.
    pub fn within(room: &Room, most: usize) -> Recent<K, V> {
        Recent { known: HashMap::new(), time: 0, most, room: room.clone() }
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
        let is_full = self.known.len() >= self.most || self.room.kept() >= self.room.most;
        if is_full && !self.known.contains_key(&key) {
            self.remove_oldest();
        }
        self.time += 1;
        if self.known.insert(key, (self.time, value)).is_none() {
            self.room.kept.fetch_add(1, Relaxed);
        }
    }

    fn remove_oldest(&mut self) {
        let oldest = self.known.iter().min_by_key(|(_, (asked, _))| *asked).map(|(key, _)| key.clone());
        if oldest.and_then(|key| self.known.remove(&key)).is_some() {
            self.room.kept.fetch_sub(1, Relaxed);
        }
    }
}

impl<K, V> Drop for Recent<K, V> {
    fn drop(&mut self) {
        self.room.kept.fetch_sub(self.known.len(), Relaxed);
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
    fn those_that_share_a_room_keep_no_more_than_it_holds_and_one_each() {
        let room = Room::new(4);
        let [mut first, mut second] = [4, 4].map(|most| Recent::within(&room, most));
        for key in 0..3 {
            first.add(key, 'a');
        }
        for key in 0..3 {
            second.add(key, 'b');
        }
        check(&first, &[(0, 'a'), (1, 'a'), (2, 'a')]);
        check(&second, &[(2, 'b')]);
        assert_eq!(room.kept(), 4);
        let mut third = Recent::within(&room, 4);
        third.add(7, 'c');
        third.add(8, 'c');
        check(&third, &[(8, 'c')]);
        drop(first);
        assert_eq!(room.kept(), 2);
        second.add(3, 'b');
        check(&second, &[(2, 'b'), (3, 'b')]);
        drop((second, third));
        assert_eq!(room.kept(), 0);
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
