//! What other work takes of the cores meanwhile, as Linux counts it under `/proc`: how long threads of this process were ready and had no core, and
//! what a hypervisor kept from the machine.
//!
//! The sentinel's few microseconds fall between two turns of the scheduler and see nothing of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use breakeven_study::folder::ProcessorTime;

/// The files that there are.
pub struct Contention {
    threads: PathBuf,
    machine: PathBuf,
}

/// How long each thread of this process was ready to run so far and had no core, by its number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waits(BTreeMap<u32, u64>);

impl Contention {
    /// Those under this folder, which is `/proc` on Linux.
    pub fn under(root: &Path) -> Contention {
        Contention { threads: root.join("self/task"), machine: root.join("stat") }
    }

    /// Of the threads that there are now; none where the system does not count.
    pub fn waits(&self) -> Option<Waits> {
        let threads = fs::read_dir(&self.threads).ok()?.filter_map(Result::ok);
        let of_thread = |thread: fs::DirEntry| {
            let number = thread.file_name().to_str()?.parse().ok()?;
            // "time on a core, time of waiting for one, turns", the times in nanoseconds.
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            Some((number, text.split_whitespace().nth(1)?.parse().ok()?))
        };
        let waits: BTreeMap<u32, u64> = threads.filter_map(of_thread).collect();
        (!waits.is_empty()).then_some(Waits(waits))
    }

    /// Of all cores since the machine started; none where the system does not count.
    pub fn processor_time(&self) -> Option<ProcessorTime> {
        let text = fs::read_to_string(&self.machine).ok()?;
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        // user, nice, system, idle, iowait, irq, softirq, steal; guests stand in the first two already.
        let own = ticks.get(..8)?;
        Some(ProcessorTime { all_ticks: own.iter().sum(), stolen_ticks: own[7] })
    }
}

impl Waits {
    /// How much longer than at `before` the thread waited that waited longest: a call is done when its last thread is. Threads that are new since began
    /// with nothing.
    pub fn longest_since(&self, before: &Waits) -> Duration {
        let more = |(thread, ns): (&u32, &u64)| ns.saturating_sub(before.0.get(thread).copied().unwrap_or(0));
        Duration::from_nanos(self.0.iter().map(more).max().unwrap_or(0))
    }
}

/// Waiting within turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waited {
    waited: Duration,
    all: Duration,
}

impl Waited {
    /// One more turn, of this length, in which a thread waited so long.
    pub fn add(&mut self, turn: Duration, waited: Duration) {
        self.all += turn;
        // A thread that waited since before the turn is counted when it runs.
        self.waited += waited.min(turn);
    }

    /// The share of all turns that was waited; none without turns.
    pub fn share(&self) -> Option<f64> {
        (!self.all.is_zero()).then(|| self.waited.as_secs_f64() / self.all.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(of: &[(u32, u64)]) -> Waits {
        Waits(of.iter().copied().collect())
    }

    #[test]
    fn the_thread_that_waited_longest_counts() {
        let check = |after: &[(u32, u64)], wanted| {
            assert_eq!(
                waits(after).longest_since(&waits(&[(1, 10), (2, 50)])),
                Duration::from_nanos(wanted),
                "{after:?}"
            );
        };
        check(&[(1, 10), (2, 50)], 0);
        check(&[(1, 17), (2, 55)], 7);
        check(&[(1, 11), (3, 40)], 40);
        // Another thread of the same number.
        check(&[(1, 3)], 0);
        check(&[], 0);
    }

    #[test]
    fn the_share_is_that_of_all_turns() {
        let mut waited = Waited::default();
        assert_eq!(waited.share(), None);
        let ms = Duration::from_millis;
        waited.add(ms(30), ms(0));
        waited.add(ms(10), ms(25));
        assert_eq!(waited.share(), Some(0.25));
    }

    #[test]
    fn files_are_read_as_linux_writes_them_and_nothing_is_made_of_others() {
        let root = std::env::temp_dir().join(format!("breakeven-contention-{}", std::process::id()));
        for (file, text) in [
            ("self/task/7/schedstat", "123 4000 5\n"),
            ("self/task/8/schedstat", "1 2\n"),
            ("self/task/9/schedstat", "rubbish\n"),
            ("stat", "cpu  10 1 2 100 3 0 4 30 5 0\ncpu0 10 1 2 100 3 0 4 30 5 0\n"),
        ] {
            let file = root.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let contention = Contention::under(&root);
        assert_eq!(contention.waits(), Some(waits(&[(7, 4000), (8, 2)])));
        assert_eq!(contention.processor_time(), Some(ProcessorTime { all_ticks: 150, stolen_ticks: 30 }));
        fs::write(root.join("stat"), "intr 5\n").unwrap();
        assert_eq!(contention.processor_time(), None);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!((contention.waits(), contention.processor_time()), (None, None));
    }

    /// Four threads that want every core there is, on as many cores: somebody waits, and is seen to.
    #[cfg(target_os = "linux")]
    #[test]
    fn work_beside_this_is_seen() {
        let contention = Contention::under(Path::new("/proc"));
        let Some(before) = contention.waits() else {
            // The kernel was built without SCHED_INFO: there is nothing to see.
            assert!(!Path::new("/proc/self/schedstat").exists());
            return;
        };
        let cores = std::thread::available_parallelism().unwrap().get();
        let begun = std::time::Instant::now();
        let waited = std::thread::scope(|scope| {
            for _ in 0..3 * cores {
                scope.spawn(|| while begun.elapsed() < Duration::from_millis(400) {});
            }
            std::thread::sleep(Duration::from_millis(300));
            contention.waits().unwrap().longest_since(&before)
        });
        assert!(waited > Duration::from_millis(30), "{waited:?}");
    }
}
