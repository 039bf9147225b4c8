//! Pools: memory kept for the next caller, by size class, bounded and counted.

use std::collections::BTreeMap;
use std::time::Duration;

/// What a pool did and holds. `live` is with callers, `pooled` waits for the next one; both together are reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounters {
    /// Requests served from the pool.
    pub hits: u64,
    /// Requests that needed new memory.
    pub misses: u64,
    /// Bytes with callers.
    pub live_bytes: u64,
    /// Bytes waiting.
    pub pooled_bytes: u64,
    /// The most `live + pooled` ever was.
    pub peak_bytes: u64,
}

/// Memory of type `T` by size class. The owner creates and destroys; the pool keeps and counts.
#[derive(Debug)]
pub struct Pool<T> {
    classes: BTreeMap<u64, Vec<(Duration, T)>>,
    counters: PoolCounters,
    limit: u64,
}

/// The size that serves a request of `bytes`: four steps to each doubling, so that less than a quarter is wasted.
pub fn size_class(bytes: u64) -> u64 {
    let bytes = bytes.max(64);
    let step = 1 << bytes.ilog2().saturating_sub(2);
    bytes.div_ceil(step) * step
}

impl<T> Pool<T> {
    /// Keeps at most `limit` bytes waiting.
    pub fn new(limit: u64) -> Pool<T> {
        Pool { classes: BTreeMap::new(), counters: PoolCounters::default(), limit }
    }

    /// Memory of the class of `bytes` that is waiting, newest first: it is the likeliest to be in a cache.
    pub fn take(&mut self, bytes: u64) -> Option<T> {
        let class = size_class(bytes);
        let (_, memory) = self.classes.get_mut(&class)?.pop()?;
        self.counters.hits += 1;
        self.counters.pooled_bytes -= class;
        self.counters.live_bytes += class;
        Some(memory)
    }

    /// Count new memory for `bytes` that the owner has just made.
    pub fn made(&mut self, bytes: u64) {
        self.counters.misses += 1;
        self.counters.live_bytes += size_class(bytes);
        self.counters.peak_bytes = self.counters.peak_bytes.max(self.reserved());
    }

    /// Keep memory for the next caller; gives it back for destruction when the pool is full.
    pub fn put(&mut self, bytes: u64, memory: T, now: Duration) -> Option<T> {
        let class = size_class(bytes);
        self.counters.live_bytes -= class;
        if self.counters.pooled_bytes + class > self.limit {
            return Some(memory);
        }
        self.counters.pooled_bytes += class;
        self.classes.entry(class).or_default().push((now, memory));
        None
    }

    /// Memory that was lost by its owner and will not come back.
    pub fn forget(&mut self, bytes: u64) {
        self.counters.live_bytes -= size_class(bytes);
    }

    /// Take out what has waited since before `before`, for destruction.
    pub fn trim(&mut self, before: Duration) -> Vec<T> {
        let mut out = Vec::new();
        for (class, waiting) in &mut self.classes {
            let old = waiting.partition_point(|(since, _)| *since < before);
            self.counters.pooled_bytes -= class * old as u64;
            out.extend(waiting.drain(..old).map(|(_, memory)| memory));
        }
        self.classes.retain(|_, waiting| !waiting.is_empty());
        out
    }

    /// What it did and holds.
    pub fn counters(&self) -> PoolCounters {
        self.counters
    }

    fn reserved(&self) -> u64 {
        self.counters.live_bytes + self.counters.pooled_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_at_most_a_quarter() {
        for bytes in [0, 1, 64, 65, 100, 129, 1000, 4096, 4097, 1 << 30, (1 << 30) + 1] {
            let class = size_class(bytes);
            assert!(class >= bytes.max(64) && class <= bytes.max(64) * 5 / 4, "{bytes} {class}");
            assert_eq!(class % 16, 0);
            assert_eq!(size_class(class), class);
        }
    }

    #[test]
    fn active_cached_and_reserved_are_three_numbers() {
        let mut pool = Pool::new(u64::MAX);
        let mib = 100 << 20;
        pool.made(mib);
        assert_eq!(pool.put(mib, "memory", Duration::ZERO), None);
        let counters = pool.counters();
        assert_eq!(
            (counters.live_bytes, counters.pooled_bytes, counters.peak_bytes),
            (0, size_class(mib), size_class(mib))
        );
        assert_eq!(pool.take(mib - 1), Some("memory"));
        assert_eq!(pool.counters().hits, 1);
    }

    #[test]
    fn a_pool_is_bounded_and_trimmed_by_age() {
        let mut pool = Pool::new(256);
        for memory in 0..3 {
            pool.made(128);
            let refused = pool.put(128, memory, Duration::from_secs(memory));
            assert_eq!(refused.is_some(), memory == 2);
        }
        assert_eq!(pool.trim(Duration::from_secs(1)), [0]);
        assert_eq!(pool.counters().pooled_bytes, 128);
    }
}
