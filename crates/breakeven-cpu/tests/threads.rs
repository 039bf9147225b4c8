//! How many threads work: as many as this process may use, and no more within somebody else's pool.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use breakeven_cpu::{CpuDevice, CpuOptions, Team, Tuning};

/// Runs a test of this file alone, on one core.
#[test]
#[cfg(target_os = "linux")]
fn a_process_that_may_use_one_core_has_one_thread() {
    let own = std::env::current_exe().expect("the test has a path");
    let mut command = Command::new("taskset");
    command.args(["-c", &first_core()]).arg(own).args(["--exact", "one_core_one_thread", "--ignored"]);
    let output = command.output().expect("taskset of util-linux is there");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// A core that this process may use itself.
fn first_core() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("Linux says so");
    list.trim().split([',', '-']).next().expect("there is one").to_owned()
}

#[test]
#[ignore = "run on one core by the test above: taskset -c 0 cargo test -p breakeven-cpu --test threads -- --ignored"]
fn one_core_one_thread() {
    let device = CpuDevice::new(CpuOptions::default()).expect("the CPU opens");
    assert_eq!(device.threads(), 1);
}

/// Threads of this process with our names.
#[cfg(target_os = "linux")]
fn ours() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux has it").flatten();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.map(name).filter(|name| name.starts_with("breakeven-cpu")).count()
}

#[test]
#[cfg(target_os = "linux")]
fn t06_within_a_rayon_pool_its_threads_do_the_work() {
    let pool = rayon_core::ThreadPoolBuilder::new().num_threads(4).build().expect("the pool starts");
    let team = Team::new(4, Tuning::default().spins);
    let done = AtomicUsize::new(0);
    let nested = |_: usize| {
        // A part that shares work again, as a caller's own row or operation may.
        team.run(3, &|_| {
            done.fetch_add(1, Ordering::Relaxed);
        });
    };
    pool.scope(|scope| (0..64).for_each(|_| scope.spawn(|_| team.run(8, &nested))));
    assert_eq!(done.load(Ordering::Relaxed), 64 * 8 * 3);
    assert_eq!(ours(), 0, "the team hired threads besides the pool's");
    team.run(8, &nested);
    assert_eq!(done.into_inner(), 65 * 8 * 3);
    // A thread gives itself its name once it runs.
    let started = Instant::now();
    while ours() < 3 && started.elapsed() < Duration::from_secs(30) {
        std::thread::yield_now();
    }
    assert_eq!(ours(), 3);
}
