//! Temporaries that outlive a launch: large ones that are fresh cost more in page faults than the work they are for.

use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::program::Scratch;

/// Temporaries that nobody uses now. Each thread has a shelf of its own, where it finds what lies in its core's cache and
/// meets nobody; those too large for a cache are shared by all. There are as many as were ever used at once, each as large as
/// the largest that was asked of it.
#[derive(Debug)]
pub(crate) struct Spare {
    own: Box<[Shelf]>,
    large: Shelf,
}

/// The one that was used last on top; on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shelf(Mutex<Vec<Scratch>>);

/// Shelves of threads: two threads whose numbers are so far apart share one.
const SHELVES: usize = 64;
/// Bytes from which on a temporary is large: more than a core's own caches hold.
const LARGE: usize = 4 << 20;

/// A temporary until it is dropped, of unknown content.
#[derive(Debug)]
pub(crate) struct Lent<'a> {
    scratch: Scratch,
    from: &'a Spare,
}

impl Default for Spare {
    fn default() -> Spare {
        Spare { own: std::iter::repeat_with(Shelf::default).take(SHELVES).collect(), large: Shelf::default() }
    }
}

impl Spare {
    /// A temporary of at least `bytes`.
    pub fn lend(&self, bytes: usize) -> Lent<'_> {
        let own = self.own().take(bytes);
        let mut scratch = own.or_else(|| self.large.take(bytes)).unwrap_or_default();
        scratch.reserve(bytes);
        Lent { scratch, from: self }
    }

    /// The shelf of this thread.
    fn own(&self) -> &Shelf {
        let mut number = Number(0);
        std::thread::current().id().hash(&mut number);
        &self.own[number.0 as usize % SHELVES]
    }

    fn give_back(&self, scratch: Scratch) {
        let shelf = if scratch.bytes() < LARGE { self.own() } else { &self.large };
        shelf.all().push(scratch);
    }
}

impl Shelf {
    /// The smallest one that is large enough, so that few grow large; else any, unless `bytes` are many.
    fn take(&self, bytes: usize) -> Option<Scratch> {
        let mut known = self.all();
        let fits = |(_, scratch): &(usize, &Scratch)| scratch.bytes() >= bytes;
        let best = known.iter().enumerate().rev().filter(fits).min_by_key(|(_, scratch)| scratch.bytes());
        let any = || known.len().checked_sub(1).filter(|_| bytes < LARGE);
        let at = best.map(|(at, _)| at).or_else(any)?;
        Some(known.remove(at))
    }

    fn all(&self) -> MutexGuard<'_, Vec<Scratch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A hasher that gives the number it is given: those of threads follow each other.
struct Number(u64);

impl Hasher for Number {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |number, byte| number.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

impl Deref for Lent<'_> {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.scratch
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Scratch {
        &mut self.scratch
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.from.give_back(std::mem::take(&mut self.scratch));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_back_is_lent_again() {
        let spare = Spare::default();
        let start = spare.lend(1000).start();
        let mut again = spare.lend(10);
        assert_eq!((again.start(), spare.own().all().len()), (start, 0));
        assert!(spare.lend(5000).bytes() >= 5000);
        drop(again);
        assert_eq!(spare.own().all().len(), 2);
    }

    #[test]
    fn small_ones_stay_with_their_thread_and_large_ones_are_for_all() {
        let spare = Spare::default();
        let lend = |bytes: usize| spare.lend(bytes).start().addr();
        let (small, large) = (lend(1000), lend(LARGE));
        let there = std::thread::scope(|scope| scope.spawn(|| (lend(LARGE), lend(LARGE - 1))).join().unwrap());
        assert_eq!((lend(10), there.0), (small, large));
        assert_ne!(there.1, small);
    }
}
