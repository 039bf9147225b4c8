//! What devices make of bytes that stay as they are: kept beside these, and as long as they.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whatever devices want to find again with some bytes: a copy in another order, say. The holder of the bytes clears it before
/// they change.
#[derive(Default)]
pub struct Derived {
    all: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
    /// There was something since it was cleared: most bytes have nothing, and are written often.
    has_some: AtomicBool,
}

impl Derived {
    /// The first one that `is` right, else what `make` gives, which is kept.
    pub fn find<T: Any + Send + Sync>(&self, is: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> Arc<T> {
        let mut all = self.all();
        let known = all.iter().find(|one| one.downcast_ref().is_some_and(&is));
        if let Some(found) = known.cloned().and_then(|one| one.downcast().ok()) {
            return found;
        }
        let made = Arc::new(make());
        all.push(made.clone());
        self.has_some.store(true, Ordering::Release);
        made
    }

    /// Forgets all: the bytes change. Nobody looks at them meanwhile, nor at what was made of them.
    pub fn clear(&self) {
        if self.has_some.load(Ordering::Acquire) {
            let all = std::mem::take(&mut *self.all());
            self.has_some.store(false, Ordering::Release);
            drop(all);
        }
    }

    /// True when nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<dyn Any + Send + Sync>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Derived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Derived({})", self.all().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_found_until_it_is_cleared() {
        let derived = Derived::default();
        let first = derived.find(|x: &u32| *x == 1, || 1);
        assert!(Arc::ptr_eq(&first, &derived.find(|x: &u32| *x == 1, || unreachable!("it is known"))));
        assert_eq!((*derived.find(|x: &u32| *x == 2, || 2), *derived.find(|_: &u8| true, || 3)), (2, 3));
        derived.clear();
        assert!(derived.is_empty());
        assert_eq!(*derived.find(|_: &u32| true, || 4), 4);
    }
}
