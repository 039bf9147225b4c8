//! Right operands that are used again: packed once, and kept beside their bytes until these change or room is short.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

use breakeven_device::size_class;
use breakeven_ir::DType;

use crate::gemm::Pairs;
use crate::memory::{CpuMemory, Store};
use crate::slots::Slot;

/// Uses of the same bytes before they are packed: what is read once or twice would cost more to pack than to read.
const EARLIER_USES: u32 = 2;

/// What tells one packed copy of some bytes from another: which elements it has, and in which order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Order {
    pub dtype: DType,
    /// Bytes before the first element.
    pub start: usize,
    /// Elements from column to column, and from term to term.
    pub across: isize,
    pub along: isize,
    pub columns: usize,
    pub terms: usize,
    /// Columns of a panel.
    pub panel: usize,
    /// How terms stand in packed elements.
    pub pairs: Pairs,
}

/// A packed copy, while it exists.
#[derive(Debug)]
struct Kept {
    /// [`Store::address`] of the store that its memory is from. Where the store is gone, so is the copy.
    store: usize,
    order: Order,
    uses: AtomicU32,
    /// Nanoseconds since the store was opened, at the last use.
    used: AtomicU64,
    memory: Mutex<Option<Arc<CpuMemory>>>,
}

/// Memory that holds packed panels, which nobody writes any more.
#[derive(Debug)]
pub(crate) struct Panels(Arc<CpuMemory>);

/// All packed copies of one store.
#[derive(Debug)]
pub(crate) struct Keeper {
    all: Mutex<Vec<Weak<Kept>>>,
    /// Bytes of all at most.
    limit: u64,
}

impl Panels {
    /// Where they start.
    pub fn start(&self) -> *const u8 {
        self.0.start()
    }
}

impl Keeper {
    /// Keeps so many bytes at most.
    pub fn new(limit: u64) -> Keeper {
        Keeper { all: Mutex::default(), limit }
    }

    /// Forgets copies that were not used for `age`. One that is being used is given back after its use; one that is being made stays.
    pub fn give_up(&self, now: Duration, age: Duration) {
        let known = self.known();
        let is_old =
            |kept: &Arc<Kept>| now.saturating_sub(Duration::from_nanos(kept.used.load(Ordering::Relaxed))) >= age;
        for kept in known.into_iter().filter(is_old) {
            if let Ok(mut memory) = kept.memory.try_lock() {
                kept.uses.store(0, Ordering::Relaxed);
                drop(memory.take());
            }
        }
    }

    /// All copies whose bytes still exist.
    fn known(&self) -> Vec<Arc<Kept>> {
        let mut all = self.all();
        all.retain(|kept| kept.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    }

    fn all(&self) -> MutexGuard<'_, Vec<Weak<Kept>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of all copies. One that is being made counts when it is there.
    fn bytes(&self) -> u64 {
        let bytes = |kept: &Arc<Kept>| {
            let memory = kept.memory.try_lock().ok()?;
            memory.as_ref().map(|memory| memory.bytes() as u64)
        };
        self.known().iter().filter_map(bytes).sum()
    }
}

/// The packed copy of what is being read: `pack` makes it, as long as `bytes`, where the same bytes were used often enough before
/// and there is room for it.
pub(crate) fn panels(
    store: &Store,
    (read, order): (&Slot<'_>, Order),
    bytes: usize,
    pack: impl FnOnce(*mut u8),
) -> Option<Panels> {
    let (derived, start) = read.derived()?;
    let (order, address) = (Order { start: order.start + start, ..order }, store.address());
    let new =
        || Kept { store: address, order, uses: AtomicU32::new(0), used: AtomicU64::new(0), memory: Mutex::default() };
    let kept = derived.find(|kept: &Kept| kept.store == address && kept.order == order, new);
    kept.used.store(store.now().as_nanos() as u64, Ordering::Relaxed);
    let mut memory = match kept.memory.try_lock() {
        Ok(memory) => memory,
        // Another thread is packing it, or failed to.
        Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => return None,
    };
    if memory.is_none() {
        if kept.uses.fetch_add(1, Ordering::Relaxed) < EARLIER_USES {
            return None;
        }
        *memory = packed(store, &kept, bytes as u64, pack);
    }
    memory.clone().map(Panels)
}

fn packed(store: &Store, kept: &Arc<Kept>, bytes: u64, pack: impl FnOnce(*mut u8)) -> Option<Arc<CpuMemory>> {
    let keeper = store.keeper();
    if keeper.bytes() + size_class(bytes) > keeper.limit {
        return None;
    }
    let memory = store.memory_to_spare(bytes)?;
    // Nobody else knows of it yet.
    pack(memory.start());
    memory.freeze().ok()?;
    let mut all = keeper.all();
    if all.iter().all(|known| known.as_ptr() != Arc::as_ptr(kept)) {
        all.push(Arc::downgrade(kept));
    }
    Some(Arc::new(memory))
}
