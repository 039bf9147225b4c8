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

/// What a pool did and holds for requests of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolClass {
    /// Bytes of each piece of memory.
    pub bytes: u64,
    /// Requests served from the pool.
    pub hits: u64,
    /// Requests that needed new memory.
    pub misses: u64,
    /// Pieces with callers.
    pub live: u64,
    /// Pieces waiting.
    pub waiting: u64,
}

/// Memory of type `T` by size class. The owner creates and destroys; the pool keeps and counts.
#[derive(Debug)]
pub struct Pool<T> {
    classes: BTreeMap<u64, Class<T>>,
    counters: PoolCounters,
    limit: u64,
    age: Duration,
    /// When it was last looked for what is too old.
    looked: Duration,
}

/// Memory of one size, by when it came back.
#[derive(Debug)]
struct Class<T> {
    waiting: Vec<(Duration, T)>,
    hits: u64,
    misses: u64,
    live: u64,
}

/// The size that serves a request of `bytes`: four steps to each doubling, so that less than a quarter is wasted.
pub fn size_class(bytes: u64) -> u64 {
    let bytes = bytes.max(64);
    let step = 1 << bytes.ilog2().saturating_sub(2);
    bytes.div_ceil(step) * step
}

/// How often within the age of a pool it is looked for what is too old.
const LOOKS: u32 = 8;

impl<T> Pool<T> {
    /// Keeps at most `limit` bytes waiting, and nothing for much longer than `age` while any memory comes back.
    pub fn new(limit: u64, age: Duration) -> Pool<T> {
        let (counters, looked) = (PoolCounters::default(), Duration::ZERO);
        Pool { classes: BTreeMap::new(), counters, limit, age, looked }
    }

    /// Memory of the class of `bytes` that is waiting, newest first: it is the likeliest to be in a cache.
    pub fn take(&mut self, bytes: u64) -> Option<T> {
        let size = size_class(bytes);
        let class = self.classes.get_mut(&size)?;
        let (_, memory) = class.waiting.pop()?;
        class.hits += 1;
        class.live += 1;
        self.counters.hits += 1;
        self.counters.pooled_bytes -= size;
        self.counters.live_bytes += size;
        Some(memory)
    }

    /// Count new memory for `bytes` that the owner has just made.
    pub fn made(&mut self, bytes: u64) {
        let size = size_class(bytes);
        let class = self.class(size);
        class.misses += 1;
        class.live += 1;
        self.counters.misses += 1;
        self.counters.live_bytes += size;
        self.counters.peak_bytes = self.counters.peak_bytes.max(self.reserved());
    }

    /// Keep memory for the next caller, at `now`; gives what is to be destroyed for it: what has waited for too long, and the memory
    /// itself when the pool is full.
    pub fn put(&mut self, bytes: u64, memory: T, now: Duration) -> Vec<T> {
        let size = size_class(bytes);
        let mut gone = self.take_old(now);
        self.counters.live_bytes -= size;
        let is_full = self.counters.pooled_bytes + size > self.limit;
        let class = self.class(size);
        class.live -= 1;
        if is_full {
            gone.push(memory);
            return gone;
        }
        class.waiting.push((now, memory));
        self.counters.pooled_bytes += size;
        gone
    }

    /// Memory that was lost by its owner and will not come back.
    pub fn forget(&mut self, bytes: u64) {
        let size = size_class(bytes);
        self.counters.live_bytes -= size;
        self.class(size).live -= 1;
    }

    /// Take out what has waited since before `before`, for destruction.
    pub fn trim(&mut self, before: Duration) -> Vec<T> {
        let mut out = Vec::new();
        for (size, class) in &mut self.classes {
            let old = class.waiting.partition_point(|(since, _)| *since < before);
            self.counters.pooled_bytes -= size * old as u64;
            out.extend(class.waiting.drain(..old).map(|(_, memory)| memory));
        }
        out
    }

    /// Take out so many waiting bytes, or as many as there are, for destruction: what has waited longest goes first.
    pub fn give_back(&mut self, bytes: u64) -> Vec<T> {
        if bytes >= self.counters.pooled_bytes {
            return self.trim(Duration::MAX);
        }
        let (mut out, target) = (Vec::new(), self.counters.pooled_bytes.saturating_sub(bytes));
        while self.counters.pooled_bytes > target {
            let waits = self.classes.iter_mut().filter(|(_, class)| !class.waiting.is_empty());
            let Some((size, class)) = waits.min_by_key(|(_, class)| class.waiting[0].0) else { break };
            self.counters.pooled_bytes -= size;
            out.push(class.waiting.remove(0).1);
        }
        out
    }

    /// What it did and holds.
    pub fn counters(&self) -> PoolCounters {
        self.counters
    }

    /// The same by size class, the smallest first.
    pub fn classes(&self) -> Vec<PoolClass> {
        let one = |(bytes, class): (&u64, &Class<T>)| {
            let Class { waiting, hits, misses, live } = class;
            PoolClass { bytes: *bytes, hits: *hits, misses: *misses, live: *live, waiting: waiting.len() as u64 }
        };
        self.classes.iter().map(one).collect()
    }

    /// What has waited for too long, looked for now and then.
    fn take_old(&mut self, now: Duration) -> Vec<T> {
        if now.saturating_sub(self.looked) < self.age / LOOKS {
            return Vec::new();
        }
        self.looked = now;
        now.checked_sub(self.age).map_or_else(Vec::new, |before| self.trim(before))
    }

    fn class(&mut self, size: u64) -> &mut Class<T> {
        self.classes.entry(size).or_insert_with(|| Class { waiting: Vec::new(), hits: 0, misses: 0, live: 0 })
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
        let mut pool = Pool::new(u64::MAX, Duration::MAX);
        let mib = 100 << 20;
        pool.made(mib);
        assert!(pool.put(mib, "memory", Duration::ZERO).is_empty());
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
        let mut pool = Pool::new(256, Duration::MAX);
        for memory in 0..3 {
            pool.made(128);
            let refused = pool.put(128, memory, Duration::from_secs(memory));
            assert_eq!(refused, if memory == 2 { vec![2] } else { vec![] });
        }
        assert_eq!(pool.trim(Duration::from_secs(1)), [0]);
        assert_eq!(pool.counters().pooled_bytes, 128);
    }

    #[test]
    fn what_waited_longest_is_given_back_and_no_more_than_is_wanted() {
        let mut pool = Pool::new(u64::MAX, Duration::MAX);
        for (second, bytes) in [(0, 128), (1, 64), (2, 64), (3, 1024)] {
            pool.made(bytes);
            assert!(pool.put(bytes, second, Duration::from_secs(second)).is_empty());
        }
        assert_eq!(pool.give_back(0), [0; 0]);
        assert_eq!(pool.give_back(1), [0]);
        assert_eq!(pool.give_back(65), [1, 2], "in whole pieces");
        assert_eq!(pool.counters().pooled_bytes, 1024);
        assert_eq!((pool.give_back(u64::MAX), pool.give_back(1)), (vec![3], vec![]));
        assert_eq!(pool.counters().pooled_bytes, 0);
    }

    #[test]
    fn what_waits_for_too_long_goes_when_other_memory_comes_back() {
        let (mut pool, at) = (Pool::new(u64::MAX, Duration::from_mins(1)), Duration::from_secs);
        pool.made(1000);
        assert!(pool.put(1000, "old", at(0)).is_empty());
        for second in 1..=3 {
            pool.made(64);
            let gone = pool.put(64, "new", at(30 * second));
            assert_eq!(gone, if second == 3 { vec!["old"] } else { vec![] }, "at {second}");
            assert_eq!(pool.take(64), Some("new"));
            pool.forget(64);
        }
        assert_eq!((pool.counters().pooled_bytes, pool.counters().live_bytes), (0, 0));
    }

    #[test]
    fn classes_are_counted_apart_and_their_sums_are_the_counters() {
        let mut pool = Pool::new(u64::MAX, Duration::MAX);
        pool.made(64);
        pool.made(100);
        assert!(pool.put(100, "memory", Duration::ZERO).is_empty());
        assert_eq!(pool.take(112), Some("memory"));
        assert!(pool.put(112, "memory", Duration::ZERO).is_empty());
        let small = PoolClass { bytes: 64, hits: 0, misses: 1, live: 1, waiting: 0 };
        let large = PoolClass { bytes: 112, hits: 1, misses: 1, live: 0, waiting: 1 };
        assert_eq!(pool.classes(), [small, large]);
        let PoolCounters { hits, misses, live_bytes, pooled_bytes, .. } = pool.counters();
        assert_eq!((hits, misses, live_bytes, pooled_bytes), (1, 2, 64, 112));
    }
}
