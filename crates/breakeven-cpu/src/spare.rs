//! Temporaries that outlive a launch: large ones that are fresh cost more in page faults than the work they are for.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use crate::program::Scratch;

/// Temporaries that nobody uses now, the one that was used last on top. There are as many as were ever used at once, each
/// as large as the largest that was asked of it: the smallest that is large enough is lent, so that few grow large.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Vec<Scratch>>);

/// A temporary until it is dropped, of unknown content.
#[derive(Debug)]
pub(crate) struct Lent<'a> {
    scratch: Scratch,
    from: &'a Spare,
}

impl Spare {
    /// A temporary of at least `bytes`.
    pub fn lend(&self, bytes: usize) -> Lent<'_> {
        let mut scratch = self.take(bytes).unwrap_or_default();
        scratch.reserve(bytes);
        Lent { scratch, from: self }
    }

    /// The smallest one that is large enough, else any.
    fn take(&self, bytes: usize) -> Option<Scratch> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |(_, scratch): &(usize, &Scratch)| scratch.bytes() >= bytes;
        let best = known.iter().enumerate().rev().filter(fits).min_by_key(|(_, scratch)| scratch.bytes());
        let at = best.map_or(known.len().checked_sub(1)?, |(at, _)| at);
        Some(known.remove(at))
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
        self.from.0.lock().unwrap_or_else(PoisonError::into_inner).push(std::mem::take(&mut self.scratch));
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
        assert_eq!((again.start(), spare.0.lock().unwrap().len()), (start, 0));
        assert!(spare.lend(5000).bytes() >= 5000);
        drop(again);
        assert_eq!(spare.0.lock().unwrap().len(), 2);
    }
}
